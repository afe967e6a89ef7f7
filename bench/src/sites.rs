//! What the office is made of, as the floor needs it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use agentenv_tests::Home;
use serde_json::Value;
use tempfile::TempDir;

use crate::floor::{Sandbox, Service, Up};

/// The sites' services, by site.
pub struct Parts {
    websites: Vec<Vec<Part>>,
}

#[derive(Clone)]
struct Part {
    command: Vec<String>,
    port: u16,
    tree: PathBuf,
}

impl Part {
    fn of(value: &Value, tree: &Path) -> Option<Self> {
        let words = value["command"].as_array()?.iter();
        Some(Self {
            command: words.filter_map(|word| word.as_str().map(str::to_owned)).collect(),
            port: u16::try_from(value["port"].as_u64()?).ok()?,
            tree: tree.to_owned(),
        })
    }

    fn service(&self, data: &Path) -> Service {
        Service {
            command: self.command.clone(),
            up: Up::Port(self.port),
            tree: self.tree.clone(),
            data: data.to_owned(),
        }
    }
}

/// Reads them from the store, after a deploy has unpacked the trees.
pub fn parts(home: &Home) -> Parts {
    home.deploy("sites-only").close();
    let websites = ["shop", "tracker"].iter().map(|site| {
        let shown = home.run(&["env", "show", site, "--json"]).json();
        let tree = tree_of(&shown);
        let source = find(&shown, "bundle").unwrap_or_else(|| panic!("{site} has no services: {shown}"));
        let frontend = find(&source["frontend"], "command").filter(|value| value.is_object());
        let parts = [Some(&source["server"]), frontend].into_iter().flatten();
        parts.filter_map(|part| Part::of(part, &tree)).collect()
    });
    Parts { websites: websites.collect() }
}

/// The first value of this key, at any depth.
fn find<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    match value {
        Value::Object(map) => map.get(key).or_else(|| map.values().find_map(|inner| find(inner, key))),
        Value::Array(list) => list.iter().find_map(|inner| find(inner, key)),
        _ => None,
    }
}

fn tree_of(shown: &Value) -> PathBuf {
    let digest = find(shown, "tree").and_then(Value::as_str).unwrap_or_else(|| panic!("no tree in {shown}"));
    let cache = std::env::var_os("AGENTENV_CACHE_DIR")
        .map_or_else(|| agentenv_tests::target().join("site-cache"), PathBuf::from);
    let tree = cache.join("trees").join(digest);
    assert!(tree.is_dir(), "{} is not unpacked", tree.display());
    tree
}

impl Parts {
    /// A `/data` for each site.
    pub fn folders(&self) -> Vec<TempDir> {
        self.websites.iter().map(|_| open_folder()).collect()
    }

    /// The sites' sandboxes, over these folders.
    pub fn sandboxes(&self, folders: &[TempDir]) -> Vec<Sandbox> {
        let websites = self.websites.iter().zip(folders);
        let sandbox =
            |parts: &[Part], data: &Path| Sandbox { services: parts.iter().map(|part| part.service(data)).collect() };
        websites.map(|(parts, data)| sandbox(parts, data.path())).collect()
    }
}

/// A folder in memory that the programs, who are nobody on the host, may write.
pub fn open_folder() -> TempDir {
    let folder = tempfile::Builder::new().prefix("ae-bench-").tempdir_in("/dev/shm").expect("a folder in memory");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    folder
}

/// A Chromium that is up when its DevTools listen; it loads no page.
pub fn browser(profile: &Path) -> Sandbox {
    let command = [
        "/usr/bin/chromium",
        "--headless=new",
        "--no-first-run",
        "--disable-gpu",
        "--disable-background-networking",
        "--remote-debugging-port=0",
        "--user-data-dir=/data/profile",
        "about:blank",
    ];
    Sandbox {
        services: vec![Service {
            command: command.map(str::to_owned).to_vec(),
            up: Up::File("profile/DevToolsActivePort".to_owned()),
            tree: PathBuf::from("/usr/share/zoneinfo"),
            data: profile.to_owned(),
        }],
    }
}
