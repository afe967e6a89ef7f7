//! The network's speed and cost against other proxies: tunnels to a live host, TLS with minted certificates, the gateway.
//!
//! Everything is inside one network namespace, whose loopback interface has an address of a documentation network, as a real
//! host would have a public one. Origin, upstream and clients are threads of this program and cost the same for every proxy; each
//! proxy is a process of its own, whose processor time is read. They take turns, so that a busy machine is busy for all.

use std::{env, fs, path::PathBuf, process::Command, sync::Arc};

use rustls::{ClientConfig, RootCertStore, client::Resumption, pki_types::CertificateDer};

use crate::say::say;

mod load;
pub mod ours;
mod peers;
pub mod splice;
mod tables;

use peers::{Entry, Peers};
use tables::Table;

/// The command that runs inside the namespace.
pub const INSIDE: &str = "proxy-inside";
/// Turns of each proxy in each load; the median counts.
const TURNS: usize = 5;
/// Streams of the tunnels.
const STREAMS: [usize; 2] = [1, 8];
/// Connections that ask, side by side.
const CLIENTS: usize = 8;
/// The live host, and where it is.
pub const LIVE: (&str, &str) = ("live.example", "203.0.113.10");
/// Where its name is asked for.
pub const DNS: &str = "203.0.113.53";
/// The site, and where it listens.
pub const SITE: &str = "shop.test";
/// Where the site's server listens.
pub const UPSTREAM: &str = "127.0.0.1:8000";

/// `bench proxy`: prints three tables.
pub fn bench() {
    let missing = peers::missing();
    if !missing.is_empty() {
        say!("the other proxies are missing; as root:");
        say!("apt-get update && apt-get install --yes --no-install-recommends {}", missing.join(" "));
        std::process::exit(2);
    }
    let mut command = Command::new("unshare");
    if !agentenv_tests::is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let this = env::current_exe().expect("this program has a file");
    let ended = command.arg("--net").arg(this).arg(INSIDE).status().expect("unshare starts");
    assert!(ended.success(), "the load inside the namespace failed");
}

/// The part inside the namespace.
pub fn inside() {
    ip(&["link", "set", "lo", "up"]);
    for address in [LIVE.1, DNS] {
        ip(&["address", "add", &format!("{address}/32"), "dev", "lo"]);
    }
    load::serve_origin();
    load::serve_names();
    load::serve_upstream();
    let folder = PathBuf::from("/dev/shm").join(format!("agentenv-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("memory to write to");
    let peers = Peers::start(&folder);
    say!(
        "our code is built by the dev profile (agentenv-net with opt-level 2), its dependencies with opt-level 1; the others by Debian"
    );
    say!("(2 threads or workers where a program has that setting; squid has one process)");
    tunnels(&peers);
    handshakes(&peers);
    warm(&peers);
    gateway(&peers);
    drop(peers);
    fs::remove_dir_all(&folder).expect("the files are ours");
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).status().expect("ip starts");
    assert!(done.success(), "ip {arguments:?}");
}

fn tunnels(peers: &Peers) {
    let hello = load::client_hello(&client(&[]), LIVE.0);
    for streams in STREAMS {
        let mut table = Table::new(&peers.tunnels);
        for _ in 0..TURNS {
            for (at, entry) in peers.tunnels.iter().enumerate() {
                table.add(at, &load::tunnel(entry, streams, &hello));
            }
        }
        let what = format!("tunnel to a live host, {streams} stream(s)");
        table.say(
            &what,
            ("MB/s", 1e-6),
            ("CPU s/GB", 1e9),
            &[("haproxy, tcp", "MB/s at least 0.9"), ("haproxy, tcp, splice-auto", "")],
        );
    }
}

fn handshakes(peers: &Peers) {
    let configs = configs(peers);
    let mut table = Table::new(&peers.tls);
    for _ in 0..TURNS {
        for (at, (entry, config)) in peers.tls.iter().zip(&configs).enumerate() {
            table.add(at, &load::handshakes(entry, config, CLIENTS));
        }
    }
    let what = format!("TLS, full handshakes with one request each, {CLIENTS} clients");
    table.say(
        &what,
        ("per second", 1.0),
        ("CPU µs each", 1e6),
        &[("nginx", "per second at least 0.9"), ("mitmproxy", "per second at least 20")],
    );
}

fn warm(peers: &Peers) {
    let configs = configs(peers);
    let mut table = Table::new(&peers.tls);
    for _ in 0..TURNS {
        for (at, (entry, config)) in peers.tls.iter().zip(&configs).enumerate() {
            table.add(at, &load::requests(entry, Some(config), CLIENTS));
        }
    }
    let what = format!("TLS, requests on {CLIENTS} warm connections");
    table.say(
        &what,
        ("per second", 1.0),
        ("CPU µs each", 1e6),
        &[("nginx", "per second at least 0.9"), ("mitmproxy", "per second at least 20")],
    );
}

fn gateway(peers: &Peers) {
    let mut table = Table::new(&peers.gateway);
    for _ in 0..TURNS {
        for (at, entry) in peers.gateway.iter().enumerate() {
            table.add(at, &load::requests(entry, None, CLIENTS));
        }
    }
    let what = format!("gateway, requests to /website/shop/ on {CLIENTS} warm connections");
    table.say(&what, ("per second", 1.0), ("CPU µs each", 1e6), &[("nginx", "CPU at most 1")]);
}

/// One client per proxy, which trusts its authority and nothing else.
fn configs(peers: &Peers) -> Vec<Arc<ClientConfig>> {
    let authority = |entry: &Entry| client(&fs::read(entry.authority.as_ref().expect("it has one")).expect("its file"));
    peers.tls.iter().map(authority).collect()
}

/// A client that resumes nothing.
fn client(pem: &[u8]) -> Arc<ClientConfig> {
    use rustls::pki_types::pem::PemObject as _;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.expect("PEM")).expect("an authority");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}
