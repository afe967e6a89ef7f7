//! `website check` and `website new`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use agentenv_deploy::{ControlClient, DeployDir};
use agentenv_model::{EnvVersion, Flags};
use agentenv_protocol::{
    DeployId, ExitCode, Home, Name,
    control::{CloseRequest, ControlError, DeployInfo},
};
use agentenv_store::Store;
use clap::Args;
use include_dir::{Dir, include_dir};
use serde_json::json;

use super::{
    host::HostArgs,
    launch::{Launcher, Wishes},
};
use crate::{
    check::{Rule, Site},
    output::Output,
    progress::Activity,
    put::{Putter, store_error},
};

/// What `website new` writes.
static TEMPLATE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/templates/website");
/// What stands for the site's name in it.
const NAME_MARK: &str = "{{name}}";

/// Arguments of `website check`.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The bundle's folder
    dir: PathBuf,
    #[command(flatten)]
    host: HostArgs,
}

/// Arguments of `website new`.
#[derive(Args, Debug)]
pub(crate) struct NewArgs {
    /// The site's name
    name: Name,
    /// Where to write it; a folder of the name, here, without it
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// `website check`
pub(crate) async fn check(home: &Home, output: Output, args: &CheckArgs) -> Result<(), ControlError> {
    let activity = Activity::start(output, format!("building {}", args.dir.display()));
    let store = Store::open(home).await.map_err(store_error)?;
    let _hold = store.hold().await.map_err(store_error)?;
    let progress = |line: &str| activity.say(line);
    let prepared =
        Putter { home, store: &store, progress: &progress }.prepare(Some(&args.dir), &Flags::default()).await?;
    // Version 0: it runs, and is not stored.
    let env = EnvVersion { name: prepared.name, version: 0, spec: prepared.spec, tree: prepared.tree };
    let wishes = Wishes::default();
    let plan = Launcher::plan_alone(env, &wishes)?;
    let launcher = Launcher::new(home.clone(), args.host.settings()?, false);
    let info = launcher.start(DeployId::random(), None, plan, &wishes, progress).await?;
    activity.say("checking");
    let checked = rules(home, &info).await;
    ControlClient::new(home.deploy(&info.deploy)).close(&CloseRequest::default()).await?;
    activity.finish();
    let rules = checked?;
    output.result(&rules, || rules.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    let broken: Vec<&str> = rules.iter().filter(|rule| rule.broken.is_some()).map(|rule| rule.id).collect();
    if broken.is_empty() {
        return Ok(());
    }
    let message = format!("{} of {} rules are broken: {}", broken.len(), rules.len(), broken.join(", "));
    Err(ControlError::new(ExitCode::Failed, message).hint("each is above, with what was seen"))
}

async fn rules(home: &Home, info: &DeployInfo) -> Result<Vec<Rule>, ControlError> {
    let path = DeployDir::new(home.deploy(&info.deploy)).control_token();
    let token = fs::read_to_string(&path)
        .map_err(|error| ControlError::infrastructure(format!("{} cannot be read: {error}", path.display())))?;
    let website = info.websites.first().ok_or_else(|| ControlError::infrastructure("the deploy has no website"))?;
    Site::new(&info.gateway_url, token.trim().into(), website).check().await
}

fn line(rule: &Rule) -> String {
    match &rule.broken {
        None => format!("ok      {}  {}", rule.id, rule.rule),
        Some(seen) => format!("BROKEN  {}  {}: {seen}", rule.id, rule.rule),
    }
}

/// `website new`
pub(crate) fn new(output: Output, args: &NewArgs) -> Result<(), ControlError> {
    let folder = args.dir.clone().unwrap_or_else(|| PathBuf::from(args.name.as_str()));
    if folder.exists() {
        return Err(ControlError::new(ExitCode::Refused, format!("{} is there already", folder.display()))
            .hint("give another place with --dir"));
    }
    write(&TEMPLATE, &folder, args.name.as_str()).map_err(|error| {
        ControlError::new(ExitCode::Refused, format!("{} cannot be written: {error}", folder.display()))
    })?;
    output.result(&json!({ "dir": folder }), || {
        format!("{0} is written; try `agent-env website check {0}`, then `agent-env website put {0}`", folder.display())
    })
}

fn write(dir: &Dir<'_>, folder: &Path, name: &str) -> io::Result<()> {
    fs::create_dir_all(folder.join(dir.path()))?;
    for file in dir.files() {
        let text = file.contents_utf8().ok_or(io::ErrorKind::InvalidData)?;
        fs::write(folder.join(file.path()), text.replace(NAME_MARK, name))?;
    }
    dir.dirs().try_for_each(|dir| write(dir, folder, name))
}
