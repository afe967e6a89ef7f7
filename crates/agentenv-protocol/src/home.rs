//! Where everything is kept (SPEC §11).

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::{DeployId, RunId};

/// Names the folder of everything: `$XDG_STATE_HOME/agent-env` without it.
pub const HOME_ENV: &str = "AGENTENV_HOME";
/// Names another folder for what can be made again, so that several homes share it: `cache/` of the home without it.
pub const CACHE_ENV: &str = "AGENTENV_CACHE_DIR";

/// The folder of everything, and where each kind of thing is in it. Makes no folder itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
    cache: PathBuf,
}

impl Home {
    /// Takes a root and its own `cache/`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { cache: root.join("cache"), root }
    }

    /// Takes the cache from another place.
    #[must_use]
    pub fn with_cache(self, cache: impl Into<PathBuf>) -> Self {
        Self { cache: cache.into(), ..self }
    }

    /// Finds the home by [`HOME_ENV`], `XDG_STATE_HOME` and `HOME`, and its cache by [`CACHE_ENV`]; `None` where none is an
    /// absolute path.
    pub fn from_env() -> Option<Self> {
        let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let root = absolute(HOME_ENV)
            .or_else(|| absolute("XDG_STATE_HOME").map(|state| state.join("agent-env")))
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state/agent-env")))?;
        let home = Self::at(root);
        Some(match absolute(CACHE_ENV) {
            Some(cache) => home.with_cache(cache),
            None => home,
        })
    }

    /// The root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Records and blobs.
    pub fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// One folder a deploy.
    pub fn deploys(&self) -> PathBuf {
        self.root.join("deploys")
    }

    /// The folder of one deploy.
    pub fn deploy(&self, id: &DeployId) -> PathBuf {
        self.deploys().join(id.as_str())
    }

    /// One folder a run.
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// The folder of one run.
    pub fn run(&self, id: &RunId) -> PathBuf {
        self.runs().join(id.as_str())
    }

    /// Stored secrets.
    pub fn secrets(&self) -> PathBuf {
        self.root.join("secrets")
    }

    /// What can be made again: unpacked trees, the SDK's source, build folders.
    pub fn cache(&self) -> &Path {
        &self.cache
    }
}
