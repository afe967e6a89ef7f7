//! Starts a deploy: writes the intent, starts its supervisor, waits until it says that it is ready.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::PathBuf,
    process::Stdio,
    time::{Duration, Instant},
};

use agentenv_model::{EnvVariable, Plan, Values};
use agentenv_protocol::{
    DeployId, ExitCode, Home, Name, SECRET_VARIABLE_PREFIX, SecretPath,
    control::{ControlError, DeployInfo, DeployState},
};
use agentenv_sandbox::liveness::DeployLock;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use crate::{
    DeployDir, DeployRecord, HostSettings, RecordedCaptures, UPSTREAM_PROXY_VARIABLE, accounts,
    host_settings::HostInput, names, reaper,
};

/// The hidden command of the program that is a deploy's supervisor.
pub const SUPERVISOR_COMMAND: &str = "internal-supervisor";
/// How long a supervisor may take to end after its starter gave up: its own teardown, and some.
const END_LIMIT: Duration = Duration::from_secs(30);

/// What is to be deployed.
#[derive(Clone, Debug)]
pub struct StartRequest {
    /// The deploy's id, made by the caller so that it is on record before anything exists.
    pub id: DeployId,
    /// A unique name.
    pub name: Option<Name>,
    /// The plan.
    pub plan: Plan,
    /// Where the trees that the plan names are unpacked, by digest.
    pub trees: BTreeMap<String, PathBuf>,
    /// What the plan's references stand for, as far as the caller found it.
    pub values: Values,
    /// How this machine reaches real sites.
    pub host: HostSettings,
    /// Whether it may use an account of a live site that another deploy uses already.
    pub share_account: bool,
    /// How long it may live once it is ready; as long as nobody closes it without one.
    pub ttl: Option<Duration>,
    /// Whether it is going to be reset: its browsers and computers then have a warm spare from the start.
    pub expects_reset: bool,
}

/// What the supervisor reads from its standard input: one line of JSON. The pipe stays open until it is ready; its end means
/// that nobody waits any more.
#[derive(Serialize, Deserialize)]
pub(crate) struct SupervisorInput {
    pub(crate) plan: Plan,
    pub(crate) trees: BTreeMap<String, PathBuf>,
    /// What `env:` references stand for.
    pub(crate) variables: BTreeMap<EnvVariable, String>,
    /// What `secret:` references stand for.
    pub(crate) secrets: BTreeMap<SecretPath, String>,
    /// How real sites are reached.
    pub(crate) host: HostInput,
    pub(crate) ttl: Option<Duration>,
    pub(crate) expects_reset: bool,
}

/// What the supervisor says on its standard output, a line each, until it is ready.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StartEvent {
    /// For people: what was just done.
    Progress(String),
    /// All is ready.
    Ready(Box<DeployInfo>),
    /// The deploy failed, and nothing is left of it.
    Failed(ControlError),
}

/// Starts a deploy and returns once it is ready. When the returned future is dropped before, the deploy is undone by its
/// supervisor.
pub async fn start(
    home: &Home,
    request: StartRequest,
    mut progress: impl FnMut(&str) + Send,
) -> Result<DeployInfo, ControlError> {
    let began = Instant::now();
    let dir = DeployDir::new(home.deploy(&request.id));
    let starting = Starting::new(home, &dir, &request)?;
    let result = run(&dir, &request, &mut progress).await;
    match result {
        Ok(mut info) => {
            info.ready_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            drop(starting);
            Ok(info)
        }
        Err(error) => {
            drop(starting);
            // The supervisor has undone all of it; this is for one that died.
            reaper::reap_one(home, &request.id, &error);
            Err(error)
        }
    }
}

/// Shows to everybody that a deploy is about to be: the folder, the record, the name, and a lock held by this process until the
/// supervisor holds its own.
struct Starting {
    _lock: DeployLock,
}

impl Starting {
    fn new(home: &Home, dir: &DeployDir, request: &StartRequest) -> Result<Self, ControlError> {
        let io = |error: io::Error| storage(dir, &error);
        DirBuilder::new().recursive(true).mode(0o700).create(home.deploys()).map_err(io)?;
        // It appears at its place with its lock held and its record written: a folder without them is a dead deploy's, and
        // another command's reaper would remove it.
        let making = DeployDir::new(home.deploys().join(format!("{}{}", reaper::MAKING_PREFIX, request.id)));
        DirBuilder::new().mode(0o700).create(making.path()).map_err(io)?;
        let lock = DeployLock::acquire(&making.path().join(reaper::STARTER_LOCK)).map_err(|error| {
            ControlError::infrastructure(format!("the lock of {} cannot be taken: {error}", dir.path().display()))
        })?;
        let plan = &request.plan;
        let mut record = DeployRecord::new(
            request.id.clone(),
            request.name.clone(),
            plan.env.clone(),
            plan.versions.clone(),
            plan.websites.iter().any(|website| website.live),
        );
        // Whatever happens to the deploy, its record tells where captured packets may lie.
        record.captures = plan.captures.map(|options| RecordedCaptures {
            files: options.files,
            file_bytes: options.file_bytes,
            unstored: plan.websites.iter().map(|website| website.name.clone()).collect(),
        });
        record.accounts = accounts::of(plan);
        let claimed: &[_] = if request.share_account { &[] } else { &record.accounts };
        let make = || {
            // Until the deploy is seen at its place.
            let _turn = accounts::claim(home, claimed).map_err(io)??;
            making.save(&record).map_err(|error| storage(dir, &error))?;
            fs::rename(making.path(), dir.path()).map_err(io)
        };
        make().inspect_err(|_| {
            // On a full disk even this may fail; the reaper tries again later.
            let _ = fs::remove_dir_all(making.path());
        })?;
        if let Some(name) = &request.name {
            take_name(home, dir, name, &record)?;
        }
        Ok(Self { _lock: lock })
    }
}

fn take_name(home: &Home, dir: &DeployDir, name: &Name, record: &DeployRecord) -> Result<(), ControlError> {
    let Err(holder) = names::claim(home, name, &record.deploy).map_err(|error| storage(dir, &error))? else {
        return Ok(());
    };
    let holder = holder.map_or_else(|| "another deploy".to_owned(), |id| format!("deploy {id}"));
    let error = ControlError::new(ExitCode::Refused, format!("the name `{name}` is taken by {holder}"))
        .hint(format!("close it with `agent-env env close {name}`, or choose another --name"));
    // Nothing was made but the folder: the refused try leaves no trace.
    fs::remove_dir_all(dir.path()).map_err(|remove| storage(dir, &remove))?;
    Err(error)
}

fn storage(dir: &DeployDir, error: &dyn std::fmt::Display) -> ControlError {
    ControlError::infrastructure(format!("the deploy's folder {} cannot be written: {error}", dir.path().display()))
        .hint("free some space, or set AGENTENV_HOME to another disk")
}

async fn run(
    dir: &DeployDir,
    request: &StartRequest,
    progress: &mut (impl FnMut(&str) + Send),
) -> Result<DeployInfo, ControlError> {
    let mut command = Command::new("/proc/self/exe");
    agentenv_sandbox::process::keep_descriptors_private().map_err(|error| {
        ControlError::infrastructure(format!("the supervisor cannot be kept from this command's descriptors: {error}"))
    })?;
    // Secrets reach the supervisor by its standard input alone: its environment lies open to the user's other processes.
    let named = request.values.variables().map(|(name, _)| name.as_str().to_owned());
    for name in named.chain(secret_variables()).chain([UPSTREAM_PROXY_VARIABLE.to_owned()]) {
        command.env_remove(name);
    }
    let mut child = command
        .arg0("agent-env")
        .arg(SUPERVISOR_COMMAND)
        .arg(dir.path())
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| ControlError::infrastructure(format!("the supervisor cannot be started: {error}")))?;
    let input = SupervisorInput {
        plan: request.plan.clone(),
        trees: request.trees.clone(),
        variables: request.values.variables().map(|(name, value)| (name.clone(), exposed(value))).collect(),
        secrets: request.values.secrets().map(|(path, value)| (path.clone(), exposed(value))).collect(),
        host: request.host.to_input(),
        ttl: request.ttl,
        expects_reset: request.expects_reset,
    };
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(ControlError::infrastructure("the supervisor has no pipes"));
    };
    let mut line = serde_json::to_vec(&input)
        .map_err(|error| ControlError::infrastructure(format!("the plan cannot be written: {error}")))?;
    line.push(b'\n');
    // An error here means that the supervisor ended already: its own word, or its death, comes on the other pipe.
    let sent = stdin.write_all(&line).await;
    let result = follow(BufReader::new(stdout).lines(), progress).await;
    drop(stdin);
    let result = match (result, sent) {
        (Ok(None), Err(error)) => Err(died(dir, &format!("it never took its plan: {error}"))),
        (Ok(None), Ok(())) => Err(died(dir, "it ended without a word")),
        (Ok(Some(event)), _) => event,
        (Err(error), _) => Err(died(dir, &error.to_string())),
    };
    wait(child, result.is_ok()).await;
    result
}

fn exposed(value: &SecretString) -> String {
    value.expose_secret().to_owned()
}

/// The caller's variables that hold secrets for `secret:` references, whichever of them this deploy uses.
fn secret_variables() -> impl Iterator<Item = String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| name.starts_with(SECRET_VARIABLE_PREFIX))
}

impl SupervisorInput {
    /// What the plan's references stand for.
    pub(crate) fn take_values(&mut self) -> Values {
        let mut values = Values::default();
        for (name, value) in std::mem::take(&mut self.variables) {
            values.insert_variable(name, value.into());
        }
        for (path, value) in std::mem::take(&mut self.secrets) {
            values.insert_secret(path, value.into());
        }
        values
    }
}

type Outcome = Result<DeployInfo, ControlError>;

async fn follow(
    mut lines: Lines<BufReader<ChildStdout>>,
    progress: &mut (impl FnMut(&str) + Send),
) -> io::Result<Option<Outcome>> {
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line)? {
            StartEvent::Progress(what) => progress(&what),
            StartEvent::Ready(info) => return Ok(Some(Ok(*info))),
            StartEvent::Failed(error) => return Ok(Some(Err(error))),
        }
    }
    Ok(None)
}

fn died(dir: &DeployDir, how: &str) -> ControlError {
    let log = fs::read_to_string(dir.logs().join("supervisor.log")).unwrap_or_default();
    let last = log.lines().rev().take(12).map(str::to_owned).collect::<Vec<_>>();
    ControlError::infrastructure(format!("the supervisor of the deploy died: {how}"))
        .hint("what it left is removed; try again, and look at `agent-env doctor`")
        .log(last.into_iter().rev().collect())
}

/// Waits for a supervisor that failed; one that is ready lives on and is waited for in the background, so that no zombie is
/// left where the starter lives long.
async fn wait(mut child: Child, ready: bool) {
    if ready {
        tokio::spawn(async move { child.wait().await });
    } else if tokio::time::timeout(END_LIMIT, child.wait()).await.is_err() {
        tracing::warn!("the supervisor did not end");
        // Everything of the deploy hangs on it: its end is theirs.
        if let Err(error) = child.kill().await {
            tracing::warn!(%error, "nor could it be killed");
        }
    }
}

impl DeployRecord {
    /// Takes the end of a deploy into the record.
    pub(crate) fn ended(&mut self, error: Option<ControlError>) {
        self.state = if error.is_some() { DeployState::Failed } else { DeployState::Closed };
        self.error = error.or(self.error.take());
    }
}
