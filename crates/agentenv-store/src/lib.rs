//! Where agent-env keeps what must last: envs and runs as records in SQLite, trees and artifacts as files named by
//! their SHA-256 in an object store (ENV-4, ENV-10).
//!
//! ```no_run
//! # async fn example() -> Result<(), agentenv_store::StoreError> {
//! use agentenv_protocol::{Home, RunId};
//! use agentenv_store::{ArtifactSource, Holder, NewArtifact, Store};
//!
//! let store = Store::open(&Home::at("/var/lib/agent-env")).await?;
//! let run = RunId::random();
//! store.create_run(&run, &serde_json::json!({ "state": "starting" })).await?;
//! let log = NewArtifact::new("output.log", "text/plain");
//! let source = ArtifactSource::Beneath { folder: "/tmp/output".into(), path: "output.log".into() };
//! let artifact = store.put_artifact(&Holder::Run(run.clone()), log, source).await?;
//! store.update_run(&run, &serde_json::json!({ "state": "done", "artifacts": [artifact.id] })).await?;
//! # Ok(())
//! # }
//! ```
//!
//! What is stored is written whole or not at all: a file is complete and on disk before the row that names it, and rows
//! change in transactions. What no row names is garbage, and [`Store::gc`] removes it.

mod artifacts;
mod beneath;
mod blobs;
mod builds;
mod database;
mod envs;
mod error;
mod gc;
mod lock;
mod references;
mod runs;
mod secrets;
mod store;
mod tree;
mod universes;

#[cfg(test)]
mod tests;

pub use artifacts::{Artifact, ArtifactSource, MAX_ARTIFACT_BYTES, NewArtifact};
pub use builds::BuildKey;
pub use envs::{NewEnv, PutOutcome, StoredEnv};
pub use error::StoreError;
pub use gc::GcReport;
pub use lock::Hold;
pub use references::Holder;
pub use runs::RunRow;
pub use secrets::{MAX_SECRET_BYTES, SecretError, SecretFiles, SecretValueError, secret_value};
pub use store::Store;
pub use tree::{LinkError, MAX_TREE_BYTES, MAX_TREE_ENTRIES, SOURCE_DATE_EPOCH, TreeError, check_links};
pub use universes::Universe;
