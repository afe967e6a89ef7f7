//! The supervisor's handle of a service.

use std::{
    ops::RangeInclusive,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::Mutex,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    process::{Pid, Signal, WaitStatus},
};

use crate::{
    process::wait_for,
    spec::{Limits, SeccompProfile},
};

/// How a service ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitInfo {
    /// Its main process ended with this code; 128 and a signal's number if that signal ended it.
    Code(i32),
    /// Its pid 1 was ended by this signal: the service was killed.
    Signal(i32),
    /// Nobody is left to tell: the spawner ended first.
    Lost,
}

/// Code or signal, and which.
const EXIT_BYTES: usize = 8;

impl ExitInfo {
    pub(crate) fn of(status: WaitStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Code(code),
            (_, Some(signal)) => Self::Signal(signal),
            _ => Self::Lost,
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; EXIT_BYTES] {
        let (kind, value) = match self {
            Self::Code(code) => (0_i32, code),
            Self::Signal(signal) => (1, signal),
            Self::Lost => (2, 0),
        };
        let mut bytes = [0; EXIT_BYTES];
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes[4..].copy_from_slice(&value.to_ne_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Self {
        let word = |range: std::ops::Range<usize>| bytes.get(range)?.try_into().ok().map(i32::from_ne_bytes);
        match (word(0..4), word(4..8)) {
            (Some(0), Some(code)) => Self::Code(code),
            (Some(1), Some(signal)) => Self::Signal(signal),
            _ => Self::Lost,
        }
    }
}

/// A running service, or a program executed beside one.
///
/// Dropping it kills it. The streams are pipes and non-blocking here; take them out to read them elsewhere.
#[derive(Debug)]
pub struct Service {
    /// The writing end of its standard input; none for a service, whose standard input is at its end.
    pub stdin: Option<OwnedFd>,
    /// The reading end of its standard output.
    pub stdout: Option<OwnedFd>,
    /// The reading end of its standard error.
    pub stderr: Option<OwnedFd>,
    pub(crate) name: String,
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    /// Readable when it has ended: [`ExitInfo`], or nothing if the spawner is gone.
    pub(crate) exit: OwnedFd,
    pub(crate) ended: Mutex<Option<ExitInfo>>,
    /// Mount, pid, ipc, uts, cgroup; none for an executed program.
    pub(crate) namespaces: Option<[OwnedFd; 5]>,
    pub(crate) manner: Manner,
}

/// How a service runs, and so whatever is executed beside it.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    pub(crate) cwd: PathBuf,
    pub(crate) seccomp: SeccompProfile,
    pub(crate) limits: Limits,
    pub(crate) client_ports: Option<RangeInclusive<u16>>,
}

impl Service {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The pid, on the host, of its pid 1 (of the program itself, if it was executed).
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// The ports that its own connections come from, and nobody else's; `None` if none were asked for, or this kernel
    /// can't (before Linux 6.3).
    pub fn client_ports(&self) -> Option<RangeInclusive<u16>> {
        self.manner.client_ports.clone()
    }

    /// Readable when its pid 1 has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Readable when [`Service::try_wait`] has an answer; non-blocking.
    pub fn exit_fd(&self) -> BorrowedFd<'_> {
        self.exit.as_fd()
    }

    /// Kills everything in it. An ended service stays ended.
    pub fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Asks its main process to end, by SIGTERM through pid 1.
    pub fn terminate(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::TERM);
    }

    /// How it ended, if it has.
    pub fn try_wait(&self) -> Option<ExitInfo> {
        let mut ended = self.ended.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if ended.is_none() {
            let mut bytes = [0; EXIT_BYTES];
            *ended = match rustix::io::retry_on_intr(|| rustix::io::read(&self.exit, &mut bytes)) {
                Err(Errno::AGAIN) => None,
                Ok(length) => Some(ExitInfo::parse(&bytes[..length])),
                Err(_) => Some(ExitInfo::Lost),
            };
        }
        *ended
    }

    /// Waits until it has ended, at most so long.
    pub fn wait_exit(&self, limit: Duration) -> Option<ExitInfo> {
        self.try_wait().or_else(|| {
            wait_for(PollFd::new(&self.exit, PollFlags::IN), limit);
            self.try_wait()
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_travel() {
        for exit in [ExitInfo::Code(0), ExitInfo::Code(143), ExitInfo::Signal(9), ExitInfo::Lost] {
            assert_eq!(ExitInfo::parse(&exit.to_bytes()), exit);
        }
        assert_eq!(ExitInfo::parse(&[]), ExitInfo::Lost);
    }
}
