//! The SDK's source, which ships inside the program so that a site builds against the SDK of the agent-env that runs it.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use agentenv_protocol::{Digest, control::ControlError};
use include_dir::{Dir, include_dir};
use sha2::{Digest as _, Sha256};
use toml_edit::{Array, DocumentMut, Value};

use super::error::io_error;

static CRATES: [(&str, Dir<'static>); 3] = [
    ("agentenv-macros", include_dir!("$CARGO_MANIFEST_DIR/../agentenv-macros")),
    ("agentenv-protocol", include_dir!("$CARGO_MANIFEST_DIR/../agentenv-protocol")),
    ("agentenv-sdk", include_dir!("$CARGO_MANIFEST_DIR/../agentenv-sdk")),
];
static WORKSPACE: &str = include_str!("../../../../Cargo.toml");

static SDK: LazyLock<Sdk> = LazyLock::new(Sdk::embedded);

/// The SDK's files as a small workspace.
pub(super) struct Sdk {
    files: BTreeMap<PathBuf, Vec<u8>>,
    digest: Digest,
}

impl Sdk {
    /// The one in this program.
    pub(super) fn get() -> &'static Self {
        &SDK
    }

    pub(super) fn digest(&self) -> &Digest {
        &self.digest
    }

    fn embedded() -> Self {
        let mut files = BTreeMap::new();
        for (name, folder) in &CRATES {
            collect(folder, &Path::new("crates").join(name), &mut files);
        }
        files.insert(PathBuf::from("Cargo.toml"), small_workspace(WORKSPACE).into_bytes());
        let mut hash = Sha256::new();
        for (path, bytes) in &files {
            let path = path.to_string_lossy();
            hash.update((path.len() as u64).to_be_bytes());
            hash.update(path.as_bytes());
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
        Self { files, digest: Digest::from_sha256(hash.finalize().into()) }
    }

    /// Unpacks the SDK below the cache and answers where the crate is. What is there already is kept only if it is the same.
    pub(super) fn unpack(&self, cache: &Path) -> Result<PathBuf, ControlError> {
        let sdks = cache.join("sdk");
        let place = sdks.join(self.digest.as_str());
        let package = place.join("crates/agentenv-sdk");
        if self.is_at(&place) {
            return Ok(package);
        }
        let fail = |error| io_error(&place, error);
        fs::DirBuilder::new().recursive(true).mode(0o755).create(&sdks).map_err(fail)?;
        // Two first puts at once: neither removes what the other builds against. Unpacking is short, so the wait is.
        let lock = fs::File::create(sdks.join("lock")).map_err(fail)?;
        lock.lock().map_err(fail)?;
        if self.is_at(&place) {
            return Ok(package);
        }
        let part = tempfile::Builder::new().prefix(".part-").tempdir_in(&sdks).map_err(fail)?;
        for (path, bytes) in &self.files {
            let at = part.path().join(path);
            at.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&at, bytes)).map_err(fail)?;
        }
        match fs::remove_dir_all(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        fs::rename(part.path(), &place).map_err(fail)?;
        Ok(package)
    }

    fn is_at(&self, place: &Path) -> bool {
        self.files.iter().all(|(path, bytes)| fs::read(place.join(path)).is_ok_and(|there| there == *bytes))
    }
}

fn collect(folder: &Dir<'static>, at: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for file in folder.files() {
        files.insert(at.join(file.path()), file.contents().to_vec());
    }
    for inner in folder.dirs() {
        collect(inner, at, files);
    }
}

/// The root manifest with only the SDK's crates in it.
fn small_workspace(manifest: &str) -> String {
    let mut document: DocumentMut = manifest.parse().expect("cargo has read this manifest");
    let ours: Vec<&str> = CRATES.iter().map(|(name, _)| *name).collect();
    if let Some(workspace) = document.get_mut("workspace").and_then(|item| item.as_table_like_mut()) {
        let members: Array = ours.iter().map(|name| format!("crates/{name}")).collect();
        workspace.insert("members", toml_edit::Item::Value(Value::Array(members)));
        workspace.remove("exclude");
        if let Some(dependencies) = workspace.get_mut("dependencies").and_then(|item| item.as_table_like_mut()) {
            let others: Vec<String> = dependencies
                .iter()
                .map(|(name, _)| name.to_owned())
                .filter(|name| name.starts_with("agentenv-") && !ours.contains(&name.as_str()))
                .collect();
            for name in others {
                dependencies.remove(&name);
            }
        }
    }
    document.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_workspace_has_the_sdk_and_nothing_else_of_ours() {
        let sdk = Sdk::get();
        let text = String::from_utf8(sdk.files[Path::new("Cargo.toml")].clone()).unwrap();
        let document: DocumentMut = text.parse().unwrap();
        assert_eq!(document["workspace"]["members"].as_array().unwrap().len(), 3);
        let ours: Vec<_> = document["workspace"]["dependencies"]
            .as_table_like()
            .unwrap()
            .iter()
            .map(|(name, _)| name.to_owned())
            .filter(|name| name.starts_with("agentenv-"))
            .collect();
        assert_eq!(ours.len(), 3, "{ours:?}");
        assert!(sdk.files.contains_key(Path::new("crates/agentenv-sdk/src/lib.rs")));
    }

    #[test]
    fn row_81_a_torn_sdk_is_unpacked_again() {
        let cache = tempfile::tempdir().unwrap();
        let sdk = Sdk::get();
        let package = sdk.unpack(cache.path()).unwrap();
        let file = package.join("src/lib.rs");
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(sdk.unpack(cache.path()).unwrap(), package);
        assert_eq!(fs::read(&file).unwrap(), whole);
        fs::remove_file(&file).unwrap();
        sdk.unpack(cache.path()).unwrap();
        assert_eq!(fs::read(&file).unwrap(), whole);
    }
}
