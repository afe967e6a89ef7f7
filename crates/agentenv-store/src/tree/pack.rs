//! Folder to tar.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read as _, Write},
    os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use tar::{Builder, EntryType, Header};

use super::{MAX_TREE_BYTES, MAX_TREE_ENTRIES, SOURCE_DATE_EPOCH, TreeError, check_links};
use crate::StoreError;

/// A folder's entries, checked, in order.
#[derive(Debug)]
pub(super) struct Listing {
    root: PathBuf,
    entries: Vec<(PathBuf, Entry)>,
}

#[derive(Debug)]
enum Entry {
    Folder,
    File { size: u64, executable: bool },
    Link(PathBuf),
}

/// What to do about a file that has a second name outside the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HardLinks {
    Refuse,
    /// What a trusted build linked from its package cache is stored as a copy.
    Copy,
}

impl Listing {
    pub(super) fn read(root: &Path, hard_links: HardLinks) -> Result<Self, TreeError> {
        // A build may have put a link in its place.
        let kind = fs::symlink_metadata(root).map_err(|source| TreeError::Io { path: root.to_owned(), source })?;
        if !kind.is_dir() {
            return Err(TreeError::Kind { path: root.to_owned(), what: "not a folder" });
        }
        let mut listing = Self { root: root.to_owned(), entries: Vec::new() };
        let mut links = BTreeMap::new();
        let mut names: HashMap<(u64, u64), (u64, u64, PathBuf)> = HashMap::new();
        let mut bytes = 0_u64;
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let whole = root.join(&folder);
            for child in fs::read_dir(&whole).map_err(|source| TreeError::Io { path: whole.clone(), source })? {
                let name = child.map_err(|source| TreeError::Io { path: whole.clone(), source })?.file_name();
                let path = folder.join(name);
                let at = root.join(&path);
                let metadata =
                    fs::symlink_metadata(&at).map_err(|source| TreeError::Io { path: at.clone(), source })?;
                let entry = classify(&at, &metadata)?;
                match &entry {
                    Entry::Folder => folders.push(path.clone()),
                    Entry::Link(target) => {
                        links.insert(path.clone(), target.clone());
                    }
                    Entry::File { size, .. } => {
                        bytes += size;
                        if metadata.nlink() > 1 {
                            let key = (metadata.dev(), metadata.ino());
                            names.entry(key).or_insert((0, metadata.nlink(), at.clone())).0 += 1;
                        }
                    }
                }
                if bytes > MAX_TREE_BYTES {
                    return Err(TreeError::TooLarge { path: at });
                }
                listing.entries.push((path, entry));
                if listing.entries.len() > MAX_TREE_ENTRIES {
                    return Err(TreeError::TooMany { path: at });
                }
            }
        }
        check_links(&links)?;
        if hard_links == HardLinks::Refuse
            && let Some((_, _, path)) = names.into_values().find(|(inside, all, _)| inside < all)
        {
            return Err(TreeError::HardLink { path });
        }
        listing.entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(listing)
    }

    /// Writes the tar; the same entries always give the same bytes.
    pub(super) fn write(&self, out: &mut dyn Write) -> Result<(), StoreError> {
        let mut builder = Builder::new(out);
        for (path, entry) in &self.entries {
            self.append(&mut builder, path, entry)?;
        }
        // The sink has no place of its own; whoever holds the other end knows it.
        builder.finish().map_err(|error| StoreError::io(&self.root, error))
    }

    fn append(&self, builder: &mut Builder<&mut dyn Write>, path: &Path, entry: &Entry) -> Result<(), StoreError> {
        let at = self.root.join(path);
        let fail = |error: io::Error| StoreError::io(&at, error);
        let mut header = Header::new_gnu();
        header.set_mtime(SOURCE_DATE_EPOCH);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(0);
        match entry {
            Entry::Folder => {
                header.set_entry_type(EntryType::Directory);
                header.set_mode(0o755);
                builder.append_data(&mut header, path, io::empty()).map_err(fail)
            }
            Entry::Link(target) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_mode(0o777);
                builder.append_link(&mut header, path, target).map_err(fail)
            }
            Entry::File { size, executable } => {
                header.set_entry_type(EntryType::Regular);
                header.set_mode(if *executable { 0o755 } else { 0o644 });
                header.set_size(*size);
                let file = open_plain(&at).map_err(fail)?;
                if file.metadata().map_err(fail)?.len() != *size {
                    return Err(TreeError::Changed { path: at.clone() }.into());
                }
                let mut exact = Exact { file: file.take(*size), left: *size };
                builder.append_data(&mut header, path, &mut exact).map_err(fail)?;
                if exact.left > 0 { Err(TreeError::Changed { path: at.clone() }.into()) } else { Ok(()) }
            }
        }
    }
}

fn classify(path: &Path, metadata: &Metadata) -> Result<Entry, TreeError> {
    let kind = metadata.file_type();
    let refuse = |what| Err(TreeError::Kind { path: path.to_owned(), what });
    if kind.is_dir() {
        Ok(Entry::Folder)
    } else if kind.is_file() {
        Ok(Entry::File { size: metadata.len(), executable: metadata.mode() & 0o111 != 0 })
    } else if kind.is_symlink() {
        let target = fs::read_link(path).map_err(|source| TreeError::Io { path: path.to_owned(), source })?;
        Ok(Entry::Link(target))
    } else if kind.is_fifo() {
        refuse("a named pipe")
    } else if kind.is_socket() {
        refuse("a socket")
    } else {
        refuse("a device")
    }
}

/// Opens a plain file, never through a link that has taken its place, never waiting for a pipe that has.
fn open_plain(path: &Path) -> io::Result<File> {
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Counts what is left to read, since a file that shrinks would shift everything behind it.
struct Exact {
    file: io::Take<File>,
    left: u64,
}

impl io::Read for Exact {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(out)?;
        self.left -= count as u64;
        Ok(count)
    }
}
