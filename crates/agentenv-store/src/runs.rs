//! Run records: one JSON document a run, replaced whole, readable while the run goes on (RUN-2).

use agentenv_protocol::RunId;
use serde_json::Value;
use sqlx::{Row as _, sqlite::SqliteRow};

use crate::{
    Store, StoreError,
    store::{document, now},
};

/// One run as it is on record.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRow {
    /// Id.
    pub id: RunId,
    /// Grows by one at every change; 1 when it is new.
    pub revision: u64,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// RFC 3339, UTC.
    pub updated_at: String,
    /// The run's own document.
    pub document: Value,
}

impl Store {
    /// Writes a new run's document; answers its revision, 1. On disk when this returns.
    pub async fn create_run(&self, id: &RunId, document: &Value) -> Result<u64, StoreError> {
        let mut transaction = self.begin().await?;
        let done = sqlx::query(
            "insert into runs (id, revision, created_at, updated_at, document) values (?1, 1, ?2, ?2, ?3) on conflict do nothing",
        )
        .bind(id.as_str())
        .bind(now())
        .bind(document.to_string())
        .execute(&mut *transaction)
        .await
        .map_err(|error| self.database(error))?;
        if done.rows_affected() == 0 {
            return Err(StoreError::RunExists(id.clone()));
        }
        self.commit(transaction).await?;
        Ok(1)
    }

    /// Replaces a run's document; answers the new revision. On disk when this returns.
    pub async fn update_run(&self, id: &RunId, document: &Value) -> Result<u64, StoreError> {
        let mut transaction = self.begin().await?;
        let row = sqlx::query(
            "update runs set revision = revision + 1, updated_at = ?2, document = ?3 where id = ?1 returning revision",
        )
        .bind(id.as_str())
        .bind(now())
        .bind(document.to_string())
        .fetch_optional(&mut *transaction)
        .await
        .map_err(|error| self.database(error))?;
        let Some(row) = row else { return Err(StoreError::NoRun(id.clone())) };
        let revision: i64 = row.try_get(0).map_err(|error| self.database(error))?;
        self.commit(transaction).await?;
        Ok(revision.unsigned_abs())
    }

    /// Reads a run's record.
    pub async fn get_run(&self, id: &RunId) -> Result<RunRow, StoreError> {
        let row = sqlx::query("select id, revision, created_at, updated_at, document from runs where id = ?1")
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.database(error))?;
        self.run_row(&row.ok_or_else(|| StoreError::NoRun(id.clone()))?)
    }

    /// Lists runs, the newest first, `limit` at most. Order is the order of creation, whatever the clock did.
    pub async fn list_runs(&self, limit: u32) -> Result<Vec<RunRow>, StoreError> {
        let rows =
            sqlx::query("select id, revision, created_at, updated_at, document from runs order by rowid desc limit ?1")
                .bind(limit)
                .fetch_all(&self.pool)
                .await
                .map_err(|error| self.database(error))?;
        rows.iter().map(|row| self.run_row(row)).collect()
    }

    fn run_row(&self, row: &SqliteRow) -> Result<RunRow, StoreError> {
        let fail = |error| self.database(error);
        let id: String = row.try_get(0).map_err(fail)?;
        let revision: i64 = row.try_get(1).map_err(fail)?;
        let text: String = row.try_get(4).map_err(fail)?;
        let what = || format!("run `{id}`");
        let document = document(what, &text)?;
        Ok(RunRow {
            id: RunId::parse(&id).map_err(|source| StoreError::RecordId { what: what(), source })?,
            revision: revision.unsigned_abs(),
            created_at: row.try_get(2).map_err(fail)?,
            updated_at: row.try_get(3).map_err(fail)?,
            document,
        })
    }
}
