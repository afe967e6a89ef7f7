//! The folder of a ring: names, opening beneath it, and what can be told of it from the disk alone.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::{DirBuilderExt as _, FileExt as _},
    },
    path::{Path, PathBuf},
};

use agentenv_protocol::CaptureState;
use rustix::{
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags},
    io::Errno,
};
use serde::{Deserialize, Serialize};

use super::{
    error::OpenCaptureError,
    index::{CaptureFile, OpenCapture},
    pcap::{self, Contents},
};
use crate::{
    failure::Failure,
    kernel::{self, Kernel},
};

const SUFFIX: &str = ".pcap";
/// Of a file that has no header yet.
const PART: &str = ".part";
const RECORD: &str = "ring.json";
const RECORD_PART: &str = "ring.json.part";
/// A folder of ours holds a few dozen entries; one that is full of others' takes no more of our time than this.
const MAX_ENTRIES: usize = 10_000;
/// A record of the most files that a folder is read for is smaller.
const MAX_RECORD_BYTES: u64 = 4 << 20;

/// Lists a ring's files, oldest first, from the disk alone. Nothing is believed but what is there: each file is read
/// record by record, and one that isn't a plain file is listed as damaged and empty.
///
/// # Errors
/// The folder or a file of it can't be read.
pub fn read_ring(folder: &Path) -> io::Result<Vec<CaptureFile>> {
    Folder::open(folder)?.list()
}

/// Opens a ring's file by its generation, never through a link, out of the folder, or anything but a plain file.
///
/// # Errors
/// It was rotated away, there never was such a file, or it can't be opened.
pub fn open_file_beneath(folder: &Path, generation: u64) -> Result<File, OpenCaptureError> {
    let folder = Folder::open(folder).map_err(|errno| OpenCaptureError::Io(errno.into()))?;
    match folder.open_file(generation) {
        Err(OpenCaptureError::Unknown) if folder.had(generation) => Err(OpenCaptureError::Gone),
        opened => opened,
    }
}

/// Opens a ring's file as [`open_file_beneath`] does, and reads it through, to tell how much of it is good.
///
/// # Errors
/// As [`open_file_beneath`], or it can't be read.
pub fn open_beneath(folder: &Path, generation: u64) -> Result<OpenCapture, OpenCaptureError> {
    let file = open_file_beneath(folder, generation)?;
    let contents = contents(&file).map_err(OpenCaptureError::Io)?;
    Ok(OpenCapture { file, bytes: contents.bytes, complete: true })
}

/// What `ring.json` holds: what the files themselves don't tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RingRecord {
    /// The last generation; the files alone don't tell once all of them are removed.
    pub(super) generation: u64,
    pub(super) files: Vec<CaptureFile>,
}

/// A ring's folder.
#[derive(Debug)]
pub(super) struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// `0000000012.pcap`.
pub(super) fn file_name(generation: u64) -> String {
    format!("{generation:010}{SUFFIX}")
}

fn part_name(generation: u64) -> String {
    format!("{generation:010}{SUFFIX}{PART}")
}

/// The generation of a name that we give, in the one spelling that we give it.
fn generation(name: &str) -> Option<u64> {
    let generation = name.strip_suffix(SUFFIX)?.parse().ok()?;
    (generation > 0 && file_name(generation) == name).then_some(generation)
}

impl Folder {
    /// Makes it if there is none.
    pub(super) fn make(kernel: Kernel, path: &Path) -> Result<Self, Failure> {
        kernel.at("mkdir", path, || {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(|error| kernel::errno(&error))
        })?;
        kernel.at("open", path, || Self::open(path))
    }

    fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Where a file of it is, to be told in errors.
    pub(super) fn path_of(&self, generation: u64) -> PathBuf {
        self.path.join(file_name(generation))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Publishes a new file that has its header already. Never in the place of another one.
    pub(super) fn publish(&self, kernel: Kernel, generation: u64) -> Result<OwnedFd, Failure> {
        let (part, name) = (part_name(generation), file_name(generation));
        let path = self.path.join(&part);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = kernel.at("open", &path, || rustix::fs::openat(&self.fd, &part, flags, mode))?;
        let header = pcap::header();
        let published = kernel
            .at("write", &path, || match rustix::io::retry_on_intr(|| rustix::io::write(&file, &header))? {
                written if written == header.len() => Ok(()),
                _ => Err(Errno::NOSPC),
            })
            .and_then(|()| {
                kernel.at("rename", &path, || {
                    rustix::fs::renameat_with(&self.fd, &part, &self.fd, &name, RenameFlags::NOREPLACE)
                })
            });
        if published.is_err() {
            let _ = rustix::fs::unlinkat(&self.fd, &part, AtFlags::empty());
        }
        published.map(|()| file)
    }

    /// Removes a file's name; who has it open keeps it.
    pub(super) fn remove(&self, kernel: Kernel, generation: u64) -> Result<(), Failure> {
        let name = file_name(generation);
        kernel.at("unlink", self.path.join(&name), || match rustix::fs::unlinkat(&self.fd, &name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => removed,
        })
    }

    /// Removes what a capture that died was about to publish.
    pub(super) fn remove_parts(&self) -> io::Result<()> {
        for name in self.names()? {
            if name.strip_suffix(PART).is_some_and(|name| name == RECORD || generation(name).is_some()) {
                rustix::fs::unlinkat(&self.fd, &name, AtFlags::empty())?;
            }
        }
        Ok(())
    }

    pub(super) fn open_file(&self, generation: u64) -> Result<File, OpenCaptureError> {
        match self.open_plain(&file_name(generation)) {
            Ok(file) => Ok(file),
            Err(Errno::NOENT) => Err(OpenCaptureError::Unknown),
            Err(errno) => Err(OpenCaptureError::Io(errno.into())),
        }
    }

    /// Opens a plain file that has no other name. Links aren't followed; a FIFO doesn't make it wait.
    fn open_plain(&self, name: &str) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let beneath =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let file = match rustix::fs::openat2(&self.fd, name, flags, Mode::empty(), beneath) {
            // Some container runtimes' filters don't know the call. A name without a slash can't leave the folder either.
            Err(Errno::NOSYS | Errno::PERM) if !name.contains('/') => {
                rustix::fs::openat(&self.fd, name, flags, Mode::empty())?
            }
            opened => opened?,
        };
        let stat = rustix::fs::fstat(&file)?;
        let plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink <= 1;
        if plain { Ok(file.into()) } else { Err(Errno::LOOP) }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.fd.as_fd())?.take(MAX_ENTRIES) {
            names.extend(entry?.file_name().to_str().map(str::to_owned));
        }
        Ok(names)
    }

    /// Every file, oldest first.
    fn list(&self) -> io::Result<Vec<CaptureFile>> {
        self.read().map(|(_, files)| files)
    }

    /// What the last capture wrote down, and every file, oldest first.
    pub(super) fn read(&self) -> io::Result<(RingRecord, Vec<CaptureFile>)> {
        let record = self.read_record();
        let dropped: BTreeMap<_, _> = record.files.iter().map(|file| (file.generation, file.dropped)).collect();
        let mut generations: Vec<_> = self.names()?.iter().filter_map(|name| generation(name)).collect();
        generations.sort_unstable();
        let mut files = Vec::with_capacity(generations.len());
        for generation in generations {
            let contents = match self.open_plain(&file_name(generation)) {
                Ok(file) => contents(&file)?,
                // It was rotated away meanwhile.
                Err(Errno::NOENT) => continue,
                Err(_) => Contents { damaged: true, ..Contents::default() },
            };
            files.push(CaptureFile {
                generation,
                bytes: contents.bytes,
                packets: contents.packets,
                first_us: contents.first_us,
                last_us: contents.last_us,
                state: if contents.damaged { CaptureState::Damaged } else { CaptureState::Complete },
                dropped: dropped.get(&generation).copied().unwrap_or(0),
            });
        }
        Ok((record, files))
    }

    /// Whether there was a file of this generation once, as far as the folder tells.
    fn had(&self, wanted: u64) -> bool {
        let listed = self.names().unwrap_or_default().iter().filter_map(|name| generation(name)).max();
        (1..=self.read_record().generation.max(listed.unwrap_or(0))).contains(&wanted)
    }

    /// What the last capture wrote down; nothing if that can't be read, since the files count for themselves.
    fn read_record(&self) -> RingRecord {
        let mut text = Vec::new();
        let read = self.open_plain(RECORD).map(|file| file.take(MAX_RECORD_BYTES).read_to_end(&mut text));
        match read {
            Ok(Ok(_)) => serde_json::from_slice(&text).unwrap_or_default(),
            _ => RingRecord::default(),
        }
    }

    /// Replaces the record in one step.
    pub(super) fn write_record(&self, kernel: Kernel, record: &RingRecord) -> Result<(), Failure> {
        let path = self.path.join(RECORD_PART);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file =
            kernel.at("open", &path, || rustix::fs::openat(&self.fd, RECORD_PART, flags, Mode::RUSR | Mode::WUSR))?;
        let text = serde_json::to_vec(record).map_err(|_| Failure::setup_at("write", &path, Errno::INVAL))?;
        kernel.at("write", &path, || {
            let written = io::Write::write_all(&mut File::from(file), &text);
            written.map_err(|error| kernel::errno(&error))
        })?;
        kernel.at("rename", &path, || rustix::fs::renameat(&self.fd, RECORD_PART, &self.fd, RECORD))
    }
}

fn contents(file: &File) -> io::Result<Contents> {
    let length = file.metadata()?.len();
    pcap::scan(length, |buffer, offset| {
        loop {
            match file.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        }
    })
}

#[cfg(test)]
mod tests;
