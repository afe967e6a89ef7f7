//! Other ports, other protocols, other ways: rows 32 to 38, 43, 44, 84 and 85.

use super::*;

pub fn row_32_other_ports() -> String {
    r#"ports = (22, 25, 53, 853, 8443, 3128, 0, 65536, "", "+443", "443x")
show(both(*[f"github.com:{port}" for port in ports]) |
    {f"placed {port}": attempt(lambda: tcp(address("github.com"), port)) for port in (22, 25, 853, 8443)})"#
        .to_owned()
}

/// A host that may be asked for, and a path there that is no redirect.
pub fn row_33_absolute_form(own: &str) -> String {
    let body = r#"
def sent(target, host, more=""): return ask(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n")
good = sent(f"http://{OWN}/plain", OWN)
assert good == "ok: HTTP/1.1 200 OK", good
show({
    "another host": sent(f"http://{OWN}/plain", "example.com"),
    "the other way round": sent("http://203.0.113.20/plain", OWN),
    "two hosts": sent(f"http://{OWN}/plain", OWN, "Host: example.com\r\n"),
    "no scheme": sent("/plain", OWN),
    "internal": sent("http://internal.github.com/", "internal.github.com"),
    "port": sent(f"http://{OWN}:22/", f"{OWN}:22"),
    "tls": sent(f"https://{OWN}/", OWN),
    "user": sent(f"http://{OWN}@203.0.113.20/", "203.0.113.20"),
    "file": sent(f"ftp://{OWN}/", OWN),
    "gopher": sent("gopher://203.0.113.10:25/_x", "203.0.113.10:25")})"#;
    format!("OWN = {own:?}\n{body}")
}

pub fn row_34_gateway_proxy_and_metadata(deploy: &Deploy<'_>) -> String {
    let port = deploy.info.gateway_url.rsplit(':').next().expect("a port").trim_end_matches('/');
    format!(
        r#"
show(both("127.0.0.1:{port}", "localhost:{port}", "127.0.0.1:3128", "localhost:3128", "127.0.0.53:53", "169.254.169.254:80",
    "169.254.169.254:443", "169.254.169.254", "[fd00:ec2::254]:80", "metadata.github.com:443") | {{
    "gateway": attempt(lambda: tcp("127.0.0.1", {port})), "metadata": attempt(lambda: tcp("169.254.169.254", 80)),
    "a name": absolute("metadata.github.com")}})"#
    )
}

/// Within the tunnel to a host's port 80, and within the TLS of a synthetic site, if it has one.
pub fn row_35_nested_connect(outer: &str, minted: &str) -> String {
    let body = r#"
def nested(outer, line, host):
    try:
        with tunnel(outer) as s:
            s.sendall(f"{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            return judged(first_line(s))
    except OSError as error: return f"closed: {error}"
attempts = {f"{line} in {outer}": nested(outer, line, line.split("//")[-1].split(" ")[-1].strip("/"))
    for outer in (OUTER + ":80",) for line in ("CONNECT example.com:443", "CONNECT internal.github.com:443", "CONNECT github.com:22",
        "GET http://example.com/", "GET http://internal.github.com/", "CONNECT 169.254.169.254:80")}
# For a pod that name is the real site, which may do as it likes within its encryption.
if "https_proxy" not in os.environ:
    connect_line = "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n"
    attempts["in a site's"] = through(MINTED, MINTED, connect_line)
    attempts["placed"] = placed(MINTED, MINTED, connect_line)
show(attempts)"#;
    format!("OUTER, MINTED = {outer:?}, {minted:?}\n{body}")
}

pub fn rows_36_and_37_raw_sockets() -> String {
    r#"
REAL = ("203.0.113.10", "203.0.113.20", "203.0.113.53", "10.9.9.9", "169.254.169.254")
def udp(host, port=53, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.sendto(b"x", (host, port))
def ping(host):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as s: s.sendto(b"\x08" + bytes(7), (host, 0))
def from_own(host):
    with socket.socket() as s:
        s.settimeout(3)
        s.setsockopt(0, 15, 1)
        s.bind(("198.18.0.1", 0))
        s.connect((host, 443))
def by(card, host):
    with socket.socket() as s:
        s.settimeout(0.5)
        s.setsockopt(socket.SOL_SOCKET, 25, card.encode())
        s.connect((host, 443))
shown = {}
for host in REAL:
    for port in (22, 80, 443): shown[f"tcp {host}:{port}"] = attempt(lambda: tcp(host, port))
    shown[f"udp {host}"] = attempt(lambda: udp(host))
    shown[f"ping {host}"] = attempt(lambda: ping(host))
for card in ("lo", "eth0"): shown[f"by {card}"] = attempt(lambda: by(card, "203.0.113.10"))
shown["from our range"] = attempt(lambda: from_own("203.0.113.10"))
for protocol in (1, 6, 17, 255): shown[f"raw {protocol}"] = attempt(lambda: socket.socket(2, socket.SOCK_RAW, protocol).close())
for kind in (1, 5): shown[f"sctp {kind}"] = attempt(lambda: socket.socket(2, kind, 132).close())
shown["packet"] = attempt(lambda: socket.socket(17, 3, 0).close())
for host in ("224.0.0.251", "255.255.255.255"): shown[f"udp {host}"] = attempt(lambda: udp(host))
six = socket.AF_INET6
for host in ("2001:db8::1", "::ffff:203.0.113.10", "64:ff9b::cb00:710a"):
    shown[f"tcp {host}"] = attempt(lambda: tcp(host, 443, six))
    shown[f"udp {host}"] = attempt(lambda: udp(host, 53, six))
import subprocess
curl = ["curl", "--silent", "--noproxy", "*", "--max-time", "5", "--resolve", "github.com:443:203.0.113.10", "https://github.com/"]
shown["curl"] = "ok" if subprocess.run(curl).returncode == 0 else "failed"
show(shown)"#
    .to_owned()
}

pub fn row_38_doh_dot_and_quic() -> String {
    r#"
def quic(host):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(1)
        s.connect((host, 443))
        s.send(b"\xc3\0\0\0\1" + bytes(1200))
        s.recv(1)
own = address("github.com")
show({"quic": attempt(lambda: quic(own)), "quic by address": attempt(lambda: quic("203.0.113.10")),
    "doh": attempt(lambda: tcp("203.0.113.53", 443)), "doh through": connect("203.0.113.53:443"),
    "dot": attempt(lambda: tcp("203.0.113.53", 853)), "dot through": connect("203.0.113.53:853"),
    "dot of a live host": connect("github.com:853"), "dot placed": attempt(lambda: tcp(own, 853)),
    "dns over tcp": attempt(lambda: tcp("203.0.113.53", 53))})"#
        .to_owned()
}

/// Where a redirect may lead no sandbox.
pub const INSIDE: [&str; 9] = [
    "http://internal.github.com/",
    "https://internal.github.com/",
    "http://169.254.169.254/latest/",
    "http://127.0.0.1/",
    "https://127.0.0.1/",
    "http://10.9.9.9/",
    "https://203.0.113.10/",
    "http://github.com:8443/",
    "http://github.com:22/",
];

pub fn row_43_redirects_to_what_is_inside(targets: &[&str]) -> String {
    let body = r#"
import subprocess
def redirected(target):
    curl = ["curl", "--silent", "--fail", "--location", "--max-time", "20", "https://portal.github.com/?" + target]
    done = subprocess.run(curl, capture_output=True, text=True)
    return f"failed: {done.returncode}" if done.returncode != 0 and done.stdout == "" else f"ok: {done}"
show({target: redirected(target) for target in json.loads(TARGETS)})"#;
    format!("TARGETS = {:?}\n{body}", json!(targets).to_string())
}

#[track_caller]
pub fn row_44_bad_certificates_and_the_authoritys_key(place: &dyn Inside) {
    let (deploy, sandbox) = (place.deploy(), place.sandbox());
    let home = deploy.home_path().display();
    let seen = tell(
        place,
        &format!(
            r#"
import subprocess
def curl(host):
    done = subprocess.run(["curl", "--silent", "--max-time", "20", f"https://{{host}}.github.com/"], capture_output=True, text=True)
    return [done.returncode, done.stdout]
found = [path for path in ("{home}", "{home}/deploys") if os.path.exists(path)]
for top in ("/etc", "/home", "/tmp", "/run", "/var", "/data", "/opt", "/root", "/dev/shm"):
    for folder, _, files in os.walk(top):
        for name in files:
            try:
                path = os.path.join(folder, name)
                if not os.path.isfile(path): continue
                # In two, since this program may be a file there.
                with open(path, "rb") as file:
                    if b"PRIVATE " + b"KEY-----" in file.read(1 << 20): found.append(path)
            except OSError: pass
show({{"curl": [curl(host) for host in ("expired", "self-signed")], "keys": found}})"#
        ),
    );
    assert_eq!(seen["curl"], json!([[60, ""], [60, ""]]), "{sandbox}: a bad certificate stays one");
    assert_eq!(seen["keys"], json!([]), "{sandbox}: a key is readable");
    let grep = run_within(
        Duration::from_secs(20),
        std::process::Command::new("grep").args(["-rlI", "--devices=skip", "PRIVATE KEY"]).arg(deploy.folder()),
        None,
    );
    assert_eq!(grep.stdout, "", "nor is it in a file of the deploy");
}

/// UNIX, INET, INET6 and NETLINK have one.
pub fn row_84_families_that_have_no_namespace() -> String {
    r#"
def every(family):
    for kind in (1, 2, 3, 5):
        try: socket.socket(family, kind, 0).close()
        except OSError: continue
        return f"ok: {kind}"
    return "refused"
show({str(family): every(family) for family in range(46) if family not in (1, 2, 10, 16)})"#
        .to_owned()
}

pub fn row_85_sockets_of_the_host(deploy: &Deploy<'_>, displays: &[&str]) -> String {
    let control = deploy.folder().join("control.sock");
    assert!(control.exists(), "the control socket is there on the host");
    let displays = json!(displays).to_string();
    format!(
        r#"
def unix(path):
    with socket.socket(socket.AF_UNIX) as s: s.connect(path)
show({{path: attempt(lambda: unix(path)) for path in ("{}", "/run/nscd/socket", "/run/systemd/resolve/io.systemd.Resolve",
    "/run/dbus/system_bus_socket", "/run/docker.sock", "/dev/log", *json.loads({displays:?}))}})"#,
        control.display()
    )
}
