//! Commands on running deploys.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    path::PathBuf,
};

use agentenv_deploy::{ControlClient, DeployDir, DeployRecord, captures, deploy_ids};
use agentenv_protocol::{
    DeployId, ExitCode, Home, Name, SandboxName, TrafficRing,
    control::{CloseRequest, ControlError, DeployState, ExecRequest, GetRequest, LoadRequest, SignInRequest},
};
use clap::Args;
use serde_json::{Value, json};

use crate::{
    commands::traffic,
    output::{Output, columns, print},
};

/// Names one deploy.
#[derive(Args, Debug)]
pub(crate) struct DeployArg {
    /// A deploy's id or name
    deploy: String,
}

/// Arguments of `env status`.
#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// A deploy's id or name; all that run without it
    deploy: Option<String>,
    /// Show those that ended too
    #[arg(long)]
    all: bool,
}

/// Arguments of `env logs`.
#[derive(Args, Debug)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    deploy: DeployArg,
    /// One service (`tracker/frontend`) or browser; the supervisor's log without it
    sandbox: Option<SandboxName>,
}

/// Arguments of `env exec`.
#[derive(Args, Debug)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    deploy: DeployArg,
    /// Where: `browser`, or `tracker/frontend`
    sandbox: SandboxName,
    /// Program and arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Arguments of `env load`.
#[derive(Args, Debug)]
pub(crate) struct LoadArgs {
    #[command(flatten)]
    deploy: DeployArg,
    /// The website
    website: Name,
    /// A JSON file; `-` for standard input
    file: PathBuf,
}

/// Arguments of `env data`.
#[derive(Args, Debug)]
pub(crate) struct DataArgs {
    #[command(flatten)]
    deploy: DeployArg,
    /// The website
    website: Name,
    /// The site's own selector, as JSON
    #[arg(long)]
    selector: Option<String>,
}

/// Arguments of `env sign-in`.
#[derive(Args, Debug)]
pub(crate) struct SignInArgs {
    #[command(flatten)]
    deploy: DeployArg,
    /// Whom to sign in where: `shop=ada`
    #[arg(required = true, value_parser = website_and_user)]
    users: Vec<(Name, String)>,
    /// One browser; all of them without it
    #[arg(long)]
    target: Option<Name>,
}

/// Arguments of `env close`.
#[derive(Args, Debug)]
pub(crate) struct CloseArgs {
    #[command(flatten)]
    deploy: DeployArg,
    /// Throw captured traffic away instead of keeping it
    #[arg(long)]
    discard_captures: bool,
}

fn website_and_user(text: &str) -> Result<(Name, String), String> {
    let (website, user) = text.split_once('=').ok_or("expected WEBSITE=USER")?;
    Ok((Name::parse(website).map_err(|error| error.to_string())?, user.to_owned()))
}

impl DeployArg {
    fn dir(&self, home: &Home) -> Result<DeployDir, ControlError> {
        find(home, &self.deploy)
    }

    pub(crate) fn client(&self, home: &Home) -> Result<ControlClient, ControlError> {
        client_of(home, &self.deploy)
    }
}

/// The client of a deploy that is not over, by its id or name.
pub(crate) fn client_of(home: &Home, deploy: &str) -> Result<ControlClient, ControlError> {
    let dir = find(home, deploy)?;
    let record = load(&dir)?;
    if record.is_over() {
        return Err(over(deploy, &record));
    }
    Ok(ControlClient::new(dir.path()))
}

/// Finds a deploy by its id or name.
pub(crate) fn find(home: &Home, text: &str) -> Result<DeployDir, ControlError> {
    let id = match DeployId::parse(text) {
        Ok(id) => Some(id),
        Err(_) => Name::parse(text).ok().and_then(|name| agentenv_deploy::deploy_named(home, &name)),
    };
    let dir = id.map(|id| DeployDir::new(home.deploy(&id))).filter(|dir| dir.path().is_dir());
    dir.ok_or_else(|| {
        ControlError::new(ExitCode::Refused, format!("there is no deploy `{text}`"))
            .hint("`agent-env env status` lists those that run")
    })
}

fn load(dir: &DeployDir) -> Result<DeployRecord, ControlError> {
    dir.load().map_err(|error| ControlError::infrastructure(error.to_string()))
}

fn over(name: &str, record: &DeployRecord) -> ControlError {
    let how = match (&record.state, &record.error) {
        (DeployState::Failed, Some(error)) => format!("failed: {}", error.message),
        (DeployState::Failed, None) => "failed".to_owned(),
        _ => "is closed".to_owned(),
    };
    ControlError::new(ExitCode::Refused, format!("the deploy `{name}` {how}"))
        .hint(format!("its logs are kept: `agent-env env logs {}`", record.deploy))
}

/// `env status`
pub(crate) async fn status(home: &Home, output: Output, args: &StatusArgs) -> Result<(), ControlError> {
    let Some(deploy) = &args.deploy else { return list(home, output, args.all).await };
    let dir = find(home, deploy)?;
    let record = load(&dir)?;
    if record.is_over() || record.state == DeployState::Starting {
        return output.result(&record, || summary(&record));
    }
    let status = ControlClient::new(dir.path()).status().await?;
    output.result(&status, || {
        let mut rows = vec![vec![
            "SANDBOX".to_owned(),
            "STATE".to_owned(),
            "PID".to_owned(),
            "RESTARTS".to_owned(),
            String::new(),
        ]];
        rows.extend(status.services.iter().map(|(name, service)| {
            let pid = service.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
            let reason = service.reason.clone().unwrap_or_default();
            vec![name.to_string(), service.state.clone(), pid, service.restarts.to_string(), reason]
        }));
        let rings = if status.captures.is_empty() { String::new() } else { format!("\n\n{}", rings(&status.captures)) };
        format!("{}\n{}{rings}", summary(&record), columns(&rows))
    })
}

/// What is captured, a line for each website, and a line for each time in which something was missed.
fn rings(rings: &[TrafficRing]) -> String {
    let mut rows = vec![["CAPTURE", "STATE", "KEEPS", "DROPPED", "GAPS"].map(str::to_owned).to_vec()];
    rows.extend(rings.iter().map(|ring| {
        let state = if ring.recording { "recording" } else { "not recording" };
        let keeps = format!("{} files of {} MB", ring.files, ring.file_bytes / 1_000_000);
        vec![ring.website.to_string(), state.to_owned(), keeps, ring.dropped.to_string(), ring.gaps.len().to_string()]
    }));
    let gaps = rings.iter().flat_map(|ring| ring.gaps.iter().map(move |gap| (ring, gap))).map(|(ring, gap)| {
        let to = gap.to.as_deref().unwrap_or("now");
        format!("\n  {} missed packets from {} to {to}: {}", ring.website, gap.from, gap.reason)
    });
    format!("{}{}", columns(&rows), gaps.collect::<String>())
}

async fn list(home: &Home, output: Output, all: bool) -> Result<(), ControlError> {
    let records = deploy_ids(home).filter_map(|id| DeployDir::new(home.deploy(&id)).load().ok());
    let mut records: Vec<DeployRecord> = records.collect();
    records.retain(|record| all || !record.is_over());
    records.sort_by(|a, b| a.created.cmp(&b.created));
    for record in records.iter_mut().filter(|record| record.state == DeployState::Ready) {
        // The record says that it got ready; whether all of it still runs only the deploy knows.
        if let Ok(status) = ControlClient::new(home.deploy(&record.deploy)).status().await {
            record.state = status.state;
        }
    }
    output.result(&records, || {
        if records.is_empty() {
            return "no deploy is running".to_owned();
        }
        records.iter().map(summary).collect::<Vec<_>>().join("\n")
    })
}

fn summary(record: &DeployRecord) -> String {
    let name = record.name.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let state =
        serde_json::to_value(record.state).ok().and_then(|state| state.as_str().map(str::to_owned)).unwrap_or_default();
    let error = record.error.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
    let unstored = record.captures.as_ref().filter(|captures| record.is_over() && !captures.unstored.is_empty());
    let unstored = unstored.map(|captures| {
        let websites: Vec<&str> = captures.unstored.iter().map(Name::as_str).collect();
        format!("; captures of {} are on disk: `agent-env traffic rescue {}`", websites.join(", "), record.deploy)
    });
    format!("{}{name}  env {}  {state}{error}{}", record.deploy, record.env, unstored.unwrap_or_default())
}

/// `env token`
pub(crate) fn token(home: &Home, args: &DeployArg) -> Result<(), ControlError> {
    let dir = args.dir(home)?;
    let token = fs::read_to_string(dir.control_token()).map_err(|error| match (error.kind(), load(&dir)) {
        (io::ErrorKind::NotFound, Ok(record)) => over(&args.deploy, &record),
        _ => ControlError::infrastructure(format!("{} cannot be read: {error}", dir.control_token().display())),
    })?;
    print(&token)
}

/// `env logs`
pub(crate) fn logs(home: &Home, args: &LogsArgs) -> Result<(), ControlError> {
    let dir = args.deploy.dir(home)?;
    let name = args.sandbox.as_ref().map_or_else(|| "supervisor".to_owned(), |name| name.as_str().replace('/', "."));
    let path = dir.logs().join(format!("{name}.log"));
    let read = |path: &PathBuf| match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ControlError::infrastructure(format!("{} cannot be read: {error}", path.display()))),
    };
    let (older, newer) = (read(&path.with_extension("log.1"))?, read(&path)?);
    if older.is_none() && newer.is_none() {
        let known: Vec<String> = fs::read_dir(dir.logs())
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_suffix(".log").map(|name| name.replace('.', "/")))
            .collect();
        return Err(ControlError::new(
            ExitCode::Refused,
            format!("the deploy has no log of `{}`", name.replace('.', "/")),
        )
        .hint(format!("it has: {}", known.join(", "))));
    }
    print(&(older.unwrap_or_default() + &newer.unwrap_or_default()))
}

/// `env denied`
pub(crate) async fn denied(home: &Home, output: Output, args: &DeployArg) -> Result<(), ControlError> {
    let dir = args.dir(home)?;
    let entries = if load(&dir)?.is_over() {
        let text = fs::read_to_string(dir.denied()).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    } else {
        ControlClient::new(dir.path()).denied().await?
    };
    output.result(&entries, || {
        if entries.is_empty() {
            return "nothing was denied".to_owned();
        }
        let rows: Vec<Vec<String>> = entries
            .iter()
            .map(|entry| {
                let host = if entry.port == 0 { entry.host.clone() } else { format!("{}:{}", entry.host, entry.port) };
                vec![entry.time.clone(), entry.sandbox.to_string(), host, entry.reason.clone()]
            })
            .collect();
        columns(&rows)
    })
}

/// `env exec`; returns the command's exit code.
pub(crate) async fn exec(home: &Home, args: &ExecArgs) -> Result<i32, ControlError> {
    let request = ExecRequest { sandbox: args.sandbox.clone(), command: args.command.clone() };
    args.deploy.client(home)?.exec(&request, tokio::io::stdin(), tokio::io::stdout(), tokio::io::stderr()).await
}

/// `env load`
pub(crate) async fn load_data(home: &Home, output: Output, args: &LoadArgs) -> Result<(), ControlError> {
    let client = args.deploy.client(home)?;
    let text = if args.file.as_os_str() == "-" {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(&args.file)
    };
    let refused = |why: String| ControlError::new(ExitCode::Refused, format!("{} {why}", args.file.display()));
    let text = text.map_err(|error| refused(format!("cannot be read: {error}")))?;
    let data: Value = serde_json::from_str(&text).map_err(|error| refused(format!("is not JSON: {error}")))?;
    client.load(&LoadRequest { data: BTreeMap::from([(args.website.clone(), data)]) }).await?;
    output.result(&json!({}), || format!("loaded into {}", args.website))
}

/// `env data`
pub(crate) async fn data(home: &Home, args: &DataArgs) -> Result<(), ControlError> {
    let client = args.deploy.client(home)?;
    let selector = args
        .selector
        .as_deref()
        .map(serde_json::from_str)
        .transpose()
        .map_err(|error| ControlError::new(ExitCode::Refused, format!("the selector is not JSON: {error}")))?;
    let reply = client.get(&GetRequest { website: args.website.clone(), selector }).await?;
    let text = serde_json::to_string_pretty(&reply.data)
        .map_err(|error| ControlError::infrastructure(format!("the data cannot be written: {error}")))?;
    print(&text)
}

/// `env sign-in`
pub(crate) async fn sign_in(home: &Home, output: Output, args: &SignInArgs) -> Result<(), ControlError> {
    let client = args.deploy.client(home)?;
    let request = SignInRequest { users: args.users.iter().cloned().collect(), target: args.target.clone() };
    let report = client.sign_in(&request).await?;
    output.result(&report, || {
        let line = |entry: &agentenv_protocol::control::SignedIn| {
            let how = if entry.verified { "a page shows it" } else { "cookies and storage read back" };
            format!("{} is {} in {} ({how})", entry.user, entry.website, entry.browser)
        };
        report.signed_in.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}

/// `env reset`
pub(crate) async fn reset(home: &Home, output: Output, args: &DeployArg) -> Result<(), ControlError> {
    let report = args.client(home)?.reset().await?;
    output.result(&report, || {
        let browsers = report.browsers.iter().map(|(name, how)| format!(", {name} {how}")).collect::<String>();
        let stays = report.not_undone.iter().map(|name| format!("\n  what was changed on the real {name} stays"));
        let stays: String = stays.collect();
        format!(
            "reset in {:.0} ms: data {:.1} ms, browsers {:.0} ms{browsers}{stays}",
            report.total_ms, report.data_ms, report.browser_ms
        )
    })
}

/// `env close`
pub(crate) async fn close(home: &Home, output: Output, args: &CloseArgs) -> Result<(), ControlError> {
    let dir = args.deploy.dir(home)?;
    let record = load(&dir)?;
    // Closing what is closed is done, not refused: teardown is idempotent.
    if !record.is_over() {
        ControlClient::new(dir.path()).close(&CloseRequest { discard_captures: args.discard_captures }).await?;
    }
    // Also of one that ended before, or that was too young to be told.
    if args.discard_captures {
        captures::discard(&dir, None).map_err(|error| {
            ControlError::infrastructure(format!("the captures of {} cannot be discarded: {error}", record.deploy))
        })?;
    }
    let stored = traffic::store_of_closed(home, output, &record.deploy).await;
    let kept = load(&dir)?.captures.map(|captures| captures.unstored).unwrap_or_default();
    let result = json!({ "deploy": record.deploy, "state": "closed", "captures": kept, "traffic": stored });
    output.result(&result, || {
        let websites: Vec<&str> = kept.iter().map(Name::as_str).collect();
        let kept = match (websites.as_slice(), stored["universe_id"].as_str()) {
            ([], Some(universe)) => format!("; its traffic is stored, in artifact universe {universe}"),
            ([], None) => String::new(),
            _ => format!("; captures of {} are kept in {}", websites.join(", "), dir.captures().display()),
        };
        format!("{} is closed{kept}", record.deploy)
    })
}

/// `env gc`: the reaping itself happened before the command, as before every command.
pub(crate) fn gc(output: Output, reaped: &[agentenv_deploy::Reaped]) -> Result<(), ControlError> {
    let rows: Vec<Value> =
        reaped.iter().map(|reaped| json!({ "deploy": reaped.deploy, "killed": reaped.killed })).collect();
    output.result(&rows, || match reaped {
        [] => "no dead deploy left anything".to_owned(),
        reaped => {
            let line = |reaped: &agentenv_deploy::Reaped| {
                format!("{} was dead; {} processes of it were ended", reaped.deploy, reaped.killed)
            };
            reaped.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    })
}
