//! The handle that everything hangs on.

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentenv_protocol::{Home, IdError};
use serde_json::Value;
use sqlx::{Row as _, Sqlite, SqlitePool, Transaction, sqlite::SqliteRow};

use crate::{
    StoreError,
    blobs::Blobs,
    database,
    lock::{self, Hold, Mode},
};

/// Records and files of one home. Cheap to clone; many processes may have one open.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) pool: SqlitePool,
    pub(crate) blobs: Blobs,
    pub(crate) paths: Arc<Paths>,
}

/// Where the store's parts are.
#[derive(Debug)]
pub(crate) struct Paths {
    pub(crate) database: PathBuf,
    pub(crate) gc_lock: PathBuf,
    /// Unpacked trees.
    pub(crate) trees: PathBuf,
    /// Whether `trees` belongs to this home alone: a shared one holds what other homes run.
    pub(crate) owns_trees: bool,
}

impl Store {
    /// Opens the store of a home, making what is missing. The folder is closed to other users.
    pub async fn open(home: &Home) -> Result<Self, StoreError> {
        let folder = home.store();
        let trees = home.cache().join("trees");
        let paths = Paths {
            database: folder.join("db.sqlite"),
            gc_lock: folder.join("gc.lock"),
            owns_trees: trees.starts_with(home.root()),
            trees,
        };
        let blobs_folder = folder.join("blobs");
        make_folder(home.root(), 0o700)?;
        make_folder(&folder, 0o700)?;
        make_folder(&blobs_folder, 0o700)?;
        let blobs = Blobs::open(&blobs_folder)?;
        let pool = database::open(&paths.database, &folder.join("open.lock")).await?;
        Ok(Self { pool, blobs, paths: Arc::new(paths) })
    }

    /// Keeps [`Store::gc`] away for as long as the answer lives: from before a tree is stored until a record names it.
    pub async fn hold(&self) -> Result<Hold, StoreError> {
        let path = self.paths.gc_lock.clone();
        self.blocking(path.clone(), move || lock::take(&path, Mode::Shared)).await
    }

    /// Closes the database; a dropped store does so later.
    pub async fn close(self) {
        self.pool.close().await;
    }

    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        database::begin(&self.pool).await.map_err(|error| self.database(error))
    }

    pub(crate) async fn commit(&self, transaction: Transaction<'static, Sqlite>) -> Result<(), StoreError> {
        transaction.commit().await.map_err(|error| self.database(error))
    }

    pub(crate) fn database(&self, error: sqlx::Error) -> StoreError {
        database::error_at(&self.paths.database, error)
    }

    /// The id in a row's first column, which is `what`'s.
    pub(crate) fn id_of<T>(
        &self,
        row: &SqliteRow,
        what: &str,
        parse: fn(&str) -> Result<T, IdError>,
    ) -> Result<T, StoreError> {
        let id: String = row.try_get(0).map_err(|error| self.database(error))?;
        parse(&id).map_err(|source| StoreError::RecordId { what: format!("{what} `{id}`"), source })
    }

    /// Runs file work off the async threads.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        path: PathBuf,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Cut { path })?
    }
}

/// Makes a folder and those above it.
pub(crate) fn make_folder(path: &Path, mode: u32) -> Result<(), StoreError> {
    DirBuilder::new().recursive(true).mode(mode).create(path).map_err(|error| StoreError::io(path, error))
}

/// The time as records have it.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// A stored document.
pub(crate) fn document(what: impl FnOnce() -> String, text: &str) -> Result<Value, StoreError> {
    serde_json::from_str(text).map_err(|source| StoreError::Record { what: what(), source })
}
