//! The scratch copy of a bundle: the same files, made of fresh ones, at the same place each time so that tools which
//! remember what they built find it again.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use agentenv_protocol::control::ControlError;
use agentenv_store::{MAX_TREE_BYTES, MAX_TREE_ENTRIES, check_links};
use ignore::{Walk, WalkBuilder};

use super::error::{io_error, refused};

/// How much of two files is compared at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// What every tool would trip over, and no site needs.
const NEVER_COPIED: &str = ".git";

#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Folder,
    File { executable: bool },
    Link(PathBuf),
}

/// Makes `scratch` the same as the bundle, as far as `.gitignore` lets it. Files that are the same already are left alone,
/// with their times; others are new. What else was there is removed.
pub(super) fn mirror(bundle: &Path, scratch: &Path) -> Result<(), ControlError> {
    let entries = list(bundle)?;
    remove_others(scratch, &entries)?;
    fs::create_dir_all(scratch).map_err(|error| io_error(scratch, error))?;
    for (path, entry) in &entries {
        let at = scratch.join(path);
        match entry {
            Entry::Folder => fs::create_dir(&at).or_else(there_already),
            Entry::Link(target) => symlink(target, &at).or_else(there_already),
            Entry::File { executable } => copy_file(&bundle.join(path), &at, *executable),
        }
        .map_err(|error| io_error(&at, error))?;
    }
    Ok(())
}

/// What differed was removed before.
fn there_already(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
}

/// Everything of a bundle that its `.gitignore` doesn't name.
pub(super) fn walk(bundle: &Path) -> Walk {
    let in_repository =
        bundle.canonicalize().is_ok_and(|real| real.ancestors().any(|above| above.join(".git").exists()));
    WalkBuilder::new(bundle)
        .standard_filters(false)
        .git_ignore(true)
        // Up to the repository's top. Above a bundle that is in none, a .gitignore is somebody else's.
        .require_git(in_repository)
        .parents(in_repository)
        .filter_entry(|entry| entry.file_name() != NEVER_COPIED)
        .build()
}

/// The bundle's entries, parents first.
fn list(bundle: &Path) -> Result<BTreeMap<PathBuf, Entry>, ControlError> {
    let mut entries = BTreeMap::new();
    let mut links = BTreeMap::new();
    let mut names: HashMap<(u64, u64), (u64, u64, PathBuf)> = HashMap::new();
    let mut bytes = 0_u64;
    for found in walk(bundle) {
        let found = found.map_err(|error| refused(format!("the bundle cannot be read: {error}"), ""))?;
        let Ok(path) = found.path().strip_prefix(bundle) else { continue };
        if path.as_os_str().is_empty() {
            continue;
        }
        let metadata = found.path().symlink_metadata().map_err(|error| io_error(found.path(), error))?;
        let entry = classify(found.path(), &metadata)?;
        match &entry {
            Entry::Link(target) => {
                links.insert(path.to_owned(), target.clone());
            }
            Entry::File { .. } => {
                bytes += metadata.len();
                if metadata.nlink() > 1 {
                    let key = (metadata.dev(), metadata.ino());
                    names.entry(key).or_insert((0, metadata.nlink(), found.path().to_owned())).0 += 1;
                }
            }
            Entry::Folder => {}
        }
        entries.insert(path.to_owned(), entry);
        if bytes > MAX_TREE_BYTES || entries.len() > MAX_TREE_ENTRIES {
            let message = format!("the bundle is too large at {}", found.path().display());
            return Err(refused(message, "name what the site does not need in .gitignore"));
        }
    }
    const COPY_IT: &str = "copy the file into the bundle, or name the link in .gitignore";
    check_links(&links).map_err(|error| refused(format!("{}: {error}", bundle.display()), COPY_IT))?;
    if let Some((_, _, path)) = names.into_values().find(|(inside, all, _)| inside < all) {
        return Err(refused(format!("{} is a hard link to a file outside the bundle", path.display()), COPY_IT));
    }
    Ok(entries)
}

fn classify(path: &Path, metadata: &fs::Metadata) -> Result<Entry, ControlError> {
    let kind = metadata.file_type();
    if kind.is_dir() {
        Ok(Entry::Folder)
    } else if kind.is_file() {
        Ok(Entry::File { executable: metadata.mode() & 0o111 != 0 })
    } else if kind.is_symlink() {
        fs::read_link(path).map(Entry::Link).map_err(|error| io_error(path, error))
    } else {
        let message = format!("{} is neither folder, nor plain file, nor symbolic link", path.display());
        Err(refused(message, "name it in .gitignore"))
    }
}

/// Removes what a former build or bundle left. No link is followed.
fn remove_others(scratch: &Path, entries: &BTreeMap<PathBuf, Entry>) -> Result<(), ControlError> {
    match scratch.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return fs::remove_file(scratch).map_err(|error| io_error(scratch, error)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error(scratch, error)),
    }
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let whole = scratch.join(&folder);
        for child in fs::read_dir(&whole).map_err(|error| io_error(&whole, error))? {
            let path = folder.join(child.map_err(|error| io_error(&whole, error))?.file_name());
            let at = scratch.join(&path);
            let metadata = at.symlink_metadata().map_err(|error| io_error(&at, error))?;
            let keep = match entries.get(&path) {
                Some(Entry::Folder) => metadata.is_dir(),
                Some(Entry::File { .. }) => metadata.is_file() && metadata.nlink() == 1,
                Some(Entry::Link(target)) => fs::read_link(&at).is_ok_and(|there| there == *target),
                None => false,
            };
            match (keep, metadata.is_dir()) {
                (true, true) => folders.push(path),
                (true, false) => {}
                (false, true) => fs::remove_dir_all(&at).map_err(|error| io_error(&at, error))?,
                (false, false) => fs::remove_file(&at).map_err(|error| io_error(&at, error))?,
            }
        }
    }
    Ok(())
}

/// Copies a file unless the same is there. A new one gets a new time, whatever the time of the old one: tools that compare
/// times see that it changed.
fn copy_file(from: &Path, to: &Path, executable: bool) -> io::Result<()> {
    let mut source = open_plain(from)?;
    let mode = if executable { 0o755 } else { 0o644 };
    if same_content(&mut source, to)? {
        return fs::set_permissions(to, fs::Permissions::from_mode(mode));
    }
    if let Err(error) = fs::remove_file(to)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    // From its start again: comparing has read some of it.
    let mut source = open_plain(from)?;
    let mut copy = OpenOptions::new().write(true).create_new(true).mode(mode).open(to)?;
    io::copy(&mut source, &mut copy)?;
    copy.flush()?;
    copy.set_permissions(fs::Permissions::from_mode(mode))
}

/// Opens a plain file, never through a link that has taken its place, never waiting for a pipe that has.
fn open_plain(path: &Path) -> io::Result<File> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn same_content(source: &mut File, other: &Path) -> io::Result<bool> {
    let mut other = match open_plain(other) {
        Ok(other) => other,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    if source.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let (mut a, mut b) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    loop {
        let count = source.read(&mut a)?;
        if count == 0 {
            return Ok(other.read(&mut b)? == 0);
        }
        match other.read_exact(&mut b[..count]) {
            Ok(()) if a[..count] == b[..count] => {}
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests;
