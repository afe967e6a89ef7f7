//! Where things are in this clone.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::run::{self, Failure};

/// A clone of the project.
pub struct Workspace {
    root: PathBuf,
}

impl Workspace {
    /// The clone that the working directory is in. Found at run time: CI hands the built program to another user's clone.
    pub fn find() -> Option<Self> {
        let here = env::current_dir().ok()?;
        let root = here.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file())?;
        Some(Self { root: root.to_owned() })
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of everything that is built.
    pub fn target(&self) -> PathBuf {
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| self.root.join("target"), PathBuf::from)
    }

    /// The built `agent-env`.
    pub fn program(&self) -> PathBuf {
        self.target().join("debug/agent-env")
    }

    /// Builds `agent-env`.
    pub fn build_program(&self) -> Result<(), Failure> {
        run::run(Command::new("cargo").current_dir(&self.root).args(["build", "--package", "agent-env"]))
    }

    /// What `website put` builds and unpacks, shared by the tests and the demo so that no site is built twice.
    pub fn site_cache(&self) -> PathBuf {
        env::var_os("AGENTENV_CACHE_DIR").map_or_else(|| self.target().join("site-cache"), PathBuf::from)
    }

    /// The folders under `parent` that hold an `env.toml`, in order of name.
    pub fn bundles(&self, parent: &str) -> Result<Vec<PathBuf>, Failure> {
        let folder = self.root.join(parent);
        let entries = folder.read_dir().map_err(|error| Failure::File(folder.display().to_string(), error))?;
        let mut bundles: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.join("env.toml").is_file()).collect();
        bundles.sort();
        Ok(bundles)
    }

    /// The envs, relative to the clone. Multi envs come last: they name stored ones.
    pub fn envs(&self) -> Result<Vec<String>, Failure> {
        let mut bundles = self.bundles("envs")?;
        bundles.sort_by_key(|bundle| {
            let text = fs::read_to_string(bundle.join("env.toml")).unwrap_or_default();
            text.lines().any(|line| line.replace(' ', "") == "kind=\"multi\"")
        });
        let relative = |bundle: PathBuf| bundle.strip_prefix(&self.root).unwrap_or(&bundle).display().to_string();
        Ok(bundles.into_iter().map(relative).collect())
    }

    /// Cargo for a site: outside our workspace, with the SDK of this clone, built where `website put` builds.
    pub fn site_cargo(&self, manifest: &str, subcommand: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("cargo");
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", self.site_cache().join("target")).arg(subcommand);
        if subcommand != "fmt" {
            let sdk = self.root.join("crates/agentenv-sdk");
            command.args(["--quiet", "--config", &format!("patch.crates-io.agentenv-sdk.path={sdk:?}")]);
        }
        command.args(["--manifest-path", manifest]).args(arguments);
        command
    }
}
