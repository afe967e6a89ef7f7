//! Processes that a run's programs left, found by the run's id in their environment: a harness may have started its own
//! session, and the runner that knew it may be dead.

use std::{fs, io, os::fd::OwnedFd, path::Path, time::Duration};

use agentenv_protocol::RunId;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use crate::harness::RUN_ENV;

/// A process that forks while it is looked for is found in the next round; more rounds than this and it is a fork bomb.
const ROUNDS: usize = 50;
/// How long one killed process may take to end: it does so at once, unless the disk hangs.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Kills every process of the run's programs; returns how many there were.
pub(crate) fn kill(run: &RunId) -> usize {
    let mut killed = 0;
    for _ in 0..ROUNDS {
        let found = find(run);
        if found.is_empty() {
            break;
        }
        killed += found.len();
        for pidfd in &found {
            // It may have ended by itself.
            let _ = pidfd_send_signal(pidfd, Signal::KILL);
        }
        for pidfd in &found {
            wait(pidfd);
        }
    }
    killed
}

fn wait(pidfd: &OwnedFd) {
    let limit = Timespec { tv_sec: END_LIMIT.as_secs().cast_signed(), tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&limit));
}

/// The living processes with the run's mark. Zombies have no environment and are not found.
fn find(run: &RunId) -> Vec<OwnedFd> {
    let own_program = fs::read_link("/proc/self/exe").ok();
    let own_pid = rustix::process::getpid();
    let mark = format!("{RUN_ENV}={run}");
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.filter(|pid| *pid != own_pid)
        .filter_map(|pid| {
            // Opened before it is looked at: where the number passes to another process meanwhile, the descriptor is of
            // the dead one, and a signal to it reaches nobody.
            let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            let folder = Path::new("/proc").join(pid.as_raw_pid().to_string());
            let marked = is_marked(&folder, mark.as_bytes()).unwrap_or(false);
            // A deploy that a harness made is this program; it has its own end and its own reaper.
            let ours = own_program.is_some() && fs::read_link(folder.join("exe")).ok() == own_program;
            (marked && !ours).then_some(pidfd)
        })
        .collect()
}

fn is_marked(folder: &Path, mark: &[u8]) -> io::Result<bool> {
    let environment = fs::read(folder.join("environ"))?;
    Ok(environment.split(|byte| *byte == 0).any(|variable| variable == mark))
}
