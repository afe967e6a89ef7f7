//! The pipes and sockets of one start, and what comes over them.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::Mutex,
    time::Duration,
};

use rustix::{
    fs::Mode,
    net::sockopt::{Timeout, set_socket_timeout},
    pipe::PipeFlags,
    process::{Pid, Signal},
};

use crate::{
    environment::Environment,
    error::SandboxError,
    messages::Report,
    process::ended_within,
    service::{Manner, Service},
    wire::{self, WireError},
};

/// A child mounts and execs in a few milliseconds; a host under load, or a slow disk, may need much longer.
pub(crate) const CHILD_LIMIT: Duration = Duration::from_secs(30);

/// The pipes and sockets of one start: our ends and the child's.
pub(crate) struct Pipes {
    ours: Ours,
    status: OwnedFd,
    theirs: [OwnedFd; 5],
}

struct Ours {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    exit: OwnedFd,
}

impl Pipes {
    pub(crate) fn new(name: &str) -> Result<Self, SandboxError> {
        let make = || -> rustix::io::Result<Self> {
            let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
            let ((stdin_theirs, stdin), (stdout, stdout_theirs)) = (pipe()?, pipe()?);
            let ((stderr, stderr_theirs), (exit, exit_theirs)) = (pipe()?, pipe()?);
            for fd in [&stdin, &stdout, &stderr, &exit] {
                // Of our ends alone: a program may not expect it of its standard streams.
                rustix::io::ioctl_fionbio(fd, true)?;
            }
            // The service is another uid: without this it could not open /dev/stdout. Nobody else comes to it by a path.
            rustix::fs::fchmod(&stdin_theirs, Mode::from_raw_mode(0o604))?;
            for fd in [&stdout_theirs, &stderr_theirs] {
                rustix::fs::fchmod(fd, Mode::from_raw_mode(0o602))?;
            }
            let (status, status_theirs) = wire::pair()?;
            limit_receive(&status, CHILD_LIMIT)?;
            let theirs = [stdin_theirs, stdout_theirs, stderr_theirs, status_theirs, exit_theirs];
            Ok(Self { ours: Ours { stdin, stdout, stderr, exit }, status, theirs })
        };
        make().map_err(|errno| local(name, "a pipe", errno))
    }

    /// In the order that the spawner takes them apart.
    pub(crate) fn theirs<'a>(
        &'a self,
        namespaces: &'a [&'a OwnedFd],
        environment: &'a Environment,
        etc: Option<&'a OwnedFd>,
    ) -> Vec<BorrowedFd<'a>> {
        let [stdin, stdout, stderr, status, exit] = &self.theirs;
        let fd = |fd: &'a OwnedFd| fd.as_fd();
        let mut fds: Vec<_> = namespaces.iter().map(|namespace| namespace.as_fd()).collect();
        fds.extend([stdin, stdout, stderr].map(fd));
        fds.push(environment.as_fd());
        fds.extend([status, exit].map(fd));
        fds.extend(etc.map(fd));
        fds
    }

    /// Lets a child that waits for it become its program. One that is gone already says so itself.
    pub(crate) fn begin(&self) {
        let _ = wire::send_bytes(self.status.as_fd(), &[1], &[]);
    }

    /// Has a child that waits end instead.
    pub(crate) fn call_off(&self) {
        let _ = rustix::net::shutdown(&self.status, rustix::net::Shutdown::Write);
    }

    /// Listens to the child until it has become its program.
    pub(crate) fn follow(self, name: &str, mut manner: Manner) -> Result<Service, SandboxError> {
        let Self { ours, status, theirs } = self;
        drop(theirs);
        let name = || name.to_owned();
        let wire_error = |source| SandboxError::Wire { name: name(), source };
        let (mut child, mut namespaces, mut executing) = (None, None, false);
        let mut closed = false;
        let outcome = loop {
            match wire::receive(status.as_fd()) {
                Ok((Report::Cloned(pid), fds)) => match wire::exactly(fds) {
                    Ok([pidfd]) => child = pid_from(pid).map(|pid| (pid, pidfd)),
                    Err(source) => break Err(wire_error(source)),
                },
                Ok((Report::Namespaces, fds)) => match wire::exactly(fds) {
                    Ok(fds) => namespaces = Some(fds),
                    Err(source) => break Err(wire_error(source)),
                },
                Ok((Report::ClientPorts(None), _)) => {}
                Ok((Report::ClientPorts(Some(lack)), _)) => {
                    let (step, error) = (&lack.what, lack.io());
                    tracing::warn!(service = name(), step, %error, "its connections have no ports of their own");
                    manner.client_ports = None;
                }
                Ok((Report::Executing, _)) => executing = true,
                Ok((Report::Failed(failure), _)) => break Err(SandboxError::of_failure(&name(), failure)),
                Ok((other, _)) => break Err(unexpected(&name(), &other)),
                // Of a child that ended without hearing [`Pipes::begin`] the socket tells this first, and then what it said.
                Err(WireError::Closed) if !closed => closed = true,
                Err(WireError::Closed) if executing => break Ok(()),
                Err(WireError::Closed) => break Err(SandboxError::Died { name: name() }),
                Err(source) => break Err(wire_error(source)),
            }
        };
        match (outcome, child) {
            (Ok(()), Some((pid, pidfd))) => Ok(Service {
                stdin: Some(ours.stdin),
                stdout: Some(ours.stdout),
                stderr: Some(ours.stderr),
                name: name(),
                pid,
                pidfd,
                exit: ours.exit,
                ended: Mutex::new(None),
                namespaces,
                manner,
            }),
            (Ok(()), None) => Err(SandboxError::Died { name: name() }),
            (Err(error), child) => {
                if let Some((_, pidfd)) = child {
                    let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
                    ended_within(pidfd.as_fd(), CHILD_LIMIT);
                }
                Err(error)
            }
        }
    }
}

pub(crate) fn pid_from(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

pub(crate) fn limit_receive(socket: &OwnedFd, limit: Duration) -> rustix::io::Result<()> {
    set_socket_timeout(socket, Timeout::Recv, Some(limit))
}

pub(crate) fn local(name: &str, what: &'static str, errno: rustix::io::Errno) -> SandboxError {
    SandboxError::Local { name: name.to_owned(), what, source: errno.into() }
}

pub(crate) fn unexpected(name: &str, report: &Report) -> SandboxError {
    tracing::error!(name, ?report, "an unexpected report");
    SandboxError::Died { name: name.to_owned() }
}
