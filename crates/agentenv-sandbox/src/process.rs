//! Processes by identity: a pid alone may have become somebody else's.

use std::{
    fs, io,
    os::fd::{AsFd as _, BorrowedFd, RawFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, pidfd_open, pidfd_send_signal, setrlimit},
};
use serde::{Deserialize, Serialize};

use crate::{kernel, spawner::SPAWNER_COMMAND};

/// One process of this boot: its pid and when it started, in clock ticks after boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// The pid.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`.
    pub start_time: u64,
}

impl ProcessId {
    /// Looks a running process up. A zombie has ended: `None`.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, start_time) = parse_stat(&stat)?;
        (!matches!(state, 'Z' | 'X')).then_some(Self { pid, start_time })
    }

    /// This process.
    ///
    /// # Errors
    /// `/proc` isn't mounted.
    pub fn current() -> io::Result<Self> {
        Self::of(std::process::id()).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "/proc has no entry of us"))
    }

    /// Whether it still runs.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Kills it, if the pid still is this process; waits until it has ended, at most `limit`. `true` when it is gone.
    ///
    /// # Errors
    /// It runs and may not be killed.
    pub fn kill_if_same(self, limit: Duration) -> io::Result<bool> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(true) };
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return Ok(true),
            Err(errno) => return Err(errno.into()),
        };
        // The descriptor is some process's for good; only now does the comparison say whose.
        if !self.is_alive() {
            return Ok(true);
        }
        match pidfd_send_signal(&pidfd, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => Ok(ended_within(pidfd.as_fd(), limit)),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// State and start time of a `/proc/PID/stat`. The command's name, in brackets, may hold anything.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    // State is field 3; start time is field 22.
    Some((state, fields.nth(18)?.parse().ok()?))
}

/// The id of this boot: with another one no pid on record means anything.
///
/// # Errors
/// `/proc` isn't mounted.
pub fn boot_id() -> io::Result<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned())
}

/// Which of our processes one is; by the name that it gave itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessRole {
    /// The spawner itself.
    Spawner,
    /// A sandbox's broker.
    Broker,
    /// A service's pid 1; killing it kills the service.
    Init,
    /// A service's socket maker.
    SocketMaker,
    /// On its way to become one of these, or a service.
    Other,
}

/// Finds the processes of ours that the spawner with this marker started, and itself. Services are not among them: they
/// end with their pid 1. A command line can be forged: what we may not signal is another user's, and nothing of ours.
///
/// # Errors
/// `/proc` can't be read.
pub fn find_processes_of(marker: &str) -> io::Result<Vec<(ProcessId, ProcessRole)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // The command line is what the spawner was started with; its forks have it too, until they become a program.
        let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else { continue };
        let mut words = line.split(|&byte| byte == 0).skip(1);
        if words.next() != Some(SPAWNER_COMMAND.as_bytes()) || words.next() != Some(marker.as_bytes()) {
            continue;
        }
        if is_anothers(pid) {
            continue;
        }
        let role = match fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim() {
            "ae-spawner" => ProcessRole::Spawner,
            "ae-broker" => ProcessRole::Broker,
            "ae-init" => ProcessRole::Init,
            "ae-sockets" => ProcessRole::SocketMaker,
            _ => ProcessRole::Other,
        };
        found.extend(ProcessId::of(pid).map(|id| (id, role)));
    }
    Ok(found)
}

/// Whether it is a process that we may not signal. Those in user namespaces that we made we may, whatever their uid.
fn is_anothers(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(Errno::PERM))
}

/// Raises this process's soft limit of descriptors to the hard one; services get a limit of their own. Returns it.
///
/// # Errors
/// The kernel refuses.
pub fn raise_descriptor_limit() -> io::Result<Option<u64>> {
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard })?;
    Ok(hard)
}

/// Has everything but the standard streams close on exec, also what this process inherited without knowing. A daemon that
/// kept a caller's pipe would have whoever reads it wait for the daemon's end.
///
/// # Errors
/// The kernel refuses.
pub fn keep_descriptors_private() -> io::Result<()> {
    kernel::close_range_on_exec(3, RawFd::MAX).map_err(Into::into)
}

/// Waits until the process of a pidfd has ended, at most `limit`.
pub(crate) fn ended_within(pidfd: BorrowedFd<'_>, limit: Duration) -> bool {
    wait_for(PollFd::new(&pidfd, PollFlags::IN), limit)
}

/// Waits for an event, at most `limit`.
pub(crate) fn wait_for(fd: PollFd<'_>, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    let mut fds = [fd];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left =
            Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
        match poll(&mut fds, Some(&left)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stat_whatever_the_command_is_called() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        for name in ["cat", "a b", "x) S 1 (y", ")"] {
            assert_eq!(parse_stat(&format!("12 ({name}) {rest}")), Some(('S', 4711)), "{name}");
        }
        assert_eq!(parse_stat("12"), None);
    }

    #[test]
    fn what_was_inherited_is_not_passed_on() {
        let (ours, _theirs) = rustix::pipe::pipe().unwrap();
        let flags = || rustix::io::fcntl_getfd(&ours).unwrap();
        assert!(!flags().contains(rustix::io::FdFlags::CLOEXEC), "as after an exec by a careless caller");
        keep_descriptors_private().unwrap();
        assert!(flags().contains(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn row_75_a_reused_pid_is_not_killed() {
        let us = ProcessId::current().unwrap();
        assert!(us.is_alive());
        let other = ProcessId { start_time: us.start_time + 1, ..us };
        assert!(!other.is_alive());
        assert!(other.kill_if_same(Duration::ZERO).unwrap());
    }

    #[test]
    fn a_command_line_that_another_user_forged_is_not_ours() {
        const NOBODY: u32 = 65_534;
        let marker = format!("d-forged-{}", std::process::id());
        let folder = std::env::temp_dir().join(&marker);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join(SPAWNER_COMMAND), "echo; read line").unwrap();
        let mut forged = std::process::Command::new("sh")
            .args([SPAWNER_COMMAND, &marker])
            .current_dir(&folder)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // Its command line is there only some time after `execve` has begun.
        std::io::Read::read_exact(forged.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let found = || find_processes_of(&marker).unwrap().into_iter().map(|(id, _)| id.pid).collect::<Vec<_>>();
        let seen = found();
        // Credentials are a thread's own; only root can give up being who it is.
        let seen_by_nobody = std::thread::scope(|scope| {
            let look = || {
                let nobody = rustix::thread::Uid::from_raw(NOBODY);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).ok().map(|()| found())
            };
            scope.spawn(look).join().unwrap()
        });
        forged.kill().unwrap();
        forged.wait().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(seen, [forged.id()]);
        assert_eq!(seen_by_nobody.is_some(), rustix::process::geteuid().is_root());
        assert!(seen_by_nobody.is_none_or(|seen| seen.is_empty()));
    }

    #[test]
    fn a_killed_child_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let id = ProcessId::of(child.id()).unwrap();
        assert!(id.kill_if_same(Duration::from_secs(10)).unwrap());
        child.wait().unwrap();
        assert!(!id.is_alive() && id.kill_if_same(Duration::ZERO).unwrap());
    }
}
