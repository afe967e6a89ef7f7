//! The store against itself, real files and a real database.

mod artifacts;
mod concurrency;
mod damage;
mod envs;
mod limits;
mod runs;
mod secrets;
mod trees;

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use agentenv_protocol::{Digest, Home, Name};
use serde_json::json;
use tempfile::TempDir;

use crate::{NewEnv, Store};

/// A store in a folder of its own.
struct Fixture {
    folder: TempDir,
    store: Store,
}

impl Fixture {
    async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let store = Store::open(&home(folder.path())).await.unwrap();
        Self { folder, store }
    }

    fn path(&self, inner: &str) -> PathBuf {
        self.folder.path().join(inner)
    }

    /// A folder with a program, a page in a folder and a link.
    fn site(&self, name: &str) -> PathBuf {
        let site = self.path(name);
        fs::create_dir_all(site.join("pages/deep")).unwrap();
        fs::write(site.join("pages/index.html"), "hello").unwrap();
        fs::write(site.join("run"), "#!/bin/sh\n").unwrap();
        fs::set_permissions(site.join("run"), fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink("../run", site.join("pages/run")).unwrap();
        site
    }
}

fn home(folder: &Path) -> Home {
    Home::at(folder.join("home"))
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn env(env: &str, content: u32) -> NewEnv {
    NewEnv {
        name: name(env),
        kind: "website".to_owned(),
        record: json!({ "content": content }),
        source: None,
        tree: None,
        pins: Vec::new(),
    }
}

fn with_tree(new: NewEnv, tree: &Digest) -> NewEnv {
    NewEnv { source: Some(tree.clone()), tree: Some(tree.clone()), ..new }
}

/// Every file below a folder, with its bytes.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else {
                found.push((path.clone(), fs::read(&path).unwrap_or_default()));
            }
        }
    }
    found.sort();
    found
}
