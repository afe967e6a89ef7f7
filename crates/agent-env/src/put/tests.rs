//! Puts of real folders into a real store; builds are small programs of the machine.

mod builds;
mod bundles;
mod multi;
mod source;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use agentenv_model::Flags;
use agentenv_protocol::{Home, control::ControlError};
use agentenv_store::Store;
use tempfile::TempDir;

use super::{Put, Putter};

/// A store, a place for bundles, and what was said meanwhile.
struct Fixture {
    folder: TempDir,
    home: Home,
    store: Store,
    said: Arc<Mutex<Vec<String>>>,
}

impl Fixture {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let home = Home::at(folder.path().join("home"));
        let store = Store::open(&home).await.unwrap();
        Self { folder, home, store, said: Arc::default() }
    }

    fn path(&self, inner: &str) -> PathBuf {
        self.folder.path().join(inner)
    }

    /// Writes a bundle: its env.toml after the first lines, and further files.
    fn bundle(&self, name: &str, env: &str, files: &[(&str, &str)]) -> PathBuf {
        let bundle = self.path(name);
        fs::create_dir_all(&bundle).unwrap();
        write(&bundle, "env.toml", &format!("format = 1\nkind = \"website\"\nname = \"{name}\"\n{env}"));
        for (path, text) in files {
            write(&bundle, path, text);
        }
        bundle
    }

    async fn website(&self, bundle: &Path) -> Result<Put, ControlError> {
        self.with_flags(Some(bundle), &Flags::default()).await
    }

    async fn with_flags(&self, bundle: Option<&Path>, flags: &Flags) -> Result<Put, ControlError> {
        let progress = |line: &str| self.said.lock().unwrap().push(line.to_owned());
        Putter { home: &self.home, store: &self.store, progress: &progress }.website(bundle, flags).await
    }

    async fn env(&self, path: &Path) -> Result<Put, ControlError> {
        let progress = |line: &str| self.said.lock().unwrap().push(line.to_owned());
        Putter { home: &self.home, store: &self.store, progress: &progress }.env(path, false).await
    }

    /// The files of a stored tree.
    async fn stored(&self, put: &Put) -> Vec<String> {
        let place = self.store.checkout_tree(put.tree.as_ref().unwrap()).await.unwrap();
        let mut found = Vec::new();
        let mut folders = vec![place.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else {
                    found.push(entry.path().strip_prefix(&place).unwrap().display().to_string());
                }
            }
        }
        found.sort();
        found
    }

    async fn read(&self, put: &Put, path: &str) -> String {
        let place = self.store.checkout_tree(put.tree.as_ref().unwrap()).await.unwrap();
        fs::read_to_string(place.join(path)).unwrap()
    }
}

/// Writes a file; what begins like a script can be run.
fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    if text.starts_with("#!") {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// A server that needs no build.
const SERVER: &str = "[server]\ncommand = [\"./serve\"]\nport = 8000\n";
/// What it runs.
const SERVE: (&str, &str) = ("serve", "#!/bin/sh\n");
