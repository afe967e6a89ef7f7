    pub(crate) fn spec(&self) -> &ServiceSpec {
        &self.seat.spec
    }

//! What an agent works at: a browser alone or a computer. Either is one sandbox that stays the same through resets, and a Chromium in
//! it that does not.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use agentenv_model::{Reach, StartTab};
use agentenv_net::{BrowserNet, BrowserNetHandle, BrowserSockets, Upstream};
use agentenv_protocol::{
    ComputerError, Name, SandboxName,
    control::{ControlError, ServiceStatus},
};
use agentenv_sandbox::{NetworkKind, SandboxSpec, ServiceSpec};

use super::{
    browser::{Trusted, browser_error},
    build::Context,
    screen::Screen,
    service::{Recipe, Supervised},
    sockets::{Sockets, place},
    specs,
};
use crate::{
    browser::{Browser, BrowserError, BrowserSpec, Launch, Proxy, Viewport, chromium, find_chromium, font_cache},
    desktop::Cookie,
    logs::ServiceLog,
    sandbox_net::{DEVTOOLS, FORWARD_PORT},
};

/// How long start tabs may take to load.
const TABS_LIMIT: Duration = Duration::from_secs(30);
/// How long a browser may take to answer that an agent has opened again.
const AGAIN_LIMIT: Duration = Duration::from_secs(5);

/// Which of both, as messages call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Browser,
    Computer,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Browser => "browser",
            Self::Computer => "computer",
        })
    }
}

impl Kind {
    /// How long it may take to be up: cold starts of a browser take half a second, a desktop is drawn in one or two; on a busy
    /// machine many.
    fn start_limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Browser => 30,
            Self::Computer => 60,
        })
    }
}

/// A sandbox whose sockets are placed.
pub(super) struct Place {
    pub(super) sandbox: SandboxName,
    pub(super) sockets: Sockets,
    pub(super) trusted: Trusted,
    listeners: BrowserSockets,
}

impl Place {
    /// Makes the sandbox and places its sockets. They are served later, when the sites' names are known: until then a connection
    /// waits.
    pub(super) async fn make(
        context: &Context,
        kind: Kind,
        name: &Name,
        network: &Reach,
    ) -> Result<Self, ControlError> {
        let sandbox = SandboxName::of_browser(name);
        let (inside, uid) = (NetworkKind::Browser, context.uid()?);
        let spec = SandboxSpec { name: sandbox.to_string(), network: inside, uid, data: None, packets: false };
        let sockets = context.create(spec).await?;
        let listeners =
            place(&sockets).map_err(|error| ControlError::infrastructure(format!("{kind} `{sandbox}`: {error}")))?;
        context.dialer.add(Upstream::DevTools { browser: name.clone() }, sockets.clone(), DEVTOOLS);
        let trusted = Trusted::of(context, network, context.authority().await?.ca_pem());
        Ok(Self { sandbox, sockets, trusted, listeners })
    }

    /// Plans its Chromium.
    pub(super) fn chromium(&self, spec: &BrowserSpec) -> Result<Launch, ControlError> {
        find_chromium()
            .and_then(|found| chromium(&found, spec, &self.trusted.beside_public, &font_cache()))
            .map_err(|error| browser_error(&error, &[]))
    }
}

/// A Chromium of this size, on the network that is placed.
pub(super) fn browser_spec(context: &Context, viewport: Viewport) -> BrowserSpec {
    let mut spec = BrowserSpec::forward(FORWARD_PORT, viewport);
    if !context.browser_proxy {
        spec.proxy = Proxy::None;
    }
    spec
}

/// What a computer has beside a browser.
pub(super) struct Desk {
    /// Variables of its programs, which commands beside them don't get.
    pub(super) settings: specs::Variables,
    pub(super) screen: Arc<Screen>,
}

/// What stays through resets.
pub(super) struct Seat {
    pub(super) name: Name,
    pub(super) network: Reach,
    pub(super) start_tabs: Vec<StartTab>,
    /// Whether the deploy's synthetic sites are there.
    pub(super) route_sites: bool,
    pub(super) spec: ServiceSpec,
    pub(super) variables: specs::Variables,
    /// Of a computer.
    pub(super) desk: Option<Desk>,
}

/// A browser or a computer.
pub(crate) struct Machine {
    seat: Seat,
    sandbox: SandboxName,
    sockets: Sockets,
    /// What runs in it now.
    now: RwLock<Running>,
}

#[derive(Clone)]
struct Running {
    service: Arc<Supervised>,
    browser: Browser,
}

impl Machine {
    /// Starts what is in the sandbox, and gives the sockets that are to be served.
    pub(super) async fn start(
        context: &Context,
        seat: Seat,
        place: Place,
    ) -> Result<(Self, BrowserSockets), ControlError> {
        let Place { sandbox, sockets, listeners, .. } = place;
        let now = seat.run(context, &sockets).await?;
        let what = if seat.desk.is_some() { "a desktop, " } else { "" };
        context.starter.progress(format!("{sandbox} is up: {what}{}", now.browser.product()));
        Ok((Self { seat, sandbox, sockets, now: RwLock::new(now) }, listeners))
    }

    /// Serves its placed sockets.
    pub(crate) fn serve(&self, net: BrowserNet, sockets: BrowserSockets) -> Result<BrowserNetHandle, ControlError> {
        net.spawn(sockets).map_err(|error| {
            let (kind, name) = (self.kind(), &self.sandbox);
            ControlError::infrastructure(format!("the sockets of {kind} `{name}` cannot be served: {error}"))
        })
    }

    /// Opens the start tabs; they are loaded when it returns (BR-4).
    pub(crate) async fn open_tabs(&self) -> Result<(), ControlError> {
        let urls: Vec<String> = self.seat.start_tabs.iter().map(|tab| tab.url().to_owned()).collect();
        let now = self.now();
        tokio::select! {
            opened = now.browser.open_start_tabs(&urls, TABS_LIMIT) => {
                opened.map_err(|error| browser_error(&error, &now.service.log().last()))
            }
            reason = now.service.failed() => Err(crashed(self.kind(), &now.service, &reason)),
        }
    }

    /// Ends what runs and all that it keeps: profile, cache, downloads, home are on its own tmpfs.
    pub(crate) async fn stop(&self) {
        if let Some(desk) = &self.seat.desk {
            desk.screen.close().await;
        }
        self.service().kill().await;
    }

    /// Starts anew in the sandbox (BR-5).
    pub(crate) async fn start_again(&self, context: &Context) -> Result<(), ControlError> {
        let running = self.seat.run(context, &self.sockets).await?;
        self.set(running);
        Ok(())
    }

    /// The browser as it runs now: on a computer an agent may have closed it and opened another one.
    pub(crate) async fn browser(&self) -> Result<Browser, BrowserError> {
        let mut now = self.now();
        if self.seat.desk.is_some() && !now.browser.is_open() {
            let dial = || self.sockets.dial(DEVTOOLS);
            now.browser = Browser::connect_again(self.seat.name.clone(), dial, DEVTOOLS, AGAIN_LIMIT).await?;
            self.set(now.clone());
        }
        Ok(now.browser)
    }

    /// Picture, mouse and keyboard of a computer.
    pub(crate) fn screen(&self) -> Option<Arc<Screen>> {
        self.seat.desk.as_ref().map(|desk| Arc::clone(&desk.screen))
    }

    /// The variables of a command that runs beside it. On a computer it draws and is on the network as the desktop's programs are,
    /// without its settings.
    pub(crate) fn exec_variables(&self) -> specs::Variables {
        match self.seat.desk {
            Some(_) => self.seat.variables.clone(),
            None => specs::exec_variables(None),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.seat.kind()
    }

    pub(crate) fn name(&self) -> &Name {
        &self.seat.name
    }

    pub(crate) fn network(&self) -> &Reach {
        &self.seat.network
    }

    pub(crate) fn start_tabs(&self) -> &[StartTab] {
        &self.seat.start_tabs
    }

    pub(crate) fn routes_sites(&self) -> bool {
        self.seat.route_sites
    }

    pub(crate) fn sandbox(&self) -> &SandboxName {
        &self.sandbox
    }

    pub(crate) fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    pub(crate) fn service(&self) -> Arc<Supervised> {
        self.now().service
    }

    pub(crate) fn status(&self) -> ServiceStatus {
        self.service().status()
    }

    pub(crate) fn is_up(&self) -> bool {
        self.service().is_up()
    }

    fn now(&self) -> Running {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, running: Running) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = running;
    }
}

impl Seat {
    fn kind(&self) -> Kind {
        if self.desk.is_some() { Kind::Computer } else { Kind::Browser }
    }

    /// Starts it, and waits until it is up: DevTools answers, and a desktop is drawn.
    async fn run(&self, context: &Context, sockets: &Sockets) -> Result<Running, ControlError> {
        let mut environment = self.variables.clone();
        let desk = self.desk.as_ref().map(|desk| (desk, Cookie::random()));
        if let Some((desk, cookie)) = &desk {
            environment.extend(desk.settings.iter().cloned().chain([cookie.variable()]));
        }
        let recipe = Recipe {
            spawner: context.spawner.clone(),
            sockets: sockets.clone(),
            spec: self.spec.clone(),
            environment,
            log: ServiceLog::new(&context.dir.logs(), self.spec.name.as_str(), context.mask.clone()),
            // What died took its episode with it: started again it would be another one, unseen.
            restarts: false,
        };
        let service = Arc::new(Supervised::start(recipe).await.map_err(|error| context.sandbox_error(&error))?);
        context.down.service(&service);
        let (kind, limit) = (self.kind(), self.kind().start_limit());
        let browser = async {
            let dial = || sockets.dial(DEVTOOLS);
            let browser = Browser::connect(self.name.clone(), dial, DEVTOOLS, limit).await;
            browser.map_err(|error| browser_error(&error, &service.log().last()))
        };
        let drawn = async {
            let Some((desk, cookie)) = desk else { return Ok(()) };
            desk.screen.open(cookie);
            desk.screen.wait_drawn(limit).await.map_err(|error| not_drawn(&error, &service))
        };
        tokio::select! {
            up = async { futures_util::try_join!(browser, drawn) } => {
                up.map(|(browser, ())| Running { service: Arc::clone(&service), browser })
            }
            reason = service.failed() => Err(crashed(kind, &service, &reason)),
        }
    }
}

fn not_drawn(error: &ComputerError, service: &Supervised) -> ControlError {
    ControlError::infrastructure(error.message.clone())
        .hint("see its log with `agent-env env logs`")
        .log(service.log().last())
}

fn crashed(kind: Kind, service: &Supervised, reason: &str) -> ControlError {
    ControlError::infrastructure(format!("{kind} `{}` crashed: {reason}", service.name()))
        .hint("see its last lines; `agent-env doctor` tells whether this machine can run it")
        .log(service.log().last())
}
