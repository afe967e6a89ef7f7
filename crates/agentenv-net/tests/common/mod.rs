//! A deploy's network on loopback: raw sites that keep the bytes they get, a `Dial` to them, a gateway, a browser's network.
#![expect(dead_code, reason = "each test binary uses a part of it")]

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener as StdTcpListener, UdpSocket},
    sync::{Arc, Mutex},
    time::Duration,
};

use agentenv_net::{
    AddressBook, Authority, BrowserNet, BrowserNetHandle, BrowserSockets, DeniedLog, DenyReason, Dial, Gateway, Limits,
    RealNetwork, Role, SiteTable, Sites, Upstream, Website,
};
use agentenv_protocol::{
    AgentCard, AgentToken, ControlToken, HostName, HostPattern, Name, SandboxName, SiteKey, control::SiteTableEntry,
};
use futures_util::future::BoxFuture;
use rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_rustls::TlsConnector;

/// Longer than anything here takes.
pub const WAIT: Duration = Duration::from_secs(30);

pub async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(WAIT, what).await.expect("it takes too long")
}

pub fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub fn host(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

/// Connects to local listeners.
#[derive(Default)]
pub struct Wire(Mutex<HashMap<Upstream, SocketAddr>>);

impl Wire {
    pub fn to(&self, upstream: Upstream, address: SocketAddr) {
        self.0.lock().unwrap().insert(upstream, address);
    }

    pub fn cut(&self, upstream: &Upstream) {
        self.0.lock().unwrap().remove(upstream);
    }
}

impl Dial for Wire {
    fn dial<'a>(&'a self, target: &'a Upstream) -> BoxFuture<'a, io::Result<TcpStream>> {
        let address = self.0.lock().unwrap().get(target).copied();
        Box::pin(async move { TcpStream::connect(address.ok_or(io::ErrorKind::ConnectionRefused)?).await })
    }
}

pub fn service(website: &str, service: Role) -> Upstream {
    Upstream::Service { website: name(website), service }
}

pub fn devtools(browser: &str) -> Upstream {
    Upstream::DevTools { browser: name(browser) }
}

/// What a site does once it has a whole request.
pub enum Reply {
    /// Writes these bytes and reads on.
    Bytes(Vec<u8>),
    /// Writes these bytes, then gives back what it reads.
    Mirror(Vec<u8>),
    /// Writes these bytes, waits for the signal, writes those.
    Later(Vec<u8>, watch::Receiver<bool>, Vec<u8>),
    /// Never answers.
    Silence,
    /// Writes these bytes and closes.
    Close(Vec<u8>),
}

pub fn ok(body: &str) -> Vec<u8> {
    with_headers("", body)
}

pub fn with_headers(headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A site that keeps the raw bytes of every request.
#[derive(Clone)]
pub struct Echo {
    pub address: SocketAddr,
    requests: Arc<watch::Sender<Vec<String>>>,
    connections: Arc<watch::Sender<usize>>,
    open: Arc<watch::Sender<usize>>,
}

impl Echo {
    pub async fn new(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let echo = Self {
            address: listener.local_addr().unwrap(),
            requests: Arc::new(watch::Sender::new(Vec::new())),
            connections: Arc::new(watch::Sender::new(0)),
            open: Arc::new(watch::Sender::new(0)),
        };
        let (served, reply) = (echo.clone(), Arc::new(reply));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                served.connections.send_modify(|count| *count += 1);
                served.open.send_modify(|count| *count += 1);
                let (served, reply) = (served.clone(), reply.clone());
                tokio::spawn(async move {
                    let _ = served.connection(stream, &*reply).await;
                    served.open.send_modify(|count| *count -= 1);
                });
            }
        });
        echo
    }

    /// Answers 200 with its label.
    pub async fn labelled(label: &'static str) -> Self {
        Self::new(move |_| Reply::Bytes(ok(label))).await
    }

    async fn connection(&self, mut stream: TcpStream, reply: &(dyn Fn(&str) -> Reply + Send + Sync)) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            let length = loop {
                if let Some(length) = request_length(&bytes) {
                    break length;
                }
                if stream.read_buf(&mut bytes).await? == 0 {
                    if !bytes.is_empty() {
                        self.keep(&bytes);
                    }
                    return Ok(());
                }
            };
            let request = String::from_utf8_lossy(&bytes.drain(..length).collect::<Vec<_>>()).into_owned();
            self.keep(request.as_bytes());
            match reply(&request) {
                Reply::Bytes(answer) => stream.write_all(&answer).await?,
                Reply::Close(answer) => return stream.write_all(&answer).await,
                Reply::Later(now, mut signal, later) => {
                    stream.write_all(&now).await?;
                    signal.wait_for(|go| *go).await.map_err(io::Error::other)?;
                    stream.write_all(&later).await?;
                }
                Reply::Silence => {
                    let _ = stream.read_buf(&mut bytes).await?;
                    return Ok(());
                }
                Reply::Mirror(answer) => {
                    stream.write_all(&answer).await?;
                    stream.write_all(&bytes).await?;
                    if !bytes.is_empty() {
                        self.keep(&bytes);
                    }
                    let (mut read, mut write) = stream.split();
                    tokio::io::copy(&mut read, &mut write).await?;
                    return Ok(());
                }
            }
        }
    }

    fn keep(&self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        self.requests.send_modify(|requests| requests.push(text));
    }

    /// Every request so far, as it came.
    pub fn requests(&self) -> Vec<String> {
        self.requests.borrow().clone()
    }

    pub fn last(&self) -> String {
        self.requests().pop().expect("no request came")
    }

    pub fn connections(&self) -> usize {
        *self.connections.borrow()
    }

    pub async fn all_closed(&self) {
        within(self.open.subscribe().wait_for(|open| *open == 0)).await.unwrap();
    }

    pub async fn has_requests(&self, count: usize) {
        within(self.requests.subscribe().wait_for(|requests| requests.len() >= count)).await.unwrap();
    }
}

/// Where the first request of the bytes ends.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|part| part == b"\r\n\r\n")? + 4;
    let fields = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    if fields.contains("transfer-encoding: chunked") {
        let end = bytes[head..].windows(5).position(|part| part == b"0\r\n\r\n")?;
        return Some(head + end + 5);
    }
    let length = fields
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.trim().parse::<usize>().unwrap());
    (bytes.len() >= head + length).then_some(head + length)
}

#[derive(Default)]
pub struct Denied(Mutex<Vec<(String, u16, DenyReason)>>);

impl Denied {
    pub fn entries(&self) -> Vec<(String, u16, DenyReason)> {
        self.0.lock().unwrap().clone()
    }

    pub fn hosts(&self) -> Vec<String> {
        self.entries().into_iter().map(|(host, ..)| host).collect()
    }
}

impl DeniedLog for Denied {
    fn denied(&self, _: &SandboxName, host: &str, port: u16, reason: &DenyReason) {
        self.0.lock().unwrap().push((host.to_owned(), port, reason.clone()));
    }
}

/// Two sites: `shop` (`shop.test`, `*.shop.test`; its server serves the pages) and `tracker` (`tracker.test`; with a frontend).
/// A third, `live`, has a service route and no pages.
pub struct Deploy {
    pub wire: Arc<Wire>,
    pub control: ControlToken,
    pub agent: AgentToken,
    pub key: SiteKey,
    pub table: Arc<SiteTable>,
    pub sites: Arc<Sites>,
    pub authority: Arc<Authority>,
    pub book: Arc<AddressBook>,
    pub denied: Arc<Denied>,
    pub shop: Echo,
    pub tracker_server: Echo,
    pub tracker_pages: Echo,
    pub gateway: Gateway,
    pub at: SocketAddr,
}

pub fn limits() -> Limits {
    Limits { grace: Duration::from_millis(200), ..Limits::default() }
}

impl Deploy {
    pub async fn new() -> Self {
        Self::with(limits(), Echo::labelled("shop").await).await
    }

    pub async fn with(limits: Limits, shop: Echo) -> Self {
        Self::with_captures(limits, shop, None).await
    }

    pub async fn with_captures(limits: Limits, shop: Echo, captures: Option<Arc<dyn agentenv_net::Captures>>) -> Self {
        let (server, pages) = (Echo::labelled("tracker server").await, Echo::labelled("tracker pages").await);
        let wire = Arc::new(Wire::default());
        wire.to(service("shop", Role::Server), shop.address);
        wire.to(service("tracker", Role::Server), server.address);
        wire.to(service("tracker", Role::Frontend), pages.address);
        let table = Arc::new(SiteTable::new(
            [("shop.test", "shop"), ("tracker.test", "tracker"), ("*.shop.test", "shop")].map(|(pattern, website)| {
                SiteTableEntry { pattern: HostPattern::parse(pattern).unwrap(), website: name(website) }
            }),
        ));
        let website = |website: &str, pages, host: &str| Website {
            name: name(website),
            pages,
            host: Some(HostName::parse(host).unwrap()),
        };
        let sites = Sites::new(
            wire.clone(),
            limits,
            [
                website("shop", Some(Role::Server), "shop.test"),
                website("tracker", Some(Role::Frontend), "tracker.test"),
                website("live", None, "live.example"),
            ],
        );
        let (control, agent, key) = (ControlToken::random(), AgentToken::random(), SiteKey::random());
        let listener = StdTcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let mut builder = Gateway::builder(control.clone(), agent.clone(), sites.clone(), table.clone())
            .service(name("shop"), key.clone())
            .service(name("tracker"), key.clone())
            .service(name("live"), key.clone())
            .website(name("shop"), host("shop.test"))
            .website(name("tracker"), host("tracker.test"))
            .browser(name("browser"))
            .card(AgentCard::new("office", "A deploy", "0.1.0", "http://nowhere/", Vec::new()));
        if let Some(captures) = captures {
            builder = builder.captures(captures);
        }
        let gateway = builder.spawn(listener).unwrap();
        // All of 127.0.0.0/8 is local: each name has an address here without a route of ours.
        let book = Arc::new(AddressBook::within(&table, Ipv4Addr::new(127, 18, 0, 0)));
        Self {
            wire,
            control,
            agent,
            key,
            authority: Arc::new(Authority::new().unwrap()),
            book,
            table,
            sites,
            denied: Arc::default(),
            shop,
            tracker_server: server,
            tracker_pages: pages,
            gateway,
            at,
        }
    }

    /// A browser's network, and where its parts listen.
    pub fn browser(&self) -> Browser {
        self.browser_with(self.table.clone(), None)
    }

    /// The same, with a table of its own and a way to real hosts.
    pub fn browser_with(&self, table: Arc<SiteTable>, real: Option<Arc<RealNetwork>>) -> Browser {
        let tcp = |ip: &str| StdTcpListener::bind((ip, 0)).unwrap();
        let (https, http, forward) = (tcp("0.0.0.0"), tcp("0.0.0.0"), tcp("127.0.0.1"));
        let (dns_udp, dns_tcp) = (UdpSocket::bind("127.0.0.1:0").unwrap(), tcp("127.0.0.1"));
        let net = BrowserNet {
            sandbox: SandboxName::parse("browser").unwrap(),
            table,
            book: self.book.clone(),
            authority: self.authority.clone(),
            sites: self.sites.clone(),
            denied: self.denied.clone(),
            real,
        };
        Browser {
            https: https.local_addr().unwrap().port(),
            http: http.local_addr().unwrap().port(),
            forward: forward.local_addr().unwrap(),
            dns_udp: dns_udp.local_addr().unwrap(),
            book: self.book.clone(),
            handle: net
                .spawn(BrowserSockets {
                    dns_udp: Some(dns_udp),
                    dns_tcp: Some(dns_tcp),
                    https: Some(https),
                    http: Some(http),
                    forward_port: Some(forward),
                })
                .unwrap(),
        }
    }

    /// Sends bytes to the gateway; everything that comes back until it closes.
    pub async fn raw(&self, request: &str) -> String {
        raw(self.at, request).await
    }
}

pub struct Browser {
    pub https: u16,
    pub http: u16,
    pub forward: SocketAddr,
    pub dns_udp: SocketAddr,
    pub book: Arc<AddressBook>,
    pub handle: BrowserNetHandle,
}

impl Browser {
    pub fn https_at(&self, name: &str) -> SocketAddr {
        (self.book.address_of(&host(name)).unwrap(), self.https).into()
    }

    pub fn http_at(&self, name: &str) -> SocketAddr {
        (self.book.address_of(&host(name)).unwrap(), self.http).into()
    }
}

/// Sends bytes, ends, and reads until the other side closes.
pub async fn raw(at: SocketAddr, request: &str) -> String {
    within(async {
        let mut stream = TcpStream::connect(at).await.unwrap();
        // The other side may refuse before it has read everything.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    })
    .await
}

/// A GET that closes, with further header lines.
pub fn get(path: &str, host: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n")
}

/// The status of an answer.
pub fn status(answer: &str) -> u16 {
    answer.get(9..12).and_then(|code| code.parse().ok()).unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

/// Opens a tunnel by a forward port: the head of its answer, and the stream.
pub async fn connect(at: SocketAddr, target: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    (head, stream)
}

/// A client that trusts this root and nothing else.
pub fn trusting(root: CertificateDer<'static>, alpn: &[&str]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// Reads one head from a stream that stays open.
pub async fn read_head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    within(async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("closed within the head"));
        }
        String::from_utf8(head).unwrap()
    })
    .await
}
