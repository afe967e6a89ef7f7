//! Out of a sandbox by its placed sockets, and by none: nothing answers but what was placed there.
//!
//! Addresses outside are the documentation's own (192.0.2.0/24, 2001:db8::/32): nobody has them, also where a sandbox leaks.

use agentenv_tests::{Deploy, PATIENCE, PySite, eventually};
use serde_json::{Value, json};

use crate::{
    desk::{all_refused, browser_of, desk, desk_of, everywhere},
    python::program,
};

/// TLS by hand in the browser's sandbox: to a name's address, with any SNI, with the ClientHello cut up.
pub const TLS: &str = r#"
import ssl
def hello_of(context, sni):
    inn, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(inn, out, server_hostname=sni)
    try: session.do_handshake()
    except ssl.SSLWantReadError: pass
    return session, inn, out, out.read()
def records(hello, size):
    body = hello[5:]
    parts = [body[i:i + size] for i in range(0, len(body), size)]
    return [hello[:3] + struct.pack(">H", len(part)) + part for part in parts]
def talk(address, sni, cut, check=True):
    context = ssl.create_default_context()
    if not check:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    session, inn, out, hello = hello_of(context, sni)
    with socket.create_connection((address, 443), 5) as s:
        s.settimeout(5)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in cut(hello):
            s.sendall(piece)
        while True:
            try:
                session.do_handshake()
                return "ok"
            except ssl.SSLWantReadError:
                s.sendall(out.read())
                data = s.recv(16384)
                if not data: return "closed"
                inn.write(data)
            except ssl.SSLError as error:
                return f"refused: {error.reason}"
def attempt_tls(*arguments, **named):
    try: return talk(*arguments, **named)
    except OSError as error: return f"closed: {error}"
whole = lambda hello: [hello]
bytewise = lambda hello: [hello[i:i + 1] for i in range(len(hello))]
by_records = lambda size: (lambda hello: records(hello, size))
def address(host): return socket.getaddrinfo(host, 443)[0][4][0]
"#;

/// Row 31: who is answered at the address of `alpha.test`.
pub const NAMES_AT_AN_ADDRESS: &str = r#"
alpha = address("alpha.test")
show({
    "own": attempt_tls(alpha, "alpha.test", whole),
    "other": attempt_tls(alpha, "beta.test", whole, check=False),
    "unknown": attempt_tls(alpha, "example.com", whole, check=False),
    "none": attempt_tls(alpha, None, whole, check=False),
})"#;

/// Checks the answers to it, and that each refused name is on the denied log.
#[track_caller]
pub fn own_name_alone(deploy: &Deploy<'_>, sandbox: &str, answer: &Value) {
    assert_eq!(answer["own"], "ok", "{sandbox}: {answer}");
    for wrong in ["other", "unknown", "none"] {
        assert_ne!(answer[wrong], "ok", "{sandbox}: {wrong}: {answer}");
    }
    eventually("each refused name is on the denied log", PATIENCE, || {
        let mut denied = deploy.denied();
        denied.retain(|entry| entry.sandbox.as_str() == sandbox);
        let logged = |host: &str| denied.iter().any(|entry| entry.host.contains(host) && entry.port == 443);
        (logged("beta.test") && logged("example.com") && denied.len() >= 3).then_some(())
    });
}

#[test]
fn row_31_only_the_addresss_own_name_is_answered() {
    let home = desk();
    let deploy = home.deploy("desk");
    let answer = deploy.python(browser_of(&deploy), &program(&format!("{TLS}{NAMES_AT_AN_ADDRESS}")));
    own_name_alone(&deploy, browser_of(&deploy), &answer);
}

/// Row 31: the same when the first message comes in pieces.
pub const CUT_UP: &str = r#"
alpha = address("alpha.test")
cuts = {"bytes": bytewise, "records of 1": by_records(1), "records of 50": by_records(50), "records of 200": by_records(200)}
show({
    "own": {name: attempt_tls(alpha, "alpha.test", cut) for name, cut in cuts.items()},
    "other": {name: attempt_tls(alpha, "beta.test", cut, check=False) for name, cut in cuts.items()},
})"#;

/// Checks the answers to it.
#[track_caller]
pub fn pieces_change_nothing(sandbox: &str, answer: &Value) {
    for (cut, outcome) in answer["own"].as_object().expect("answers") {
        assert_eq!(outcome, "ok", "{sandbox}: {cut}: {answer}");
    }
    for (cut, outcome) in answer["other"].as_object().expect("answers") {
        assert_ne!(outcome, "ok", "{sandbox}: {cut}: {answer}");
    }
}

#[test]
fn row_31_a_client_hello_cut_up_gets_the_same_verdict() {
    let home = desk();
    let deploy = home.deploy("desk");
    let answer = deploy.python(browser_of(&deploy), &program(&format!("{TLS}{CUT_UP}")));
    pieces_change_nothing(browser_of(&deploy), &answer);
}

/// Row 36: past every proxy; curl among them, told of none.
pub const RAW: &str = r#"
import subprocess
def udp(host, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as s: s.sendto(b"x", (host, 53))
def raw(protocol):
    socket.socket(socket.AF_INET, socket.SOCK_RAW, protocol).close()
def ping():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as s: s.sendto(b"\x08" + bytes(7), ("192.0.2.1", 0))
def packet(): socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
show({
    "tcp 80": attempt(lambda: tcp("192.0.2.1", 80)),
    "tcp 443": attempt(lambda: tcp("192.0.2.1", 443)),
    "tcp private": attempt(lambda: tcp("10.0.0.1", 80)),
    "tcp metadata": attempt(lambda: tcp("169.254.169.254", 80)),
    "udp": attempt(lambda: udp("192.0.2.1")),
    "udp multicast": attempt(lambda: udp("224.0.0.251")),
    "udp broadcast": attempt(lambda: udp("255.255.255.255")),
    "icmp": attempt(lambda: raw(1)),
    "ping": attempt(ping),
    "sctp": attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132).close()),
    "packet": attempt(packet),
    "curl": "ok" if subprocess.run(["curl", "--silent", "--noproxy", "*", "--max-time", "5", "https://192.0.2.1/"]).returncode == 0 else "failed",
})"#;

#[test]
fn row_36_raw_connections_have_nowhere_to_go() {
    everywhere(RAW, all_refused);
}

/// Row 37.
pub const IPV6: &str = r#"
lines = open("/proc/net/if_inet6").read().split("\n") if os.path.exists("/proc/net/if_inet6") else []
addresses = [line.split()[0] for line in lines if line]
def udp6():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s: s.sendto(b"x", ("2001:db8::1", 53))
def all_nodes():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s: s.sendto(b"x", ("ff02::1", 53, 0, 1))
show({"addresses": addresses, "tcp": attempt(lambda: tcp("2001:db8::1", 443, socket.AF_INET6)), "udp": attempt(udp6),
      "link": attempt(lambda: tcp("fe80::1", 443, socket.AF_INET6))})"#;

/// Checks the answers to it.
#[track_caller]
pub fn no_ipv6(sandbox: &str, answer: &Value) {
    let addresses = answer["addresses"].as_array().expect("addresses");
    let loopback = "00000000000000000000000000000001";
    assert!(addresses.iter().all(|address| address == loopback), "{sandbox}: {answer}");
    for attempt in ["tcp", "udp", "link"] {
        assert!(!answer[attempt].as_str().unwrap_or_default().starts_with("ok"), "{sandbox}: {answer}");
    }
}

#[test]
fn row_37_there_is_no_ipv6() {
    everywhere(IPV6, no_ipv6);
}

#[test]
fn dns_answers_for_names_of_the_deploy_only() {
    let home = desk();
    let deploy = home.deploy("desk");
    let ask = |sandbox: &str, host: &str| {
        deploy.python(sandbox, &program(&format!("show(attempt(lambda: socket.getaddrinfo({host:?}, 443)[0][4][0]))")))
    };
    let (alpha, beta) = (ask(browser_of(&deploy), "alpha.test"), ask(browser_of(&deploy), "beta.test"));
    assert!(alpha.as_str().is_some_and(|answer| answer.starts_with("ok")), "{alpha}");
    assert_ne!(alpha, beta, "every name has its own address");
    for host in ["example.com", "sub.alpha.test", "test", "alpha.test.evil"] {
        let answer = ask(browser_of(&deploy), host);
        assert!(!answer.as_str().unwrap_or_default().starts_with("ok"), "{host}: {answer}");
    }
    assert!(deploy.denied().iter().any(|entry| entry.host == "example.com"), "NXDOMAIN is logged");
    // A website's services see nothing of another website, by name or by address.
    for host in ["beta.test", "alpha.test", "beta"] {
        let answer = ask("alpha/server", host);
        assert!(!answer.as_str().unwrap_or_default().starts_with("ok"), "{host} in a pod: {answer}");
    }
}

#[test]
fn a_websites_services_reach_each_other_and_no_other_website() {
    let helper = "\n[services.helper]\ncommand = [\"/usr/bin/python3\", \"-u\", \"-m\", \"http.server\", \"9000\", \"--bind\", \"127.0.0.1\"]\nport = 9000\n";
    let home = desk_of(&[PySite::new("alpha").toml(helper), PySite::new("beta")]);
    let deploy = home.deploy("desk");
    let reach = |host: &str, port: u16| {
        deploy.python("alpha/server", &program(&format!("show(attempt(lambda: tcp({host:?}, {port})))")))
    };
    assert_eq!(reach("localhost", 9000), json!("ok"));
    assert_eq!(reach("helper", 9000), json!("ok"), "by the service's name");
    assert_ne!(deploy.python("beta/server", &program("show(attempt(lambda: tcp('127.0.0.1', 9000)))")), json!("ok"));
    assert_ne!(
        deploy.python(browser_of(&deploy), &program("show(attempt(lambda: tcp('127.0.0.1', 9000)))")),
        json!("ok")
    );
}
