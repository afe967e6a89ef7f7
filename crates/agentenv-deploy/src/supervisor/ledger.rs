//! The deploy's record while its supervisor lives.

use std::sync::{Mutex, PoisonError};

use crate::{DeployDir, DeployRecord, RecordError};

/// The one copy of the record that is changed: each change is on disk before the next begins.
pub(crate) struct Ledger {
    dir: DeployDir,
    record: Mutex<DeployRecord>,
}

impl Ledger {
    pub(crate) fn new(dir: DeployDir, record: DeployRecord) -> Self {
        Self { dir, record: Mutex::new(record) }
    }

    /// The record as it is now.
    pub(crate) fn record(&self) -> DeployRecord {
        self.record.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the record, and writes it where that changed anything. Blocks on the disk.
    pub(crate) fn change(&self, change: impl FnOnce(&mut DeployRecord)) -> Result<(), RecordError> {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        self.dir.change(&mut record, change)
    }

    /// As [`Ledger::change`], for changes that nobody waits for.
    pub(crate) fn note(&self, change: impl FnOnce(&mut DeployRecord)) {
        if let Err(error) = self.change(change) {
            tracing::error!(%error, "the record cannot be written");
        }
    }
}
