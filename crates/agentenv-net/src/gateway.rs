//! The one HTTP entry of a deploy (GW-1 to GW-5).

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    sync::Arc,
};

use agentenv_protocol::{AgentCard, AgentToken, ControlToken, HostName, Name, SiteKey};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use tokio::net::TcpStream;

use crate::{
    Captures, Role, SiteTable, Sites,
    body::{self, Body},
    cdp::CdpGate,
    error::ProxyError,
    headers::{authority, is_read},
    life::{Life, LifeOwner},
    serve,
    sites::Onward,
};

mod agent;
mod computer;
mod conditions;
mod file_body;
mod own_host;
mod rewrite;
mod route;
mod token;
mod traffic;

pub use computer::Computer;
use computer::Computers;
use route::Route;
use traffic::Traffic;

/// What a gateway is made from; see [`Gateway::builder`].
pub struct GatewayBuilder {
    control: ControlToken,
    agent: AgentToken,
    sites: Arc<Sites>,
    table: Arc<SiteTable>,
    services: BTreeMap<Name, SiteKey>,
    pages: BTreeMap<Name, HostName>,
    browsers: BTreeSet<Name>,
    computers: BTreeMap<Name, Arc<dyn Computer>>,
    card: Option<AgentCard>,
    captures: Option<Arc<dyn Captures>>,
}

impl GatewayBuilder {
    /// Adds `/svc/<website>/`: every website has one, a live one too. The key is added to what goes there.
    #[must_use]
    pub fn service(mut self, website: Name, key: SiteKey) -> Self {
        self.services.insert(website, key);
        self
    }

    /// Adds an entry of `WEBSITE_URLS`: `/website/<website>/` leads to the site's pages, which see `host` as their own name.
    /// A live site has none.
    #[must_use]
    pub fn website(mut self, website: Name, host: HostName) -> Self {
        self.pages.insert(website, host);
        self
    }

    /// Adds a computer: `/agent/TOKEN/<computer>/`, its browser's DevTools included.
    #[must_use]
    pub fn computer(mut self, computer: Name, desktop: Arc<dyn Computer>) -> Self {
        self.browsers.insert(computer.clone());
        self.computers.insert(computer, desktop);
        self
    }

    /// Adds `/agent/TOKEN/<browser>/`.
    #[must_use]
    pub fn browser(mut self, browser: Name) -> Self {
        self.browsers.insert(browser);
        self
    }

    /// Sets the card that the gateway serves. Its interface's URL is replaced by the gateway's own.
    #[must_use]
    pub fn card(mut self, card: AgentCard) -> Self {
        self.card = Some(card);
        self
    }

    /// Adds `/traffic/v1/captures`, behind the control token, and the card's extension that says so.
    #[must_use]
    pub fn captures(mut self, captures: Arc<dyn Captures>) -> Self {
        self.captures = Some(captures);
        self
    }

    /// Serves the listener, which is bound to 127.0.0.1. Must be called within a tokio runtime.
    pub fn spawn(self, listener: TcpListener) -> io::Result<Gateway> {
        let address = listener.local_addr()?;
        let card = self.card.map(|mut card| {
            for interface in &mut card.supported_interfaces {
                interface.url = format!("http://{address}/");
            }
            traffic::on_card(&mut card, self.captures.is_some());
            serde_json::to_vec(&card)
        });
        let owner = LifeOwner::new(self.sites.limits().grace);
        let answer = self.sites.limits().answer;
        let state = Arc::new(State {
            computers: Computers::new(self.computers, self.sites.clone()),
            cdp: CdpGate::new(self.browsers, self.sites.dial().clone(), self.sites.limits().clone()),
            control: self.control,
            agent: self.agent,
            sites: self.sites,
            table: self.table,
            services: self.services,
            pages: self.pages,
            card: card.transpose().map_err(io::Error::other)?,
            traffic: self.captures.map(|captures| Traffic::new(captures, answer)),
            life: owner.life(),
        });
        let served = state.clone();
        let span = tracing::info_span!("gateway", %address);
        serve::accept(listener, &owner.life(), span, move |stream| served.clone().serve(stream))?;
        Ok(Gateway { address, state, owner })
    }
}

/// A served gateway. Dropping it ends everything at once; [`Self::shutdown`] lets requests end.
pub struct Gateway {
    address: SocketAddr,
    state: Arc<State>,
    owner: LifeOwner,
}

impl Gateway {
    /// Begins a gateway for these upstreams; `table` says which of the deploy's names a redirect leads to.
    pub fn builder(
        control: ControlToken,
        agent: AgentToken,
        sites: Arc<Sites>,
        table: Arc<SiteTable>,
    ) -> GatewayBuilder {
        GatewayBuilder {
            control,
            agent,
            sites,
            table,
            services: BTreeMap::new(),
            pages: BTreeMap::new(),
            browsers: BTreeSet::new(),
            computers: BTreeMap::new(),
            card: None,
            captures: None,
        }
    }

    /// Such as `http://127.0.0.1:40123`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where a website's pages are for people and scripts; `None` for one without an entry.
    pub fn browse_url(&self, website: &Name) -> Option<String> {
        self.state.pages.contains_key(website).then(|| format!("{}/website/{website}/", self.url()))
    }

    /// What CDP clients connect to. Holds the agent token: for the deploy's output only, never for a log.
    pub fn cdp_url(&self, browser: &Name) -> String {
        format!("{}/agent/{}/{browser}", self.url(), self.state.agent.expose())
    }

    /// Closes and holds the connections of browsers and computers: CDP clients', and viewers'.
    pub fn cdp(&self) -> &CdpGate {
        &self.state.cdp
    }

    /// Takes nothing new, gives what is under way the grace period, then ends it.
    pub async fn shutdown(self) {
        // The state counts as a task: it holds what tasks are made from.
        drop(self.state);
        self.owner.end().await;
    }
}

struct State {
    control: ControlToken,
    agent: AgentToken,
    sites: Arc<Sites>,
    table: Arc<SiteTable>,
    services: BTreeMap<Name, SiteKey>,
    pages: BTreeMap<Name, HostName>,
    card: Option<Vec<u8>>,
    traffic: Option<Traffic>,
    cdp: CdpGate,
    computers: Computers,
    life: Life,
}

impl State {
    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let peer = stream.peer_addr().map_or(Ipv4Addr::LOCALHOST.into(), |peer| peer.ip());
        let (limits, life) = (self.sites.limits().clone(), self.life.clone());
        serve::http1(stream, &limits, &life, move |request| {
            let state = self.clone();
            async move {
                match state.route(peer, request).await {
                    Ok(response) => response,
                    Err(error) => error.answer(),
                }
            }
        })
        .await;
    }

    async fn route(&self, peer: IpAddr, mut request: Request<Incoming>) -> Result<Response<Body>, ProxyError> {
        let host = authority(&request)?;
        if request.method() == Method::CONNECT {
            return Err(ProxyError::Method);
        }
        let target = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        if token::is_in(&self.control, target.as_bytes()) {
            return Err(ProxyError::TokenElsewhere);
        }
        let route = Route::parse(target)?;
        if route.is_open() && !own_host::is_own(&host) {
            return Err(ProxyError::NotThisHost);
        }
        match route {
            Route::Card => self.card(&request),
            Route::Service { website, rest } => self.service(peer, &website, &rest, request).await,
            Route::Website { website, rest } => self.website(peer, &website, &rest, request).await,
            Route::Bare { website } => self.add_slash(&website),
            Route::Captures => self.traffic(request.headers_mut())?.list(&request).await,
            Route::Capture { id } => self.traffic(request.headers_mut())?.get(&id, &request).await,
            Route::Agent { token, browser, rest } => {
                if !self.agent.matches(token.as_bytes()) {
                    return Err(ProxyError::Unauthorized);
                }
                match self.computers.serve(&self.cdp, &self.life, &browser, &rest, request).await {
                    Ok(answer) => answer,
                    Err(request) => {
                        agent::serve(&self.cdp, &self.life, &self.agent, &host, &browser, &rest, request).await
                    }
                }
            }
        }
    }

    fn card(&self, request: &Request<Incoming>) -> Result<Response<Body>, ProxyError> {
        if !is_read(request.method()) {
            return Err(ProxyError::Method);
        }
        let mut response = Response::new(body::full(self.card.clone().ok_or(ProxyError::NoRoute)?));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }

    /// `/traffic/v1/captures`: with the control token, where the deploy captures.
    fn traffic(&self, headers: &mut HeaderMap) -> Result<&Traffic, ProxyError> {
        if !token::take(&self.control, headers)? {
            return Err(ProxyError::Unauthorized);
        }
        self.traffic.as_ref().ok_or(ProxyError::NoRoute)
    }

    /// `/svc/<name>/...`: with the control token, to the site's server.
    async fn service(
        &self,
        peer: IpAddr,
        website: &Name,
        rest: &str,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, ProxyError> {
        if !token::take(&self.control, request.headers_mut())? {
            return Err(ProxyError::Unauthorized);
        }
        let key = self.services.get(website).ok_or(ProxyError::NoRoute)?;
        let mut key = HeaderValue::from_str(key.expose()).map_err(http::Error::from)?;
        key.set_sensitive(true);
        let site = self.sites.site(website).ok_or(ProxyError::NoRoute)?;
        *request.uri_mut() = rest.parse().map_err(http::Error::from)?;
        let onward = Onward {
            website,
            service: Role::Server,
            host: site.host(),
            https: false,
            peer,
            key: Some(key),
            life: &self.life,
        };
        self.sites.forward(onward, request).await
    }

    /// `/website/<name>/...`: without a token, to the site's pages.
    async fn website(
        &self,
        peer: IpAddr,
        website: &Name,
        rest: &str,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, ProxyError> {
        // The token opens nothing here and goes nowhere from here.
        token::take(&self.control, request.headers_mut())?;
        let host = self.pages.get(website).ok_or(ProxyError::NoRoute)?;
        let pages = self.sites.site(website).and_then(crate::sites::Site::pages).ok_or(ProxyError::NoRoute)?;
        let host_value = HeaderValue::from_str(host.as_str()).map_err(http::Error::from)?;
        *request.uri_mut() = rest.parse().map_err(http::Error::from)?;
        let sign_in = request.method() == Method::GET && request.uri().path() == agentenv_protocol::operation::SESSION;
        let onward = Onward {
            website,
            service: if sign_in { Role::Server } else { pages },
            host: &host_value,
            // The site's own names are https; told otherwise it would redirect there for ever.
            https: true,
            peer,
            key: None,
            life: &self.life,
        };
        let mut response = self.sites.forward(onward, request).await?;
        rewrite::answer(response.headers_mut(), website, host, &self.table, |name| self.pages.contains_key(name));
        Ok(response)
    }

    /// `/website/<name>` alone: relative links need the slash.
    fn add_slash(&self, website: &Name) -> Result<Response<Body>, ProxyError> {
        if !self.pages.contains_key(website) {
            return Err(ProxyError::NoRoute);
        }
        let location = HeaderValue::from_str(&format!("/website/{website}/")).map_err(http::Error::from)?;
        let mut response = Response::new(body::empty());
        *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
        response.headers_mut().insert(header::LOCATION, location);
        Ok(response)
    }
}
