//! The websites of a deploy as upstreams: pooled connections, forwarding, cutting.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use agentenv_protocol::{HostName, Name};
use http::HeaderValue;
use hyper::client::conn::http1::SendRequest;
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};
use tracing::Instrument;

use crate::{
    Dial, Limits, Role, Upstream,
    body::Body,
    error::ProxyError,
    hop,
    interim::Interim,
    limits::{POOL_IDLE, POOL_IDLE_FOR},
};

mod forward;

pub(crate) use forward::Onward;

/// One website, as this crate knows it.
#[derive(Clone, Debug)]
pub struct Website {
    /// Name within the deploy.
    pub name: Name,
    /// Which service serves its pages; a live site has none.
    pub pages: Option<Role>,
    /// Its own first name, which it sees as `Host`; without one it sees its name within the deploy.
    pub host: Option<HostName>,
}

/// The websites of a deploy: one for the gateway and all browsers, so that connections to a site are pooled, and cut,
/// together.
pub struct Sites {
    dial: Arc<dyn Dial>,
    limits: Limits,
    sites: HashMap<Name, Site>,
}

pub(crate) struct Site {
    pages: Option<Role>,
    host: HeaderValue,
    /// Counts the cuts: connections end when it changes.
    cuts: watch::Sender<u64>,
    idle: [Mutex<Vec<Idle>>; 2],
    places: Arc<Semaphore>,
}

/// A connection to a service of a site.
struct Connection {
    sender: SendRequest<Body>,
    interim: Interim,
    /// The count of cuts when it was made.
    cut: u64,
    /// One of the site's places; kept as long as anything of the connection is.
    place: Arc<OwnedSemaphorePermit>,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

impl Sites {
    /// Makes the upstreams of these websites; nothing is dialled yet.
    pub fn new(dial: Arc<dyn Dial>, limits: Limits, websites: impl IntoIterator<Item = Website>) -> Arc<Self> {
        let sites = websites.into_iter().map(|website| {
            let host = website.host.as_ref().map_or(website.name.as_str(), HostName::as_str);
            let host =
                HeaderValue::from_str(host).expect("names and host names are ASCII letters, digits, `-`, `_`, `.`");
            let places = Arc::new(Semaphore::new(limits.site_connections));
            let site =
                Site { pages: website.pages, host, cuts: watch::Sender::new(0), idle: Default::default(), places };
            (website.name, site)
        });
        let sites = sites.collect();
        Arc::new(Self { dial, limits, sites })
    }

    /// Ends every connection to a website, of the gateway and of all browsers: pooled ones, requests under way, WebSockets.
    /// New ones are made as asked for.
    pub fn cut(&self, website: &Name) {
        if let Some(site) = self.sites.get(website) {
            site.cuts.send_modify(|cuts| *cuts += 1);
            for idle in &site.idle {
                idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
            tracing::debug!(site = %website, "site connections cut");
        }
    }

    /// Ends every connection to every website.
    pub fn cut_all(&self) {
        self.sites.keys().for_each(|website| self.cut(website));
    }

    pub(crate) fn dial(&self) -> &Arc<dyn Dial> {
        &self.dial
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn site(&self, website: &Name) -> Option<&Site> {
        self.sites.get(website)
    }

    /// Connects to a service of a site, or to what else there is to dial.
    pub(crate) async fn connect(&self, upstream: &Upstream) -> Result<TcpStream, ProxyError> {
        match tokio::time::timeout(self.limits.connect, self.dial.dial(upstream)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                Ok(stream)
            }
            Ok(Err(error)) => Err(ProxyError::Down(upstream.clone(), error)),
            Err(_) => Err(ProxyError::Slow(upstream.clone())),
        }
    }

    /// A connection to a service of a site, with HTTP/1.1 on it. It ends when the site is cut.
    async fn open(&self, site: &Site, upstream: &Upstream) -> Result<Connection, ProxyError> {
        let place = tokio::time::timeout(self.limits.answer, site.places.clone().acquire_owned()).await;
        let Ok(Ok(place)) = place else { return Err(ProxyError::Slow(upstream.clone())) };
        let place = Arc::new(place);
        let mut cuts = site.cuts.subscribe();
        let cut = *cuts.borrow_and_update();
        let stream = self.connect(upstream).await?;
        let handshake = hop::handshake(stream).await;
        let (sender, connection, interim) = handshake.map_err(|error| ProxyError::Garbage(upstream.clone(), error))?;
        let held = place.clone();
        // Ends by itself when the sender and the answer's body are gone.
        let driver = async move {
            tokio::select! {
                _ = connection.with_upgrades() => {}
                _ = cuts.changed() => {}
            }
            drop(held);
        };
        tokio::spawn(driver.in_current_span());
        Ok(Connection { sender, interim, cut, place })
    }
}

impl Site {
    pub(crate) fn pages(&self) -> Option<Role> {
        self.pages
    }

    pub(crate) fn host(&self) -> &HeaderValue {
        &self.host
    }

    fn pool(&self, service: Role) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        self.idle[service as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        *self.cuts.borrow()
    }

    /// The connection that was used last, if one is still good.
    fn reuse(&self, service: Role) -> Option<Connection> {
        let mut pool = self.pool(service);
        pool.retain(|idle| {
            let Connection { sender, cut, .. } = &idle.connection;
            idle.since.elapsed() < POOL_IDLE_FOR && !sender.is_closed() && *cut == self.now()
        });
        // Not yet ready means that the last answer's end is still on its way; leave it for the next one.
        let place = pool.iter().rposition(|idle| idle.connection.sender.is_ready())?;
        Some(pool.remove(place).connection)
    }

    fn keep(&self, service: Role, connection: Connection) {
        let mut pool = self.pool(service);
        if pool.len() < POOL_IDLE && !connection.sender.is_closed() && connection.cut == self.now() {
            pool.push(Idle { connection, since: Instant::now() });
        }
    }
}
