//! The supervisor: one process a deploy, on the host's side, that holds every descriptor that matters.
//!
//! In order: start the spawner, take the plan, leave the starter's session, take the lock, then the async runtime, and in it
//! [`build::build`] from top to bottom. It ends when it is told to close, when its spawner or a broker dies, or when its starter
//! is gone before it was ready.

mod browser;
mod build;
mod captures;
mod computer;
mod control;
mod deploy;
mod dial;
mod ledger;
mod machine;
mod pod;
mod ports;
mod probe;
mod reach;
mod reset;
mod screen;
mod service;
mod sign_in;
mod sockets;
mod spare;
mod specs;

use std::{
    fs::{self, File},
    io::{self, BufRead as _, Write as _},
    os::{
        fd::OwnedFd,
        unix::{
            fs::{DirBuilderExt as _, OpenOptionsExt as _},
            process::CommandExt as _,
        },
    },
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use agentenv_model::Values;
use agentenv_protocol::control::{ControlError, DeployState};
use agentenv_sandbox::{Cgroups, Spawner, Unlimited, liveness::DeployLock, process};
use tokio::{io::AsyncReadExt as _, net::unix::pipe, signal::unix::SignalKind};

use self::ledger::Ledger;
use crate::{
    DeployDir,
    logs::ServiceLog,
    mask::Mask,
    start::{StartEvent, SupervisorInput},
};

/// The longest plan taken: thousands of settings fit.
const INPUT_LIMIT: u64 = 64 << 20;

/// What tells the starter how things are going; without one, once it is ready or gone.
pub(crate) struct Starter(Mutex<Option<File>>);

impl Starter {
    pub(crate) fn progress(&self, what: impl Into<String>) {
        self.say(&StartEvent::Progress(what.into()));
    }

    fn say(&self, event: &StartEvent) {
        let mut pipe = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = pipe.as_mut() else { return };
        let line = serde_json::to_vec(event).map(|mut line| {
            line.push(b'\n');
            line
        });
        if line.map_err(io::Error::from).and_then(|line| file.write_all(&line)).is_err() {
            *pipe = None;
        }
    }

    fn end(&self, event: &StartEvent) {
        self.say(event);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// What the supervisor has before its runtime begins.
pub(crate) struct Prepared {
    pub(crate) dir: DeployDir,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) input: SupervisorInput,
    pub(crate) values: Values,
    pub(crate) mask: Mask,
    pub(crate) spawner: Spawner,
    /// Where sandboxes can be limited.
    pub(crate) cgroups: Option<Arc<Cgroups>>,
    pub(crate) starter: Arc<Starter>,
}

/// Runs a deploy's supervisor; `dir` is the deploy's folder.
pub fn supervisor_main(dir: &Path) -> ExitCode {
    limit_self();
    let folder = DeployDir::new(dir);
    // There is nobody to tell of an error here: the pipes to the starter are what failed.
    let Ok((from, to)) = leave(&folder) else { return ExitCode::FAILURE };
    // The spawner before anything is read: it inherits no secret and no thread.
    let spawner = Spawner::launch(marker(dir));
    let Ok((input, from)) = take_input(from) else { return ExitCode::FAILURE };
    let (dir, starter, starter_gone) = (folder, Starter(Mutex::new(Some(to.into()))), from);
    let starter = Arc::new(starter);
    let ended = spawner
        .map_err(|error| ControlError::infrastructure(error.to_string()).hint(error.hint().unwrap_or_default()))
        .and_then(|spawner| prepare(dir.clone(), input, spawner, Arc::clone(&starter)))
        .and_then(|(prepared, lock)| run(prepared, starter_gone, lock));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "the deploy failed");
            starter.end(&StartEvent::Failed(error));
            ExitCode::FAILURE
        }
    }
}

/// No core dump, which would hold secrets, here or in a child; as many descriptors as there may be.
fn limit_self() {
    use rustix::process::{Resource, Rlimit, setrlimit, umask};
    umask(rustix::fs::Mode::from_raw_mode(0o077));
    // Lowering, and raising up to the hard limit, is everybody's right.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = process::raise_descriptor_limit();
}

/// What the processes of a deploy carry, so that the reaper finds them: its id.
fn marker(dir: &Path) -> &str {
    dir.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

/// Leaves the starter's session and streams: keeps its two pipes, and puts the deploy's own log in their place.
fn leave(dir: &DeployDir) -> io::Result<(OwnedFd, OwnedFd)> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir.logs())?;
    let log = File::options().create(true).append(true).mode(0o600).open(dir.logs().join("supervisor.log"))?;
    let null = File::open("/dev/null")?;
    let from = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
    let to = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&log)?;
    rustix::stdio::dup2_stderr(&log)?;
    // Away from the starter's terminal: its ^C and hang-up are not for this process.
    rustix::process::setsid()?;
    Ok((from, to))
}

/// Takes the plan, and gives the pipe back: its end means that nobody waits any more.
fn take_input(pipe: OwnedFd) -> io::Result<(SupervisorInput, OwnedFd)> {
    let mut line = Vec::new();
    let mut reader = io::BufReader::new(File::from(pipe));
    io::Read::take(&mut reader, INPUT_LIMIT).read_until(b'\n', &mut line)?;
    Ok((serde_json::from_slice(&line)?, reader.into_inner().into()))
}

/// Takes the lock, after the last fork of this process, and looks whether the deploy is still wanted.
fn prepare(
    dir: DeployDir,
    mut input: SupervisorInput,
    spawner: Spawner,
    starter: Arc<Starter>,
) -> Result<(Prepared, DeployLock), ControlError> {
    let values = input.take_values();
    let filter = tracing_subscriber::EnvFilter::try_from_env("AGENTENV_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,hyper=error"));
    // What no log, error or answer of the deploy may show.
    let mask = Mask::of(input.plan.hidden_values(&values)).and(input.host.secrets());
    let log = ServiceLog::new(&dir.logs(), "supervisor", mask.clone());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || log.clone()).with_ansi(false).init();
    let lock = DeployLock::acquire(&dir.lock())
        .map_err(|error| ControlError::infrastructure(format!("{} cannot be locked: {error}", dir.lock().display())))?;
    let record = dir.load().map_err(|error| ControlError::infrastructure(error.to_string()))?;
    if record.state != DeployState::Starting {
        // A reaper came between a starter's death and this lock.
        return Err(ControlError::infrastructure("the deploy was given up before its supervisor began"));
    }
    let ledger = Arc::new(Ledger::new(dir.clone(), record));
    let cgroups = limits(&dir)?;
    Ok((Prepared { dir, ledger, input, values, mask, spawner, cgroups, starter }, lock))
}

/// Makes the cgroups of the deploy's sandboxes, on record first. Where there can be none, the log says so, as the doctor does.
fn limits(dir: &DeployDir) -> Result<Option<Arc<Cgroups>>, ControlError> {
    let unlimited = |why: &Unlimited| tracing::info!("{why}");
    let Ok(cgroups) = Cgroups::plan(marker(dir.path())).inspect_err(unlimited) else { return Ok(None) };
    dir.note_cgroups(cgroups.folders()).map_err(|error| {
        ControlError::infrastructure(format!("the deploy's folder {} cannot be written: {error}", dir.path().display()))
    })?;
    Ok(cgroups.make().inspect_err(unlimited).ok().map(|()| Arc::new(cgroups)))
}

/// How a deploy ended that did not fail.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Somebody closed it.
    Closed,
    /// Nobody did within its time to live.
    Forgotten,
}

fn run(prepared: Prepared, starter_gone: OwnedFd, lock: DeployLock) -> Result<(), ControlError> {
    let (dir, ledger) = (prepared.dir.clone(), Arc::clone(&prepared.ledger));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| ControlError::infrastructure(format!("the async runtime cannot be started: {error}")))?;
    let ended = runtime.block_on(live(prepared, starter_gone));
    runtime.shutdown_background();
    drop(lock);
    if ended? == End::Forgotten && ledger.record().captures.is_some_and(|captures| !captures.unstored.is_empty()) {
        store_captures(&dir);
    }
    Ok(())
}

/// Has the command store what was captured that somebody would have closed the deploy with (RUN-3). Nobody waits for it: what it says
/// is in this deploy's log, and what it does not store stays on disk for a rescue.
fn store_captures(dir: &DeployDir) {
    let mut command = std::process::Command::new("/proc/self/exe");
    command.arg0("agent-env").args(["env", "close", marker(dir.path())]).current_dir("/").stdin(Stdio::null());
    if let Some(home) = dir.home() {
        command.env("AGENTENV_HOME", home.root());
    }
    if let Err(error) = command.spawn() {
        tracing::error!(%error, "the captures could not be stored: `agent-env traffic rescue` does it");
    }
}

/// Builds the deploy, serves until its end, and takes it down. An error was also recorded; nothing is left in either case.
async fn live(prepared: Prepared, starter_gone: OwnedFd) -> Result<End, ControlError> {
    let (starter, ledger) = (Arc::clone(&prepared.starter), Arc::clone(&prepared.ledger));
    let (ttl, expects_reset, mask) = (prepared.input.ttl, prepared.input.expects_reset, prepared.mask.clone());
    let down = deploy::Down::new(&prepared);
    // Before anything is made: until then the signal ends this process at once.
    let mut terminated = std::pin::pin!(terminated());
    let _ = futures_util::poll!(&mut terminated);
    let built = tokio::select! {
        built = build::build(prepared, &down) => built,
        () = gone(starter_gone) => Err(ControlError::infrastructure("the deploy was given up before it was ready")),
        () = &mut terminated => Err(ControlError::infrastructure("the deploy was terminated before it was ready")),
    };
    let ended = match built {
        Ok(deploy) => {
            if expects_reset {
                deploy.foresee_reset().await;
            }
            starter.end(&StartEvent::Ready(Box::new(deploy.info())));
            tokio::select! {
                ended = deploy.until_end() => ended.map(|()| End::Closed),
                () = lived(ttl) => Ok(End::Forgotten),
                () = &mut terminated => Ok(End::Closed),
            }
        }
        Err(error) => Err(error),
    };
    // That it ends is told on disk beside the ending: nobody waits for one of them.
    let closing = Arc::clone(&ledger);
    let telling = tokio::task::spawn_blocking(move || {
        closing.note(|record| {
            if record.state != DeployState::Starting {
                record.state = DeployState::Closing;
            }
        });
    });
    let left = down.all().await;
    if let Err(error) = telling.await {
        tracing::error!(%error, "the record cannot be written");
    }
    let ended = match (ended, left) {
        (ended, Ok(())) => ended,
        (Ok(_), Err(error)) => Err(error),
        // Both are told: what failed, and what its removal left.
        (Err(error), Err(left)) => {
            Err(ControlError { message: format!("{}; and {}", error.message, left.message), ..error })
        }
    };
    let ended = ended.map_err(|error| mask.error(error));
    ledger.note(|record| record.ended(ended.clone().err()));
    down.farewell().await;
    ended
}

/// Resolves when the starter closes its pipe without having been told that the deploy is ready.
async fn gone(pipe: OwnedFd) {
    let Ok(mut pipe) = pipe::Receiver::from_owned_fd(pipe) else { return std::future::pending().await };
    let mut byte = [0];
    while !matches!(pipe.read(&mut byte).await, Ok(0) | Err(_)) {}
}

/// Resolves when a deploy that was given a time to live has had it (RUN-3).
async fn lived(ttl: Option<Duration>) {
    match ttl {
        Some(ttl) => {
            tokio::time::sleep(ttl).await;
            tracing::info!(?ttl, "the deploy's time to live is over");
        }
        None => std::future::pending().await,
    }
}

async fn terminated() {
    let Ok(mut signal) = tokio::signal::unix::signal(SignalKind::terminate()) else {
        return std::future::pending().await;
    };
    signal.recv().await;
}

/// The folder of the supervisor's own program, for the sandboxes that run a part of it.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    fs::read_link("/proc/self/exe")
}
