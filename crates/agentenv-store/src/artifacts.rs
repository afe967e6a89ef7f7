//! Artifacts: stored files of a run, and universes, which are sets of them.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write},
    path::PathBuf,
};

use agentenv_protocol::{ArtifactId, Digest, RunId, UniverseId};
use serde::Serialize;
use serde_json::Value;
use sqlx::{Row as _, sqlite::SqliteRow};

use crate::{
    Store, StoreError, beneath,
    blobs::{BlobKind, Measure, Measuring},
    store::{document, now},
};

/// The longest artifact: far above a capture's ring, far below a disk.
pub const MAX_ARTIFACT_BYTES: u64 = 8 * 1024 * 1024 * 1024;

/// What an artifact is about to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewArtifact {
    /// Name, for people; not a path.
    pub name: String,
    /// Media type.
    pub media_type: String,
    /// Whether it may hold what people typed: captures are.
    pub sensitive: bool,
    /// The set that it belongs to.
    pub universe: Option<UniverseId>,
}

impl NewArtifact {
    /// Makes one that is not sensitive and in no universe.
    pub fn new(name: impl Into<String>, media_type: impl Into<String>) -> Self {
        Self { name: name.into(), media_type: media_type.into(), sensitive: false, universe: None }
    }
}

/// Where an artifact's bytes come from.
#[derive(Debug)]
pub enum ArtifactSource {
    /// Memory.
    Bytes(Vec<u8>),
    /// A plain file in a folder that somebody else may be changing: no link is followed, nothing is waited for.
    Beneath {
        /// The folder.
        folder: PathBuf,
        /// The file, relative to it.
        path: PathBuf,
    },
}

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Artifact {
    /// Id.
    pub id: ArtifactId,
    /// The run that it is of.
    pub run: RunId,
    /// The set that it belongs to.
    pub universe: Option<UniverseId>,
    /// Name.
    pub name: String,
    /// Media type.
    pub media_type: String,
    /// Size in bytes.
    pub size: u64,
    /// Digest of its bytes.
    pub sha256: Digest,
    /// Whether it may hold what people typed.
    pub sensitive: bool,
    /// RFC 3339, UTC.
    pub created_at: String,
}

/// A set of artifacts of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Universe {
    /// Id.
    pub id: UniverseId,
    /// The run that it is of.
    pub run: RunId,
    /// Grows by one at every change of the document.
    pub revision: u64,
    /// The set's own document.
    pub document: Value,
    /// Its artifacts, in the order in which they were stored.
    pub artifacts: Vec<Artifact>,
}

impl Store {
    /// Stores a file as an artifact of a run, whole and on disk when this returns.
    pub async fn put_artifact(
        &self,
        run: &RunId,
        artifact: NewArtifact,
        source: ArtifactSource,
    ) -> Result<Artifact, StoreError> {
        let _hold = self.hold().await?;
        let measure = match source {
            ArtifactSource::Bytes(bytes) => self.put_bytes(bytes).await?,
            ArtifactSource::Beneath { folder, path } => self.put_file(folder, path).await?,
        };
        let artifact = Artifact {
            id: ArtifactId::random(),
            run: run.clone(),
            universe: artifact.universe,
            name: artifact.name,
            media_type: artifact.media_type,
            size: measure.size,
            sha256: measure.digest,
            sensitive: artifact.sensitive,
            created_at: now(),
        };
        self.insert_artifact(&artifact).await?;
        Ok(artifact)
    }

    async fn put_bytes(&self, bytes: Vec<u8>) -> Result<Measure, StoreError> {
        let mut measuring = Measuring::default();
        // Measuring cannot fail: it only counts.
        let _ = measuring.write_all(&bytes);
        let measure = measuring.finish();
        let path = self.blobs.path(BlobKind::Artifact, &measure.digest);
        let produce = move |out: &mut dyn Write| out.write_all(&bytes).map_err(|error| StoreError::io(path, error));
        self.blobs.put(BlobKind::Artifact, &measure, produce).await?;
        Ok(measure)
    }

    async fn put_file(&self, folder: PathBuf, path: PathBuf) -> Result<Measure, StoreError> {
        let whole = folder.join(&path);
        let opened = move || {
            let (mut file, size) = beneath::open(&folder, &path)?;
            let mut measuring = Measuring::default();
            copy_exactly(&mut file, size, &folder.join(&path), &mut measuring)?;
            Ok((file, measuring.finish()))
        };
        let (mut file, measure) = self.blocking(whole.clone(), opened).await?;
        let size = measure.size;
        let produce = move |out: &mut dyn Write| {
            file.rewind().map_err(|error| StoreError::io(&whole, error))?;
            copy_exactly(&mut file, size, &whole, out)
        };
        self.blobs.put(BlobKind::Artifact, &measure, produce).await?;
        Ok(measure)
    }

    async fn insert_artifact(&self, artifact: &Artifact) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        let done = sqlx::query(
            "insert into artifacts (id, run, universe, name, media_type, size, sha256, sensitive, created_at) \
             select ?1, id, ?3, ?4, ?5, ?6, ?7, ?8, ?9 from runs where id = ?2",
        )
        .bind(artifact.id.as_str())
        .bind(artifact.run.as_str())
        .bind(artifact.universe.as_ref().map(UniverseId::as_str))
        .bind(&artifact.name)
        .bind(&artifact.media_type)
        .bind(artifact.size.cast_signed())
        .bind(artifact.sha256.as_str())
        .bind(artifact.sensitive)
        .bind(&artifact.created_at)
        .execute(&mut *transaction)
        .await
        .map_err(|error| match (&artifact.universe, error) {
            (Some(universe), sqlx::Error::Database(error)) if error.is_foreign_key_violation() => {
                StoreError::NoUniverse(universe.clone())
            }
            (_, error) => self.database(error),
        })?;
        if done.rows_affected() == 0 {
            return Err(StoreError::NoRun(artifact.run.clone()));
        }
        self.commit(transaction).await
    }

    /// Reads what is on record about an artifact.
    pub async fn get_artifact(&self, id: &ArtifactId) -> Result<Artifact, StoreError> {
        let row = sqlx::query(
            "select id, run, universe, name, media_type, size, sha256, sensitive, created_at from artifacts where id = ?1",
        )
        .bind(id.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(|error| self.database(error))?;
        self.artifact(&row.ok_or_else(|| StoreError::NoArtifact(id.clone()))?)
    }

    /// Lists a run's artifacts in the order in which they were stored.
    pub async fn list_artifacts(&self, run: &RunId) -> Result<Vec<Artifact>, StoreError> {
        let rows = sqlx::query(
            "select id, run, universe, name, media_type, size, sha256, sensitive, created_at from artifacts \
             where run = ?1 order by rowid",
        )
        .bind(run.as_str())
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.database(error))?;
        rows.iter().map(|row| self.artifact(row)).collect()
    }

    /// Writes an artifact's bytes to a file, checking their digest.
    pub async fn read_artifact(&self, id: &ArtifactId, mut out: impl Write + Send + 'static) -> Result<(), StoreError> {
        let artifact = self.get_artifact(id).await?;
        let path = self.blobs.path(BlobKind::Artifact, &artifact.sha256);
        let at = path.clone();
        let copy = move |bytes: &mut dyn io::Read| {
            io::copy(bytes, &mut out).and_then(|_| out.flush()).map_err(|error| StoreError::io(at, error))
        };
        let found = self.blobs.get(BlobKind::Artifact, &artifact.sha256, copy).await?;
        found.ok_or_else(|| StoreError::io(path, io::ErrorKind::NotFound.into()))
    }

    /// Makes an empty universe of a run.
    pub async fn create_universe(&self, run: &RunId, document: &Value) -> Result<UniverseId, StoreError> {
        let id = UniverseId::random();
        let mut transaction = self.begin().await?;
        let done = sqlx::query(
            "insert into universes (id, run, revision, document) select ?1, id, 1, ?3 from runs where id = ?2",
        )
        .bind(id.as_str())
        .bind(run.as_str())
        .bind(document.to_string())
        .execute(&mut *transaction)
        .await
        .map_err(|error| self.database(error))?;
        if done.rows_affected() == 0 {
            return Err(StoreError::NoRun(run.clone()));
        }
        self.commit(transaction).await?;
        Ok(id)
    }

    /// Replaces a universe's document.
    pub async fn update_universe(&self, id: &UniverseId, document: &Value) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        let done = sqlx::query("update universes set revision = revision + 1, document = ?2 where id = ?1")
            .bind(id.as_str())
            .bind(document.to_string())
            .execute(&mut *transaction)
            .await
            .map_err(|error| self.database(error))?;
        if done.rows_affected() == 0 {
            return Err(StoreError::NoUniverse(id.clone()));
        }
        self.commit(transaction).await
    }

    /// Reads a universe and its artifacts.
    pub async fn get_universe(&self, id: &UniverseId) -> Result<Universe, StoreError> {
        let fail = |error| self.database(error);
        let row = sqlx::query("select run, revision, document from universes where id = ?1")
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(fail)?
            .ok_or_else(|| StoreError::NoUniverse(id.clone()))?;
        let what = || format!("artifact universe `{id}`");
        let run: String = row.try_get(0).map_err(fail)?;
        let run = RunId::parse(&run).map_err(|source| StoreError::RecordId { what: what(), source })?;
        let revision: i64 = row.try_get(1).map_err(fail)?;
        let text: String = row.try_get(2).map_err(fail)?;
        let mut artifacts = self.list_artifacts(&run).await?;
        artifacts.retain(|artifact| artifact.universe.as_ref() == Some(id));
        let document = document(what, &text)?;
        Ok(Universe { id: id.clone(), run, revision: revision.unsigned_abs(), document, artifacts })
    }

    fn artifact(&self, row: &SqliteRow) -> Result<Artifact, StoreError> {
        let fail = |error| self.database(error);
        let text = |column: usize| row.try_get::<String, _>(column).map_err(fail);
        let id = text(0)?;
        let bad = |source| StoreError::RecordId { what: format!("artifact `{id}`"), source };
        let universe: Option<String> = row.try_get(2).map_err(fail)?;
        Ok(Artifact {
            id: ArtifactId::parse(&id).map_err(bad)?,
            run: RunId::parse(&text(1)?).map_err(bad)?,
            universe: universe.map(|id| UniverseId::parse(&id)).transpose().map_err(bad)?,
            name: text(3)?,
            media_type: text(4)?,
            size: row.try_get::<i64, _>(5).map_err(fail)?.unsigned_abs(),
            sha256: Digest::parse(&text(6)?).map_err(bad)?,
            sensitive: row.try_get(7).map_err(fail)?,
            created_at: text(8)?,
        })
    }
}

/// Copies as many bytes as the file had when it was opened: a growing log ends, a shrinking one is an error.
fn copy_exactly(file: &mut File, size: u64, path: &std::path::Path, out: &mut dyn Write) -> Result<(), StoreError> {
    let copied = io::copy(&mut file.take(size), out).map_err(|error| StoreError::io(path, error))?;
    if copied == size { Ok(()) } else { Err(StoreError::Changed { path: path.to_owned() }) }
}
