//! Env records: immutable versions under a name (ENV-4).

use agentenv_protocol::{Digest, Name};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use sqlx::{Row as _, Sqlite, Transaction, sqlite::SqliteRow};

use crate::{
    Store, StoreError,
    store::{document, now},
};

/// Names farther from what was asked for than this are no help.
const MAX_NAME_DISTANCE: usize = 3;

/// What is to be stored as a version of an env.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEnv {
    /// Name.
    pub name: Name,
    /// `website`, `browser`, `computer` or `multi`.
    pub kind: String,
    /// The env's own document.
    pub record: Value,
    /// The bundle as it was given.
    pub source: Option<Digest>,
    /// The bundle as it was built: what deploys run.
    pub tree: Option<Digest>,
    /// Versions of other envs that this one names: none of them is removed before it.
    pub pins: Vec<(Name, u64)>,
}

/// What a put did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutOutcome {
    /// The version that holds this content, and that the bare name now means.
    pub version: u64,
    /// Whether it is new; the same content twice stores nothing new.
    pub stored: bool,
}

/// One version of an env.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEnv {
    /// Name.
    pub name: Name,
    /// Version, from 1.
    pub version: u64,
    /// Whether the bare name means this version.
    pub latest: bool,
    /// `website`, `browser`, `computer` or `multi`.
    pub kind: String,
    /// SHA-256 of record and trees.
    pub digest: Digest,
    /// The bundle as it was given.
    pub source: Option<Digest>,
    /// The bundle as it was built.
    pub tree: Option<Digest>,
    /// RFC 3339, UTC.
    pub created_at: String,
    /// The env's own document.
    pub record: Value,
}

impl Store {
    /// Stores a version, unless one of this name has the same content: then that one becomes the latest again.
    pub async fn put_env(&self, env: &NewEnv) -> Result<PutOutcome, StoreError> {
        let digest = content_digest(env);
        let mut transaction = self.begin().await?;
        let found = sqlx::query("select version from envs where name = ?1 and digest = ?2")
            .bind(env.name.as_str())
            .bind(digest.as_str())
            .fetch_optional(&mut *transaction)
            .await
            .map_err(|error| self.database(error))?;
        let outcome = match found {
            Some(row) => {
                let version: i64 = row.try_get(0).map_err(|error| self.database(error))?;
                PutOutcome { version: version.unsigned_abs(), stored: false }
            }
            None => PutOutcome { version: self.insert_env(&mut transaction, env, &digest).await?, stored: true },
        };
        sqlx::query("update env_names set head = ?2 where name = ?1")
            .bind(env.name.as_str())
            .bind(outcome.version.cast_signed())
            .execute(&mut *transaction)
            .await
            .map_err(|error| self.database(error))?;
        self.commit(transaction).await?;
        Ok(outcome)
    }

    async fn insert_env(
        &self,
        transaction: &mut Transaction<'static, Sqlite>,
        env: &NewEnv,
        digest: &Digest,
    ) -> Result<u64, StoreError> {
        let row = sqlx::query(
            "insert into env_names (name, next_version) values (?1, 2) \
             on conflict (name) do update set next_version = next_version + 1 returning next_version - 1",
        )
        .bind(env.name.as_str())
        .fetch_one(&mut **transaction)
        .await
        .map_err(|error| self.database(error))?;
        let version: i64 = row.try_get(0).map_err(|error| self.database(error))?;
        sqlx::query(
            "insert into envs (name, version, kind, digest, source, tree, record, created_at) \
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )
        .bind(env.name.as_str())
        .bind(version)
        .bind(&env.kind)
        .bind(digest.as_str())
        .bind(env.source.as_ref().map(Digest::as_str))
        .bind(env.tree.as_ref().map(Digest::as_str))
        .bind(env.record.to_string())
        .bind(now())
        .execute(&mut **transaction)
        .await
        .map_err(|error| self.database(error))?;
        let version = version.unsigned_abs();
        self.insert_references(transaction, "env", &format!("{}@{version}", env.name), &env.pins).await?;
        Ok(version)
    }

    /// Reads a version of an env; the latest without one.
    pub async fn get_env(&self, name: &Name, version: Option<u64>) -> Result<StoredEnv, StoreError> {
        let row = sqlx::query(
            "select e.name, e.version, n.head = e.version, e.kind, e.digest, e.source, e.tree, e.created_at, e.record \
             from envs e join env_names n on n.name = e.name where e.name = ?1 and e.version = coalesce(?2, n.head)",
        )
        .bind(name.as_str())
        .bind(version.map(u64::cast_signed))
        .fetch_optional(&self.pool)
        .await
        .map_err(|error| self.database(error))?;
        match row {
            Some(row) => self.stored_env(&row),
            None => Err(self.missing_env(name, version).await?),
        }
    }

    /// Lists the latest version of every env, or every version of one, by name and version.
    pub async fn list_envs(&self, name: Option<&Name>) -> Result<Vec<StoredEnv>, StoreError> {
        let rows = sqlx::query(
            "select e.name, e.version, n.head = e.version, e.kind, e.digest, e.source, e.tree, e.created_at, e.record \
             from envs e join env_names n on n.name = e.name \
             where (?1 is null and e.version = n.head) or e.name = ?1 order by e.name, e.version",
        )
        .bind(name.map(Name::as_str))
        .fetch_all(&self.pool)
        .await
        .map_err(|error| self.database(error))?;
        match name {
            Some(name) if rows.is_empty() => Err(self.missing_env(name, None).await?),
            _ => rows.iter().map(|row| self.stored_env(row)).collect(),
        }
    }

    /// Removes a version, or every version of an env; answers how many. Nothing is removed where one of them is in use.
    pub async fn remove_env(&self, name: &Name, version: Option<u64>) -> Result<u64, StoreError> {
        let fail = |error| self.database(error);
        let mut transaction = self.begin().await?;
        let used = sqlx::query(
            "select version, holder_kind, holder from env_references \
             where name = ?1 and version = coalesce(?2, version) order by version, holder_kind, holder",
        )
        .bind(name.as_str())
        .bind(version.map(u64::cast_signed))
        .fetch_all(&mut *transaction)
        .await
        .map_err(fail)?;
        if let Some(first) = used.first() {
            let first: i64 = first.try_get(0).map_err(fail)?;
            let mut holders = Vec::new();
            for row in &used {
                let (version, kind, holder): (i64, String, String) =
                    (row.try_get(0).map_err(fail)?, row.try_get(1).map_err(fail)?, row.try_get(2).map_err(fail)?);
                if version == first {
                    holders.push(format!("{kind} `{holder}`"));
                }
            }
            return Err(StoreError::InUse { name: name.clone(), version: first.unsigned_abs(), holders });
        }
        let removed = sqlx::query("delete from envs where name = ?1 and version = coalesce(?2, version)")
            .bind(name.as_str())
            .bind(version.map(u64::cast_signed))
            .execute(&mut *transaction)
            .await
            .map_err(fail)?
            .rows_affected();
        if removed == 0 {
            drop(transaction);
            return Err(self.missing_env(name, version).await?);
        }
        // What the removed versions pinned may go now.
        sqlx::query(
            "delete from env_references where holder_kind = 'env' and holder like ?1 || '@%' and not exists \
             (select 1 from envs where name = ?1 and holder = ?1 || '@' || version)",
        )
        .bind(name.as_str())
        .execute(&mut *transaction)
        .await
        .map_err(fail)?;
        // The bare name means the newest version that is left.
        sqlx::query(
            "update env_names set head = (select max(version) from envs where envs.name = env_names.name) \
             where name = ?1 and not exists (select 1 from envs where envs.name = ?1 and version = env_names.head)",
        )
        .bind(name.as_str())
        .execute(&mut *transaction)
        .await
        .map_err(fail)?;
        self.commit(transaction).await?;
        Ok(removed)
    }

    /// Why a name or a version was not found.
    async fn missing_env(&self, name: &Name, version: Option<u64>) -> Result<StoreError, StoreError> {
        let rows = sqlx::query("select distinct name from envs")
            .fetch_all(&self.pool)
            .await
            .map_err(|error| self.database(error))?;
        let mut near: Option<(usize, Name)> = None;
        for row in rows {
            let stored: String = row.try_get(0).map_err(|error| self.database(error))?;
            if stored == name.as_str() {
                if let Some(version) = version {
                    return Ok(StoreError::NoVersion { name: name.clone(), version });
                }
                continue;
            }
            let distance = strsim::damerau_levenshtein(&stored, name.as_str());
            if distance <= MAX_NAME_DISTANCE && near.as_ref().is_none_or(|(best, _)| distance < *best) {
                near = Name::parse(&stored).ok().map(|stored| (distance, stored));
            }
        }
        Ok(StoreError::NoEnv { name: name.clone(), near: near.map(|(_, name)| name) })
    }

    fn stored_env(&self, row: &SqliteRow) -> Result<StoredEnv, StoreError> {
        let fail = |error| self.database(error);
        let name: String = row.try_get(0).map_err(fail)?;
        let version: i64 = row.try_get(1).map_err(fail)?;
        let what = || format!("env `{name}` version {version}");
        let digest =
            |text: String| Digest::parse(&text).map_err(|source| StoreError::RecordId { what: what(), source });
        let record: String = row.try_get(8).map_err(fail)?;
        Ok(StoredEnv {
            name: Name::parse(&name).map_err(|source| StoreError::RecordId { what: what(), source })?,
            version: version.unsigned_abs(),
            latest: row.try_get::<Option<bool>, _>(2).map_err(fail)?.unwrap_or(false),
            kind: row.try_get(3).map_err(fail)?,
            digest: digest(row.try_get(4).map_err(fail)?)?,
            source: row.try_get::<Option<String>, _>(5).map_err(fail)?.map(&digest).transpose()?,
            tree: row.try_get::<Option<String>, _>(6).map_err(fail)?.map(&digest).transpose()?,
            created_at: row.try_get(7).map_err(fail)?,
            record: document(what, &record)?,
        })
    }
}

/// What makes two puts the same content.
fn content_digest(env: &NewEnv) -> Digest {
    let mut hash = Sha256::new();
    for part in [
        env.kind.as_str(),
        env.source.as_ref().map_or("", Digest::as_str),
        env.tree.as_ref().map_or("", Digest::as_str),
        &env.record.to_string(),
    ] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    Digest::from_sha256(hash.finalize().into())
}
