//! The SQLite database: how it is opened, and the one way to write to it.

use std::{path::Path, time::Duration};

use sqlx::{
    Connection as _, Sqlite, SqlitePool, Transaction,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use crate::{
    StoreError,
    lock::{self, Mode},
};

static MIGRATOR: Migrator = sqlx::migrate!("./migrations");

/// How long a transaction waits for other writers. Each is short; many parallel runs may queue.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections of one process: one writes, the others read meanwhile.
const MAX_CONNECTIONS: u32 = 4;

/// Opens the database, making it or bringing its schema up to date first.
pub(crate) async fn open(path: &Path, lock_path: &Path) -> Result<SqlitePool, StoreError> {
    // The change to WAL and the migrations are not safe against a second process that does the same.
    let lock_path = lock_path.to_owned();
    let alone = tokio::task::spawn_blocking(move || lock::take(&lock_path, Mode::Alone))
        .await
        .map_err(|_| StoreError::Cut { path: path.to_owned() })??;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // FULL: a run record is on disk before what it announces exists (RUN-2).
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT);
    let pool = SqlitePoolOptions::new()
        .max_connections(MAX_CONNECTIONS)
        .acquire_timeout(BUSY_TIMEOUT)
        // SQLite itself rolls back where the disk is full, and sqlx then believes in a transaction that is gone.
        .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }))
        .connect_with(options)
        .await
        .map_err(|error| error_at(path, error))?;
    MIGRATOR.run(&pool).await.map_err(|source| match source {
        sqlx::migrate::MigrateError::Execute(source) => error_at(path, source),
        source => StoreError::Schema { path: path.to_owned(), source },
    })?;
    drop(alone);
    Ok(pool)
}

/// Begins a transaction that has the write lock from the start: one that upgrades later fails under contention.
pub(crate) async fn begin(pool: &SqlitePool) -> sqlx::Result<Transaction<'static, Sqlite>> {
    pool.begin_with("BEGIN IMMEDIATE").await
}

/// Takes an error of the database; a full disk has its own variant.
pub(crate) fn error_at(path: &Path, source: sqlx::Error) -> StoreError {
    /// SQLITE_FULL; extended codes keep it in the low byte.
    const FULL: u32 = 13;
    /// SQLITE_IOERR_SHMSIZE: the file beside the database cannot grow, which is how a disk that is full to the last page shows.
    const SHM_SIZE: u32 = 4874;
    let full = match &source {
        sqlx::Error::Database(error) => error
            .code()
            .and_then(|code| code.parse::<u32>().ok())
            .is_some_and(|code| code & 0xff == FULL || code == SHM_SIZE),
        sqlx::Error::Io(error) => crate::error::is_full(error),
        _ => false,
    };
    if full {
        StoreError::Full { path: path.to_owned() }
    } else {
        StoreError::Database { path: path.to_owned(), source }
    }
}
