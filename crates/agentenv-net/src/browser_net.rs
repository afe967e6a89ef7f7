//! The network of one browser's sandbox: DNS, TLS, plain HTTP and the forward port, over placed sockets.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, TcpListener, UdpSocket},
    sync::Arc,
};

use agentenv_protocol::{HostName, Name, SandboxName, operation};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use tokio::{net::TcpStream, sync::Semaphore};

use crate::{
    AddressBook, Authority, DeniedLog, DenyReason, RealNetwork, Role, SiteTable, Sites, Verdict,
    body::Body,
    decide::{decide, printable},
    dns::Resolver,
    error::ProxyError,
    headers::{authority, is_host, parse_port, split_port},
    life::{Life, LifeOwner},
    serve,
    sites::Onward,
};

mod forward_port;
pub(crate) mod real;
mod tls;

/// What the network of a sandbox is made from. `table`, `book`, `authority` and `sites` are shared by the whole deploy.
#[derive(Clone)]
pub struct BrowserNet {
    /// Whose network it is, for the denied log.
    pub sandbox: SandboxName,
    /// Which names there are.
    pub table: Arc<SiteTable>,
    /// Which addresses they have.
    pub book: Arc<AddressBook>,
    /// Mints their certificates.
    pub authority: Arc<Authority>,
    /// Answers for them.
    pub sites: Arc<Sites>,
    /// Takes what was denied.
    pub denied: Arc<dyn DeniedLog>,
    /// Reaches live hosts; without it they are denied.
    pub real: Option<Arc<RealNetwork>>,
}

/// The placed sockets of a sandbox, bound and listening. What is not there is not served.
#[derive(Default)]
pub struct BrowserSockets {
    /// Name server, UDP.
    pub dns_udp: Option<UdpSocket>,
    /// Name server, TCP.
    pub dns_tcp: Option<TcpListener>,
    /// Port 443 of the whole address range.
    pub https: Option<TcpListener>,
    /// Port 80 of the whole address range.
    pub http: Option<TcpListener>,
    /// The HTTP proxy.
    pub forward_port: Option<TcpListener>,
}

/// A served network. Dropping it ends everything at once; [`Self::shutdown`] lets requests end.
pub struct BrowserNetHandle {
    owner: LifeOwner,
}

impl BrowserNetHandle {
    /// Takes nothing new, gives what is under way the grace period, then ends it.
    pub async fn shutdown(self) {
        self.owner.end().await;
    }
}

/// What every connection of a sandbox sees.
struct Net {
    config: BrowserNet,
    life: Life,
    tunnels: Arc<Semaphore>,
}

/// What a connection stands for: one name over one scheme.
#[derive(Clone)]
struct Origin {
    name: HostName,
    answerer: Answerer,
    https: bool,
    peer: IpAddr,
}

/// Who answers at a name.
#[derive(Clone)]
enum Answerer {
    Website(Name),
    Real,
}

impl BrowserNet {
    /// Serves the sockets. Must be called within a tokio runtime.
    pub fn spawn(self, sockets: BrowserSockets) -> io::Result<BrowserNetHandle> {
        let owner = LifeOwner::new(self.sites.limits().grace);
        let life = owner.life();
        let resolver = Resolver {
            sandbox: self.sandbox.clone(),
            table: self.table.clone(),
            book: self.book.clone(),
            denied: self.denied.clone(),
            direct: self.real.is_some(),
        };
        let tunnels = Arc::new(Semaphore::new(self.sites.limits().tunnels));
        let span = tracing::info_span!("browser_net", sandbox = %self.sandbox);
        let net = Arc::new(Net { config: self, life: life.clone(), tunnels });
        if let Some(socket) = sockets.dns_udp {
            resolver.clone().serve_udp(socket, &life)?;
        }
        if let Some(listener) = sockets.dns_tcp {
            serve::accept(listener, &life, span.clone(), move |stream| resolver.clone().serve_tcp(stream))?;
        }
        if let Some(listener) = sockets.https {
            let net = net.clone();
            serve::accept(listener, &life, span.clone(), move |stream| net.clone().placed(stream, true))?;
        }
        if let Some(listener) = sockets.http {
            let net = net.clone();
            serve::accept(listener, &life, span.clone(), move |stream| net.clone().placed(stream, false))?;
        }
        if let Some(listener) = sockets.forward_port {
            serve::accept(listener, &life, span, move |stream| net.clone().forward_port(stream))?;
        }
        Ok(BrowserNetHandle { owner })
    }
}

/// What is wrong with the name in a handshake to a host, as it is denied: none, or another one.
fn wrong_sni<'a>(sni: Option<&'a str>, expected: &'a HostName) -> Option<(&'a str, DenyReason)> {
    match sni {
        None => Some((expected.as_str(), DenyReason::NoSni { expected: expected.clone() })),
        Some(sni) if HostName::parse(sni).as_ref() != Ok(expected) => {
            Some((sni, DenyReason::OtherSni { expected: expected.clone() }))
        }
        Some(_) => None,
    }
}

impl Net {
    fn deny(&self, host: &str, port: u16, reason: &DenyReason) {
        let host = printable(host);
        tracing::debug!(sandbox = %self.config.sandbox, host, port, %reason, "denied");
        self.config.denied.denied(&self.config.sandbox, &host, port, reason);
    }

    /// Decides, and logs what is denied.
    fn verdict(&self, host: &str, port: u16) -> Result<(HostName, Answerer), DenyReason> {
        let reason = match (decide(&self.config.table, host, port), HostName::parse(host)) {
            (Verdict::Site(website), Ok(name)) => return Ok((name, Answerer::Website(website))),
            (Verdict::Direct, Ok(name)) if self.config.real.is_some() => return Ok((name, Answerer::Real)),
            (Verdict::Deny(reason), _) => reason,
            (Verdict::Direct, _) => DenyReason::DirectUnavailable,
            (Verdict::Site(_), Err(error)) => error.into(),
        };
        self.deny(host, port, &reason);
        Err(reason)
    }

    /// A connection to an address of the range: the address says which name was meant.
    async fn placed(self: Arc<Self>, stream: TcpStream, https: bool) {
        let port = if https { 443 } else { 80 };
        let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return };
        let name = match local.ip() {
            IpAddr::V4(address) => self.config.book.name_of(address),
            IpAddr::V6(_) => None,
        };
        let Some(name) = name else {
            return self.deny(&local.ip().to_string(), port, &DenyReason::UnknownAddress);
        };
        let Ok((name, answerer)) = self.verdict(name.as_str(), port) else { return };
        let origin = Origin { name, answerer, https, peer: peer.ip() };
        self.serve(stream, origin, None).await;
    }

    /// Serves a connection to a name, by whoever answers there: `real` is a connection to its real host, where one was made.
    async fn serve<T>(self: Arc<Self>, stream: T, origin: Origin, real: Option<TcpStream>)
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        match (origin.https, &origin.answerer) {
            (false, _) => self.plain(stream, origin).await,
            (true, Answerer::Website(_)) => self.tls(stream, origin).await,
            (true, Answerer::Real) => self.tls_to_real(stream, origin, real).await,
        }
    }

    /// Plain HTTP, for one name.
    async fn plain<T>(self: Arc<Self>, stream: T, origin: Origin)
    where
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let (net, limits, life) = (self.clone(), self.config.sites.limits().clone(), self.life.clone());
        serve::http1(stream, &limits, &life, move |request| net.clone().page(origin.clone(), request)).await;
    }

    /// Answers one request to a name.
    async fn page(self: Arc<Self>, origin: Origin, request: Request<Incoming>) -> Response<Body> {
        match self.try_page(&origin, request).await {
            Ok(response) => response,
            Err(error) => error.answer(),
        }
    }

    async fn try_page(&self, origin: &Origin, request: Request<Incoming>) -> Result<Response<Body>, ProxyError> {
        let port = if origin.https { 443 } else { 80 };
        let asked = authority(&request)?;
        if request.method() == Method::CONNECT {
            return Err(self.nested_connect(&asked));
        }
        if !is_host(&asked, &origin.name, port) {
            let (host, _) = split_port(&asked);
            self.deny(host, port, &DenyReason::OtherHost { expected: origin.name.clone() });
            return Err(ProxyError::Misdirected { expected: origin.name.clone() });
        }
        self.answer(origin, request).await
    }

    /// A CONNECT inside a connection is no way around: the same verdict, and no tunnel either way (row 35).
    fn nested_connect(&self, asked: &str) -> ProxyError {
        let (host, port) = split_port(asked);
        match self.verdict(host, port.and_then(parse_port).unwrap_or(443)) {
            Ok(_) => ProxyError::BadRequest("CONNECT belongs to the forward port"),
            Err(reason) => ProxyError::Denied { host: printable(host), reason },
        }
    }

    /// Passes a request on to whoever answers at its name.
    async fn answer(&self, origin: &Origin, request: Request<Incoming>) -> Result<Response<Body>, ProxyError> {
        match &origin.answerer {
            Answerer::Website(website) => self.to_site(website, origin, request).await,
            Answerer::Real => self.request_to_real(origin, request).await,
        }
    }

    /// Passes a request on to the service that answers it.
    async fn to_site(
        &self,
        website: &Name,
        origin: &Origin,
        request: Request<Incoming>,
    ) -> Result<Response<Body>, ProxyError> {
        let site = self.config.sites.site(website).ok_or(ProxyError::NoRoute)?;
        let pages = site.pages().ok_or(ProxyError::NoRoute)?;
        // The one page route of `website/v1` (PR-3): the server's, also where there is a frontend.
        let sign_in = request.method() == Method::GET && request.uri().path() == operation::SESSION;
        let host = http::HeaderValue::from_str(origin.name.as_str()).map_err(http::Error::from)?;
        let onward = Onward {
            website,
            service: if sign_in { Role::Server } else { pages },
            host: &host,
            https: origin.https,
            peer: match origin.peer {
                // A sandbox's addresses mean nothing outside it.
                IpAddr::V4(address) => address.into(),
                IpAddr::V6(_) => Ipv4Addr::LOCALHOST.into(),
            },
            key: None,
            life: &self.life,
        };
        self.config.sites.forward(onward, request).await
    }
}
