//! Warm spares: a browser or a desktop that is up before a reset needs it, since a cold start takes longer than all the rest of a
//! reset. It costs memory like any other, so there is one only where a reset is foreseen, and within a budget.

use std::{
    fs::{self, File, TryLockError},
    io,
};

use super::{machine::Running, sockets::Sockets};
use crate::DeployDir;

/// How many spares a home may have at once, where that is to be another number; with 0 every reset is cold.
const SPARES_VARIABLE: &str = "AGENTENV_SPARES";
/// Without it there may be one for so much of the machine's memory: a desktop with a browser takes a fifth of it, and spares are
/// not what the memory is for.
const MEMORY_PER_SPARE_KB: u64 = 2 << 20;
/// What must be available for another one, whoever else uses it: two desktops.
const MEMORY_LEFT_KB: u64 = 1 << 20;
/// Why there is none after a deploy that did not ask for one.
const UNFORESEEN: &str = "no reset was foreseen";

/// What the next reset finds.
pub(super) struct Spare {
    /// The sandbox that no episode is in: the spare's, or the last episode's.
    sandbox: Option<Sockets>,
    /// The spare, or why there is none.
    warm: Result<Warm, String>,
}

/// What is up, and waits.
pub(super) struct Warm {
    running: Running,
    _ticket: Ticket,
}

impl Warm {
    pub(super) fn new(running: Running, ticket: Ticket) -> Self {
        Self { running, _ticket: ticket }
    }
}

impl Default for Spare {
    fn default() -> Self {
        Self { sandbox: None, warm: Err(UNFORESEEN.to_owned()) }
    }
}

impl Spare {
    /// Whether one is to be made: there is none.
    pub(super) fn is_wanted(&self) -> bool {
        self.warm.is_err()
    }

    pub(super) fn set(&mut self, warm: Result<Warm, String>) {
        self.warm = warm;
    }

    /// The sandbox that is free.
    pub(super) fn sandbox(&self) -> Option<Sockets> {
        self.sandbox.clone()
    }

    /// Leaves a sandbox to the next spare.
    pub(super) fn leave(&mut self, sandbox: Sockets) {
        self.sandbox = Some(sandbox);
    }

    /// Takes it, with its sandbox, or says why there is none. One that has ended meanwhile is none.
    pub(super) async fn take(&mut self) -> Result<Running, String> {
        let Warm { running, .. } = std::mem::replace(&mut self.warm, Err(UNFORESEEN.to_owned()))?;
        if running.service.is_up() && running.browser.is_open() {
            return Ok(running);
        }
        running.service.kill().await;
        let why = running.service.status().reason.unwrap_or_else(|| "its browser is gone".to_owned());
        Err(format!("its spare ended while it waited: {why}"))
    }
}

/// A place in the budget: a lock, so that it ends with this process.
pub(super) struct Ticket {
    _lock: File,
}

impl Ticket {
    /// Takes a place, or says why there is none.
    pub(super) fn take(dir: &DeployDir) -> Result<Self, String> {
        let memory = Memory::now().map_err(|error| format!("the machine's memory is not known: {error}"))?;
        if memory.available_kb < MEMORY_LEFT_KB {
            let (available, needed) = (memory.available_kb >> 10, MEMORY_LEFT_KB >> 10);
            return Err(format!("a spare needs {needed} MiB of available memory, and there are {available}"));
        }
        Self::of(dir, budget(std::env::var(SPARES_VARIABLE).ok(), &memory)?)
    }

    fn of(dir: &DeployDir, budget: u64) -> Result<Self, String> {
        let deploys = dir.path().parent().unwrap_or(dir.path());
        for place in 0..budget {
            let path = deploys.join(format!("spare-{place}.lock"));
            let lock = File::options().create(true).truncate(false).write(true).open(&path);
            let lock = lock.map_err(|error| format!("{} cannot be opened: {error}", path.display()))?;
            match lock.try_lock() {
                Ok(()) => return Ok(Self { _lock: lock }),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(format!("{} cannot be locked: {error}", path.display())),
            }
        }
        Err(format!("the budget of {budget} spares is used up"))
    }
}

fn budget(given: Option<String>, memory: &Memory) -> Result<u64, String> {
    match given {
        // No more than the machine could ever hold: the places are looked at one by one.
        Some(text) => match text.parse::<u32>() {
            Ok(budget) => Ok(u64::from(budget).min(memory.total_kb / MEMORY_LEFT_KB + 1)),
            Err(_) => Err(format!("{SPARES_VARIABLE} is `{text}`, which is no number of spares")),
        },
        None => Ok((memory.total_kb / MEMORY_PER_SPARE_KB).max(1)),
    }
}

/// The machine's memory, as the kernel tells it.
struct Memory {
    total_kb: u64,
    available_kb: u64,
}

impl Memory {
    fn now() -> io::Result<Self> {
        let text = fs::read_to_string("/proc/meminfo")?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let value = line.and_then(|line| line.trim_end_matches("kB").trim().parse().ok());
            value.ok_or_else(|| io::Error::other(format!("/proc/meminfo has no {name}")))
        };
        Ok(Self { total_kb: field("MemTotal:")?, available_kb: field("MemAvailable:")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Memory = Memory { total_kb: 24 << 20, available_kb: 20 << 20 };

    #[test]
    fn places_are_taken_until_there_is_none_and_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DeployDir::new(folder.path().join("one"));
        let first = Ticket::of(&dir, 2).unwrap();
        let _second = Ticket::of(&DeployDir::new(folder.path().join("two")), 2).unwrap();
        assert_eq!(Ticket::of(&dir, 2).err().unwrap(), "the budget of 2 spares is used up");
        drop(first);
        Ticket::of(&dir, 2).unwrap();
        assert!(Ticket::of(&dir, 0).is_err());
    }

    #[test]
    fn the_budget_is_that_of_the_machine_or_of_its_owner() {
        let given = |text: &str| budget(Some(text.to_owned()), &MACHINE);
        assert_eq!(budget(None, &MACHINE), Ok(12));
        assert_eq!(budget(None, &Memory { total_kb: 1 << 20, available_kb: 1 << 19 }), Ok(1));
        assert_eq!((given("0"), given("3"), given("4000000000")), (Ok(0), Ok(3), Ok(25)));
        assert_eq!(given("many"), Err("AGENTENV_SPARES is `many`, which is no number of spares".to_owned()));
    }

    #[test]
    fn the_machines_memory_is_known() {
        let memory = Memory::now().unwrap();
        assert!(memory.total_kb >= memory.available_kb && memory.available_kb > 0);
    }
}
