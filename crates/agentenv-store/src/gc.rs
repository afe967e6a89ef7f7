//! Removing what no record names.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Serialize;
use sqlx::Row as _;

use crate::{
    Store, StoreError,
    blobs::BlobKind,
    lock::{self, Mode},
};

/// What a gc removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GcReport {
    /// Stored files.
    pub blobs: u64,
    /// Their size.
    pub bytes: u64,
    /// Unpacked trees and what was left of interrupted work.
    pub folders: u64,
    /// Remembered builds.
    pub builds: u64,
}

impl Store {
    /// Removes stored files, unpacked trees and remembered builds that no record names. Waits for those who are storing.
    pub async fn gc(&self) -> Result<GcReport, StoreError> {
        let path = self.paths.gc_lock.clone();
        let alone = self.blocking(path.clone(), move || lock::take(&path, Mode::Alone)).await?;
        let mut report = GcReport { builds: self.forget_builds().await?, ..GcReport::default() };
        let trees = self.digests("select source from envs union select tree from envs").await?;
        let artifacts = self.digests("select sha256 from artifacts").await?;
        for kind in BlobKind::ALL {
            let live = match kind {
                BlobKind::Tree => &trees,
                BlobKind::Artifact => &artifacts,
            };
            for (name, size) in self.blobs.list(kind).await? {
                if !live.contains(&name) {
                    self.blobs.delete(kind, &name).await?;
                    report.blobs += 1;
                    report.bytes += size;
                }
            }
            // What the object store does not list is a staged upload; nobody uploads now.
            report.folders += self.sweep(self.blobs.folder(kind), live.clone()).await?;
        }
        if self.paths.owns_trees {
            report.folders += self.sweep(self.paths.trees.clone(), trees).await?;
        }
        drop(alone);
        Ok(report)
    }

    async fn forget_builds(&self) -> Result<u64, StoreError> {
        let mut transaction = self.begin().await?;
        let done = sqlx::query("delete from builds where tree not in (select tree from envs where tree is not null)")
            .execute(&mut *transaction)
            .await
            .map_err(|error| self.database(error))?;
        self.commit(transaction).await?;
        Ok(done.rows_affected())
    }

    async fn digests(&self, query: &'static str) -> Result<HashSet<String>, StoreError> {
        let rows = sqlx::query(query).fetch_all(&self.pool).await.map_err(|error| self.database(error))?;
        rows.iter()
            .filter_map(|row| row.try_get::<Option<String>, _>(0).transpose())
            .collect::<Result<_, _>>()
            .map_err(|error| self.database(error))
    }

    async fn sweep(&self, folder: PathBuf, live: HashSet<String>) -> Result<u64, StoreError> {
        self.blocking(folder.clone(), move || sweep(&folder, &live)).await
    }
}

/// Removes what is in a folder but not in the set.
fn sweep(folder: &Path, live: &HashSet<String>) -> Result<u64, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(StoreError::io(folder, error)),
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry.map_err(|error| StoreError::io(folder, error))?;
        if entry.file_name().to_str().is_some_and(|name| live.contains(name)) {
            continue;
        }
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| StoreError::io(&path, error))?;
        let outcome = if kind.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        outcome.map_err(|error| StoreError::io(&path, error))?;
        removed += 1;
    }
    Ok(removed)
}
