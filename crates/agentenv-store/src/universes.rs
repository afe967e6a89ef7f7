//! Artifact universes: sets of artifacts, each with a document that says how it came to be.

use agentenv_protocol::{DeployId, RunId, UniverseId};
use serde_json::Value;
use sqlx::Row as _;

use crate::{Artifact, Holder, Store, StoreError, artifacts::artifacts, references::holder_of, store::document};

/// A set of artifacts.
#[derive(Clone, Debug, PartialEq)]
pub struct Universe {
    /// Id.
    pub id: UniverseId,
    /// Whose it is.
    pub holder: Holder,
    /// Grows by one at every change of the document.
    pub revision: u64,
    /// The set's own document.
    pub document: Value,
    /// Its artifacts, in the order in which they were stored.
    pub artifacts: Vec<Artifact>,
}

impl Store {
    /// Makes an empty universe with an id that is on somebody's record already; one that is there stays as it is, where it has
    /// the same holder.
    pub async fn create_universe(&self, holder: &Holder, id: &UniverseId, document: &Value) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        let (run, deploy) = holder.ids();
        let row = sqlx::query(
            "insert into universes (id, run, deploy, revision, document) \
             select ?1, ?2, ?3, 1, ?4 where ?2 is null or exists (select 1 from runs where id = ?2) \
             on conflict (id) do update set id = excluded.id returning run, deploy",
        )
        .bind(id.as_str())
        .bind(run)
        .bind(deploy)
        .bind(document.to_string())
        .fetch_optional(&mut *transaction)
        .await
        .map_err(|error| self.database(error))?;
        let Some(row) = row else { return Err(self.missing(holder)) };
        let column = |column: usize| row.try_get::<Option<String>, _>(column).map_err(|error| self.database(error));
        if (column(0)?, column(1)?) != (run.map(str::to_owned), deploy.map(str::to_owned)) {
            return Err(StoreError::UniverseTaken(id.clone()));
        }
        self.commit(transaction).await
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
        let row = sqlx::query("select run, deploy, revision, document from universes where id = ?1")
            .bind(id.as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(fail)?
            .ok_or_else(|| StoreError::NoUniverse(id.clone()))?;
        let what = || format!("artifact universe `{id}`");
        let holder = holder_of(row.try_get(0).map_err(fail)?, row.try_get(1).map_err(fail)?)
            .map_err(|source| StoreError::RecordId { what: what(), source })?;
        let revision: i64 = row.try_get(2).map_err(fail)?;
        let text: String = row.try_get(3).map_err(fail)?;
        let artifacts = self.artifacts_of(artifacts!("where universe = ?1 order by rowid"), id.as_str()).await?;
        let document = document(what, &text)?;
        Ok(Universe { id: id.clone(), holder, revision: revision.unsigned_abs(), document, artifacts })
    }

    /// The universes of a run or a deploy, the oldest first.
    pub async fn universes_of(&self, holder: &Holder) -> Result<Vec<UniverseId>, StoreError> {
        let (run, deploy) = holder.ids();
        let rows = sqlx::query("select id from universes where run = ?1 or deploy = ?2 order by rowid")
            .bind(run)
            .bind(deploy)
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.database(error))?;
        rows.iter().map(|row| self.id_of(row, "artifact universe", UniverseId::parse)).collect()
    }

    /// The run that made a deploy: the one whose document has it under `deploys[].deploy`.
    pub async fn run_of_deploy(&self, deploy: &DeployId) -> Result<Option<RunId>, StoreError> {
        let row = sqlx::query(
            "select runs.id from runs, json_each(runs.document, '$.deploys') as entry \
             where json_extract(entry.value, '$.deploy') = ?1 order by runs.rowid desc limit 1",
        )
        .bind(deploy.as_str())
        .fetch_optional(&self.pool)
        .await
        .map_err(|error| self.database(error))?;
        row.map(|row| self.id_of(&row, "run", RunId::parse)).transpose()
    }

    /// What is said of a holder that is not on record. A deploy needs no record here.
    pub(crate) fn missing(&self, holder: &Holder) -> StoreError {
        match holder {
            Holder::Run(run) => StoreError::NoRun(run.clone()),
            Holder::Deploy(_) => self.database(sqlx::Error::RowNotFound),
        }
    }
}
