//! One lock file keeps [`crate::Store::gc`] away from what is being stored.
//!
//! A file is stored before the row that names it, so for a moment it looks like garbage. Whoever stores holds the lock
//! shared; gc holds it alone. `flock` is right here: no process that holds it forks without `exec`, the descriptor is
//! closed on exec, and nothing is decided by who holds it.

use std::{
    fs::{File, OpenOptions, TryLockError},
    path::Path,
    time::{Duration, Instant},
};

use crate::StoreError;

/// How long a command waits for a gc: removing files takes seconds at most.
const LOCK_WAIT: Duration = Duration::from_secs(60);
/// How often it looks; short against what a person notices.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// Keeps gc away while it lives.
#[derive(Debug)]
pub struct Hold {
    _file: File,
}

#[derive(Clone, Copy)]
pub(crate) enum Mode {
    Shared,
    Alone,
}

/// Takes the lock, waiting a limited time.
pub(crate) fn take(path: &Path, mode: Mode) -> Result<Hold, StoreError> {
    take_within(path, mode, LOCK_WAIT)
}

/// Takes the lock, waiting for as long as is said.
pub(crate) fn take_within(path: &Path, mode: Mode, wait: Duration) -> Result<Hold, StoreError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path)
        .map_err(|error| StoreError::io(path, error))?;
    let deadline = Instant::now() + wait;
    loop {
        let taken = match mode {
            Mode::Shared => file.try_lock_shared(),
            Mode::Alone => file.try_lock(),
        };
        match taken {
            Ok(()) => return Ok(Hold { _file: file }),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(LOCK_POLL),
            Err(TryLockError::WouldBlock) => return Err(StoreError::Busy { path: path.to_owned() }),
            Err(TryLockError::Error(error)) => return Err(StoreError::io(path, error)),
        }
    }
}
