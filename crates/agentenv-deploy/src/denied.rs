//! The denied log of a deploy (NET-7): every denied attempt that reached a placed socket.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Write as _},
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use agentenv_net::{DeniedLog, DenyReason};
use agentenv_protocol::{SandboxName, control::DeniedEntry};

use crate::probe::is_probes;

/// Entries kept: an agent that tries in a loop fills neither memory nor disk. The first are kept, since they tell what a page
/// depends on, and the last.
const FIRST: usize = 5_000;
/// See [`FIRST`].
const LAST: usize = 5_000;

/// The log: in memory for the API, and on disk as long as it is short.
pub(crate) struct Denied {
    path: PathBuf,
    probing: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    file: Option<File>,
    first: Vec<DeniedEntry>,
    last: VecDeque<DeniedEntry>,
}

impl Denied {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, probing: AtomicBool::new(true), state: Mutex::default() }
    }

    /// From now on the probe's own names are logged like any other.
    pub(crate) fn probed(&self) {
        self.probing.store(false, Ordering::Relaxed);
    }

    /// All that is kept, oldest first.
    pub(crate) fn entries(&self) -> Vec<DeniedEntry> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.first.iter().chain(&state.last).cloned().collect()
    }
}

impl DeniedLog for Denied {
    fn denied(&self, sandbox: &SandboxName, host: &str, port: u16, reason: &DenyReason) {
        if self.probing.load(Ordering::Relaxed) && is_probes(host) {
            return;
        }
        let entry = DeniedEntry {
            time: jiff::Timestamp::now().to_string(),
            sandbox: sandbox.clone(),
            host: host.to_owned(),
            port,
            reason: reason.to_string(),
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.first.len() < FIRST {
            if let Err(error) = append(&mut state.file, &self.path, &entry) {
                tracing::debug!(%error, "denied log");
            }
            state.first.push(entry);
            return;
        }
        if state.last.len() == LAST {
            state.last.pop_front();
        }
        state.last.push_back(entry);
    }
}

fn append(file: &mut Option<File>, path: &PathBuf, entry: &DeniedEntry) -> io::Result<()> {
    let file = match file {
        Some(file) => file,
        None => file.insert(File::options().create(true).append(true).open(path)?),
    };
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let denied = Denied::new(folder.path().join("denied.jsonl"));
        let sandbox = SandboxName::parse("browser").unwrap();
        denied.denied(&sandbox, "dns.agent-env-probe.invalid", 443, &DenyReason::NotAllowed);
        denied.probed();
        for number in 0..FIRST + LAST + 10 {
            denied.denied(&sandbox, &format!("n{number}.example"), 443, &DenyReason::NotAllowed);
        }
        let hosts: Vec<_> = denied.entries().into_iter().map(|entry| entry.host).collect();
        assert_eq!(hosts.len(), FIRST + LAST);
        assert_eq!((hosts[0].as_str(), hosts.last().unwrap().as_str()), ("n0.example", "n10009.example"));
        let lines = std::fs::read_to_string(folder.path().join("denied.jsonl")).unwrap();
        assert_eq!(lines.lines().count(), FIRST);
    }
}
