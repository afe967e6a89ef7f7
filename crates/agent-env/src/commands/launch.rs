//! `env deploy`, and the making of deploys for tasks and checks: store, plan and supervisor joined.

use std::{collections::BTreeMap, ops::RangeInclusive, path::PathBuf, sync::Arc, time::Duration};

use agentenv_deploy::{DeployDir, HostSettings, StartRequest};
use agentenv_model::{Abilities, CaptureOptions, EnvRef, EnvVersion, Plan, PlanInput, Reference, Values, plan};
use agentenv_protocol::{
    CAPTURE_FILE_MB, CAPTURE_FILES, DeployId, ExitCode, Home, Name,
    control::{ControlError, DeployInfo},
};
use agentenv_store::{Holder, Store};
use agentenv_task::{Answer, DeployEnv, DeployRequest, MakeDeploys, PlannedDeploy, PlannedLiveWebsite, Work};
use clap::Args;
use secrecy::SecretString;
use tokio::sync::OnceCell;

use super::host::HostArgs;
use crate::{
    output::Output,
    progress::Activity,
    put::{plan_input, problems_error, store_error},
    secrets::SecretSources,
};

/// The only provider for now.
const PROVIDERS: [&str; 1] = ["sandbox"];

/// Arguments of `env deploy`.
#[derive(Args, Debug)]
pub(crate) struct DeployArgs {
    /// The env: `office`, or `office@3` for version 3
    env: EnvRef,
    /// A unique name for the deploy
    #[arg(long)]
    name: Option<Name>,
    /// How the deploy is made
    #[arg(long)]
    provider: Option<String>,
    /// How long each site may take to be ready, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    ready_timeout: Option<u32>,
    /// Close the deploy by itself this long after it is ready, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    ttl: Option<u64>,
    /// Use an account of a live site that another deploy uses already
    #[arg(long)]
    share_account: bool,
    /// Keep a warm spare of each browser and computer from the start, so that also the first reset is quick
    #[arg(long)]
    expect_reset: bool,
    #[command(flatten)]
    host: HostArgs,
    /// Record every packet of the websites
    #[arg(long)]
    capture_traffic: bool,
    /// How many files are kept of each website; 10 without it
    #[arg(long, value_name = "FILES", requires = "capture_traffic", value_parser = within(&CAPTURE_FILES))]
    capture_files: Option<u32>,
    /// How long each of them gets, in MB; 20 without it
    #[arg(long, value_name = "MB", requires = "capture_traffic", value_parser = within(&CAPTURE_FILE_MB))]
    capture_file_mb: Option<u32>,
}

/// Takes what is in the range, and says the range of what is not.
fn within(range: &RangeInclusive<u32>) -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(*range.start())..=i64::from(*range.end()))
}

/// What of a deploy its env does not say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) provider: Option<String>,
    pub(crate) capture_traffic: Option<CaptureOptions>,
    pub(crate) ready_timeout_s: Option<u32>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) expects_reset: bool,
}

/// `env deploy`
pub(crate) async fn deploy(home: &Home, output: Output, args: &DeployArgs) -> Result<(), ControlError> {
    let activity = Activity::start(output, format!("deploying {}", args.env));
    let launcher = Launcher::new(home.clone(), args.host.settings()?, args.share_account);
    let wishes = Wishes {
        provider: args.provider.clone(),
        capture_traffic: args.capture_traffic.then(|| CaptureOptions::new(args.capture_files, args.capture_file_mb)),
        ready_timeout_s: args.ready_timeout,
        ttl: args.ttl.map(Duration::from_secs),
        expects_reset: args.expect_reset,
    };
    let plan = launcher.plan(&args.env, &wishes).await?;
    let id = DeployId::random();
    let info = launcher.start(id, args.name.clone(), plan, &wishes, |what| activity.say(what)).await?;
    activity.finish();
    output.result(&info, || describe(&info))
}

fn describe(info: &DeployInfo) -> String {
    let name = info.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let mut lines = vec![format!("{}{name} is ready after {} ms", info.deploy, info.ready_ms)];
    for website in &info.websites {
        let browse = website.browse_url.as_ref().map(|url| format!("  for people: {url}")).unwrap_or_default();
        lines.push(format!("  website {}  {}{browse}", website.name, website.urls.join(" ")));
    }
    lines.extend(info.browsers.iter().map(|browser| format!("  browser {}  {}", browser.name, browser.cdp_url)));
    lines.extend(info.computers.iter().map(|computer| format!("  computer {}  {}", computer.name, computer.cdp_url)));
    lines.extend(info.captures.iter().map(|ring| {
        let megabytes = ring.file_bytes / 1_000_000;
        format!("  capture {}  the last {} files of {megabytes} MB", ring.website, ring.files)
    }));
    lines.extend(info.warnings.iter().map(|warning| format!("  warning: {warning}")));
    lines.push(format!("  close it with: agent-env env close {}", info.deploy));
    lines.join("\n")
}

/// Makes deploys of stored envs.
#[derive(Clone, Debug)]
pub(crate) struct Launcher {
    home: Home,
    host: HostSettings,
    /// Whether deploys may use an account of a live site that others use already.
    share_account: bool,
    /// Opened once: planning and starting both read it.
    store: Arc<OnceCell<Store>>,
}

impl Launcher {
    pub(crate) fn new(home: Home, host: HostSettings, share_account: bool) -> Self {
        Self { home, host, share_account, store: Arc::default() }
    }

    async fn store(&self) -> Result<&Store, ControlError> {
        self.store.get_or_try_init(|| async { Store::open(&self.home).await.map_err(store_error) }).await
    }

    /// Plans a deploy of a stored env; nothing is made.
    pub(crate) async fn plan(&self, env: &EnvRef, wishes: &Wishes) -> Result<Plan, ControlError> {
        let input = plan_input(self.store().await?, env, abilities(wishes)?, wishes.capture_traffic).await?;
        planned(&input, wishes)
    }

    /// Plans a deploy of one website that need not be stored.
    pub(crate) fn plan_alone(env: EnvVersion, wishes: &Wishes) -> Result<Plan, ControlError> {
        let input = PlanInput { env, members: Vec::new(), abilities: abilities(wishes)?, capture_traffic: None };
        planned(&input, wishes)
    }

    /// Starts a planned deploy; returns once it is ready.
    pub(crate) async fn start(
        &self,
        id: DeployId,
        name: Option<Name>,
        plan: Plan,
        wishes: &Wishes,
        progress: impl FnMut(&str) + Send,
    ) -> Result<DeployInfo, ControlError> {
        let store = self.store().await?;
        let holder = Holder::Deploy(id.clone());
        // Version 0 is of what is not stored, such as a site that is being checked.
        let stored: Vec<(Name, u64)> = plan.versions.iter().filter(|(_, version)| *version > 0).cloned().collect();
        store.add_references(&holder, &stored).await.map_err(store_error)?;
        let started = async {
            let trees = trees(store, &plan).await?;
            let values = self.values(&plan).await?;
            let (host, share_account) = (self.host.clone(), self.share_account);
            let Wishes { ttl, expects_reset, .. } = *wishes;
            let request = StartRequest { id, name, plan, trees, values, host, share_account, ttl, expects_reset };
            agentenv_deploy::start(&self.home, request, progress).await
        };
        let started = started.await;
        if started.is_err() {
            store.remove_references(&holder).await.map_err(store_error)?;
        }
        started
    }
}

impl Launcher {
    /// What the plan's references stand for, as far as it is found; no other variable or secret is looked at.
    async fn values(&self, plan: &Plan) -> Result<Values, ControlError> {
        let secrets = SecretSources::of(&self.home);
        let mut values = Values::default();
        for reference in plan.references() {
            let found = match reference {
                Reference::Env { name, .. } => std::env::var(name.as_str()).ok().map(SecretString::from),
                Reference::Secret { path, .. } => secrets.find(path).await?,
            };
            if let Some(value) = found {
                values.insert(reference, value);
            }
        }
        Ok(values)
    }
}

fn abilities(wishes: &Wishes) -> Result<Abilities, ControlError> {
    match wishes.provider.as_deref() {
        None | Some("sandbox") => Ok(Abilities::sandbox()),
        Some(other) => Err(ControlError::new(ExitCode::Refused, format!("there is no provider `{other}`"))
            .hint(format!("accepted for now: {}", PROVIDERS.join(", ")))),
    }
}

fn planned(input: &PlanInput, wishes: &Wishes) -> Result<Plan, ControlError> {
    let mut plan = plan(input).map_err(|problems| problems_error(&problems))?;
    if let Some(seconds) = wishes.ready_timeout_s {
        plan.websites.iter_mut().for_each(|website| website.ready_timeout_s = seconds);
    }
    Ok(plan)
}

/// Unpacks the trees that a plan names, where that was not done before.
async fn trees(store: &Store, plan: &Plan) -> Result<BTreeMap<String, PathBuf>, ControlError> {
    let mut trees = BTreeMap::new();
    for website in &plan.websites {
        let folder = store.checkout_tree(&website.tree).await.map_err(store_error)?;
        trees.insert(website.tree.to_string(), folder);
    }
    Ok(trees)
}

/// Forgets what ended deploys needed of the store: they end without it, and some never began.
pub(crate) async fn forget_ended(home: &Home) -> Result<(), ControlError> {
    let store = Store::open(home).await.map_err(store_error)?;
    for id in store.deploys_with_references().await.map_err(store_error)? {
        let dir = DeployDir::new(home.deploy(&id));
        if !dir.path().exists() || dir.load().is_ok_and(|record| record.is_over()) {
            store.remove_references(&Holder::Deploy(id)).await.map_err(store_error)?;
        }
    }
    Ok(())
}

impl MakeDeploys for Launcher {
    fn plan<'a>(&'a self, step: &'a DeployEnv) -> Answer<'a, PlannedDeploy> {
        Box::pin(async move {
            let plan = Launcher::plan(self, &env_ref(step), &wishes(step)).await?;
            let live = plan.websites.iter().filter(|website| website.live).map(|website| PlannedLiveWebsite {
                name: website.name.clone(),
                domains: website.domains.clone(),
                allow_hosts: website.allow_hosts.clone(),
            });
            Ok(PlannedDeploy {
                provider: plan.provider.clone(),
                live: live.collect(),
                websites: plan.websites.iter().map(|website| website.name.clone()).collect(),
                browsers: {
                    let computers = plan.computers.iter().map(|computer| &computer.name);
                    plan.browsers.iter().map(|browser| &browser.name).chain(computers).cloned().collect()
                },
                versions: plan.versions,
            })
        })
    }

    fn deploy(&self, request: DeployRequest) -> Answer<'_, DeployInfo> {
        Box::pin(async move {
            let wishes = Wishes { expects_reset: request.expects_reset, ..wishes(&request.step) };
            let plan = Launcher::plan(self, &env_ref(&request.step), &wishes).await?;
            let name = request.step.deploy_name.clone();
            let started = self.start(request.deploy, name, plan, &wishes, |what| request.progress.say(what));
            tokio::time::timeout_at(request.deadline, started).await.unwrap_or_else(|_| {
                Err(ControlError::new(ExitCode::TimedOut, format!("env `{}` was not ready in time", request.step.env)))
            })
        })
    }

    fn reap(&self) -> Work<'_, ()> {
        Box::pin(async move {
            let home = self.home.clone();
            let _ = tokio::task::spawn_blocking(move || agentenv_deploy::reap(&home)).await;
        })
    }
}

fn env_ref(step: &DeployEnv) -> EnvRef {
    EnvRef { name: step.env.clone(), version: step.version }
}

fn wishes(step: &DeployEnv) -> Wishes {
    Wishes {
        provider: step.provider.clone(),
        capture_traffic: step.capture_traffic.then(|| CaptureOptions::new(step.capture_files, step.capture_file_mb)),
        ready_timeout_s: step.ready_timeout.map(|timeout| u32::try_from(timeout.as_secs()).unwrap_or(u32::MAX)),
        ..Wishes::default()
    }
}
