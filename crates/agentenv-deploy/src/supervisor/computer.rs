//! A computer in its sandbox: placed sockets first, then the desktop with its Chromium (BR-3).

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use agentenv_model::{PlannedComputer, computer_settings};
use agentenv_net::{BrowserNet, BrowserNetHandle, BrowserSockets, Upstream};
use agentenv_protocol::{
    ComputerError, ExitCode, SandboxName,
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
    browser::{Browser, BrowserError, BrowserSpec, Proxy, Viewport, chromium, find_chromium, font_cache},
    desktop::{self, Cookie, DesktopSpec, VNC_PORT},
    logs::ServiceLog,
    sandbox_net::{DEVTOOLS, FORWARD_PORT},
};

/// How long a desktop may take to be drawn, and its browser to answer: a second or two, on a busy machine many.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long start tabs may take to load.
const TABS_LIMIT: Duration = Duration::from_secs(30);
/// How long a browser may take to answer that an agent has opened again.
const AGAIN_LIMIT: Duration = Duration::from_secs(5);

/// A computer's sandbox, which stays the same through resets.
pub(crate) struct ComputerBox {
    pub(crate) plan: PlannedComputer,
    name: SandboxName,
    sockets: Sockets,
    spec: ServiceSpec,
    /// Of every program of the desktop; those of its settings beside.
    variables: specs::Variables,
    settings: specs::Variables,
    screen: Arc<Screen>,
    /// What runs in it now.
    now: RwLock<Running>,
}

#[derive(Clone)]
struct Running {
    service: Arc<Supervised>,
    browser: Browser,
}

impl ComputerBox {
    /// Makes the sandbox, places its sockets and starts the desktop. The sockets are served later, when the sites' names are known:
    /// until then a connection waits.
    pub(crate) async fn start(
        context: &Context,
        plan: PlannedComputer,
    ) -> Result<(Self, BrowserSockets), ControlError> {
        let name = SandboxName::of_browser(&plan.name);
        check_programs(&name)?;
        let settings = computer_settings(&plan, &context.values)
            .map_err(|problems| ControlError::new(problems.exit(), problems.to_string()))?;
        let (network, uid) = (NetworkKind::Browser, context.uid()?);
        let spec = SandboxSpec { name: name.to_string(), network, uid, data: None, packets: false };
        let sockets = context.create(spec).await?;
        let placed =
            place(&sockets).map_err(|error| ControlError::infrastructure(format!("computer `{name}`: {error}")))?;
        let trusted = Trusted::of(context, &plan.network, context.authority().await?.ca_pem());
        let drawn = DesktopSpec { width: plan.resolution.width, height: plan.resolution.height, scale: settings.scale };
        let launch = {
            let viewport = Viewport { width: drawn.width, height: drawn.height };
            let mut browser = BrowserSpec::forward(FORWARD_PORT, viewport);
            if !context.browser_proxy {
                browser.proxy = Proxy::None;
            }
            browser.desktop = Some(settings.scale);
            (browser.language, browser.time_zone) = (settings.language.clone(), settings.time_zone.clone());
            let browser = find_chromium()
                .and_then(|found| chromium(&found, &browser, &trusted.beside_public, &font_cache()))
                .map_err(|error| browser_error(&error, &[]))?;
            desktop::launch(&drawn, &browser, context.authority().await?.ca_pem())
        };
        let variables = specs::computer_variables(&launch);
        let spec = specs::computer(&name, &launch, &trusted.all, &context.host);
        context.dialer.add(Upstream::DevTools { browser: plan.name.clone() }, sockets.clone(), DEVTOOLS);
        context.dialer.add(Upstream::Vnc { computer: plan.name.clone() }, sockets.clone(), VNC_PORT);
        let screen = Arc::new(Screen::new(plan.name.clone(), sockets.clone()));
        let settings = settings.variables;
        let now = run(context, &plan, &spec, (&variables, &settings), &sockets, &screen).await?;
        context.starter.progress(format!("{name} is up: a desktop, {}", now.browser.product()));
        Ok((Self { plan, name, sockets, spec, variables, settings, screen, now: RwLock::new(now) }, placed))
    }

    /// Serves its placed sockets.
    pub(crate) fn serve(&self, net: BrowserNet, sockets: BrowserSockets) -> Result<BrowserNetHandle, ControlError> {
        net.spawn(sockets).map_err(|error| {
            ControlError::infrastructure(format!("the sockets of computer `{}` cannot be served: {error}", self.name))
        })
    }

    /// Opens the start tabs; they are loaded when it returns (BR-4).
    pub(crate) async fn open_tabs(&self) -> Result<(), ControlError> {
        let urls: Vec<String> = self.plan.start_tabs.iter().map(|tab| tab.url().to_owned()).collect();
        let now = self.now();
        tokio::select! {
            opened = now.browser.open_start_tabs(&urls, TABS_LIMIT) => {
                opened.map_err(|error| browser_error(&error, &now.service.log().last()))
            }
            reason = now.service.failed() => Err(crashed(&now.service, &reason)),
        }
    }

    /// Ends the desktop and all that it keeps: its home is on its own tmpfs.
    pub(crate) async fn stop(&self) {
        self.screen.close().await;
        self.now().service.kill().await;
    }

    /// Starts a new desktop in the sandbox (BR-5).
    pub(crate) async fn start_again(&self, context: &Context) -> Result<(), ControlError> {
        let variables = (&self.variables, &self.settings);
        let running = run(context, &self.plan, &self.spec, variables, &self.sockets, &self.screen).await?;
        self.set(running);
        Ok(())
    }

    /// The browser as it runs now: an agent may have closed it and opened another one.
    pub(crate) async fn browser(&self) -> Result<Browser, BrowserError> {
        let mut now = self.now();
        if !now.browser.is_open() {
            let dial = || self.sockets.dial(DEVTOOLS);
            now.browser = Browser::connect_again(self.plan.name.clone(), dial, DEVTOOLS, AGAIN_LIMIT).await?;
            self.set(now.clone());
        }
        Ok(now.browser)
    }

    /// Picture, mouse and keyboard.
    pub(crate) fn screen(&self) -> Arc<Screen> {
        Arc::clone(&self.screen)
    }

    /// The variables of a command that runs beside the desktop: it draws and is on the network as the desktop's programs are, without
    /// its settings.
    pub(crate) fn exec_variables(&self) -> specs::Variables {
        self.variables.clone()
    }

    pub(crate) fn service(&self) -> Arc<Supervised> {
        self.now().service
    }

    pub(crate) fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    pub(crate) fn spec(&self) -> &ServiceSpec {
        &self.spec
    }

    pub(crate) fn name(&self) -> &SandboxName {
        &self.name
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

fn check_programs(name: &SandboxName) -> Result<(), ControlError> {
    let missing = desktop::missing_packages();
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(" ");
    let message = format!("computer `{name}` needs programs that this machine lacks: {missing}");
    Err(ControlError::new(ExitCode::Refused, message).hint(format!("install them: `apt-get install {missing}`")))
}

async fn run(
    context: &Context,
    plan: &PlannedComputer,
    spec: &ServiceSpec,
    (variables, settings): (&specs::Variables, &specs::Variables),
    sockets: &Sockets,
    screen: &Screen,
) -> Result<Running, ControlError> {
    let cookie = Cookie::random();
    let environment = variables.iter().chain(settings).cloned().chain([cookie.variable()]).collect();
    let recipe = Recipe {
        spawner: context.spawner.clone(),
        sockets: sockets.clone(),
        spec: spec.clone(),
        environment,
        log: ServiceLog::new(&context.dir.logs(), spec.name.as_str(), context.mask.clone()),
        // A desktop that died took its episode with it: started again it would be another one, unseen.
        restarts: false,
    };
    let service = Arc::new(Supervised::start(recipe).await.map_err(|error| context.sandbox_error(&error))?);
    context.down.service(&service);
    screen.open(cookie);
    let browser = async {
        let dial = || sockets.dial(DEVTOOLS);
        let browser = Browser::connect(plan.name.clone(), dial, DEVTOOLS, START_LIMIT).await;
        browser.map_err(|error| browser_error(&error, &service.log().last()))
    };
    let drawn = async { screen.wait_drawn(START_LIMIT).await.map_err(|error| not_drawn(&error, &service)) };
    let up = async { futures_util::try_join!(browser, drawn) };
    tokio::select! {
        up = up => up.map(|(browser, ())| Running { service: Arc::clone(&service), browser }),
        reason = service.failed() => Err(crashed(&service, &reason)),
    }
}

fn not_drawn(error: &ComputerError, service: &Supervised) -> ControlError {
    ControlError::infrastructure(error.message.clone())
        .hint("see its log with `agent-env env logs`")
        .log(service.log().last())
}

fn crashed(service: &Supervised, reason: &str) -> ControlError {
    ControlError::infrastructure(format!("computer `{}` crashed: {reason}", service.name()))
        .hint("see its last lines; `agent-env doctor` tells whether this machine can run it")
        .log(service.log().last())
}
