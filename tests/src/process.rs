//! The machine's processes, as `/proc` shows them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The name of a process, and what follows it in `/proc/PID/stat`, the state first.
pub fn stat(pid: u32) -> Option<(String, Vec<String>)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (head, tail) = stat.rsplit_once(") ")?;
    Some((head.split_once('(')?.1.to_owned(), tail.split(' ').map(str::to_owned).collect()))
}

/// The pids of every process of the machine.
pub fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").expect("/proc is readable").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process; the start time tells it from a later one with the same pid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// Start, in clock ticks since boot.
    pub start: u64,
    /// Its parent's pid.
    pub parent: u32,
    /// Its short name.
    pub name: String,
    /// `Z` for a zombie.
    pub state: char,
}

impl Process {
    /// The process of this pid.
    pub fn of(pid: u32) -> Option<Self> {
        let (name, fields) = stat(pid)?;
        Some(Self {
            pid,
            name,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| now.start == self.start && now.state != 'Z')
    }

    /// Sends it SIGKILL, and nobody else.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Kills it, and waits until its parent has reaped it: then every lock and descriptor of its threads is free too.
    #[track_caller]
    pub fn kill_and_wait(&self) {
        self.kill();
        crate::eventually("the killed process is gone", crate::PATIENCE, || {
            Self::of(self.pid).is_none_or(|now| now.start != self.start).then_some(())
        });
    }

    /// Sends it a signal, and nobody else.
    pub fn signal(&self, signal: Signal) {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        if let Ok(descriptor) = pidfd_open(pid, PidfdFlags::empty())
            && self.is_alive()
        {
            let _ = pidfd_send_signal(descriptor, signal);
        }
    }

    /// The program file, where it may be asked for.
    pub fn program(&self) -> Option<String> {
        fs::read_link(format!("/proc/{}/exe", self.pid)).ok().map(|path| path.display().to_string())
    }

    /// The arguments, joined by spaces.
    pub fn arguments(&self) -> String {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ")
    }

    /// Its environment, where it may be read.
    pub fn environment(&self) -> Option<String> {
        let bytes = fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The namespaces that it is in, such as `net:[4026531840]`, where they may be asked for.
    pub fn namespaces(&self) -> Vec<String> {
        let entries = fs::read_dir(format!("/proc/{}/ns", self.pid)).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some(fs::read_link(entry.path()).ok()?.display().to_string())).collect()
    }
}

/// Processes, by pid.
#[derive(Clone, Debug, Default)]
pub struct Processes(BTreeMap<u32, Process>);

impl Processes {
    /// Every process of the machine.
    pub fn all() -> Self {
        Self(pids().filter_map(|pid| Some((pid, Process::of(pid)?))).collect())
    }

    /// Them, in order of pid.
    pub fn iter(&self) -> impl Iterator<Item = &Process> {
        self.0.values()
    }

    /// This process and all that descend from it.
    pub fn tree(&self, root: u32) -> Vec<Process> {
        let mut found = BTreeSet::from([root]);
        loop {
            let more: Vec<u32> =
                self.iter().filter(|p| found.contains(&p.parent) && !found.contains(&p.pid)).map(|p| p.pid).collect();
            if more.is_empty() {
                return self.iter().filter(|process| found.contains(&process.pid)).cloned().collect();
            }
            found.extend(more);
        }
    }

    /// The supervisors of the deploys in a folder, or of the deploy whose folder it is.
    pub fn supervisors(&self, folder: &Path) -> impl Iterator<Item = &Process> {
        let folder = folder.display().to_string();
        self.iter().filter(move |process| {
            let arguments = process.arguments();
            arguments.contains("internal-supervisor") && arguments.contains(&folder)
        })
    }

    /// Those that run this program for this home: named in their arguments or in their environment.
    pub fn of_home(&self, home: &Path, program: &Path) -> Vec<Process> {
        let (home, program) = (home.display().to_string(), program.display().to_string());
        let marker = format!("AGENTENV_HOME={home}");
        let ours = |process: &&Process| {
            let arguments = process.arguments();
            // Where a process guards its memory, its program and environment are closed to its own user too.
            let runs_it = process.program().map_or(arguments.contains("internal-"), |file| file.starts_with(&program));
            let names_it = || process.environment().is_some_and(|text| text.split('\0').any(|one| one == marker));
            runs_it && process.state != 'Z' && (arguments.contains(&home) || names_it())
        };
        self.iter().filter(ours).cloned().collect()
    }
}
