//! What an agent works at: a browser alone or a computer. Either is a seat, which stays the same through resets, and what runs in it,
//! which does not.

use std::{
    fmt,
    sync::{Arc, OnceLock, PoisonError, RwLock},
    time::Duration,
};

use agentenv_model::{Reach, StartTab};
use agentenv_net::{BrowserNet, BrowserSockets, Upstream};
use agentenv_protocol::{
    ComputerError, Name, SandboxName,
    control::{ControlError, ServiceStatus},
};
use agentenv_sandbox::{NetworkKind, SandboxSpec, ServiceSpec};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use super::{
    browser::{Trusted, browser_error},
    build::Context,
    probe,
    screen::Screen,
    service::{Recipe, Supervised},
    sockets::{Sockets, place},
    spare::{Spare, Ticket, Warm},
    specs,
};
use crate::{
    browser::{Browser, BrowserError, BrowserSpec, Launch, Proxy, Viewport, chromium, find_chromium, font_cache},
    desktop::{Cookie, VNC_PORT},
    logs::ServiceLog,
    sandbox_net::{DEVTOOLS, FORWARD_PORT},
};

/// How long start tabs may take to load.
const TABS_LIMIT: Duration = Duration::from_secs(30);
/// How long a browser may take to answer that an agent has opened again.
const AGAIN_LIMIT: Duration = Duration::from_secs(5);

/// How an episode began, as reports say it: in a spare.
const WARM: &str = "spare";
/// Or anew, with the reason.
const COLD: &str = "cold";

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
        let (sockets, listeners) = placed(context, kind, &sandbox).await?;
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

/// Makes a sandbox for it, and places the sockets.
async fn placed(context: &Context, kind: Kind, name: &SandboxName) -> Result<(Sockets, BrowserSockets), ControlError> {
    let (network, uid) = (NetworkKind::Browser, context.uid()?);
    let spec =
        SandboxSpec { name: name.to_string(), network, uid, data: None, packets: false, cgroup: context.cgroup()? };
    let sockets = context.create(spec).await?;
    let listeners =
        place(&sockets).map_err(|error| ControlError::infrastructure(format!("{kind} `{name}`: {error}")))?;
    Ok((sockets, listeners))
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
    log: ServiceLog,
    /// Set when the sites' names are known.
    network: OnceLock<Network>,
    /// What runs in it now.
    now: RwLock<Running>,
    /// What the next reset takes.
    spare: Arc<AsyncMutex<Spare>>,
}

/// What a machine's sandboxes reach.
struct Network {
    net: BrowserNet,
    /// A name of each website, which a probe looks up.
    names: Vec<String>,
}

/// What an episode is in, and ends with.
#[derive(Clone)]
pub(super) struct Running {
    pub(super) service: Arc<Supervised>,
    pub(super) browser: Browser,
    pub(super) sockets: Sockets,
    /// Of a computer's X server.
    cookie: Option<Cookie>,
}

impl Machine {
    /// Starts what is in the sandbox, and gives the sockets that are to be served.
    pub(super) async fn start(
        context: &Context,
        seat: Seat,
        place: Place,
    ) -> Result<(Self, BrowserSockets), ControlError> {
        let Place { sandbox, sockets, listeners, .. } = place;
        let log = ServiceLog::new(&context.dir.logs(), seat.spec.name.as_str(), context.mask.clone());
        let now = seat.run(context, &sockets, &log).await?;
        let what = if seat.desk.is_some() { "a desktop, " } else { "" };
        context.starter.progress(format!("{sandbox} is up: {what}{}", now.browser.product()));
        seat.enter(context, &now);
        let machine =
            Self { seat, sandbox, log, network: OnceLock::new(), now: RwLock::new(now), spare: Arc::default() };
        Ok((machine, listeners))
    }

    /// Serves the placed sockets of its sandbox, and of those that it gets later. `names` are what a probe looks up.
    pub(crate) fn serve(
        &self,
        context: &Context,
        net: BrowserNet,
        names: Vec<String>,
        sockets: BrowserSockets,
    ) -> Result<(), ControlError> {
        let network = self.network.get_or_init(|| Network { net, names });
        self.serve_sockets(context, network, sockets)
    }

    fn serve_sockets(&self, context: &Context, network: &Network, sockets: BrowserSockets) -> Result<(), ControlError> {
        let handle = network.net.clone().spawn(sockets).map_err(|error| {
            let (kind, name) = (self.kind(), &self.sandbox);
            ControlError::infrastructure(format!("the sockets of {kind} `{name}` cannot be served: {error}"))
        })?;
        context.down.net(handle);
        Ok(())
    }

    /// Probes its sandbox, whose sockets are served by now (NET-6).
    pub(crate) async fn probe(&self, context: &Context) -> Result<(), ControlError> {
        self.probe_sandbox(context, &self.sockets()).await
    }

    async fn probe_sandbox(&self, context: &Context, sockets: &Sockets) -> Result<(), ControlError> {
        let names = self.network.get().filter(|_| self.routes_sites()).map_or(&[][..], |network| &network.names);
        let open = *self.network() == Reach::Open;
        probe::one(context, sockets, &self.seat.spec, specs::Probed { forward_port: true, open, names }).await
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

    /// Begins a new episode (BR-5): in the spare where there is one, else anew in the same sandbox. Says which, as reports do.
    pub(crate) async fn start_again(&self, context: &Context) -> Result<String, ControlError> {
        let mut spare = self.spare.lock().await;
        let (running, how) = match spare.take().await {
            Ok(running) => {
                spare.leave(self.sockets());
                (running, WARM.to_owned())
            }
            Err(why) => (self.seat.run(context, &self.sockets(), &self.log).await?, format!("{COLD}: {why}")),
        };
        self.seat.enter(context, &running);
        self.set(running);
        Ok(how)
    }

    /// Has a spare made for the next reset, which waits for it. Held as soon as this returns, so that no reset comes before it.
    pub(crate) async fn foresee(self: &Arc<Self>, context: &Arc<Context>) {
        let spare = Arc::clone(&self.spare).lock_owned().await;
        let (machine, context) = (Arc::clone(self), Arc::clone(context));
        tokio::spawn(async move { machine.fill(spare, &context).await });
    }

    async fn fill(&self, mut spare: OwnedMutexGuard<Spare>, context: &Context) {
        if !spare.is_wanted() {
            return;
        }
        let made = self.warm(context, &mut spare).await;
        if let Err(why) = &made {
            tracing::warn!(sandbox = %self.sandbox, why, "there is no spare");
        }
        spare.set(made);
    }

    /// Starts one in the sandbox that is free; the first time that is made.
    async fn warm(&self, context: &Context, spare: &mut Spare) -> Result<Warm, String> {
        let ticket = Ticket::take(&context.dir)?;
        let Some(network) = self.network.get() else { return Err("its network is not served yet".to_owned()) };
        let failed = |error: ControlError| format!("its spare could not be started: {}", error.message);
        let sockets = match spare.sandbox() {
            Some(sockets) => sockets,
            None => {
                let (sockets, listeners) = placed(context, self.kind(), &self.sandbox).await.map_err(failed)?;
                self.serve_sockets(context, network, listeners).map_err(failed)?;
                self.probe_sandbox(context, &sockets).await.map_err(failed)?;
                spare.leave(sockets.clone());
                sockets
            }
        };
        let running = self.seat.run(context, &sockets, &self.log).await.map_err(failed)?;
        Ok(Warm::new(running, ticket))
    }

    /// The browser as it runs now: on a computer an agent may have closed it and opened another one.
    pub(crate) async fn browser(&self) -> Result<Browser, BrowserError> {
        let mut now = self.now();
        if self.seat.desk.is_some() && !now.browser.is_open() {
            let sockets = now.sockets.clone();
            let dial = || sockets.dial(DEVTOOLS);
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

    pub(crate) fn sockets(&self) -> Sockets {
        self.now().sockets
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

    /// What runs in it now, and where: of one moment, since a reset changes both.
    pub(crate) fn running(&self) -> (Arc<Supervised>, Sockets) {
        let now = self.now();
        (now.service, now.sockets)
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

    /// Leads the gateway to what runs.
    fn enter(&self, context: &Context, running: &Running) {
        let Running { sockets, cookie, .. } = running;
        context.dialer.add(Upstream::DevTools { browser: self.name.clone() }, sockets.clone(), DEVTOOLS);
        if let (Some(desk), Some(cookie)) = (&self.desk, cookie) {
            context.dialer.add(Upstream::Vnc { computer: self.name.clone() }, sockets.clone(), VNC_PORT);
            desk.screen.open(sockets.clone(), cookie.clone());
        }
    }

    /// Starts one, and waits until it is up: DevTools answers, and a desktop is drawn.
    async fn run(&self, context: &Context, sockets: &Sockets, log: &ServiceLog) -> Result<Running, ControlError> {
        let mut environment = self.variables.clone();
        let cookie = self.desk.as_ref().map(|_| Cookie::random());
        if let (Some(desk), Some(cookie)) = (&self.desk, &cookie) {
            environment.extend(desk.settings.iter().cloned().chain([cookie.variable()]));
        }
        let recipe = Recipe {
            spawner: context.spawner.clone(),
            sockets: sockets.clone(),
            spec: self.spec.clone(),
            environment,
            log: log.clone(),
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
            let Some(cookie) = &cookie else { return Ok(()) };
            // The gateway's own is led there when it is drawn.
            let screen = Screen::new(self.name.clone());
            screen.open(sockets.clone(), cookie.clone());
            screen.wait_drawn(limit).await.map_err(|error| not_drawn(&error, &service))
        };
        tokio::select! {
            up = async { futures_util::try_join!(browser, drawn) } => {
                let (service, sockets) = (Arc::clone(&service), sockets.clone());
                up.map(|(browser, ())| Running { service, browser, sockets, cookie: cookie.clone() })
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
