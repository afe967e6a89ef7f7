//! Makes a deploy from its plan, from top to bottom.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
    time::Instant,
};

use agentenv_model::{Values, unclaimed_tabs, website_names};
use agentenv_net::{
    AddressBook, Authority, BrowserNet, BrowserSockets, Gateway, Limits, Role, SiteTable, Sites, Website,
};
use agentenv_protocol::{
    AgentCard, AgentToken, ControlToken, ExitCode, HostName, HostPattern, SandboxName,
    control::{BrowserInfo, ControlError, DeployInfo, DeployState, SiteTableEntry, WebsiteInfo},
};
use agentenv_sandbox::{Cgroup, Cgroups, SandboxError, SandboxSpec, Spawner, Uid, UidAllocator};
use futures_util::future::{join3, try_join_all};
use tokio::sync::OnceCell;

use super::{
    Prepared, Starter, browser,
    captures::Captures,
    computer, control,
    deploy::{Deploy, Down},
    dial::Dialer,
    machine::{Kind, Machine},
    own_program,
    pod::Pod,
    reach::{self, RealSites},
    sockets::Sockets,
    specs::Host,
};
use crate::{DeployDir, denied::Denied, mask::Mask};

/// Runs browsers without the forward port, so that they use names and addresses as other programs do: for the project's own
/// tests of the placed sockets.
const NO_PROXY_VARIABLE: &str = "AGENTENV_TEST_BROWSER_NO_PROXY";

/// What every part of a deploy is made with.
pub(crate) struct Context {
    pub(crate) dir: DeployDir,
    pub(crate) starter: Arc<Starter>,
    pub(crate) spawner: Spawner,
    pub(crate) host: Host,
    pub(crate) values: Values,
    /// What nothing of the deploy shows.
    pub(crate) mask: Mask,
    pub(crate) dialer: Arc<Dialer>,
    pub(crate) captures: Arc<Captures>,
    pub(crate) denied: Arc<Denied>,
    /// The way to real sites, where something of the deploy has a reach.
    pub(crate) real: Option<RealSites>,
    authority: OnceCell<Arc<Authority>>,
    pub(crate) browser_proxy: bool,
    pub(crate) down: Down,
    uids: UidAllocator,
    cgroups: Option<Arc<Cgroups>>,
}

impl Context {
    /// Claims a uid for a sandbox.
    pub(crate) fn uid(&self) -> Result<Uid, ControlError> {
        self.uids.allocate().map_err(|error| self.sandbox_error(&error))
    }

    /// The limits of one more sandbox, where there are some.
    pub(crate) fn cgroup(&self) -> Result<Cgroup, ControlError> {
        let made = self.cgroups.as_ref().map(|cgroups| cgroups.sandbox()).transpose();
        made.map(Option::unwrap_or_default).map_err(|error| ControlError::infrastructure(error.to_string()))
    }

    /// The deploy's certificate authority, whose certificate is in its folder by then. Made by whoever asks first: the first
    /// key of a process takes the crypto library long, and no website needs it.
    pub(crate) async fn authority(&self) -> Result<&Arc<Authority>, ControlError> {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            ControlError::infrastructure(format!("{what} cannot be made: {error}"))
        };
        let make = || async {
            let made = tokio::task::spawn_blocking(Authority::new).await;
            let authority = made
                .map_err(|error| failed("the certificate authority", &error))?
                .map_err(|error| failed("the certificate authority", &error))?;
            fs::write(self.dir.ca(), authority.ca_pem()).map_err(|error| failed("ca.pem", &error))?;
            Ok(Arc::new(authority))
        };
        self.authority.get_or_try_init(make).await
    }

    /// Makes a sandbox, off the runtime's own threads.
    pub(crate) async fn create(&self, spec: SandboxSpec) -> Result<Sockets, ControlError> {
        let spawner = self.spawner.clone();
        let created = tokio::task::spawn_blocking(move || spawner.create(&spec)).await;
        let sandbox = created
            .map_err(|error| ControlError::infrastructure(format!("a sandbox could not be made: {error}")))?
            .map_err(|error| self.sandbox_error(&error))?;
        let sockets = Sockets::new(sandbox);
        self.down
            .sandbox(&sockets)
            .map_err(|error| ControlError::infrastructure(format!("a sandbox could not be made: {error}")))?;
        Ok(sockets)
    }

    /// An error of the sandbox as the deploy's.
    pub(crate) fn sandbox_error(&self, error: &SandboxError) -> ControlError {
        let exit = match error {
            SandboxError::ProgramMissing { .. }
            | SandboxError::InterpreterMissing { .. }
            | SandboxError::ProgramRefused { .. }
            | SandboxError::Spec { .. } => ExitCode::Refused,
            _ => ExitCode::Infrastructure,
        };
        ControlError::new(exit, error.to_string())
            .hint(error.hint().unwrap_or_else(|| "see `agent-env doctor`".to_owned()))
    }
}

/// Makes everything, and returns once every site is ready and every start tab loaded.
pub(crate) async fn build(prepared: Prepared, down: &Down) -> Result<Arc<Deploy>, ControlError> {
    let began = Instant::now();
    let Prepared { dir, ledger, input, values, mask, spawner, cgroups, starter } = prepared;
    let real = RealSites::of(&input.plan, &input.host.into())?;
    let context = begin(dir, input.trees, (values, mask), real, (spawner, cgroups), starter, down)?;
    let plan = input.plan;
    // Sites and browsers start side by side: neither needs the other yet.
    let pods = try_join_all(plan.websites.iter().map(|website| Pod::start(&context, website.clone())));
    let browsers = try_join_all(plan.browsers.into_iter().map(|browser| browser::start(&context, browser)));
    let computers = try_join_all(plan.computers.into_iter().map(|computer| computer::start(&context, computer)));
    let (authority, pods, browsers, computers) =
        futures_util::try_join!(context.authority(), pods, browsers, computers)?;
    let names = Names::new(&pods)?;
    let started: Vec<(Machine, BrowserSockets)> = browsers.into_iter().chain(computers).collect();
    names.check_tabs(&started)?;
    let sites = names.sites(&context, &pods);
    let mut machines = Vec::new();
    for (machine, sockets) in started {
        let routed = if machine.routes_sites() { Arc::clone(&names.table) } else { Arc::default() };
        let table = reach::table(&routed, machine.network());
        let net = names.net(&context, authority, &sites, machine.sandbox(), table);
        machine.serve(&context, net, names.first_names(), sockets)?;
        machines.push(machine);
    }
    let gateway = names.gateway(&context, &pods, &machines, Arc::clone(&sites))?;
    let probing = try_join_all(machines.iter().map(|machine| machine.probe(&context)));
    let opening = try_join_all(machines.iter().map(Machine::open_tabs));
    let (probed, tabs, captured) = join3(probing, opening, context.captures.check()).await;
    probed?;
    tabs?;
    captured?;
    context.denied.probed();
    let info = info(&ledger.record(), &plan.warnings, &context, &names, &pods, &machines, &gateway, began);
    let ready = |record: &mut crate::DeployRecord| {
        record.state = DeployState::Ready;
        record.single_uid = matches!(context.uids.mode(), agentenv_sandbox::UidMode::Single { .. });
        record.info = Some(info.clone());
    };
    ledger.change(ready).map_err(|error| ControlError::infrastructure(error.to_string()))?;
    context.captures.keep(&ledger);
    let deploy = Arc::new(Deploy::new(context, info, pods, machines, sites, gateway));
    // Last: whoever finds the socket finds a deploy that is ready.
    let control = control::bind(&deploy.context.dir)
        .map_err(|error| ControlError::infrastructure(format!("control.sock cannot be made: {error}")))?;
    tokio::spawn(control::serve(control, Arc::clone(&deploy)));
    Ok(deploy)
}

/// Makes what needs neither sandbox nor site.
fn begin(
    dir: DeployDir,
    trees: BTreeMap<String, std::path::PathBuf>,
    (values, mask): (Values, Mask),
    real: Option<RealSites>,
    (spawner, cgroups): (Spawner, Option<Arc<Cgroups>>),
    starter: Arc<Starter>,
    down: &Down,
) -> Result<Context, ControlError> {
    let program = own_program()
        .map_err(|error| ControlError::infrastructure(format!("the path of this program cannot be read: {error}")))?;
    Ok(Context {
        starter,
        spawner,
        cgroups,
        host: Host {
            trees,
            program,
            authorities: real.as_ref().map(|real| real.authorities.clone()).unwrap_or_default(),
        },
        denied: Arc::new(Denied::new(dir.denied())),
        real,
        browser_proxy: std::env::var_os(NO_PROXY_VARIABLE).is_none(),
        values,
        mask,
        dialer: Arc::clone(&down.dialer),
        captures: Arc::clone(&down.captures),
        authority: OnceCell::new(),
        down: down.clone(),
        uids: UidAllocator::detect(),
        dir,
    })
}

/// The names of the deploy, once every card is known.
pub(crate) struct Names {
    table: Arc<SiteTable>,
    book: Arc<AddressBook>,
    /// Patterns by website, in the order of the plan.
    domains: Vec<Vec<HostPattern>>,
    /// Where start tabs may be: the names of synthetic sites, and of live ones.
    claimed: Vec<HostPattern>,
    /// Live names that a synthetic site covers.
    warnings: Vec<String>,
}

impl Names {
    fn new(pods: &[Pod]) -> Result<Self, ControlError> {
        let domains: Vec<Vec<HostPattern>> = pods.iter().map(|pod| pod.domains.clone()).collect();
        // Claims again (ENV-8): a card may have brought names that put did not know.
        let claims: Vec<agentenv_model::Claim> = pods
            .iter()
            .flat_map(|pod| {
                agentenv_model::claims_of(pod.name(), pod.website.live, &pod.domains, &pod.website.allow_hosts)
            })
            .collect();
        if let Some((a, b)) = agentenv_model::check_claims(&claims).first() {
            let message = format!("websites `{}` and `{}` both claim `{}`", a.owner, b.owner, a.pattern);
            return Err(
                ControlError::new(ExitCode::Refused, message).hint("give one of them another name, and put it again")
            );
        }
        let synthetic = pods.iter().zip(&domains).filter(|(pod, _)| !pod.website.live);
        let entries = synthetic.flat_map(|(pod, domains)| {
            domains.iter().map(|pattern| SiteTableEntry { pattern: pattern.clone(), website: pod.name().clone() })
        });
        let table = Arc::new(SiteTable::new(entries));
        let warnings = agentenv_model::live_hosts(&claims).warnings();
        Ok(Self { book: Arc::new(AddressBook::new(&table)), table, domains, claimed: website_names(&claims), warnings })
    }

    /// Start tabs only where a website answers (ENV-9). A computer that routes no sites is exempt.
    fn check_tabs(&self, machines: &[(Machine, BrowserSockets)]) -> Result<(), ControlError> {
        for (machine, _) in machines.iter().filter(|(machine, _)| machine.routes_sites()) {
            if let Some(tab) = unclaimed_tabs(machine.start_tabs(), &self.claimed).first() {
                let (tab, host, kind, name) = (tab.url(), tab.host(), machine.kind(), machine.sandbox());
                let message = format!("start tab `{tab}` of {kind} `{name}` is at `{host}`, which no website claims");
                return Err(ControlError::new(ExitCode::Refused, message)
                    .hint("add a website that has the name, or open another tab"));
            }
        }
        Ok(())
    }

    /// The first exact name of each website, which its pages take as their own.
    fn host_of(&self, index: usize) -> Option<HostName> {
        let exact = |pattern: &HostPattern| match pattern {
            HostPattern::Exact(name) => Some(name.clone()),
            HostPattern::Below(_) => None,
        };
        self.domains.get(index)?.iter().find_map(exact)
    }

    fn first_names(&self) -> Vec<String> {
        (0..self.domains.len()).filter_map(|index| self.host_of(index)).map(|name| name.to_string()).collect()
    }

    /// The network of one sandbox.
    fn net(
        &self,
        context: &Context,
        authority: &Arc<Authority>,
        sites: &Arc<Sites>,
        sandbox: &SandboxName,
        table: Arc<SiteTable>,
    ) -> BrowserNet {
        BrowserNet {
            sandbox: sandbox.clone(),
            table,
            book: Arc::clone(&self.book),
            authority: Arc::clone(authority),
            sites: Arc::clone(sites),
            denied: Arc::clone(&context.denied) as _,
            real: context.real.as_ref().map(|real| Arc::clone(&real.network)),
        }
    }

    fn sites(&self, context: &Context, pods: &[Pod]) -> Arc<Sites> {
        let websites = pods.iter().enumerate().map(|(index, pod)| {
            let frontend = pod.website.service(agentenv_model::Role::Frontend).is_some();
            let pages = if frontend { Role::Frontend } else { Role::Server };
            Website { name: pod.name().clone(), pages: (!pod.website.live).then_some(pages), host: self.host_of(index) }
        });
        Sites::new(Arc::clone(&context.dialer) as _, Limits::default(), websites.collect::<Vec<_>>())
    }

    fn gateway(
        &self,
        context: &Context,
        pods: &[Pod],
        machines: &[Machine],
        sites: Arc<Sites>,
    ) -> Result<Gateway, ControlError> {
        let failed = |error: io::Error| ControlError::infrastructure(format!("the gateway cannot be started: {error}"));
        let control = ControlToken::random();
        write_secret(&context.dir.control_token(), control.expose()).map_err(failed)?;
        let card = AgentCard::new(
            "agent-env",
            "The gateway of a deploy of web environments",
            env!("CARGO_PKG_VERSION"),
            "http://127.0.0.1/",
            Vec::new(),
        );
        let mut builder = Gateway::builder(control, AgentToken::random(), sites, Arc::clone(&self.table)).card(card);
        for (index, pod) in pods.iter().enumerate() {
            builder = builder.service(pod.name().clone(), pod.key.clone());
            if let Some(host) = self.host_of(index).filter(|_| !pod.website.live) {
                builder = builder.website(pod.name().clone(), host);
            }
        }
        for machine in machines {
            builder = match machine.screen() {
                Some(screen) => builder.computer(machine.name().clone(), screen),
                None => builder.browser(machine.name().clone()),
            };
        }
        if context.captures.are_wanted() {
            builder = builder.captures(Arc::clone(&context.captures) as _);
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        builder.spawn(listener).map_err(failed)
    }

    fn urls(&self, index: usize) -> Vec<String> {
        let patterns = self.domains.get(index).map(Vec::as_slice).unwrap_or_default();
        patterns.iter().map(|pattern| format!("https://{pattern}/")).collect()
    }
}

fn write_secret(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options().create_new(true).write(true).mode(0o600).open(path)?;
    writeln!(file, "{text}")
}

#[expect(clippy::too_many_arguments, reason = "it gathers one object from every part, and is called once")]
fn info(
    record: &crate::DeployRecord,
    plan_warnings: &[String],
    context: &Context,
    names: &Names,
    pods: &[Pod],
    machines: &[Machine],
    gateway: &Gateway,
    began: Instant,
) -> DeployInfo {
    let website = |(index, pod): (usize, &Pod)| WebsiteInfo {
        name: pod.name().clone(),
        urls: names.urls(index),
        browse_url: gateway.browse_url(pod.name()),
        live: pod.website.live,
    };
    let of = |kind: Kind| {
        let machines = machines.iter().filter(|machine| machine.kind() == kind).map(Machine::name);
        machines.map(|name| BrowserInfo { name: name.clone(), cdp_url: gateway.cdp_url(name) }).collect()
    };
    let mut warnings = plan_warnings.to_vec();
    // What cards brought: names that put did not know.
    warnings.extend(names.warnings.iter().filter(|warning| !plan_warnings.contains(*warning)).cloned());
    warnings.extend(
        pods.iter()
            .filter(|pod| pod.website.live)
            .map(|pod| format!("`{}` is the real site: a reset does not undo what is changed there", pod.name())),
    );
    if let agentenv_sandbox::UidMode::Single { reason } = context.uids.mode() {
        warnings.push(format!("all sandboxes share one uid and can exhaust each other's per-uid limits: {reason}"));
    }
    DeployInfo {
        deploy: record.deploy.clone(),
        name: record.name.clone(),
        env: record.env.clone(),
        provider: record.provider.clone(),
        gateway_url: gateway.url(),
        ca_file: context.dir.ca().display().to_string(),
        live: record.live,
        websites: pods.iter().enumerate().map(website).collect(),
        browsers: of(Kind::Browser),
        computers: of(Kind::Computer),
        captures: context.captures.rings(),
        warnings,
        ready_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }
}
