//! Artifact universes, as a trait over the store: a collection's tests fail its Nth call.

use std::{fs::File, path::PathBuf};

use agentenv_protocol::{DeployId, RunId, UniverseId};
use agentenv_store::Holder;
use serde_json::Value;

use crate::{event::Work, record::ArtifactRecord, run_log::LogError};

/// A capture file that is about to be an artifact: sensitive, and in a universe.
#[derive(Debug)]
pub struct NewCapture {
    /// The artifact's name.
    pub name: String,
    /// The universe that it belongs to.
    pub universe: UniverseId,
    /// The place of the run's step that it is of.
    pub step: usize,
    /// Its bytes.
    pub file: File,
    /// How many of them.
    pub bytes: u64,
    /// What errors call the file.
    pub path: PathBuf,
}

/// A universe as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredUniverse {
    /// Its document.
    pub document: Value,
    /// Its artifacts, in the order in which they were stored.
    pub artifacts: Vec<ArtifactRecord>,
}

/// Keeps universes. What it answered `Ok` for is on disk.
pub trait Universes: Send + Sync {
    /// Makes a universe whose id is on record already; one that is there stays as it is.
    fn create_universe<'a>(
        &'a self,
        holder: &'a Holder,
        id: &'a UniverseId,
        document: &'a Value,
    ) -> Work<'a, Result<(), LogError>>;

    /// Replaces a universe's document.
    fn update_universe<'a>(&'a self, id: &'a UniverseId, document: &'a Value) -> Work<'a, Result<(), LogError>>;

    /// Reads a universe; none where it was never made.
    fn universe<'a>(&'a self, id: &'a UniverseId) -> Work<'a, Result<Option<StoredUniverse>, LogError>>;

    /// The universes of a holder, the oldest first.
    fn universes_of<'a>(&'a self, holder: &'a Holder) -> Work<'a, Result<Vec<UniverseId>, LogError>>;

    /// Stores a capture, which puts it into its universe.
    fn put_capture<'a>(&'a self, holder: &'a Holder, new: NewCapture) -> Work<'a, Result<ArtifactRecord, LogError>>;

    /// Forgets an artifact that a longer one replaces; one that is not there is forgotten already.
    fn remove_artifact<'a>(&'a self, artifact: &'a str) -> Work<'a, Result<(), LogError>>;

    /// The run that made a deploy; none for one outside any run.
    fn run_of_deploy<'a>(&'a self, deploy: &'a DeployId) -> Work<'a, Result<Option<RunId>, LogError>>;
}
