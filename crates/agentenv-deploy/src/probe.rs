//! The probe of NET-6: runs inside a sandbox and tries what must not work. Deny is verified, not assumed.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket},
    os::unix::net::UnixStream,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use rustls::pki_types::ServerName;

/// The hidden command of the program that probes the sandbox it runs in. Arguments: the names whose addresses are probed, after
/// `--forward-port` where the sandbox has ours, and `--open` where it may reach any public name.
pub const PROBE_COMMAND: &str = "internal-probe";
/// Says that the sandbox has our forward port: in a pod, a service of the site's own may be on that port.
pub(crate) const FORWARD_PORT_FLAG: &str = "--forward-port";
/// Says that any public name may be reached: then it is no leak that a name is known which nobody has.
pub(crate) const OPEN_FLAG: &str = "--open";
/// Names that nobody has; the denied log leaves them out while the probe runs.
const PROBE_SUFFIX: &str = "agent-env-probe.invalid";
/// A name of the machine itself, which no network reaches.
const PROBE_LOCALHOST: &str = "agent-env-probe.localhost";
/// How long an answer may take. In a sealed sandbox nothing takes any time: what is still under way then has a way out.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// An address that is nobody's (RFC 5737), so that a leak harms nobody.
const NOBODY: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
/// The same for IPv6 (RFC 3849).
const NOBODY_6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
/// Sockets of a host that give whoever reaches them the host, or much of it.
const HOST_SOCKETS: [&str; 8] = [
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/systemd/resolve/io.systemd.Resolve",
    "/run/nscd/socket",
    "/tmp/.X11-unix/X0",
];

/// Tries everything, prints what got out, a line each, and ends with 1 if anything did.
pub fn probe_main(arguments: &[String]) -> ExitCode {
    let flags = arguments.iter().take_while(|argument| argument.starts_with("--")).count();
    let (flags, names) = arguments.split_at(flags);
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    let mut leaks = leaks(names);
    if !has(OPEN_FLAG) {
        leaks.extend(name_resolves());
    }
    if has(FORWARD_PORT_FLAG) {
        leaks.extend(forwarded(has(OPEN_FLAG)));
    }
    let mut out = io::stdout().lock();
    for leak in &leaks {
        // Whoever reads has the exit code too.
        let _ = writeln!(out, "{leak}");
    }
    if leaks.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn leaks(names: &[String]) -> Vec<String> {
    let mut leaks: Vec<String> = [
        tcp(SocketAddr::from((NOBODY, 443))),
        tcp(SocketAddr::from((NOBODY_6, 443))),
        datagram(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), SocketAddr::from((NOBODY, 53))),
        datagram(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)), SocketAddr::from((NOBODY_6, 443))),
        vsock(),
        packets(),
    ]
    .into_iter()
    .flatten()
    .collect();
    leaks.extend(HOST_SOCKETS.iter().filter_map(|path| host_socket(Path::new(path))));
    leaks.extend(names.iter().filter_map(|name| fronted(name)));
    leaks
}

fn name_resolves() -> Option<String> {
    let host = format!("name.{PROBE_SUFFIX}");
    let address = (host.as_str(), 443).to_socket_addrs().ok()?.next()?;
    Some(format!("the name {host} resolves to {address}"))
}

fn tcp(to: SocketAddr) -> Option<String> {
    match TcpStream::connect_timeout(&to, ANSWER_LIMIT) {
        Ok(_) => Some(format!("a connection to {to} was made")),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => Some(format!("a connection to {to} was on its way")),
        Err(_) => None,
    }
}

fn datagram(from: SocketAddr, to: SocketAddr) -> Option<String> {
    let socket = UdpSocket::bind(from).ok()?;
    socket.send_to(b"agent-env probe", to).is_ok().then(|| format!("a datagram to {to} was sent"))
}

fn vsock() -> Option<String> {
    let family = rustix::net::AddressFamily::from_raw(40);
    let socket = rustix::net::socket(family, rustix::net::SocketType::STREAM, None);
    socket.is_ok().then(|| "a vsock socket was made; it leads to the hypervisor".to_owned())
}

fn packets() -> Option<String> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::PACKET, rustix::net::SocketType::RAW, None);
    socket.is_ok().then(|| "a packet socket was made".to_owned())
}

/// Whether the denied log leaves a host out while the probe runs.
pub(crate) fn is_probes(host: &str) -> bool {
    let host = host.trim_end_matches('.');
    host.ends_with(PROBE_SUFFIX) || host == PROBE_LOCALHOST || host == NOBODY.to_string()
}

/// What the forward port must not take: DNS over HTTPS at a name that no site has, addresses, the machine itself, other ports.
fn forwarded(open: bool) -> Vec<String> {
    let doh = (format!("dns.{PROBE_SUFFIX}:443"), "to a name that no site has");
    let others = [
        (format!("{NOBODY}:443"), "to an address"),
        (format!("{PROBE_LOCALHOST}:443"), "to the machine itself"),
        (format!("port.{PROBE_SUFFIX}:22"), "to port 22"),
    ];
    // Where any name may be reached, a name server at 443 is a site like any other.
    let tried = [doh].into_iter().filter(|_| !open).chain(others);
    tried
        .filter(|(target, _)| is_taken(target))
        .map(|(_, what)| format!("the forward port took a connection {what}"))
        .collect()
}

fn is_taken(target: &str) -> bool {
    let ask = || -> io::Result<bool> {
        let mut stream = TcpStream::connect_timeout(&crate::sandbox_net::FORWARD_PORT.into(), ANSWER_LIMIT)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(&answer != b"HTTP/1.1 403")
    };
    ask().unwrap_or(false)
}

fn host_socket(path: &Path) -> Option<String> {
    UnixStream::connect(path).is_ok().then(|| format!("the host's socket {} answers", path.display()))
}

/// A TLS handshake with another name than the address's.
fn fronted(name: &str) -> Option<String> {
    let address = (name, 443).to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT).ok()?;
    stream.set_read_timeout(Some(ANSWER_LIMIT)).ok()?;
    stream.write_all(&client_hello(&format!("fronted.{PROBE_SUFFIX}"))?).ok()?;
    let mut kind = [0];
    let length = stream.read(&mut kind).ok()?;
    // 22 is a handshake record: a ServerHello. An alert or an end is a refusal.
    (length == 1 && kind[0] == 22).then(|| format!("a TLS handshake with {name} for another name was taken"))
}

fn client_hello(name: &str) -> Option<Vec<u8>> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .ok()?
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let mut hello = Vec::new();
    let mut connection =
        rustls::ClientConnection::new(Arc::new(config), ServerName::try_from(name.to_owned()).ok()?).ok()?;
    connection.write_tls(&mut hello).ok()?;
    Some(hello)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_a_handshake_record_that_names_its_host() {
        let hello = client_hello("a.test").unwrap();
        assert_eq!(hello[0], 22);
        assert!(hello.windows(6).any(|window| window == b"a.test"));
    }

    #[test]
    fn what_works_on_the_host_is_called_a_leak() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(host_socket(&path).is_some());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(tcp(listener.local_addr().unwrap()).is_some());
        assert!(datagram("127.0.0.1:0".parse().unwrap(), "127.0.0.1:9".parse().unwrap()).is_some());
    }
}
