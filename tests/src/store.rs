//! The store that tests start from: every site and env of the project, put once and copied.

use std::{
    env, fs,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};

use crate::{clone_root, program, run_within, target};

/// On a new machine every site and what it depends on is built for the first time.
const BUILD_LIMIT: Duration = Duration::from_secs(900);

/// The program, working in this home and no other.
pub fn command(home: &Path) -> Command {
    let cache = env::var_os("AGENTENV_CACHE_DIR").map_or_else(|| target().join("site-cache"), PathBuf::from);
    let mut command = Command::new(program());
    command.env("AGENTENV_HOME", home).env("AGENTENV_CACHE_DIR", cache).current_dir(clone_root());
    command.env_remove("AGENTENV_DEPLOY").env_remove("RUST_LOG");
    command
}

/// Stores every site and env of the project in this home; returns what the commands printed.
#[track_caller]
pub fn put_everything(home: &Path) -> Vec<String> {
    let put = |kind: &str, bundle: &Path| {
        let bundle = bundle.display().to_string();
        run_within(BUILD_LIMIT, command(home).args([kind, "put", &bundle, "--json"]), None).ok()
    };
    let mut printed: Vec<String> = bundles("sites").iter().map(|site| put("website", site)).collect();
    let mut envs = bundles("envs");
    // A multi env names stored ones.
    envs.sort_by_key(|bundle| {
        fs::read_to_string(bundle.join("env.toml")).unwrap_or_default().contains("kind = \"multi\"")
    });
    printed.extend(envs.iter().map(|env| put("env", env)));
    printed
}

fn bundles(parent: &str) -> Vec<PathBuf> {
    let folder = clone_root().join(parent);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten();
    let mut bundles: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    bundles.retain(|path| path.join("env.toml").is_file());
    bundles.sort();
    bundles
}

/// A home where everything is stored, made by the first test that asks; the others wait for it.
#[track_caller]
pub fn stored() -> PathBuf {
    let parent = target().join("end-to-end");
    fs::create_dir_all(&parent).expect("the folder of what is built is writable");
    let lock = File::create(parent.join("lock")).expect("the lock can be made");
    flock(&lock, FlockOperation::LockExclusive).expect("the lock can be taken");
    let home = parent.join("home");
    let state = parent.join("state");
    let wanted = state_of_inputs();
    // Written last, so that a home that was left half made is made anew.
    if fs::read_to_string(&state).is_ok_and(|made| made == wanted) {
        return home;
    }
    if home.exists() {
        fs::remove_dir_all(&home).expect("an old store can be removed");
    }
    fs::create_dir_all(&home).expect("the store's folder can be made");
    put_everything(&home);
    fs::write(&state, wanted).expect("the state can be written");
    home
}

/// Changes when the program, a site or an env does.
fn state_of_inputs() -> String {
    let mut lines = vec![stamp(&program())];
    for parent in ["sites", "envs"] {
        for bundle in bundles(parent) {
            collect(&bundle, &mut lines);
        }
    }
    lines.sort();
    lines.join("\n")
}

fn collect(folder: &Path, lines: &mut Vec<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() && !["target", "__pycache__"].iter().any(|skip| path.ends_with(skip)) => {
                collect(&path, lines);
            }
            Ok(kind) if kind.is_file() => lines.push(stamp(&path)),
            _ => {}
        }
    }
}

fn stamp(path: &Path) -> String {
    let data = fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    format!("{} {} {:?}", path.display(), data.len(), data.modified().ok())
}

/// Copies that store into another home. What is immutable is linked.
#[track_caller]
pub fn copy(home: &Path) {
    let from = stored().join("store");
    copy_folder(&from, &home.join("store"));
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder of the copy");
    fs::set_permissions(to, fs::metadata(from).expect("the store is there").permissions()).expect("its permissions");
    for entry in fs::read_dir(from).expect("the store is readable").flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &target);
        } else if path.components().any(|part| part.as_os_str() == "blobs") && fs::hard_link(&path, &target).is_ok() {
        } else {
            fs::copy(&path, &target).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }
}
