//! Out of a browser's sandbox by its forward port: what is not a site of the deploy is denied.
//!
//! Addresses outside are the documentation's own (192.0.2.0/24, 2001:db8::/32): nobody has them, also where a sandbox leaks.

use agentenv_tests::{Deploy, Home};
use serde_json::{Value, json};

use crate::{
    desk::{browser_of, desk},
    python::program,
};

/// Asks the forward port, at `PROXY`, for these targets; gives status lines by target.
pub const CONNECT: &str = r#"
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

/// Runs a program in the browser's sandbox that has `connect` and `absolute` to ask its forward port by.
#[track_caller]
pub fn ask_proxy(deploy: &Deploy<'_>, body: &str) -> Value {
    let (host, port) = forward_port(deploy);
    let program = program(&format!("PROXY = ({host:?}, {port})\n{CONNECT}\n{body}"));
    deploy.python(browser_of(deploy), &program)
}

/// Asks for each target by CONNECT and in absolute form.
pub fn each_form(targets: &[&str]) -> String {
    let list = serde_json::to_string(targets).expect("JSON");
    format!(
        r#"
targets = [t.encode("latin-1") for t in json.loads({list:?})]
show({{form: {{t.decode("latin-1"): ask(t) for t in targets}} for form, ask in (("CONNECT", connect), ("absolute", absolute))}})"#
    )
}

/// Checks that every target was refused in both forms.
#[track_caller]
pub fn refused_in_each_form(sandbox: &str, answers: &Value) {
    for (form, answers) in answers.as_object().expect("two forms") {
        let answers = answers.as_object().expect("answers");
        assert!(!answers.is_empty(), "{sandbox}: nothing was asked for");
        for (target, answer) in answers {
            let answer = answer.as_str().unwrap_or_default();
            let refused = ["HTTP/1.1 403", "HTTP/1.1 400"].iter().any(|status| answer.starts_with(status));
            assert!(refused, "{sandbox}: {form} {target}: {answer}");
        }
    }
}

#[track_caller]
fn all_denied(deploy: &Deploy<'_>, targets: &[&str]) {
    refused_in_each_form(browser_of(deploy), &ask_proxy(deploy, &each_form(targets)));
}

/// Row 19.
pub const NOT_ALLOWED: &str = r#"show([connect(b"example.com:443"), absolute(b"example.com")])"#;

/// Checks the answers to it, and the denied log.
#[track_caller]
pub fn denied_and_logged(deploy: &Deploy<'_>, sandbox: &str, answer: &Value) {
    for text in answer.as_array().expect("two answers") {
        let text = text.as_str().unwrap_or_default();
        assert!(text.starts_with("HTTP/1.1 403"), "{text}");
        assert!(text.contains("example.com"), "the answer names the host: {text}");
    }
    let denied = deploy.denied();
    for port in [443, 80] {
        let found = denied
            .iter()
            .any(|entry| entry.host == "example.com" && entry.port == port && entry.sandbox.as_str() == sandbox);
        assert!(found, "port {port} is on the denied log: {denied:?}");
    }
}

#[test]
fn row_19_a_host_that_is_not_allowed_is_denied_and_logged() {
    let home = desk();
    let deploy = home.deploy("desk");
    let answer = ask_proxy(&deploy, NOT_ALLOWED);
    denied_and_logged(&deploy, browser_of(&deploy), &answer);
}

/// Row 20.
pub const ADDRESSES: [&str; 7] =
    ["127.1:443", "2130706433:443", "0x7f.1:443", "0177.0.0.1:443", "0.0.0.0:443", "192.0.2.1:443", "127.0.0.1:443"];

#[test]
fn row_20_addresses_in_every_spelling_are_denied() {
    let home = desk();
    all_denied(&home.deploy("desk"), &ADDRESSES);
}

/// Row 21.
pub const ADDRESSES_OF_IPV6: [&str; 7] = [
    "[::1]:443",
    "[::ffff:127.0.0.1]:443",
    "[64:ff9b::7f00:1]:443",
    "[fd00::1]:443",
    "[fe80::1%25lo]:443",
    "[fe80::1%lo]:443",
    "[2001:db8::1]:443",
];

#[test]
fn row_21_ipv6_addresses_are_denied() {
    let home = desk();
    all_denied(&home.deploy("desk"), &ADDRESSES_OF_IPV6);
}

/// Row 22.
pub const CASE_AND_DOT: &str = r#"
def first(host): return attempt(lambda: socket.getaddrinfo(host, 443)[0][4][0])
show({
    "good": [connect(t) for t in (b"alpha.test:443", b"ALPHA.test:443", b"alpha.test.:443", b"Alpha.TEST.:443")],
    "bad": [connect(t) for t in (b"example.com:443", b"EXAMPLE.com:443", b"example.com.:443")],
    "addresses": [first(host) for host in ("alpha.test", "ALPHA.test", "alpha.test.", "Alpha.TEST.")],
})"#;

/// Checks the answers to it.
#[track_caller]
pub fn the_same_verdict(sandbox: &str, answers: &Value) {
    let all = |key: &str, status: &str| {
        let answers = answers[key].as_array().expect("answers");
        assert!(
            answers.iter().all(|a| a.as_str().is_some_and(|a| a.starts_with(status))),
            "{sandbox}: {key}: {answers:?}"
        );
    };
    all("good", "HTTP/1.1 200");
    all("bad", "HTTP/1.1 403");
    let addresses = answers["addresses"].as_array().expect("addresses");
    assert!(addresses[0].as_str().is_some_and(|answer| answer.contains("198.1")), "{sandbox}: {addresses:?}");
    assert!(addresses.iter().all(|address| *address == addresses[0]), "{sandbox}: {addresses:?}");
}

#[test]
fn row_22_case_and_a_trailing_dot_change_nothing() {
    let home = desk();
    let deploy = home.deploy("desk");
    the_same_verdict(browser_of(&deploy), &ask_proxy(&deploy, CASE_AND_DOT));
}

/// Row 23.
pub const PRETENDING: [&str; 9] = [
    "[alpha.test]:443",
    "user@alpha.test:443",
    "alpha.test\u{0}.ok:443",
    "alpha.test.evil:443",
    "evil-alpha.test:443",
    "alpha.test:443:443",
    "alpha.test%00:443",
    "localhost:443",
    "x.localhost:443",
];

#[test]
fn row_23_hosts_that_pretend_are_denied() {
    let home = desk();
    all_denied(&home.deploy("desk"), &PRETENDING);
}

/// Row 32.
pub const OTHER_PORTS: &str =
    r#"show([connect(b"alpha.test:" + port) for port in (b"22", b"25", b"8000", b"0", b"65536", b"")])"#;

/// Checks that every answer is a refusal.
#[track_caller]
pub fn each_refused(sandbox: &str, answers: &Value) {
    for answer in answers.as_array().expect("answers") {
        let answer = answer.as_str().unwrap_or_default();
        let refused = answer.starts_with("HTTP/1.1 403") || answer.starts_with("HTTP/1.1 400");
        assert!(refused, "{sandbox}: {answer}");
    }
}

#[test]
fn row_32_other_ports_of_a_site_are_denied() {
    let home = desk();
    let deploy = home.deploy("desk");
    each_refused(browser_of(&deploy), &ask_proxy(&deploy, OTHER_PORTS));
}

/// Row 38.
pub const OTHER_PROTOCOLS: &str = r#"
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
})"#;

/// Checks that no attempt got anywhere.
#[track_caller]
pub fn nothing_answers(sandbox: &str, answers: &Value) {
    for (attempt, outcome) in answers.as_object().expect("attempts") {
        let outcome = outcome.as_str().unwrap_or_default();
        assert!(!outcome.starts_with("ok") && !outcome.starts_with("HTTP/1.1 200"), "{sandbox}: {attempt}: {outcome}");
    }
}

#[test]
fn row_38_dns_over_https_tls_and_quic_are_blocked() {
    let home = desk();
    let deploy = home.deploy("desk");
    nothing_answers(browser_of(&deploy), &ask_proxy(&deploy, OTHER_PROTOCOLS));
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
