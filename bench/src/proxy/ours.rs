//! Our side: the crate of the network in a process of its own, put together as a supervisor does it.

use std::{
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    sync::Arc,
};

use agentenv_net::{
    AddressBook, Authority, BrowserNet, BrowserSockets, DeniedLog, DenyReason, Dial, Gateway, HostNetwork, Limits,
    RealNetwork, Role, SiteTable, Sites, Upstream, Website,
};
use agentenv_protocol::{AgentToken, ControlToken, HostName, HostPattern, Name, SandboxName, control::SiteTableEntry};
use futures_util::future::BoxFuture;
use tokio::net::TcpStream;

use super::{DNS, LIVE, SITE, UPSTREAM};
use crate::say::say;

/// The command that runs it.
pub const OURS: &str = "proxy-ours";
/// The forward port, TLS, the gateway.
pub const PORTS: [u16; 3] = [3001, 3002, 3003];
/// The authority's certificate, in the bench's folder.
pub const AUTHORITY: &str = "ours.pem";

struct Wire;

impl Dial for Wire {
    fn dial<'a>(&'a self, _: &'a Upstream) -> BoxFuture<'a, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(UPSTREAM))
    }
}

struct Log;

impl DeniedLog for Log {
    fn denied(&self, _: &SandboxName, host: &str, port: u16, reason: &DenyReason) {
        say!("denied {host}:{port}: {reason}");
    }
}

fn table() -> SiteTable {
    let entry = SiteTableEntry { pattern: HostPattern::parse(SITE).expect("a name"), website: website() };
    SiteTable::new([entry]).with_live_hosts([HostPattern::parse(LIVE.0).expect("a name")])
}

fn website() -> Name {
    Name::parse("shop").expect("a name")
}

fn book(table: &SiteTable) -> AddressBook {
    // All of 127.0.0.0/8 is local.
    AddressBook::within(table, Ipv4Addr::new(127, 18, 0, 0))
}

/// Where TLS of the site is.
pub fn tls_address() -> SocketAddr {
    let site = HostName::parse(SITE).expect("a name");
    (book(&table()).address_of(&site).expect("it has one"), PORTS[1]).into()
}

/// Serves until it is killed.
pub fn serve(folder: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime starts").block_on(async {
        let _served = spawn(folder).expect("the network starts");
        std::future::pending::<()>().await;
    });
}

fn spawn(folder: &Path) -> Result<impl Sized, Box<dyn std::error::Error>> {
    let limits = Limits::default();
    let host = HostNetwork { dns_servers: vec![SocketAddr::new(DNS.parse()?, 53)], proxy: None };
    let real = RealNetwork::new(&host, limits.real_connect)?;
    let (table, name) = (Arc::new(table()), HostName::parse(SITE)?);
    let authority = Arc::new(Authority::new()?);
    fs::write(folder.join(AUTHORITY), authority.ca_pem())?;
    let pages = Website { name: website(), pages: Some(Role::Server), host: Some(name.clone()) };
    let sites = Sites::new(Arc::new(Wire), limits, [pages]);
    let net = BrowserNet {
        sandbox: SandboxName::parse("browser")?,
        book: Arc::new(book(&table)),
        table: table.clone(),
        authority,
        sites: sites.clone(),
        denied: Arc::new(Log),
        real: Some(Arc::new(real)),
    };
    let served = net.spawn(BrowserSockets {
        forward_port: Some(TcpListener::bind(("127.0.0.1", PORTS[0]))?),
        https: Some(TcpListener::bind(("0.0.0.0", PORTS[1]))?),
        ..BrowserSockets::default()
    })?;
    let gateway = Gateway::builder(ControlToken::random(), AgentToken::random(), sites, table)
        .website(website(), name)
        .spawn(TcpListener::bind(("127.0.0.1", PORTS[2]))?)?;
    Ok((served, gateway))
}
