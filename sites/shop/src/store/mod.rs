//! The shop's data: one SQLite database in a folder that goes back to the state at deploy.

pub mod accounts;
pub mod carts;
pub mod catalogue;
pub mod data;
pub mod orders;

use std::{
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use agentenv_sdk::{Error, Result, Snapshot};
use rusqlite::{Connection, TransactionBehavior};

const FILE: &str = "shop.sqlite";

/// The database. One connection, taken in turns: a page needs it for well under a millisecond.
pub struct Store {
    folder: Snapshot,
    /// Nothing only while a reset exchanges the file.
    connection: Mutex<Option<Connection>>,
}

impl Store {
    /// Opens the database, at deploy with the catalogue and nothing else.
    pub fn open(data_dir: &Path) -> Result<Self> {
        let folder = Snapshot::prepare(data_dir, "db", |folder| {
            let connection = connect(folder)?;
            connection.execute_batch(include_str!("schema.sql"))?;
            catalogue::seed(&connection)
        })?;
        let connection = connect(folder.path())?;
        Ok(Self { folder, connection: Mutex::new(Some(connection)) })
    }

    /// Reads.
    pub fn read<T>(&self, action: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        action(self.lock().as_ref().ok_or_else(closed)?)
    }

    /// Changes: all of it if the action succeeds, nothing otherwise.
    pub fn change<T>(&self, action: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        let mut guard = self.lock();
        let connection = guard.as_mut().ok_or_else(closed)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let done = action(&transaction)?;
        transaction.commit()?;
        Ok(done)
    }

    /// Goes back to the state at deploy.
    pub fn restore(&self) -> Result<()> {
        let mut guard = self.lock();
        // Closed first: SQLite tidies up by path, and by then the path is another file's.
        drop(guard.take());
        let restored = self.folder.restore();
        *guard = Some(connect(self.folder.path())?);
        restored
    }

    fn lock(&self) -> MutexGuard<'_, Option<Connection>> {
        // A page that panicked has rolled its transaction back.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> Error {
    Error::internal("the database is closed: a reset failed halfway")
}

fn connect(folder: &Path) -> Result<Connection> {
    let connection = Connection::open(folder.join(FILE))?;
    // The disk is memory: nothing is gained by waiting for it, and a killed process still leaves whole transactions.
    connection.execute_batch("PRAGMA foreign_keys = ON; PRAGMA synchronous = OFF;")?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}
