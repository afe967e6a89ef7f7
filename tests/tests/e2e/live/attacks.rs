//! The rows of the list of attacks again, from sandboxes that have a way out: with it, the same attempts still don't get out. Each
//! test ends by asking the internet what arrived.

use std::thread;

use agentenv_tests::{Beside, Inside};

use super::*;
use crate::desk::{DISPLAYS, all_refused};

pub mod doors;
pub mod names;
pub mod pages;

/// Asks the sandbox's forward port, its name server and its placed sockets; a refusal is its status or error, all else `ok`.
pub const TOOLS: &str = r#"
import time
PROXY = ("127.0.0.1", 3128)
def judged(line):
    status = line.split(" ")[1] if line.startswith("HTTP/1.") else "closed"
    return status if status in ("closed", "400", "403", "405", "421") else "ok: " + line
def first_line(s):
    return s.makefile("rb").readline(4096).decode("latin-1").strip()
def ask(head):
    try:
        with socket.create_connection(PROXY, 5) as s:
            s.settimeout(15)
            s.sendall(head.encode())
            return judged(first_line(s))
    except OSError as error: return f"closed: {error}"
def connect(target): return ask(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")
def absolute(target): return ask(f"GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n")
def both(*targets): return {f"{form.__name__} {target}": form(target) for target in targets for form in (connect, absolute)}
def address(host): return socket.getaddrinfo(host, 443)[0][4][0]
def tunnel(target):
    s = socket.create_connection(PROXY, 5)
    s.settimeout(15)
    s.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = s.recv(1)
        if not byte: break
        head += byte
    if b" 200 " not in head: raise OSError("no tunnel")
    return s
def tls(s, sni, head=None):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with context.wrap_socket(s, server_hostname=sni) as session:
            if head is None: return "ok: shook hands"
            session.sendall(head.encode())
            return judged(first_line(session))
    except OSError as error: return f"closed: {error}"
def through(target, sni, head=None):
    try: return tls(tunnel(target + ":443"), sni, head)
    except OSError as error: return f"closed: {error}"
def placed(name, sni, head=None):
    try: return tls(socket.create_connection((address(name), 443), 5), sni, head)
    except OSError as error: return f"closed: {error}"
def get(host): return f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
"#;
/// What no sandbox sends: anything but TCP at 80 and 443, and the supervisor's questions to the one name server.
const STRAY: &str = "(udp and not host 203.0.113.53) or sctp or icmp[icmptype] = icmp-echo or dst host 169.254.169.254 or \
    (ip6 and not host ::1) or \
    (tcp[tcpflags] & (tcp-syn|tcp-ack) = tcp-syn and dst net 203.0.113.0/24 and not dst port 80 and not dst port 443)";
/// The live site's server.
const SERVER: &str = "github/server";

/// Runs a program that has the tools.
#[track_caller]
pub fn tell(place: &dyn Inside, body: &str) -> Value {
    place.python(&program(&format!("{TOOLS}{body}")))
}

/// Runs a program that shows attempts by name, every one of which must be refused.
#[track_caller]
fn refused(place: &dyn Inside, body: &str) {
    all_refused(place.sandbox(), &tell(place, body));
}

/// Runs such programs of several rows, by name, in one go: a command inside a sandbox takes longer than most of them.
#[track_caller]
pub fn all_rows_refused(place: &dyn Inside, rows: &[(&str, String)]) {
    let rows = json!(rows).to_string();
    refused(
        place,
        &format!(
            r#"
shown = {{}}
for row, body in json.loads({rows:?}):
    exec(body, globals() | {{"show": lambda value: shown.update({{f"{{row}}: {{name}}": outcome for name, outcome in value.items()}})}})
show(shown)"#
        ),
    );
}

/// Checks what arrived.
#[track_caller]
pub fn assert_nothing_got_out(internet: &Internet) {
    assert_only_the_reach(internet);
    let stray = internet.packets(STRAY);
    assert!(stray.is_empty(), "{stray:#?}");
    let told: Vec<String> = internet.names_asked().into_iter().filter(|name| name.contains("exfil")).collect();
    assert_eq!(told, [] as [String; 0], "row 39: questions that went on to the real name server");
    assert!(internet.requests_to("gist.github.com").is_empty(), "the synthetic site has that name");
}

/// Rows that a sandbox refuses whose network is not open.
pub fn closed_to_what_is_not_allowed() -> Vec<(&'static str, String)> {
    vec![
        ("23 to 25", names::rows_23_to_25_names_that_pretend()),
        ("43", doors::row_43_redirects_to_what_is_inside(&["https://example.com/login"])),
    ]
}

/// Rows that every sandbox refuses; these X servers' sockets are not its own.
pub fn closed_to_everybody(deploy: &Deploy<'_>, displays: &[&str]) -> Vec<(&'static str, String)> {
    vec![
        ("20, 21", names::rows_20_and_21_addresses_in_every_spelling()),
        ("27, 28", names::rows_27_and_28_names_that_are_not_public()),
        ("29", names::row_29_connect_differs_from_sni(&["github.com", "api.github.com"], &names::SNI_IN_REAL_TUNNELS)),
        ("31", names::row_31_the_first_message_of_tls()),
        ("32", doors::row_32_other_ports()),
        ("33", doors::row_33_absolute_form("github.com")),
        ("34", doors::row_34_gateway_proxy_and_metadata(deploy)),
        ("35", doors::row_35_nested_connect("github.com", "gist.github.com")),
        ("36, 37", doors::rows_36_and_37_raw_sockets()),
        ("38", doors::row_38_doh_dot_and_quic()),
        ("43", doors::row_43_redirects_to_what_is_inside(&doors::INSIDE)),
        ("84", doors::row_84_families_that_have_no_namespace()),
        ("85", doors::row_85_sockets_of_the_host(deploy, displays)),
    ]
}

#[test]
fn rows_19_to_39_42_to_44_84_and_85_from_every_sandbox_that_has_a_way_out() {
    let home = home();
    home.put(&Bundle::new("format = 1\nkind = \"browser\"\nname = \"free\"\nnetwork = \"open\"\n"));
    home.put(&Bundle::new(
        "format = 1\nkind = \"multi\"\nname = \"office\"\nwebsites = [\"gist\", \"github\"]\nbrowsers = [\"lookout\", \"free\"]\n",
    ));
    let internet = Internet::start();
    let home = internet.home(home);
    let deploy = home.deploy("office");
    let beside = |sandbox: &str| Beside::new(&deploy, sandbox);
    let (browser, server, free) = (beside(browser_of(&deploy)), beside(SERVER), beside("free"));
    names::row_26_a_name_that_is_rebound_is_dialled_at_the_address_that_was_checked(&browser);
    for place in [&browser, &server] {
        names::row_19_a_host_that_is_not_allowed(place);
        names::row_22_case_and_a_trailing_dot(place);
        all_rows_refused(place, &closed_to_what_is_not_allowed());
    }
    let rows = closed_to_everybody(&deploy, &DISPLAYS);
    for place in [&browser, &server, &free] {
        all_rows_refused(place, &rows);
        names::rows_27_and_28_are_on_the_denied_log(place);
        names::row_39_a_question_alone_goes_nowhere(place);
        doors::row_44_bad_certificates_and_the_authoritys_key(place);
    }
    // A pod is told of synthetic names by nobody; browsers' connections to them are ended here, and looked into.
    for place in [&browser, &free] {
        names::row_30_fronting_on_minted_connections(place, "gist.github.com", &names::FRONTED);
    }
    names::row_30_fronting_in_a_live_tunnel_stays_at_its_address(&browser, &internet);
    row_42_a_reset_never_fails_open(&home, &deploy);
    deploy.close();
    assert_nothing_got_out(&internet);
}

/// Attempts that no change of a deploy may let through.
pub const THROUGH_A_RESET: &str = r#"
targets = ("example.com:443", "203.0.113.20:443", "internal.github.com:443", "github.com:22")
tries = {target: connect for target in targets} | {"address": lambda _: attempt(lambda: tcp("203.0.113.20", 443)),
    "fronted": lambda _: placed("github.com", "example.com"), "other": lambda _: through("github.com", "example.com")}
seen = {}
def once():
    for target, form in tries.items():
        answer = form(target)
        if seen.get(target, "").startswith("ok"): continue
        seen[target] = answer
"#;

/// Attempts all through a reset, in the browser that it replaces and in the pod that it keeps.
#[track_caller]
fn row_42_a_reset_never_fails_open(home: &Home, deploy: &Deploy<'_>) {
    let attempts = program(&format!("{TOOLS}{THROUGH_A_RESET}\nfor _ in range(5): once()\nshow(seen)"));
    thread::scope(|scope| {
        let reset = scope.spawn(|| home.run(&["env", "reset", deploy.id()]));
        let (mut done, mut answered) = (false, 0);
        while !done {
            // Once more after the end.
            done = reset.is_finished();
            for sandbox in [SERVER, browser_of(deploy)] {
                let outcome = deploy.exec(sandbox, &["/usr/bin/python3", "-c", &attempts]);
                // A sandbox that is just being replaced ends what runs in it.
                if outcome.code == 0 {
                    all_refused(sandbox, &outcome.json());
                    answered += 1;
                }
            }
        }
        assert!(answered >= 3, "attempts were made during and after the reset: {answered}");
        reset.join().expect("the command was run").ok();
    });
}

#[test]
fn rows_40_41_43_91_and_92_in_a_browser() {
    pages::attacked("browser", false);
}

#[test]
fn rows_38_41_43_91_and_92_in_a_browser_without_a_proxy() {
    pages::attacked("browser", true);
}
