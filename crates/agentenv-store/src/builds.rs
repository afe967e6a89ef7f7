//! What builds made: output trees by everything that went into them (ENV-12).

use agentenv_protocol::Digest;
use sha2::{Digest as _, Sha256};
use sqlx::Row as _;

use crate::{Store, StoreError, blobs::BlobKind, store::now};

/// Everything that went into a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildKey {
    /// The tree that was built.
    pub source: Digest,
    /// The commands, in order.
    pub commands: Vec<Vec<String>>,
    /// What the tools say about themselves.
    pub toolchain: String,
    /// The SDK's source.
    pub sdk: Digest,
}

impl BuildKey {
    fn digest(&self) -> Digest {
        /// Each list with its length, each text with its own: no two keys are the same bytes.
        fn part(hash: &mut Sha256, text: &str) {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        }
        let mut hash = Sha256::new();
        for text in ["build/1", self.source.as_str(), &self.toolchain, self.sdk.as_str()] {
            part(&mut hash, text);
        }
        for command in &self.commands {
            hash.update((command.len() as u64).to_be_bytes());
            command.iter().for_each(|word| part(&mut hash, word));
        }
        Digest::from_sha256(hash.finalize().into())
    }
}

impl Store {
    /// The tree that such a build made, where it is still stored.
    pub async fn find_build(&self, key: &BuildKey) -> Result<Option<Digest>, StoreError> {
        let row = sqlx::query("select tree from builds where key = ?1")
            .bind(key.digest().as_str())
            .fetch_optional(&self.pool)
            .await
            .map_err(|error| self.database(error))?;
        let Some(row) = row else { return Ok(None) };
        let tree: String = row.try_get(0).map_err(|error| self.database(error))?;
        let tree =
            Digest::parse(&tree).map_err(|source| StoreError::RecordId { what: "a build".to_owned(), source })?;
        Ok(self.blobs.size(BlobKind::Tree, &tree).await?.map(|_| tree))
    }

    /// Records what a build made.
    pub async fn record_build(&self, key: &BuildKey, tree: &Digest) -> Result<(), StoreError> {
        let mut transaction = self.begin().await?;
        sqlx::query(
            "insert into builds (key, tree, created_at) values (?1, ?2, ?3) \
             on conflict (key) do update set tree = excluded.tree, created_at = excluded.created_at",
        )
        .bind(key.digest().as_str())
        .bind(tree.as_str())
        .bind(now())
        .execute(&mut *transaction)
        .await
        .map_err(|error| self.database(error))?;
        self.commit(transaction).await
    }
}
