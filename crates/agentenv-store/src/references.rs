//! Which versions of envs a deploy, a run or a multi env needs (ENV-4). A multi env's are written with it.

use std::fmt;

use agentenv_protocol::{DeployId, IdError, Name, RunId};
use sqlx::{Row as _, Sqlite, Transaction};

use crate::{Store, StoreError};

/// Who needs versions of envs, and whose artifacts are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A deploy: versions until it is closed; artifacts of one outside any run.
    Deploy(DeployId),
    /// A run, for good.
    Run(RunId),
}

impl Holder {
    fn columns(&self) -> (&'static str, String) {
        match self {
            Self::Deploy(id) => ("deploy", id.to_string()),
            Self::Run(id) => ("run", id.to_string()),
        }
    }

    /// The values of the two columns `run` and `deploy`, of which one is null.
    pub(crate) fn ids(&self) -> (Option<&str>, Option<&str>) {
        match self {
            Self::Run(id) => (Some(id.as_str()), None),
            Self::Deploy(id) => (None, Some(id.as_str())),
        }
    }
}

/// The holder that the two columns `run` and `deploy` name; the schema lets one of them be there.
pub(crate) fn holder_of(run: Option<String>, deploy: Option<String>) -> Result<Holder, IdError> {
    match run {
        Some(run) => RunId::parse(&run).map(Holder::Run),
        None => DeployId::parse(&deploy.unwrap_or_default()).map(Holder::Deploy),
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, holder) = self.columns();
        write!(f, "{kind} `{holder}`")
    }
}

impl Store {
    /// Records that the holder needs these versions, all or none: from here on [`Store::remove_env`] refuses them.
    pub async fn add_references(&self, holder: &Holder, versions: &[(Name, u64)]) -> Result<(), StoreError> {
        let (kind, id) = holder.columns();
        let mut transaction = self.begin().await?;
        self.insert_references(&mut transaction, kind, &id, versions).await?;
        self.commit(transaction).await
    }

    pub(crate) async fn insert_references(
        &self,
        transaction: &mut Transaction<'static, Sqlite>,
        kind: &str,
        holder: &str,
        versions: &[(Name, u64)],
    ) -> Result<(), StoreError> {
        for (name, version) in versions {
            let done = sqlx::query(
                "insert into env_references (holder_kind, holder, name, version) \
                 select ?1, ?2, name, version from envs where name = ?3 and version = ?4 \
                 on conflict do update set holder = excluded.holder",
            )
            .bind(kind)
            .bind(holder)
            .bind(name.as_str())
            .bind(version.cast_signed())
            .execute(&mut **transaction)
            .await
            .map_err(|error| self.database(error))?;
            if done.rows_affected() == 0 {
                return Err(StoreError::NoVersion { name: name.clone(), version: *version });
            }
        }
        Ok(())
    }

    /// Forgets everything that the holder needs; it may need nothing.
    pub async fn remove_references(&self, holder: &Holder) -> Result<(), StoreError> {
        let (kind, id) = holder.columns();
        let mut transaction = self.begin().await?;
        sqlx::query("delete from env_references where holder_kind = ?1 and holder = ?2")
            .bind(kind)
            .bind(id)
            .execute(&mut *transaction)
            .await
            .map_err(|error| self.database(error))?;
        self.commit(transaction).await
    }

    /// Every deploy that needs versions, also one that died before it left anything else.
    pub async fn deploys_with_references(&self) -> Result<Vec<DeployId>, StoreError> {
        let rows = sqlx::query("select distinct holder from env_references where holder_kind = 'deploy' order by 1")
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.database(error))?;
        rows.iter().map(|row| self.id_of(row, "deploy", DeployId::parse)).collect()
    }

    /// Who needs a version, as people read it.
    pub async fn references_to(&self, name: &Name, version: u64) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query(
            "select holder_kind, holder from env_references where name = ?1 and version = ?2 order by 1, 2",
        )
        .bind(name.as_str())
        .bind(version.cast_signed())
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.database(error))?;
        rows.iter()
            .map(|row| {
                let fail = |error| self.database(error);
                let (kind, holder): (String, String) = (row.try_get(0).map_err(fail)?, row.try_get(1).map_err(fail)?);
                Ok(format!("{kind} `{holder}`"))
            })
            .collect()
    }
}
