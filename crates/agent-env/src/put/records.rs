//! Stored records as the model takes them.

use agentenv_model::{Abilities, CaptureOptions, EnvRecord, EnvRef, EnvSpec, EnvVersion, PlanInput};
use agentenv_protocol::control::ControlError;
use agentenv_store::{Store, StoreError, StoredEnv};

use super::{refused, store_error};

/// A stored version, with its document read.
pub(crate) fn env_version(stored: &StoredEnv) -> Result<EnvVersion, ControlError> {
    let record: EnvRecord = serde_json::from_value(stored.record.clone()).map_err(|error| {
        let message = format!("the record of env `{}` version {} cannot be read: {error}", stored.name, stored.version);
        refused(message, "put the env again")
    })?;
    Ok(EnvVersion { name: stored.name.clone(), version: stored.version, spec: record.env, tree: stored.tree.clone() })
}

/// The version that a command names.
async fn get_version(store: &Store, env: &EnvRef) -> Result<EnvVersion, ControlError> {
    env_version(&store.get_env(&env.name, env.version).await.map_err(store_error)?)
}

/// The latest version of every env.
pub(crate) async fn latest_versions(store: &Store) -> Result<Vec<EnvVersion>, ControlError> {
    store.list_envs(None).await.map_err(store_error)?.iter().map(env_version).collect()
}

/// Everything that the plan of a deploy is made from.
pub(crate) async fn plan_input(
    store: &Store,
    env: &EnvRef,
    abilities: Abilities,
    capture_traffic: Option<CaptureOptions>,
) -> Result<PlanInput, ControlError> {
    let env = get_version(store, env).await?;
    let mut members = Vec::new();
    if let EnvSpec::Multi(multi) = &env.spec {
        for member in multi.members() {
            match store.get_env(&member.env, member.version).await {
                Ok(stored) => members.push(env_version(&stored)?),
                // Planning names what is missing, and everything else that is wrong.
                Err(StoreError::NoEnv { .. } | StoreError::NoVersion { .. }) => {}
                Err(error) => return Err(store_error(error)),
            }
        }
    }
    Ok(PlanInput { env, members, abilities, capture_traffic })
}
