//! Opening a file that somebody else may be changing: beneath its folder, never through a link, never waiting.

use std::{
    fs::File,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use crate::{MAX_ARTIFACT_BYTES, StoreError};

/// Opens a plain file beneath a folder and answers its size.
pub(crate) fn open(folder: &Path, path: &Path) -> Result<(File, u64), StoreError> {
    let whole: PathBuf = folder.join(path);
    let refuse = |reason| StoreError::NotAFile { path: whole.clone(), reason };
    let folder = openat(CWD, folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| StoreError::io(folder, error.into()))?;
    // NONBLOCK: the opening of a FIFO returns; what it was is looked at afterwards, on the descriptor.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(&folder, path, flags, Mode::empty(), resolve).map_err(|error| match error {
        rustix::io::Errno::LOOP => refuse("a symbolic link is on the way"),
        rustix::io::Errno::XDEV => refuse("it is outside its folder"),
        // A socket, or a device that has no driver.
        rustix::io::Errno::NXIO => refuse("it is not a plain file"),
        error => StoreError::io(&whole, error.into()),
    })?;
    let file = File::from(file);
    let metadata = file.metadata().map_err(|error| StoreError::io(&whole, error))?;
    if !metadata.is_file() {
        return Err(refuse("it is not a plain file"));
    }
    // A second name may lie outside the folder.
    if metadata.nlink() > 1 {
        return Err(refuse("it is a hard link"));
    }
    if metadata.len() > MAX_ARTIFACT_BYTES {
        return Err(StoreError::TooLong { path: whole, size: metadata.len(), limit: MAX_ARTIFACT_BYTES });
    }
    Ok((file, metadata.len()))
}
