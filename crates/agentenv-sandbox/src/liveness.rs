//! Whether a deploy lives: a POSIX write lock on a file, which the kernel drops when the holder ends, however it ends.
//!
//! Not `flock`: a child that inherits one keeps it alive. A POSIX lock is the process's own; but it is dropped when the
//! process closes *any* descriptor of the file, so this module never opens a file whose lock this process holds.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use rustix::{
    fs::FlockOperation,
    io::Errno,
    process::{Flock, FlockType},
};
use serde::{Deserialize, Serialize};

use crate::process::{ProcessId, boot_id};

/// What stands in a lock file; anything longer isn't ours.
const MAX_RECORD_BYTES: u64 = 4096;

/// Who holds, or last held, a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The boot that the process belongs to.
    pub boot_id: String,
    /// The process.
    pub process: ProcessId,
}

/// Why a lock can't be had or read.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody has it.
    #[error("`{}` is locked by process {holder}", path.display())]
    Held {
        /// The file.
        path: PathBuf,
        /// The pid.
        holder: u32,
    },
    /// The kernel's answer.
    #[error("`{}` can't be locked: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// The files whose locks this process holds, by device and inode, and the pid that took them: a fork has the table but
/// not the locks. Held for the whole of each function below, so that none of them opens and closes a file between
/// another's taking of its lock and the entry here.
static OURS: Mutex<BTreeMap<(u64, u64), u32>> = Mutex::new(BTreeMap::new());

type Ours = MutexGuard<'static, BTreeMap<(u64, u64), u32>>;

fn ours() -> Ours {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock that this process holds until it is dropped. Take it after the last fork of a daemon: a child doesn't have it.
#[derive(Debug)]
pub struct DeployLock {
    file: File,
    key: (u64, u64),
}

impl DeployLock {
    /// Takes the lock of a file, which is made if it isn't there, and writes into it who has it.
    ///
    /// # Errors
    /// Somebody has it, this process too, or the file can't be written.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let io_error = |source: io::Error| LockError::Io { path: path.to_owned(), source };
        let mut ours = ours();
        if let Some(holder) = held_by_us(&ours, path) {
            return Err(LockError::Held { path: path.to_owned(), holder });
        }
        let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(no_follow)
            .open(path)
            .map_err(io_error)?;
        match rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => {
                let holder = holder_of(&file).map_err(io_error)?.unwrap_or(0);
                return Err(LockError::Held { path: path.to_owned(), holder });
            }
            Err(errno) => return Err(io_error(errno.into())),
        }
        let mut write = || -> io::Result<(u64, u64)> {
            let record = Holder { boot_id: boot_id()?, process: ProcessId::current()? };
            file.set_len(0)?;
            file.rewind()?;
            // Not synced: after a crash of the machine nobody holds the lock, whatever the file says.
            file.write_all(&serde_json::to_vec(&record)?)?;
            let metadata = file.metadata()?;
            Ok((metadata.dev(), metadata.ino()))
        };
        let key = write().map_err(io_error)?;
        ours.insert(key, std::process::id());
        Ok(Self { file, key })
    }

    /// The locked file.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for DeployLock {
    fn drop(&mut self) {
        ours().remove(&self.key);
    }
}

fn held_by_us(ours: &Ours, path: &Path) -> Option<u32> {
    let metadata = std::fs::metadata(path).ok()?;
    let holder = ours.get(&(metadata.dev(), metadata.ino())).copied()?;
    (holder == std::process::id()).then_some(holder)
}

/// The pid of the process that holds the lock of a file; `None` if nobody does, or there is no file.
///
/// # Errors
/// The file can't be opened.
pub fn probe(path: &Path) -> Result<Option<u32>, LockError> {
    let ours = ours();
    if let Some(holder) = held_by_us(&ours, path) {
        return Ok(Some(holder));
    }
    let io_error = |source: io::Error| LockError::Io { path: path.to_owned(), source };
    match open_to_read(path) {
        Ok(file) => holder_of(&file).map_err(io_error),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(error)),
    }
}

/// Who last took the lock of a file, as they wrote it; `None` for a file that is empty, torn or not there.
pub fn last_holder(path: &Path) -> Option<Holder> {
    let ours = ours();
    if held_by_us(&ours, path).is_some() {
        return Some(Holder { boot_id: boot_id().ok()?, process: ProcessId::current().ok()? });
    }
    let mut text = String::new();
    open_to_read(path).ok()?.take(MAX_RECORD_BYTES).read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

fn open_to_read(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0)).open(path)
}

fn holder_of(file: &File) -> io::Result<Option<u32>> {
    let wanted = Flock::from(FlockType::WriteLock);
    let held = rustix::process::fcntl_getlk(file, &wanted)?;
    // A holder in another pid namespace has no pid here; it holds all the same.
    Ok(held.map(|lock| lock.pid.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())))
}

#[cfg(test)]
mod tests;
