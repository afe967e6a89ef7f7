//! Artifact universes in the store.

use agentenv_protocol::{ArtifactId, DeployId, PCAP_MEDIA_TYPE, RunId, UniverseId};
use agentenv_store::{ArtifactSource, Holder, NewArtifact, StoreError};
use serde_json::Value;

use super::{StoreLog, artifact, store};
use crate::{
    event::Work,
    record::ArtifactRecord,
    run_log::LogError,
    universes::{NewCapture, StoredUniverse, Universes},
};

impl Universes for StoreLog {
    fn create_universe<'a>(
        &'a self,
        holder: &'a Holder,
        id: &'a UniverseId,
        document: &'a Value,
    ) -> Work<'a, Result<(), LogError>> {
        Box::pin(async { self.0.create_universe(holder, id, document).await.map_err(|error| store(&error)) })
    }

    fn update_universe<'a>(&'a self, id: &'a UniverseId, document: &'a Value) -> Work<'a, Result<(), LogError>> {
        Box::pin(async { self.0.update_universe(id, document).await.map_err(|error| store(&error)) })
    }

    fn universe<'a>(&'a self, id: &'a UniverseId) -> Work<'a, Result<Option<StoredUniverse>, LogError>> {
        Box::pin(async {
            match self.0.get_universe(id).await {
                Ok(universe) => {
                    let artifacts = universe.artifacts.into_iter().map(|stored| artifact(stored, 0)).collect();
                    Ok(Some(StoredUniverse { document: universe.document, artifacts }))
                }
                Err(StoreError::NoUniverse(_)) => Ok(None),
                Err(error) => Err(store(&error)),
            }
        })
    }

    fn universes_of<'a>(&'a self, holder: &'a Holder) -> Work<'a, Result<Vec<UniverseId>, LogError>> {
        Box::pin(async { self.0.universes_of(holder).await.map_err(|error| store(&error)) })
    }

    fn put_capture<'a>(&'a self, holder: &'a Holder, new: NewCapture) -> Work<'a, Result<ArtifactRecord, LogError>> {
        Box::pin(async move {
            let artifact_of = NewArtifact {
                sensitive: true,
                universe: Some(new.universe),
                ..NewArtifact::new(new.name, PCAP_MEDIA_TYPE)
            };
            let source = ArtifactSource::File { file: new.file, bytes: new.bytes, path: new.path };
            let stored = self.0.put_artifact(holder, artifact_of, source).await.map_err(|error| store(&error))?;
            Ok(artifact(stored, new.step))
        })
    }

    fn remove_artifact<'a>(&'a self, artifact: &'a str) -> Work<'a, Result<(), LogError>> {
        Box::pin(async {
            // What has no id of an artifact is none.
            let Ok(id) = ArtifactId::parse(artifact) else { return Ok(()) };
            self.0.remove_artifact(&id).await.map_err(|error| store(&error))
        })
    }

    fn run_of_deploy<'a>(&'a self, deploy: &'a DeployId) -> Work<'a, Result<Option<RunId>, LogError>> {
        Box::pin(async { self.0.run_of_deploy(deploy).await.map_err(|error| store(&error)) })
    }
}
