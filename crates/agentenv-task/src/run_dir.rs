//! A run's folder, and its lock: the run's runner lives exactly as long as it holds the lock.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex, PoisonError},
};

use rustix::{
    fs::{FlockOperation, fcntl_lock},
    process::{Flock, FlockOffsetType, FlockType, fcntl_getlk},
};

use crate::record::RunRecord;

/// The locks that this process holds. Closing *any* descriptor of a file drops the process's POSIX locks on it, and a
/// process never conflicts with itself, so a lock of our own must not even be probed.
static HELD: LazyLock<Mutex<BTreeSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// The folder of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunDir(PathBuf);

impl RunDir {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Makes the folder, open to its owner only.
    pub(crate) fn create(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    fn lock_file(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Where an agent step's harness puts files that become artifacts.
    pub(crate) fn output(&self, step: usize) -> PathBuf {
        self.0.join("output").join(step.to_string())
    }

    /// Where what a step's program wrote is kept until it is an artifact.
    pub(crate) fn logs(&self, step: usize) -> PathBuf {
        self.0.join("logs").join(step.to_string())
    }

    /// The finished record for people: `run show` reads the store.
    pub(crate) fn record_file(&self) -> PathBuf {
        self.0.join("record.json")
    }

    /// Writes the finished record, as well as it goes.
    pub(crate) fn write_record(&self, record: &RunRecord) {
        let written = serde_json::to_vec_pretty(record)
            .map_err(io::Error::from)
            .and_then(|bytes| fs::write(self.record_file(), bytes));
        if let Err(error) = written {
            tracing::warn!(run = %record.run, %error, "the record's copy is not written");
        }
    }

    /// Removes what steps left in the folder, once all of it is stored.
    pub(crate) fn remove_files(&self) {
        for folder in ["output", "logs"] {
            match fs::remove_dir_all(self.0.join(folder)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(folder = %self.0.display(), %error, "stored files stay in the run's folder");
                }
                _ => {}
            }
        }
    }

    /// Whether files of steps are left that are not stored.
    pub(crate) fn has_files(&self) -> bool {
        ["output", "logs"].iter().any(|folder| self.0.join(folder).exists())
    }

    /// Takes the lock; `None` where somebody lives.
    pub(crate) fn lock(&self) -> io::Result<Option<RunLock>> {
        RunLock::take(&self.lock_file())
    }

    /// Whether there is a lock file that nobody holds: its run was begun and never ended.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.lock_file().exists() && !self.is_alive().unwrap_or(true)
    }

    /// Whether the run's runner lives.
    pub(crate) fn is_alive(&self) -> io::Result<bool> {
        let path = self.lock_file();
        if HELD.lock().unwrap_or_else(PoisonError::into_inner).contains(&path) {
            return Ok(true);
        }
        let file = match fs::File::options().write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let whole =
            Flock { start: 0, length: 0, pid: None, typ: FlockType::WriteLock, offset_type: FlockOffsetType::Set };
        Ok(fcntl_getlk(&file, &whole)?.is_some())
    }
}

/// The lock of a run. The kernel frees it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct RunLock {
    path: PathBuf,
    file: Option<fs::File>,
}

impl RunLock {
    /// Takes the lock of a file, which is made where it is missing; `None` where somebody holds it.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if held.contains(path) {
            return Ok(None);
        }
        let file = fs::File::options().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                held.insert(path.to_owned());
                Ok(Some(Self { path: path.to_owned(), file: Some(file) }))
            }
            Err(error) if error == rustix::io::Errno::AGAIN || error == rustix::io::Errno::ACCESS => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Frees the lock of a run that is over and removes its file, so that nobody looks at the run again.
    pub(crate) fn end(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        // Closed while nobody else in this process can take it: closing later would drop their lock.
        self.file.take();
        held.remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_75_a_stale_lock_file_is_taken_and_a_held_one_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let dir = RunDir::new(folder.path().join("r"));
        assert!(!dir.is_alive().unwrap(), "no folder");
        dir.create().unwrap();
        fs::write(dir.lock_file(), "12345").unwrap();
        assert!(!dir.is_alive().unwrap(), "a file that nobody locks");
        let lock = dir.lock().unwrap().unwrap();
        assert!(dir.is_alive().unwrap());
        assert!(dir.lock().unwrap().is_none(), "one holder");
        assert!(dir.is_alive().unwrap(), "probing did not drop it");
        drop(lock);
        assert!(!dir.is_alive().unwrap());
        assert!(dir.lock().unwrap().is_some());
    }
}
