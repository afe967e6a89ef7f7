//! Out of a sandbox over the network: nothing answers but what was placed there.
//!
//! Addresses outside are the documentation's own (192.0.2.0/24, 2001:db8::/32): nobody has them, also where a sandbox leaks.

use agentenv_tests::{Deploy, Home, PATIENCE, PySite, eventually};
use serde_json::{Value, json};

use crate::{
    desk::{browser_of, desk, desk_of},
    python::program,
};

/// Asks the forward port for these targets; gives status lines by target.
const CONNECT: &str = r#"
def through_proxy(first_line, host):
    with socket.create_connection(PROXY, 5) as s:
        s.settimeout(5)
        s.sendall(first_line + b"\r\nHost: " + host + b"\r\n\r\n")
        answer = b""
        while b"\r\n\r\n" not in answer:
            more = s.recv(4096)
            if not more: break
            answer += more
        return (answer.split(b"\r\n", 1)[0].decode("latin-1") + "\n" + answer.decode("latin-1"))
def connect(target):
    try: return through_proxy(b"CONNECT " + target + b" HTTP/1.1", target)
    except OSError as error: return f"closed: {error}"
def absolute(target):
    try: return through_proxy(b"GET http://" + target + b"/ HTTP/1.1", target)
    except OSError as error: return f"closed: {error}"
"#;

/// The forward port of the deploy's browser, as Chromium was told.
#[track_caller]
fn forward_port(deploy: &Deploy<'_>) -> (String, u16) {
    let processes = deploy.processes();
    let lines = processes.iter().map(agentenv_tests::Process::arguments);
    let line = lines.into_iter().find(|line| line.contains("--proxy-server=")).expect("Chromium has a proxy");
    let value = line.split("--proxy-server=").nth(1).and_then(|rest| rest.split(' ').next()).expect("a proxy");
    let address = value.trim_start_matches("http://").trim_end_matches('/');
    let (host, port) = address.rsplit_once(':').expect("host and port");
    (host.to_owned(), port.parse().expect("a port"))
}

#[track_caller]
fn ask_proxy(deploy: &Deploy<'_>, body: &str) -> Value {
    let (host, port) = forward_port(deploy);
    let program = program(&format!("PROXY = ({host:?}, {port})\n{CONNECT}\n{body}"));
    deploy.python(browser_of(deploy), &program)
}

/// Asks for each target by CONNECT and absolute form; everything must be refused.
#[track_caller]
fn all_denied(deploy: &Deploy<'_>, targets: &[&str]) {
    let list = serde_json::to_string(targets).expect("JSON");
    let answers = ask_proxy(
        deploy,
        &format!(
            r#"
targets = [t.encode("latin-1") for t in json.loads({list:?})]
show({{form: {{t.decode("latin-1"): ask(t) for t in targets}} for form, ask in (("CONNECT", connect), ("absolute", absolute))}})"#
        ),
    );
    for (form, answers) in answers.as_object().expect("two forms") {
        for (target, answer) in answers.as_object().expect("answers") {
            let answer = answer.as_str().unwrap_or_default();
            let refused = ["HTTP/1.1 403", "HTTP/1.1 400"].iter().any(|status| answer.starts_with(status));
            assert!(refused, "{form} {target}: {answer}");
        }
    }
}

#[test]
fn row_19_a_host_that_is_not_allowed_is_denied_and_logged() {
    let home = desk();
    let deploy = home.deploy("desk");
    let answer = ask_proxy(&deploy, r#"show([connect(b"example.com:443"), absolute(b"example.com")])"#);
    for text in answer.as_array().expect("two answers") {
        let text = text.as_str().unwrap_or_default();
        assert!(text.starts_with("HTTP/1.1 403"), "{text}");
        assert!(text.contains("example.com"), "the answer names the host: {text}");
    }
    let denied = deploy.denied();
    for port in [443, 80] {
        let found = denied.iter().any(|entry| {
            entry.host == "example.com" && entry.port == port && entry.sandbox.as_str() == browser_of(&deploy)
        });
        assert!(found, "port {port} is on the denied log: {denied:?}");
    }
}

#[test]
fn row_20_addresses_in_every_spelling_are_denied() {
    let home = desk();
    let deploy = home.deploy("desk");
    all_denied(
        &deploy,
        &[
            "127.1:443",
            "2130706433:443",
            "0x7f.1:443",
            "0177.0.0.1:443",
            "0.0.0.0:443",
            "192.0.2.1:443",
            "127.0.0.1:443",
        ],
    );
}

#[test]
fn row_21_ipv6_addresses_are_denied() {
    let home = desk();
    let deploy = home.deploy("desk");
    all_denied(
        &deploy,
        &[
            "[::1]:443",
            "[::ffff:127.0.0.1]:443",
            "[64:ff9b::7f00:1]:443",
            "[fd00::1]:443",
            "[fe80::1%25lo]:443",
            "[fe80::1%lo]:443",
            "[2001:db8::1]:443",
        ],
    );
}

#[test]
fn row_22_case_and_a_trailing_dot_change_nothing() {
    let home = desk();
    let deploy = home.deploy("desk");
    let answers = ask_proxy(
        &deploy,
        r#"
good = [connect(t) for t in (b"alpha.test:443", b"ALPHA.test:443", b"alpha.test.:443", b"Alpha.TEST.:443")]
bad = [connect(t) for t in (b"example.com:443", b"EXAMPLE.com:443", b"example.com.:443")]
show({"good": good, "bad": bad})"#,
    );
    let all = |key: &str, status: &str| {
        let answers = answers[key].as_array().expect("answers");
        assert!(answers.iter().all(|a| a.as_str().is_some_and(|a| a.starts_with(status))), "{key}: {answers:?}");
    };
    all("good", "HTTP/1.1 200");
    all("bad", "HTTP/1.1 403");
    let name = |host: &str| program(&format!("show(attempt(lambda: socket.getaddrinfo({host:?}, 443)[0][4][0]))"));
    let first = deploy.python(browser_of(&deploy), &name("alpha.test"));
    assert!(first.as_str().is_some_and(|answer| answer.contains("198.1")), "{first}");
    for host in ["ALPHA.test", "alpha.test.", "Alpha.TEST."] {
        assert_eq!(deploy.python(browser_of(&deploy), &name(host)), first, "{host}");
    }
}

#[test]
fn row_23_hosts_that_pretend_are_denied() {
    let home = desk();
    let deploy = home.deploy("desk");
    all_denied(
        &deploy,
        &[
            "[alpha.test]:443",
            "user@alpha.test:443",
            "alpha.test\u{0}.ok:443",
            "alpha.test.evil:443",
            "evil-alpha.test:443",
            "alpha.test:443:443",
            "alpha.test%00:443",
            "localhost:443",
            "x.localhost:443",
        ],
    );
}

#[test]
fn row_32_other_ports_of_a_site_are_denied() {
    let home = desk();
    let deploy = home.deploy("desk");
    let answers = ask_proxy(
        &deploy,
        r#"show([connect(b"alpha.test:" + port) for port in (b"22", b"25", b"8000", b"0", b"65536", b"")])"#,
    );
    for answer in answers.as_array().expect("answers") {
        let answer = answer.as_str().unwrap_or_default();
        assert!(answer.starts_with("HTTP/1.1 403") || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
}

/// TLS by hand in the browser's sandbox: to a name's address, with any SNI, with the ClientHello cut up.
const TLS: &str = r#"
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

#[test]
fn row_31_only_the_addresss_own_name_is_answered() {
    let home = desk();
    let deploy = home.deploy("desk");
    let answer = deploy.python(
        browser_of(&deploy),
        &program(&format!(
            r#"{TLS}
alpha = address("alpha.test")
show({{
    "own": attempt_tls(alpha, "alpha.test", whole),
    "other": attempt_tls(alpha, "beta.test", whole, check=False),
    "unknown": attempt_tls(alpha, "example.com", whole, check=False),
    "none": attempt_tls(alpha, None, whole, check=False),
}})"#
        )),
    );
    assert_eq!(answer["own"], "ok", "{answer}");
    for wrong in ["other", "unknown", "none"] {
        assert_ne!(answer[wrong], "ok", "{wrong}: {answer}");
    }
    eventually("each refused name is on the denied log", PATIENCE, || {
        let denied = deploy.denied();
        let logged = |host: &str| denied.iter().any(|entry| entry.host.contains(host) && entry.port == 443);
        (logged("beta.test") && logged("example.com") && denied.len() >= 3).then_some(())
    });
}

#[test]
fn row_31_a_client_hello_cut_up_gets_the_same_verdict() {
    let home = desk();
    let deploy = home.deploy("desk");
    let answer = deploy.python(
        browser_of(&deploy),
        &program(&format!(
            r#"{TLS}
alpha = address("alpha.test")
cuts = {{"bytes": bytewise, "records of 1": by_records(1), "records of 50": by_records(50), "records of 200": by_records(200)}}
show({{
    "own": {{name: attempt_tls(alpha, "alpha.test", cut) for name, cut in cuts.items()}},
    "other": {{name: attempt_tls(alpha, "beta.test", cut, check=False) for name, cut in cuts.items()}},
}})"#
        )),
    );
    for (cut, outcome) in answer["own"].as_object().expect("answers") {
        assert_eq!(outcome, "ok", "{cut}: {answer}");
    }
    for (cut, outcome) in answer["other"].as_object().expect("answers") {
        assert_ne!(outcome, "ok", "{cut}: {answer}");
    }
}

#[test]
fn row_36_raw_connections_have_nowhere_to_go() {
    let home = desk();
    let deploy = home.deploy("desk");
    let body = r#"
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
})"#;
    for sandbox in ["alpha/server", browser_of(&deploy)] {
        let answer = deploy.python(sandbox, &program(body));
        for (attempt, outcome) in answer.as_object().expect("attempts") {
            assert!(!outcome.as_str().unwrap_or_default().starts_with("ok"), "{sandbox}: {attempt}: {outcome}");
        }
    }
    // A program that knows of no proxy, and one that leaves it aside.
    let curl = deploy
        .exec(browser_of(&deploy), &["curl", "--silent", "--noproxy", "*", "--max-time", "5", "https://192.0.2.1/"]);
    assert_ne!(curl.code, 0, "{curl:?}");
}

#[test]
fn row_37_there_is_no_ipv6() {
    let home = desk();
    let deploy = home.deploy("desk");
    let body = r#"
lines = open("/proc/net/if_inet6").read().split("\n") if os.path.exists("/proc/net/if_inet6") else []
addresses = [line.split()[0] for line in lines if line]
def udp6():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s: s.sendto(b"x", ("2001:db8::1", 53))
def all_nodes():
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as s: s.sendto(b"x", ("ff02::1", 53, 0, 1))
show({"addresses": addresses, "tcp": attempt(lambda: tcp("2001:db8::1", 443, socket.AF_INET6)), "udp": attempt(udp6),
      "link": attempt(lambda: tcp("fe80::1", 443, socket.AF_INET6))})"#;
    for sandbox in ["alpha/server", browser_of(&deploy)] {
        let answer = deploy.python(sandbox, &program(body));
        let addresses = answer["addresses"].as_array().expect("addresses");
        let loopback = "00000000000000000000000000000001";
        assert!(addresses.iter().all(|address| address == loopback), "{sandbox}: {answer}");
        for attempt in ["tcp", "udp", "link"] {
            assert!(!answer[attempt].as_str().unwrap_or_default().starts_with("ok"), "{sandbox}: {answer}");
        }
    }
}

#[test]
fn row_38_dns_over_https_tls_and_quic_are_blocked() {
    let home = desk();
    let deploy = home.deploy("desk");
    let answers = ask_proxy(
        &deploy,
        r#"
def resolves(host): socket.getaddrinfo(host, 443)
def quic():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(2)
        s.connect((socket.getaddrinfo("alpha.test", 443)[0][4][0], 443))
        s.send(bytes(1200))
        s.recv(1)
show({
    "doh name": attempt(lambda: resolves("dns.google")),
    "doh address": attempt(lambda: tcp("192.0.2.53", 443)),
    "dot": attempt(lambda: tcp("192.0.2.53", 853)),
    "quic": attempt(quic),
    "doh proxy": connect(b"dns.google:443"),
    "dot proxy": connect(b"alpha.test:853"),
})"#,
    );
    for (attempt, outcome) in answers.as_object().expect("attempts") {
        let outcome = outcome.as_str().unwrap_or_default();
        assert!(!outcome.starts_with("ok") && !outcome.starts_with("HTTP/1.1 200"), "{attempt}: {outcome}");
    }
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

/// The gateway of a deploy is on the host: nothing inside reaches it.
#[test]
fn row_34_the_gateway_is_out_of_reach() {
    let home: Home = desk();
    let deploy = home.deploy("desk");
    let port: u16 =
        deploy.info.gateway_url.rsplit(':').next().and_then(|p| p.trim_end_matches('/').parse().ok()).expect("a port");
    all_denied(&deploy, &[&format!("127.0.0.1:{port}"), &format!("localhost:{port}"), "169.254.169.254:80"]);
    for sandbox in ["alpha/server", browser_of(&deploy)] {
        let answer = deploy.python(sandbox, &program(&format!("show(attempt(lambda: tcp('127.0.0.1', {port})))")));
        assert_ne!(answer, json!("ok"), "{sandbox}");
    }
}
