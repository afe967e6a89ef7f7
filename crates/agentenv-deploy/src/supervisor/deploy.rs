//! A running deploy: what the control API does with it, and how it is taken down.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd as _, BorrowedFd},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use agentenv_net::{BrowserNetHandle, Gateway, Sites};
use agentenv_protocol::{
    DataReply, DeployId, ExitCode, Name, SandboxName,
    control::{
        CloseRequest, ControlError, DeniedEntry, DeployInfo, DeployState, DeployStatus, ExecRequest, GetRequest,
        LoadRequest, ServiceStatus,
    },
};
use agentenv_sandbox::{Environment, Service, Spawner, process};
use futures_util::future::{join, join_all, try_join_all};
use tokio::sync::watch;

use super::{
    Prepared,
    build::Context,
    captures::Captures,
    dial::Dialer,
    ledger::Ledger,
    machine::Machine,
    pod::Pod,
    service::{Supervised, readable},
    sockets::Sockets,
    specs,
};
use crate::{DeployDir, names};

/// How long those who asked for the end may take to read the answer.
const FAREWELL_LIMIT: Duration = Duration::from_secs(1);
/// How long the kernel may take to end what was killed.
const GONE_LIMIT: Duration = Duration::from_secs(10);

/// Between two looks whether the deploy's folder is still there.
const FORGOTTEN_LOOK: Duration = Duration::from_secs(2);

/// A deploy that is ready.
pub(crate) struct Deploy {
    pub(super) context: Arc<Context>,
    info: DeployInfo,
    pub(super) pods: BTreeMap<Name, Pod>,
    /// Browsers, then computers, each in order of name.
    pub(super) machines: Vec<Arc<Machine>>,
    pub(super) sites: Arc<Sites>,
    pub(super) gateway: Gateway,
    pub(super) resets: AtomicU64,
    /// Held by what must not run beside itself: reset and sign-in.
    pub(super) turn: tokio::sync::Mutex<()>,
}

impl Deploy {
    pub(crate) fn new(
        context: Context,
        info: DeployInfo,
        pods: Vec<Pod>,
        mut machines: Vec<Machine>,
        sites: Arc<Sites>,
        gateway: Gateway,
    ) -> Self {
        machines.sort_by(|a, b| (a.kind(), a.name()).cmp(&(b.kind(), b.name())));
        Self {
            context: Arc::new(context),
            info,
            pods: pods.into_iter().map(|pod| (pod.name().clone(), pod)).collect(),
            machines: machines.into_iter().map(Arc::new).collect(),
            sites,
            gateway,
            resets: AtomicU64::new(0),
            turn: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn info(&self) -> DeployInfo {
        self.info.clone()
    }

    pub(crate) fn denied(&self) -> Vec<DeniedEntry> {
        self.context.denied.entries()
    }

    pub(crate) fn status(&self) -> DeployStatus {
        let mut services: BTreeMap<SandboxName, ServiceStatus> = self.pods.values().flat_map(Pod::status).collect();
        services.extend(self.machines.iter().map(|machine| (machine.sandbox().clone(), machine.status())));
        let all_up = self.pods.values().all(Pod::is_up) && self.machines.iter().all(|machine| machine.is_up());
        let whole = all_up && self.context.captures.are_whole();
        DeployStatus {
            state: if whole { DeployState::Ready } else { DeployState::Degraded },
            info: self.info(),
            services,
            resets: self.resets.load(Ordering::Relaxed),
            captures: self.context.captures.rings(),
        }
    }

    pub(super) fn pod(&self, website: &Name) -> Result<&Pod, ControlError> {
        self.pods.get(website).ok_or_else(|| {
            let known: Vec<&str> = self.pods.keys().map(Name::as_str).collect();
            ControlError::new(ExitCode::Refused, format!("the deploy has no website `{website}`"))
                .hint(format!("it has: {}", known.join(", ")))
        })
    }

    pub(crate) async fn load(&self, request: LoadRequest) -> Result<(), ControlError> {
        // Every name is known before anything is loaded.
        let pods: Vec<_> = request
            .data
            .into_iter()
            .map(|(website, data)| Ok((self.pod(&website)?, data)))
            .collect::<Result<_, ControlError>>()?;
        let loads = pods
            .into_iter()
            .map(|(pod, data)| async { pod.client.load(data).await.map_err(|error| pod.failed(&error)) });
        try_join_all(loads).await.map(drop)
    }

    pub(crate) async fn data(&self, request: GetRequest) -> Result<DataReply, ControlError> {
        let pod = self.pod(&request.website)?;
        let data = pod.client.get(request.selector).await.map_err(|error| pod.failed(&error))?;
        Ok(DataReply { data })
    }

    /// Starts a command in a service's sandbox: its namespaces, uid, seccomp and root, without its settings or keys.
    pub(crate) async fn exec(&self, request: &ExecRequest) -> Result<Service, ControlError> {
        let name = &request.sandbox;
        let machine = self.machines.iter().find(|machine| machine.sandbox() == name);
        let of = |pod: &&Pod| pod.services.iter().any(|service| service.name() == name);
        let website = self.pods.values().find(of).map(|pod| &pod.website);
        let variables = machine.map_or_else(|| specs::exec_variables(website), |machine| machine.exec_variables());
        let services = self
            .pods
            .values()
            .flat_map(|pod| pod.services.iter().map(|service| (Arc::clone(service), pod.sockets.clone())));
        let machines = self.machines.iter().map(|machine| machine.running());
        let known: Vec<(Arc<Supervised>, Sockets)> = services.chain(machines).collect();
        let Some((service, sockets)) = known.iter().find(|(service, _)| service.name() == name) else {
            let names: Vec<&str> = known.iter().map(|(service, _)| service.name().as_str()).collect();
            return Err(ControlError::new(ExitCode::Refused, format!("the deploy has no sandbox `{name}`"))
                .hint(format!("it has: {}", names.join(", "))));
        };
        let current = service.current().await.ok_or_else(|| {
            ControlError::infrastructure(format!("`{name}` is not running")).hint("`agent-env env status` says why")
        })?;
        let environment = Environment::new(variables).map_err(|error| {
            ControlError::infrastructure(format!("the command's environment cannot be made: {error}"))
        })?;
        let (spawner, sockets, command) = (self.context.spawner.clone(), sockets.clone(), request.command.clone());
        let started = move || spawner.exec(sockets.sandbox(), &current, command, &environment);
        tokio::task::spawn_blocking(started)
            .await
            .map_err(|error| ControlError::infrastructure(format!("the command could not be started: {error}")))?
            .map_err(|error| self.context.sandbox_error(&error))
    }

    /// Asks for the end, and waits for it.
    pub(crate) async fn close(&self, request: &CloseRequest) -> Result<(), ControlError> {
        if request.discard_captures {
            self.context.captures.discard_at_end();
        }
        self.context.down.closed().await
    }

    /// Resolves when the deploy is to end: asked for, or because its spawner or a broker is dead.
    pub(crate) async fn until_end(&self) -> Result<(), ControlError> {
        let spawner = dead(self.context.spawner.pidfd());
        let died = tokio::select! {
            () = self.context.down.wanted() => return Ok(()),
            died = self.context.down.broken() => died,
            () = spawner => "the spawner died".to_owned(),
            () = self.forgotten() => "its folder was removed".to_owned(),
        };
        Err(ControlError::infrastructure(died).hint("the deploy has ended; deploy it again"))
    }

    /// Resolves when the deploy's record is gone: no command can find the deploy any more, so nothing else would end it.
    async fn forgotten(&self) {
        let record = self.context.dir.record();
        while !matches!(record.try_exists(), Ok(false)) {
            tokio::time::sleep(FORGOTTEN_LOOK).await;
        }
    }
}

/// Resolves when the process of a pidfd has ended.
async fn dead(pidfd: BorrowedFd<'_>) {
    if let Err(error) = readable(pidfd).await {
        tracing::warn!(%error, "the end of a process cannot be waited for");
        std::future::pending::<()>().await;
    }
}

/// What exists of a deploy, gathered as it is made, so that any half of it can be taken down.
#[derive(Clone)]
pub(crate) struct Down {
    pub(super) dialer: Arc<Dialer>,
    pub(super) captures: Arc<Captures>,
    inner: Arc<Inner>,
}

struct Inner {
    dir: DeployDir,
    deploy: DeployId,
    name: Option<Name>,
    ledger: Arc<Ledger>,
    spawner: Spawner,
    parts: Mutex<Parts>,
    wanted: watch::Sender<bool>,
    /// What died without which a sandbox is none.
    broken: watch::Sender<Option<String>>,
    outcome: watch::Sender<Option<Result<(), ControlError>>>,
}

#[derive(Default)]
struct Parts {
    nets: Vec<BrowserNetHandle>,
    services: Vec<Arc<Supervised>>,
    sandboxes: Vec<Sockets>,
}

impl Down {
    pub(crate) fn new(prepared: &Prepared) -> Self {
        let record = prepared.ledger.record();
        let inner = Inner {
            dir: prepared.dir.clone(),
            deploy: record.deploy,
            name: record.name,
            ledger: Arc::clone(&prepared.ledger),
            spawner: prepared.spawner.clone(),
            parts: Mutex::default(),
            wanted: watch::Sender::new(false),
            broken: watch::Sender::new(None),
            outcome: watch::Sender::new(None),
        };
        let captures = Captures::new(prepared.dir.captures(), prepared.input.plan.captures);
        Self { dialer: Arc::default(), captures: Arc::new(captures), inner: Arc::new(inner) }
    }

    fn parts(&self) -> std::sync::MutexGuard<'_, Parts> {
        self.inner.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn net(&self, net: BrowserNetHandle) {
        self.parts().nets.push(net);
    }

    pub(crate) fn service(&self, service: &Arc<Supervised>) {
        let mut parts = self.parts();
        // Those of a browser's earlier episodes have ended.
        parts.services.retain(|earlier| earlier.is_up());
        parts.services.push(Arc::clone(service));
    }

    /// Takes a sandbox, and has an eye on its broker from now on.
    pub(crate) fn sandbox(&self, sockets: &Sockets) -> io::Result<()> {
        self.parts().sandboxes.push(sockets.clone());
        let (name, broker) = (sockets.sandbox().name().to_owned(), sockets.sandbox().pidfd().try_clone_to_owned()?);
        // Not the sockets: they would keep the sandbox alive.
        let inner = Arc::clone(&self.inner);
        tokio::spawn(async move {
            dead(broker.as_fd()).await;
            inner.broken.send_replace(Some(format!("the broker of sandbox `{name}` died")));
        });
        Ok(())
    }

    /// Resolves when a broker is dead, and names it.
    async fn broken(&self) -> String {
        let mut broken = self.inner.broken.subscribe();
        // The sender lives as long as this does.
        let broken = broken.wait_for(Option::is_some).await;
        broken.ok().and_then(|broken| broken.clone()).unwrap_or_default()
    }

    /// Asks for the end and waits until nothing is left.
    pub(crate) async fn closed(&self) -> Result<(), ControlError> {
        self.inner.wanted.send_replace(true);
        let mut outcome = self.inner.outcome.subscribe();
        match outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
            Err(_) => Ok(()),
        }
    }

    async fn wanted(&self) {
        // The sender lives as long as this does.
        let _ = self.inner.wanted.subscribe().wait_for(|wanted| *wanted).await;
    }

    /// Takes everything down, in order, and proves that nothing is left.
    pub(crate) async fn all(&self) -> Result<(), ControlError> {
        let parts = std::mem::take(&mut *self.parts());
        let Parts { nets, services, sandboxes } = parts;
        // Whoever waits in a request is cut: the deploy's data is gone with it. The gateway ends with this process.
        drop(nets);
        join_all(services.iter().map(|service| service.stop())).await;
        // One socket alone would keep a namespace alive.
        self.dialer.clear();
        drop((services, sandboxes));
        let spawner = self.inner.spawner.clone();
        let ended = tokio::task::spawn_blocking(move || spawner.shutdown());
        // Captures end after the last service (CAP-2); what the kernel has for them it keeps when the sandboxes go.
        let (ended, ()) = join(ended, self.captures.stop(&self.inner.ledger)).await;
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "spawner"),
            Err(error) => tracing::warn!(%error, "spawner"),
        }
        self.forget();
        let left = self.prove().await;
        self.inner.outcome.send_replace(Some(left.clone()));
        left
    }

    /// Removes what only a running deploy has on disk.
    fn forget(&self) {
        let dir = &self.inner.dir;
        if let Err(error) = dir.remove_cgroups() {
            tracing::warn!(%error, "a cgroup cannot be removed");
        }
        for path in [dir.control_socket(), dir.control_token(), dir.ca()] {
            if let Err(error) = std::fs::remove_file(&path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(%error, path = %path.display(), "cannot be removed");
            }
        }
        if let (Some(name), Some(home)) = (&self.inner.name, dir.home())
            && let Err(error) = names::release(&home, name, &self.inner.deploy)
        {
            tracing::warn!(%error, %name, "the name cannot be given back");
        }
    }

    /// Waits until no process carries the deploy's mark. The spawner has ended with all that it started; what carries the
    /// mark nevertheless is killed.
    async fn prove(&self) -> Result<(), ControlError> {
        let gone = async {
            loop {
                let left = process::find_processes_of(self.inner.deploy.as_str());
                if left.as_ref().is_ok_and(Vec::is_empty) {
                    return;
                }
                for (process, role) in left.iter().flatten() {
                    let killed = process.kill_if_same(Duration::ZERO);
                    tracing::debug!(pid = process.pid, ?role, ?killed, "carries the mark of the deploy that has ended");
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(GONE_LIMIT, gone).await.map_err(|_| {
            ControlError::infrastructure("processes of the deploy did not end").hint("`agent-env env gc` ends them")
        })
    }

    /// Held by each connection of the control socket: while there is one, its answer may not be written yet.
    pub(super) fn guest(&self) -> impl Sized + Send + use<> {
        self.inner.outcome.subscribe()
    }

    /// Lets those who asked for the end read that it has come.
    pub(crate) async fn farewell(&self) {
        let readers = async {
            while self.inner.outcome.receiver_count() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = tokio::time::timeout(FAREWELL_LIMIT, readers).await;
    }
}
