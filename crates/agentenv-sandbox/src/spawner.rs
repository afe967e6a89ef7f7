//! The supervisor's handle of the spawner: one request at a time over the control socket; what a child has to say comes
//! over a socket of its own, so that slow starts don't wait for each other.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::process::{PidfdFlags, Signal};

use crate::{
    environment::{Environment, sealed},
    error::SandboxError,
    kernel,
    messages::{Create, Exec, Program, Reply, Report, Request, Start},
    pipes::{CHILD_LIMIT, Pipes, limit_receive, local, pid_from, unexpected},
    process::ended_within,
    sandbox::Sandbox,
    serve::CONTROL_FD,
    service::{Manner, Service},
    spec::{SandboxSpec, ServiceSpec, check_command},
    uid::MapBy,
    wire::{self, WireError},
};

/// The spawner forks and answers; a fork of a small process takes less than a millisecond.
const REPLY_LIMIT: Duration = Duration::from_secs(10);
/// Killing and reaping everything.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(10);

/// The hidden command that the spawner is: `main()` calls [`crate::spawner_main`] for it before anything else.
pub const SPAWNER_COMMAND: &str = "internal-spawner";

/// The process that starts everything else. Clones share it; the last one to go ends it, and with it every sandbox.
#[derive(Clone, Debug)]
pub struct Spawner(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    control: Mutex<OwnedFd>,
    child: Mutex<Child>,
    pid: u32,
    pidfd: OwnedFd,
}

impl Spawner {
    /// Starts it: this program again, by `/proc/self/exe`, as `agent-env internal-spawner MARKER`.
    ///
    /// Call it from the main thread and before an asynchronous runtime exists: the kernel ends the spawner when the
    /// *thread* that started it ends. `marker`, the deploy's id, stays readable in the command line of every process of
    /// ours, for [`crate::process::find_processes_of`].
    ///
    /// # Errors
    /// No process or descriptor is left, or `/proc` isn't there.
    pub fn launch(marker: &str) -> Result<Self, SandboxError> {
        launch(marker).map(|inner| Self(Arc::new(inner))).map_err(SandboxError::Launch)
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Readable when it has ended, and with it every sandbox.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.0.pidfd.as_fd()
    }

    /// Creates a sandbox: namespaces and broker.
    ///
    /// # Errors
    /// The kernel refuses a step; what was made so far is gone again.
    pub fn create(&self, spec: &SandboxSpec) -> Result<Sandbox, SandboxError> {
        let name = &spec.name;
        let (ours, theirs) = wire::pair().map_err(|errno| local(name, "a socket", errno))?;
        let ids = spec.uid.ids();
        let create = Create { name: name.clone(), network: spec.network, ids, data: spec.data, packets: spec.packets };
        let (pid, fds) = self.ask(name, &Request::Create(create), &[theirs.as_fd()])?;
        drop(theirs);
        let wire_error = |source| SandboxError::Wire { name: name.clone(), source };
        let [pidfd] = wire::exactly(fds).map_err(wire_error)?;
        let Some(pid) = pid_from(pid) else { return Err(SandboxError::Died { name: name.clone() }) };
        limit_receive(&ours, CHILD_LIMIT).map_err(|errno| local(name, "a socket", errno))?;
        let ready = match wire::receive(ours.as_fd()) {
            Ok((Report::Ready, fds)) => wire::exactly(fds).map_err(wire_error),
            Ok((Report::Failed(failure), _)) => Err(SandboxError::of_failure(name, failure)),
            Ok((other, _)) => Err(unexpected(name, &other)),
            Err(WireError::Closed) => Err(SandboxError::Died { name: name.clone() }),
            Err(source) => Err(wire_error(source)),
        };
        let namespaces = ready.inspect_err(|_| {
            // On its way out by itself, unless it hangs.
            let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
        })?;
        Ok(Sandbox {
            name: name.clone(),
            network: spec.network,
            uid: spec.uid.clone(),
            cgroup: spec.cgroup.clone(),
            socket: Mutex::new(ours),
            pid,
            pidfd,
            namespaces,
        })
    }

    /// Starts a service in a sandbox; returns when its program runs.
    ///
    /// # Errors
    /// The specification is wrong, something it names isn't there, or the kernel refuses a step; nothing of the service
    /// is left.
    pub fn start(
        &self,
        sandbox: &Sandbox,
        spec: &ServiceSpec,
        environment: &Environment,
    ) -> Result<Service, SandboxError> {
        let (pipes, manner) = self.prepare(sandbox, spec, environment, false)?;
        started(pipes, spec, manner)
    }

    /// As [`Spawner::start`], beside something else that has to be first: the service is prepared meanwhile, and its program begins
    /// when `before` has returned `true`.
    ///
    /// # Errors
    /// As [`Spawner::start`], and [`SandboxError::CalledOff`] when `before` returned `false`.
    pub fn start_after(
        &self,
        sandbox: &Sandbox,
        spec: &ServiceSpec,
        environment: &Environment,
        before: impl FnOnce() -> bool,
    ) -> Result<Service, SandboxError> {
        let (pipes, manner) = self.prepare(sandbox, spec, environment, true)?;
        if before() {
            pipes.begin();
            return started(pipes, spec, manner);
        }
        pipes.call_off();
        // Ends with an error, and with the service.
        let _ = started(pipes, spec, manner);
        Err(SandboxError::CalledOff { name: spec.name.to_string() })
    }

    fn prepare(
        &self,
        sandbox: &Sandbox,
        spec: &ServiceSpec,
        environment: &Environment,
        waits: bool,
    ) -> Result<(Pipes, Manner), SandboxError> {
        let name = spec.name.to_string();
        spec.check().map_err(|source| SandboxError::Spec { name: name.clone(), source })?;
        let contents: Vec<u8> = spec.etc.iter().flat_map(|(_, content)| content).copied().collect();
        let etc = sealed("etc", &contents).map_err(|source| SandboxError::Local {
            name: name.clone(),
            what: "a memory file",
            source,
        })?;
        let manner = Manner {
            cwd: spec.cwd.clone(),
            seccomp: spec.seccomp,
            limits: spec.limits,
            client_ports: spec.client_ports.clone(),
        };
        let program = Program { waits, ..program(spec.command.clone(), &manner, sandbox) };
        let start = Start {
            program,
            mounts: spec.mounts.clone(),
            etc: spec.etc.iter().map(|(path, content)| (path.into(), content.len())).collect(),
            hostname: spec.hostname.clone(),
            data: spec.data,
            tmp_bytes: spec.tmp_bytes,
            shm_bytes: spec.shm_bytes,
            home_bytes: spec.home_bytes,
        };
        let pipes = Pipes::new(&name)?;
        let namespaces: Vec<_> = sandbox.namespaces.iter().collect();
        self.ask(&name, &Request::Start(start), &pipes.theirs(&namespaces, environment, Some(&etc)))?;
        Ok((pipes, manner))
    }

    /// Runs a program beside a service: in its namespaces and root, as its uid, under its filters and limits, but with
    /// an environment and pipes of its own; its connections come from the service's ports. It ends with the service at the latest.
    ///
    /// # Errors
    /// As [`Spawner::start`].
    pub fn exec(
        &self,
        sandbox: &Sandbox,
        service: &Service,
        command: Vec<String>,
        environment: &Environment,
    ) -> Result<Service, SandboxError> {
        let name = service.name.clone();
        check_command(&command).map_err(|source| SandboxError::Spec { name: name.clone(), source })?;
        let Some(inside) = &service.namespaces else { return Err(SandboxError::Died { name }) };
        let program = program(command, &service.manner, sandbox);
        let pipes = Pipes::new(&name)?;
        let namespaces: Vec<_> = sandbox.namespaces[..2].iter().chain(inside).collect();
        self.ask(&name, &Request::Exec(Exec { program }), &pipes.theirs(&namespaces, environment, None))?;
        pipes.follow(&name, service.manner.clone())
    }

    /// Ends it: it kills whatever it started, waits for that, and ends.
    ///
    /// # Errors
    /// It did not end in time and was killed; the kernel then kills the rest.
    pub fn shutdown(self) -> Result<(), SandboxError> {
        self.0.end()
    }

    fn ask(&self, name: &str, request: &Request, fds: &[BorrowedFd<'_>]) -> Result<(u32, Vec<OwnedFd>), SandboxError> {
        let gone = |error| match error {
            WireError::Closed => SandboxError::SpawnerGone,
            source => SandboxError::Wire { name: name.to_owned(), source },
        };
        let control = self.0.control.lock().unwrap_or_else(PoisonError::into_inner);
        wire::send(control.as_fd(), request, fds).map_err(gone)?;
        let (reply, fds) = wire::receive::<Reply>(control.as_fd()).map_err(|error| {
            if matches!(error, WireError::TimedOut) {
                // A late answer would be taken for the next request's.
                let _ = rustix::net::shutdown(&*control, rustix::net::Shutdown::Both);
            }
            gone(error)
        })?;
        reply.map(|pid| (pid, fds)).map_err(|failure| SandboxError::of_failure(name, failure))
    }
}

fn program(command: Vec<String>, manner: &Manner, sandbox: &Sandbox) -> Program {
    let Manner { cwd, seccomp, limits, client_ports } = manner.clone();
    let set_groups = sandbox.uid.ids().by != MapBy::Owner;
    Program { command, cwd, seccomp, limits, set_groups, client_ports, cgroup: sandbox.cgroup.0.clone(), waits: false }
}

fn started(pipes: Pipes, spec: &ServiceSpec, manner: Manner) -> Result<Service, SandboxError> {
    let mut service = pipes.follow(spec.name.as_str(), manner)?;
    // A service reads nothing: its standard input is a pipe that has ended.
    service.stdin = None;
    Ok(service)
}

fn launch(marker: &str) -> io::Result<Inner> {
    let (ours, theirs) = wire::pair()?;
    limit_receive(&ours, REPLY_LIMIT)?;
    // Whatever else happens, the number is in use from here on, so `Command` doesn't put a pipe of its own there.
    let _number = rustix::io::fcntl_dupfd_cloexec(&theirs, CONTROL_FD)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("agent-env").arg(SPAWNER_COMMAND).arg(marker).env_clear().current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit());
    kernel::give_only(&mut command, theirs, CONTROL_FD);
    let child = command.spawn()?;
    // Holds the spawner's end of the socket too.
    drop(command);
    let pid = pid_from(child.id()).ok_or(io::ErrorKind::InvalidData)?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    Ok(Inner { control: Mutex::new(ours), pid: child.id(), child: Mutex::new(child), pidfd })
}

impl Inner {
    fn end(&self) -> Result<(), SandboxError> {
        let control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = rustix::net::shutdown(&*control, rustix::net::Shutdown::Both);
        drop(control);
        let in_time = ended_within(self.pidfd.as_fd(), SHUTDOWN_LIMIT);
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if !in_time {
            let _ = child.kill();
        }
        let _ = child.wait();
        let name = "spawner".to_owned();
        if in_time { Ok(()) } else { Err(SandboxError::Wire { name, source: WireError::TimedOut }) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
