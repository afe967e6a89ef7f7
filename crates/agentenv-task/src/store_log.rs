//! Run records and artifacts in the store.

mod universes;

use std::{fs, io, path::PathBuf};

use agentenv_protocol::{ArtifactId, RunId};
use agentenv_store::{Artifact, ArtifactSource, Holder, NewArtifact, RunRow, Store, StoreError};

use crate::{
    event::Work,
    record::{ArtifactRecord, RECORD_FORMAT, RunDeployState, RunRecord},
    run_log::{LogError, NewFile, RunLog},
    universes::Universes as _,
};

/// Keeps run records in a [`Store`].
#[derive(Clone, Debug)]
pub struct StoreLog(Store);

impl StoreLog {
    /// Takes the store.
    pub fn new(store: Store) -> Self {
        Self(store)
    }

    /// Records which versions of envs the run needs, so that `env rm` keeps them (ENV-4). Before they are deployed.
    async fn refer(&self, record: &RunRecord) -> Result<(), LogError> {
        let new = record.deploys.iter().filter(|deploy| deploy.state == RunDeployState::Intended);
        let versions: Vec<_> = new.flat_map(|deploy| deploy.versions.iter().cloned()).collect();
        if versions.is_empty() || record.imported {
            return Ok(());
        }
        self.0.add_references(&Holder::Run(record.run.clone()), &versions).await.map_err(|error| store(&error))
    }

    /// The record with what the universes of its captures have besides.
    async fn reconciled(&self, mut record: RunRecord) -> Result<RunRecord, LogError> {
        for (deploy, entry) in record.captures() {
            if let Some(universe) = self.universe(&entry.universe_id).await? {
                record.reconcile_captures(&deploy, &universe.artifacts);
            }
        }
        Ok(record)
    }
}

impl RunLog for StoreLog {
    fn create<'a>(&'a self, record: &'a RunRecord) -> Work<'a, Result<(), LogError>> {
        Box::pin(async {
            self.refer(record).await?;
            match self.0.create_run(&record.run, &document(record)?).await {
                Ok(_) => Ok(()),
                Err(StoreError::RunExists(run)) => Err(LogError::RunExists(run)),
                Err(error) => Err(store(&error)),
            }
        })
    }

    fn update<'a>(&'a self, record: &'a RunRecord) -> Work<'a, Result<(), LogError>> {
        Box::pin(async {
            self.refer(record).await?;
            self.0.update_run(&record.run, &document(record)?).await.map(drop).map_err(|error| store(&error))
        })
    }

    fn get<'a>(&'a self, run: &'a RunId) -> Work<'a, Result<RunRecord, LogError>> {
        Box::pin(async {
            match self.0.get_run(run).await {
                Ok(row) => self.reconciled(read(row)?).await,
                Err(StoreError::NoRun(run)) => Err(LogError::NoRun(run)),
                Err(error) => Err(store(&error)),
            }
        })
    }

    fn list(&self, limit: u32) -> Work<'_, Result<Vec<RunRecord>, LogError>> {
        Box::pin(async move {
            let rows = self.0.list_runs(limit).await.map_err(|error| store(&error))?;
            let readable = |row| read(row).inspect_err(|error| tracing::warn!(%error, "a run is not listed")).ok();
            Ok(rows.into_iter().filter_map(readable).collect())
        })
    }

    fn put_file<'a>(&'a self, run: &'a RunId, file: NewFile) -> Work<'a, Result<ArtifactRecord, LogError>> {
        Box::pin(async move {
            let new = NewArtifact {
                sensitive: file.sensitive,
                universe: file.universe,
                ..NewArtifact::new(file.name, file.media_type)
            };
            let source = ArtifactSource::Beneath { folder: file.folder, path: file.path };
            let stored =
                self.0.put_artifact(&Holder::Run(run.clone()), new, source).await.map_err(|error| store(&error))?;
            Ok(artifact(stored, file.step))
        })
    }

    fn write_artifact<'a>(
        &'a self,
        run: &'a RunId,
        artifact: &'a ArtifactRecord,
        to: PathBuf,
    ) -> Work<'a, Result<(), LogError>> {
        Box::pin(async move {
            let missing = || LogError::NoArtifact { run: run.clone(), artifact: artifact.id.clone() };
            let id = ArtifactId::parse(&artifact.id).map_err(|_| missing())?;
            let at = |error: io::Error| LogError::Store(format!("{}: {error}", to.display()));
            let file = fs::File::create(&to).map_err(at)?;
            match self.0.read_artifact(&id, file).await {
                Ok(()) => Ok(()),
                Err(StoreError::NoArtifact(_)) => Err(missing()),
                Err(error) => Err(store(&error)),
            }
        })
    }
}

fn store(error: &StoreError) -> LogError {
    LogError::Store(error.to_string())
}

fn document(record: &RunRecord) -> Result<serde_json::Value, LogError> {
    serde_json::to_value(record)
        .map_err(|error| LogError::Unreadable { run: record.run.clone(), reason: error.to_string() })
}

fn read(row: RunRow) -> Result<RunRecord, LogError> {
    let unreadable = |reason| LogError::Unreadable { run: row.id.clone(), reason };
    // The format first: a newer record may lack what this program wants.
    let format = row.document.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if format > u64::from(RECORD_FORMAT) {
        return Err(unreadable(format!("it has format {format}, this program reads up to {RECORD_FORMAT}")));
    }
    serde_json::from_value(row.document).map_err(|error| unreadable(error.to_string()))
}

fn artifact(stored: Artifact, step: usize) -> ArtifactRecord {
    ArtifactRecord {
        id: stored.id.to_string(),
        name: stored.name,
        media_type: stored.media_type,
        size: stored.size,
        sha256: stored.sha256.to_string(),
        step,
        sensitive: stored.sensitive,
        universe: stored.universe,
    }
}

#[cfg(test)]
mod tests;
