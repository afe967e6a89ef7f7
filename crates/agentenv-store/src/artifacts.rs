//! Artifacts: stored files of a run, or of a deploy outside any run.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write},
    path::PathBuf,
};

use agentenv_protocol::{ArtifactId, Digest, UniverseId};
use sqlx::{Row as _, sqlite::SqliteRow};

use crate::{
    Holder, Store, StoreError, beneath,
    blobs::{BlobKind, Measure, Measuring},
    references::holder_of,
    store::now,
};

/// The longest artifact: far above a capture's ring, far below a disk.
pub const MAX_ARTIFACT_BYTES: u64 = 8 * 1024 * 1024 * 1024;

/// A query for artifacts, with the columns in the order in which they are read.
macro_rules! artifacts {
    ($condition:literal) => {
        concat!(
            "select id, run, deploy, universe, name, media_type, size, sha256, sensitive, created_at from artifacts ",
            $condition
        )
    };
}
pub(crate) use artifacts;

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
    /// The first bytes of an open file.
    File {
        /// The file.
        file: File,
        /// How many.
        bytes: u64,
        /// What errors call it.
        path: PathBuf,
    },
}

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Id.
    pub id: ArtifactId,
    /// Whose it is.
    pub holder: Holder,
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

impl Store {
    /// Stores a file as an artifact, whole and on disk when this returns. From then on it is in its universe.
    pub async fn put_artifact(
        &self,
        holder: &Holder,
        artifact: NewArtifact,
        source: ArtifactSource,
    ) -> Result<Artifact, StoreError> {
        let _hold = self.hold().await?;
        let measure = match source {
            ArtifactSource::Bytes(bytes) => self.put_bytes(bytes).await?,
            ArtifactSource::Beneath { folder, path } => {
                let whole = folder.join(&path);
                self.put_file(whole, move || beneath::open(&folder, &path)).await?
            }
            ArtifactSource::File { bytes, path, .. } if bytes > MAX_ARTIFACT_BYTES => {
                return Err(StoreError::TooLong { path, size: bytes, limit: MAX_ARTIFACT_BYTES });
            }
            ArtifactSource::File { file, bytes, path } => self.put_file(path, move || Ok((file, bytes))).await?,
        };
        let artifact = Artifact {
            id: ArtifactId::random(),
            holder: holder.clone(),
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

    async fn put_file(
        &self,
        path: PathBuf,
        open: impl FnOnce() -> Result<(File, u64), StoreError> + Send + 'static,
    ) -> Result<Measure, StoreError> {
        let at = path.clone();
        let opened = move || {
            let (mut file, size) = open()?;
            let mut measuring = Measuring::default();
            file.rewind().map_err(|error| StoreError::io(&at, error))?;
            copy_exactly(&mut file, size, &at, &mut measuring)?;
            Ok((file, measuring.finish()))
        };
        let (mut file, measure) = self.blocking(path.clone(), opened).await?;
        let size = measure.size;
        let produce = move |out: &mut dyn Write| {
            file.rewind().map_err(|error| StoreError::io(&path, error))?;
            copy_exactly(&mut file, size, &path, out)
        };
        self.blobs.put(BlobKind::Artifact, &measure, produce).await?;
        Ok(measure)
    }

    async fn insert_artifact(&self, artifact: &Artifact) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        let (run, deploy) = artifact.holder.ids();
        let done = sqlx::query(
            "insert into artifacts (id, run, deploy, universe, name, media_type, size, sha256, sensitive, created_at) \
             select ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 where ?2 is null or exists (select 1 from runs where id = ?2)",
        )
        .bind(artifact.id.as_str())
        .bind(run)
        .bind(deploy)
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
            return Err(self.missing(&artifact.holder));
        }
        self.commit(transaction).await
    }

    /// Reads what is on record about an artifact.
    pub async fn get_artifact(&self, id: &ArtifactId) -> Result<Artifact, StoreError> {
        let row = sqlx::query(artifacts!("where id = ?1"))
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.database(error))?;
        self.artifact(&row.ok_or_else(|| StoreError::NoArtifact(id.clone()))?)
    }

    /// Lists a run's or a deploy's artifacts in the order in which they were stored.
    pub async fn list_artifacts(&self, holder: &Holder) -> Result<Vec<Artifact>, StoreError> {
        match holder {
            Holder::Run(run) => self.artifacts_of(artifacts!("where run = ?1 order by rowid"), run.as_str()).await,
            Holder::Deploy(deploy) => {
                self.artifacts_of(artifacts!("where deploy = ?1 order by rowid"), deploy.as_str()).await
            }
        }
    }

    /// Reads the artifacts that a query of [`artifacts`] finds.
    pub(crate) async fn artifacts_of(&self, query: &'static str, id: &str) -> Result<Vec<Artifact>, StoreError> {
        let rows = sqlx::query(query).bind(id).fetch_all(&self.pool).await.map_err(|error| self.database(error))?;
        rows.iter().map(|row| self.artifact(row)).collect()
    }

    /// Forgets an artifact, such as one that a longer one replaces; its bytes go with the next [`Store::gc`]. One that is not
    /// there is forgotten already.
    pub async fn remove_artifact(&self, id: &ArtifactId) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        sqlx::query("delete from artifacts where id = ?1")
            .bind(id.as_str())
            .execute(&mut *transaction)
            .await
            .map_err(|error| self.database(error))?;
        self.commit(transaction).await
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

    fn artifact(&self, row: &SqliteRow) -> Result<Artifact, StoreError> {
        let fail = |error| self.database(error);
        let text = |column: usize| row.try_get::<String, _>(column).map_err(fail);
        let id = text(0)?;
        let bad = |source| StoreError::RecordId { what: format!("artifact `{id}`"), source };
        let universe: Option<String> = row.try_get(3).map_err(fail)?;
        Ok(Artifact {
            id: ArtifactId::parse(&id).map_err(bad)?,
            holder: holder_of(row.try_get(1).map_err(fail)?, row.try_get(2).map_err(fail)?).map_err(bad)?,
            universe: universe.map(|id| UniverseId::parse(&id)).transpose().map_err(bad)?,
            name: text(4)?,
            media_type: text(5)?,
            size: row.try_get::<i64, _>(6).map_err(fail)?.unsigned_abs(),
            sha256: Digest::parse(&text(7)?).map_err(bad)?,
            sensitive: row.try_get(8).map_err(fail)?,
            created_at: text(9)?,
        })
    }
}

/// Copies as many bytes as the file had when it was opened: a growing log ends, a shrinking one is an error.
fn copy_exactly(file: &mut File, size: u64, path: &std::path::Path, out: &mut dyn Write) -> Result<(), StoreError> {
    let copied = io::copy(&mut file.take(size), out).map_err(|error| StoreError::io(path, error))?;
    if copied == size { Ok(()) } else { Err(StoreError::Changed { path: path.to_owned() }) }
}
