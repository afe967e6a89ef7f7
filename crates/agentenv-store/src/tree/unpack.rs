//! Tar to folder, trusting nothing in the tar: the bytes may have been imported.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, OpenOptions, Permissions},
    io::{self, Read},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{OpenOptionsExt as _, PermissionsExt as _, symlink},
    },
    path::{Component, Path, PathBuf},
    time::{Duration, SystemTime},
};

use tar::{Archive, EntryType};

use super::{MAX_TREE_BYTES, MAX_TREE_ENTRIES, SOURCE_DATE_EPOCH, TreeError, check_links};
use crate::StoreError;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Folder,
    Other,
}

/// Unpacks into an empty folder that nobody else writes to. Links are made last, so that no file is ever written through one.
pub(super) fn unpack(tar: &mut dyn Read, into: &Path) -> Result<(), StoreError> {
    let damaged = |error| StoreError::io(into, error);
    let mut archive = Archive::new(tar);
    let mut seen: HashMap<PathBuf, Kind> = HashMap::new();
    let mut links = BTreeMap::new();
    let mut bytes = 0_u64;
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = inner_path(&entry.path_bytes())?;
        let refuse = |reason| TreeError::Entry { entry: path.display().to_string(), reason };
        if seen.len() >= MAX_TREE_ENTRIES {
            return Err(TreeError::TooMany { path }.into());
        }
        let parent = path.parent().unwrap_or(Path::new(""));
        if !parent.as_os_str().is_empty() && seen.get(parent) != Some(&Kind::Folder) {
            return Err(refuse("it lies in nothing that is a folder").into());
        }
        let kind = entry.header().entry_type();
        let kept = if kind == EntryType::Directory { Kind::Folder } else { Kind::Other };
        if seen.insert(path.clone(), kept).is_some() {
            return Err(refuse("it is there twice").into());
        }
        let at = into.join(&path);
        match kind {
            EntryType::Directory => make_folder(&at)?,
            EntryType::Regular => {
                bytes = bytes.saturating_add(entry.size());
                if bytes > MAX_TREE_BYTES {
                    return Err(TreeError::TooLarge { path }.into());
                }
                let executable = entry.header().mode().map_err(damaged)? & 0o111 != 0;
                write_file(&mut entry, &at, executable)?;
            }
            EntryType::Symlink => {
                let target = entry.link_name().map_err(damaged)?.ok_or_else(|| refuse("it is a link to nothing"))?;
                links.insert(path.clone(), target.into_owned());
            }
            _ => return Err(refuse("it is neither folder, nor plain file, nor symbolic link").into()),
        }
    }
    check_links(&links).map_err(TreeError::from)?;
    for (path, target) in &links {
        let at = into.join(path);
        symlink(target, &at).map_err(|error| StoreError::io(&at, error))?;
    }
    Ok(())
}

/// The path of an entry, if it stays within the tree.
fn inner_path(bytes: &[u8]) -> Result<PathBuf, TreeError> {
    let path = Path::new(std::ffi::OsStr::from_bytes(bytes));
    let refuse = |reason| TreeError::Entry { entry: path.display().to_string(), reason };
    let mut inner = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => inner.push(name),
            _ => return Err(refuse("its path is not plainly within the tree")),
        }
    }
    if inner.as_os_str().is_empty() {
        return Err(refuse("it has no path"));
    }
    Ok(inner)
}

fn make_folder(at: &Path) -> Result<(), StoreError> {
    fs::create_dir(at)
        .and_then(|()| fs::set_permissions(at, Permissions::from_mode(0o755)))
        .map_err(|error| StoreError::io(at, error))
}

fn write_file(bytes: &mut impl Read, at: &Path, executable: bool) -> Result<(), StoreError> {
    let mode = if executable { 0o755 } else { 0o644 };
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(at)?;
        io::copy(bytes, &mut file)?;
        // Whatever the umask was: a sandbox's own uid reads it.
        file.set_permissions(Permissions::from_mode(mode))?;
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(SOURCE_DATE_EPOCH))
    };
    let mut write = write;
    write().map_err(|error| StoreError::io(at, error))
}
