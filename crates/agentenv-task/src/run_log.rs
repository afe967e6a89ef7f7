//! Where run records and artifacts are kept, as a trait over the store.

use std::path::PathBuf;

use agentenv_protocol::{RunId, UniverseId};

use crate::{
    event::Work,
    record::{ArtifactRecord, RunRecord},
    universes::Universes,
};

/// Why a record or an artifact could not be kept or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// There is no such run.
    #[error("there is no run {0}")]
    NoRun(RunId),
    /// A run of this id is there already.
    #[error("run {0} is here already")]
    RunExists(RunId),
    /// There is no such artifact.
    #[error("run {run} has no artifact `{artifact}`")]
    NoArtifact {
        /// The run.
        run: RunId,
        /// What was asked for.
        artifact: String,
    },
    /// The record is of a newer program, or broken.
    #[error("the record of run {run} cannot be read: {reason}")]
    Unreadable {
        /// The run.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// The store failed.
    #[error("{0}")]
    Store(String),
}

/// A file that is about to be an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// The artifact's name: a relative path.
    pub name: String,
    /// Media type.
    pub media_type: String,
    /// The place of its step.
    pub step: usize,
    /// The folder that it is beneath; somebody else may be changing it.
    pub folder: PathBuf,
    /// The file, relative to the folder.
    pub path: PathBuf,
    /// Whether it may hold what people typed.
    pub sensitive: bool,
    /// The artifact universe that it belongs to.
    pub universe: Option<UniverseId>,
}

/// Keeps run records. What it answered `Ok` for is on disk.
pub trait RunLog: Universes {
    /// Keeps a new record.
    fn create<'a>(&'a self, record: &'a RunRecord) -> Work<'a, Result<(), LogError>>;

    /// Replaces a record.
    fn update<'a>(&'a self, record: &'a RunRecord) -> Work<'a, Result<(), LogError>>;

    /// Reads a record. What the universes of its captures have besides, because a runner died just after it was stored, is in it.
    fn get<'a>(&'a self, run: &'a RunId) -> Work<'a, Result<RunRecord, LogError>>;

    /// Reads records, the newest first, `limit` at most. One that cannot be read is left out with a warning in the log.
    fn list(&self, limit: u32) -> Work<'_, Result<Vec<RunRecord>, LogError>>;

    /// Stores a file: a plain one, no link followed, nothing waited for.
    fn put_file<'a>(&'a self, run: &'a RunId, file: NewFile) -> Work<'a, Result<ArtifactRecord, LogError>>;

    /// Writes a stored file's bytes to a file, which is replaced where it is there.
    fn write_artifact<'a>(
        &'a self,
        run: &'a RunId,
        artifact: &'a ArtifactRecord,
        to: PathBuf,
    ) -> Work<'a, Result<(), LogError>>;
}
