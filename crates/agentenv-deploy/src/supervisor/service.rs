//! One service kept running: started, watched, started again three times a minute, then failed (RUN-6).

use std::{
    io,
    os::fd::BorrowedFd,
    sync::Arc,
    time::{Duration, Instant},
};

use agentenv_protocol::{SandboxName, control::ServiceStatus};
use agentenv_sandbox::{Environment, ExitInfo, SandboxError, Service, ServiceSpec, Spawner};
use secrecy::SecretString;
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::{Mutex, oneshot, watch},
    task::JoinHandle,
};

use super::sockets::Sockets;
use crate::logs::ServiceLog;

/// Starts again within [`RESTART_WINDOW`] before what dies again is failed.
pub(crate) const RESTART_LIMIT: usize = 3;
/// See [`RESTART_LIMIT`].
const RESTART_WINDOW: Duration = Duration::from_secs(60);
/// What a service gets between TERM and KILL: its data is thrown away, so there is little to put in order.
const TERM_GRACE: Duration = Duration::from_millis(300);
/// Between two looks at a service whose end can't be waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// When something was started again lately.
#[derive(Default)]
pub(crate) struct Restarts(Vec<Instant>);

impl Restarts {
    /// Whether it may be started again now; then that counts.
    pub(crate) fn another(&mut self) -> bool {
        let now = Instant::now();
        self.0.retain(|start| now.duration_since(*start) < RESTART_WINDOW);
        let may = self.0.len() < RESTART_LIMIT;
        if may {
            self.0.push(now);
        }
        may
    }
}

/// How to start one service.
pub(crate) struct Recipe {
    pub(crate) spawner: Spawner,
    pub(crate) sockets: Sockets,
    pub(crate) spec: ServiceSpec,
    pub(crate) environment: Vec<(String, SecretString)>,
    pub(crate) log: ServiceLog,
    /// Whether an exit is followed by another start.
    pub(crate) restarts: bool,
}

/// A service that was started.
pub(crate) struct Supervised {
    name: SandboxName,
    /// Whether it may have something to put in order before it ends.
    graceful: bool,
    status: watch::Receiver<ServiceStatus>,
    stop: watch::Sender<Stop>,
    current: Arc<Mutex<Option<Arc<Service>>>>,
    task: Mutex<Option<JoinHandle<()>>>,
    log: ServiceLog,
}

impl Supervised {
    /// Starts the service; its first start's error, such as a missing program, is returned.
    pub(crate) async fn start(recipe: Recipe) -> Result<Self, SandboxError> {
        let first = launch(&recipe, None).await?;
        Ok(Self::keep(recipe, first))
    }

    /// Starts the service beside something else that has to be first: its program begins at a word, and never if that does not
    /// come.
    pub(crate) async fn start_after(recipe: Recipe, word: oneshot::Receiver<()>) -> Result<Self, SandboxError> {
        let first = launch(&recipe, Some(word)).await?;
        Ok(Self::keep(recipe, first))
    }

    fn keep(recipe: Recipe, first: Arc<Service>) -> Self {
        let (status, seen) = watch::channel(running(&first, 0));
        let (stop, stopped) = watch::channel(Stop::No);
        let (name, log, graceful) = (recipe.spec.name.clone(), recipe.log.clone(), recipe.restarts);
        let current = Arc::new(Mutex::new(Some(Arc::clone(&first))));
        let task = tokio::spawn(keep(recipe, first, status, stopped, Arc::clone(&current)));
        Self { name, graceful, status: seen, stop, current, task: Mutex::new(Some(task)), log }
    }

    pub(crate) fn name(&self) -> &SandboxName {
        &self.name
    }

    pub(crate) fn log(&self) -> &ServiceLog {
        &self.log
    }

    pub(crate) fn status(&self) -> ServiceStatus {
        self.status.borrow().clone()
    }

    /// Whether it runs, or is being started again.
    pub(crate) fn is_up(&self) -> bool {
        self.status.borrow().state == RUNNING
    }

    /// The service as it runs now.
    pub(crate) async fn current(&self) -> Option<Arc<Service>> {
        self.current.lock().await.clone()
    }

    /// Waits until the service is failed for good, and returns why.
    pub(crate) async fn failed(&self) -> String {
        let mut status = self.status.clone();
        let failed = status.wait_for(|status| status.state == FAILED).await;
        let reason = failed.map(|status| status.reason.clone().unwrap_or_default()).ok();
        match reason {
            Some(reason) => reason,
            // The keeper ended: stopped on purpose.
            None => std::future::pending().await,
        }
    }

    /// Stops the service: TERM, a grace period, KILL. One that is never started again keeps nothing beyond its episode: KILL at once.
    /// Returns when nothing of it runs.
    pub(crate) async fn stop(&self) {
        self.end(if self.graceful { Stop::Term } else { Stop::Kill }).await;
    }

    /// Stops what has nothing to put in order: KILL at once.
    pub(crate) async fn kill(&self) {
        self.end(Stop::Kill).await;
    }

    async fn end(&self, how: Stop) {
        self.stop.send_replace(how);
        if let Some(task) = self.task.lock().await.take()
            && let Err(error) = task.await
        {
            tracing::warn!(%error, service = %self.name, "keeper");
        }
    }
}

/// The state of a service that runs.
const RUNNING: &str = "running";
/// The state of a service that was stopped on purpose.
const STOPPED: &str = "stopped";
/// The state of a service that is started no more.
const FAILED: &str = "failed";

fn running(service: &Service, restarts: u32) -> ServiceStatus {
    ServiceStatus { state: RUNNING.to_owned(), pid: Some(service.pid()), restarts, reason: None }
}

async fn launch(recipe: &Recipe, word: Option<oneshot::Receiver<()>>) -> Result<Arc<Service>, SandboxError> {
    let name = recipe.spec.name.to_string();
    let local = |what, source| SandboxError::Local { name: name.clone(), what, source };
    let environment =
        Environment::new(recipe.environment.iter().cloned()).map_err(|error| local("its environment", error))?;
    let (spawner, sockets, spec) = (recipe.spawner.clone(), recipe.sockets.clone(), recipe.spec.clone());
    let start = move || match word {
        Some(word) => spawner.start_after(sockets.sandbox(), &spec, &environment, || word.blocking_recv().is_ok()),
        None => spawner.start(sockets.sandbox(), &spec, &environment),
    };
    let started = tokio::task::spawn_blocking(start).await;
    let mut service = started.map_err(|error| local("a thread", io::Error::other(error)))??;
    for pipe in [service.stdout.take(), service.stderr.take()].into_iter().flatten() {
        recipe.log.follow(pipe).map_err(|error| local("its log", error))?;
    }
    Ok(Arc::new(service))
}

async fn keep(
    recipe: Recipe,
    mut service: Arc<Service>,
    status: watch::Sender<ServiceStatus>,
    mut stop: watch::Receiver<Stop>,
    current: Arc<Mutex<Option<Arc<Service>>>>,
) {
    let mut budget = Restarts::default();
    let mut restarts = 0;
    loop {
        let exit = tokio::select! {
            exit = ended(&service) => exit,
            how = wanted(&mut stop) => {
                end(&service, how).await;
                *current.lock().await = None;
                status.send_replace(ServiceStatus { state: STOPPED.to_owned(), pid: None, restarts, reason: None });
                return;
            }
        };
        *current.lock().await = None;
        let mut reason = format!("it {}", described(exit));
        recipe.log.write(&format!("agent-env: {} {}", recipe.spec.name, described(exit)));
        if recipe.restarts && budget.another() {
            restarts += 1;
            match launch(&recipe, None).await {
                Ok(next) => {
                    service = next;
                    *current.lock().await = Some(Arc::clone(&service));
                    status.send_replace(running(&service, restarts));
                    continue;
                }
                Err(error) => reason = error.to_string(),
            }
        } else if recipe.restarts {
            reason = format!("{reason}, {} times within a minute", RESTART_LIMIT + 1);
        }
        status.send_replace(ServiceStatus { state: FAILED.to_owned(), pid: None, restarts, reason: Some(reason) });
        // The sender stays, so that those who wait for a failure see it and not an end.
        wanted(&mut stop).await;
        return;
    }
}

/// How a service ended, for people.
pub(crate) fn described(exit: ExitInfo) -> String {
    match exit {
        ExitInfo::Code(code) => format!("exited with code {code}"),
        ExitInfo::Signal(signal) => format!("was killed by signal {signal}"),
        ExitInfo::Lost => "ended with its spawner".to_owned(),
    }
}

/// The exit code of a command that ended so, as shells count.
pub(crate) fn exit_code(exit: ExitInfo) -> i32 {
    match exit {
        ExitInfo::Code(code) => code,
        ExitInfo::Signal(signal) => 128 + signal,
        ExitInfo::Lost => 128 + 9,
    }
}

/// Waits for the service's end.
pub(crate) async fn ended(service: &Service) -> ExitInfo {
    loop {
        if let Some(exit) = service.try_wait() {
            return exit;
        }
        if let Err(error) = readable(service.exit_fd()).await {
            tracing::warn!(%error, "the end of a service cannot be waited for");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

/// Waits until a descriptor is readable, as a pidfd is when its process has ended.
#[expect(
    deprecated,
    reason = "sound for a descriptor that is owned; its successor is unsafe, which only the sandbox crate may be"
)]
pub(crate) async fn readable(fd: BorrowedFd<'_>) -> io::Result<()> {
    let fd = AsyncFd::with_interest(fd.try_clone_to_owned()?, Interest::READABLE)?;
    fd.readable().await.map(drop)
}

/// How a service is to end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    Term,
    Kill,
}

async fn wanted(stop: &mut watch::Receiver<Stop>) -> Stop {
    // Whoever held the other end is gone: nobody wants the service any more.
    stop.wait_for(|stop| *stop != Stop::No).await.map_or(Stop::Kill, |stop| *stop)
}

async fn end(service: &Service, how: Stop) {
    if how == Stop::Term {
        service.terminate();
        if tokio::time::timeout(TERM_GRACE, ended(service)).await.is_ok() {
            return;
        }
    }
    service.kill();
    ended(service).await;
}
