//! A browser in its sandbox: placed sockets first, then Chromium, then what the supervisor says to it over CDP.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use agentenv_model::{PlannedBrowser, Reach};
use agentenv_net::{BrowserNet, BrowserNetHandle, BrowserSockets, Upstream};
use agentenv_protocol::{
    Name, SandboxName,
    control::{ControlError, ServiceStatus},
};
use agentenv_sandbox::{NetworkKind, SandboxSpec, ServiceSpec};

use super::{
    build::Context,
    reach::has_reach,
    service::{Recipe, Supervised},
    sockets::{Sockets, place},
    specs,
};
use crate::{
    browser::{Browser, BrowserError, BrowserSpec, Proxy, Viewport, chromium, find_chromium, font_cache},
    logs::ServiceLog,
    sandbox_net::{DEVTOOLS, FORWARD_PORT},
};

/// How long a browser may take to answer: cold starts take half a second, on a busy machine several.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long start tabs may take to load.
const TABS_LIMIT: Duration = Duration::from_secs(30);

/// A browser's sandbox, which stays the same through resets.
pub(crate) struct BrowserBox {
    pub(crate) plan: PlannedBrowser,
    name: SandboxName,
    sockets: Sockets,
    spec: ServiceSpec,
    variables: specs::Variables,
    /// What runs in it now.
    now: RwLock<Running>,
}

#[derive(Clone)]
struct Running {
    service: Arc<Supervised>,
    browser: Browser,
}

impl BrowserBox {
    /// Makes the sandbox, places its sockets and starts Chromium. The sockets are served later, when the sites' names are known:
    /// until then a connection waits.
    pub(crate) async fn start(context: &Context, plan: PlannedBrowser) -> Result<(Self, BrowserSockets), ControlError> {
        let name = SandboxName::of_browser(&plan.name);
        let (network, uid) = (NetworkKind::Browser, context.uid()?);
        let spec = SandboxSpec { name: name.to_string(), network, uid, data: None, packets: false };
        let sockets = context.create(spec).await?;
        let placed =
            place(&sockets).map_err(|error| ControlError::infrastructure(format!("browser `{name}`: {error}")))?;
        let ca_pem = context.authority().await?.ca_pem();
        let trusted = Trusted::of(context, &plan.network, ca_pem);
        let (spec, variables) = launch(context, &plan, &name, &trusted).map_err(|error| browser_error(&error, &[]))?;
        let upstream = Upstream::DevTools { browser: plan.name.clone() };
        context.dialer.add(upstream, sockets.clone(), DEVTOOLS);
        let now = run(context, &plan.name, &spec, &variables, &sockets).await?;
        context.starter.progress(format!("{name} is up: {}", now.browser.product()));
        Ok((Self { plan, name, sockets, spec, variables, now: RwLock::new(now) }, placed))
    }

    /// Serves its placed sockets.
    pub(crate) fn serve(&self, net: BrowserNet, sockets: BrowserSockets) -> Result<BrowserNetHandle, ControlError> {
        net.spawn(sockets).map_err(|error| {
            ControlError::infrastructure(format!("the sockets of browser `{}` cannot be served: {error}", self.name))
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

    /// Ends the browser and all that it keeps: profile, cache, downloads are on its own tmpfs.
    pub(crate) async fn stop(&self) {
        self.now().service.kill().await;
    }

    /// Starts a new browser in the sandbox (BR-5).
    pub(crate) async fn start_again(&self, context: &Context) -> Result<(), ControlError> {
        let running = run(context, &self.plan.name, &self.spec, &self.variables, &self.sockets).await?;
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = running;
        Ok(())
    }

    pub(crate) fn browser(&self) -> Browser {
        self.now().browser
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
}

/// Whom a browser's sandbox trusts, in PEM: the deploy's authority, and where it reaches real sites those of the host.
pub(super) struct Trusted {
    /// For Chromium, which has the public ones built in.
    pub(super) beside_public: String,
    /// For every other program.
    pub(super) all: String,
}

impl Trusted {
    pub(super) fn of(context: &Context, network: &Reach, ca_pem: &str) -> Self {
        let (further, all) = match context.real.as_ref().filter(|_| has_reach(network)) {
            Some(real) => (real.further_authorities.as_str(), real.authorities.as_str()),
            None => ("", ""),
        };
        Self { beside_public: format!("{ca_pem}{further}"), all: format!("{ca_pem}{all}") }
    }
}

fn launch(
    context: &Context,
    plan: &PlannedBrowser,
    name: &SandboxName,
    trusted: &Trusted,
) -> Result<(ServiceSpec, specs::Variables), BrowserError> {
    let viewport = Viewport { width: plan.viewport.width, height: plan.viewport.height };
    let mut spec = BrowserSpec::forward(FORWARD_PORT, viewport);
    if !context.browser_proxy {
        spec.proxy = Proxy::None;
    }
    let launch = chromium(&find_chromium()?, &spec, &trusted.beside_public, &font_cache())?;
    let variables = launch.environment.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    Ok((specs::browser(name, &launch, &trusted.all), variables))
}

async fn run(
    context: &Context,
    name: &Name,
    spec: &ServiceSpec,
    variables: &specs::Variables,
    sockets: &Sockets,
) -> Result<Running, ControlError> {
    let recipe = Recipe {
        spawner: context.spawner.clone(),
        sockets: sockets.clone(),
        spec: spec.clone(),
        environment: variables.clone(),
        log: ServiceLog::new(&context.dir.logs(), spec.name.as_str(), context.mask.clone()),
        // A browser that died took its episode with it: started again it would be another one, unseen.
        restarts: false,
    };
    let service = Arc::new(Supervised::start(recipe).await.map_err(|error| context.sandbox_error(&error))?);
    context.down.service(&service);
    let dial = || sockets.dial(DEVTOOLS);
    tokio::select! {
        browser = Browser::connect(name.clone(), dial, DEVTOOLS, START_LIMIT) => match browser {
            Ok(browser) => Ok(Running { service, browser }),
            Err(error) => Err(browser_error(&error, &service.log().last())),
        },
        reason = service.failed() => Err(crashed(&service, &reason)),
    }
}

pub(crate) fn browser_error(error: &BrowserError, log: &[String]) -> ControlError {
    let exit = match error {
        BrowserError::NotInstalled { .. } => agentenv_protocol::ExitCode::Refused,
        _ => agentenv_protocol::ExitCode::Infrastructure,
    };
    ControlError::new(exit, error.to_string()).hint(error.hint()).log(log.to_vec())
}

fn crashed(service: &Supervised, reason: &str) -> ControlError {
    ControlError::infrastructure(format!("browser `{}` crashed: {reason}", service.name()))
        .hint("see its last lines; `agent-env doctor` tells whether this machine can run it")
        .log(service.log().last())
}
