//! A folder that goes back to the state at deploy.

use std::{
    fs::{self, File, FileTimes},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread::{self, JoinHandle},
};

use rustix::{
    fs::{CWD, RenameFlags, renameat_with},
    io::Errno,
};

use crate::{Result, session::OWN_FOLDER};

/// A folder of the data directory that goes back to the state at deploy in a few system calls, however much has changed.
///
/// The state at deploy is what the folder holds when the site is ready for the first time: what an application beside the
/// server writes while it starts belongs to it (PR-2).
///
/// A copy of the folder lies ready beside it; [`Snapshot::restore`] exchanges the two by renaming, then removes the old
/// folder and makes the next copy in the background. So the data directory holds the folder three times.
///
/// Files are found by path again after a restore: close what is open inside (a database connection) and open it anew.
/// Another process that keeps the folder open goes on writing to the one that is thrown away.
#[derive(Debug)]
pub struct Snapshot(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// What the site works on.
    live: PathBuf,
    /// Where the copies lie: `state` is not touched again once `sealed` is there, `next` is about to go live, `old` about to be
    /// removed.
    copies: PathBuf,
    next: Mutex<Option<Making>>,
}

/// The making of the next copy.
type Making = JoinHandle<io::Result<()>>;

/// Every snapshot of this process: a server has one or two.
static PREPARED: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());

/// Takes the state at deploy of every folder below the data directory, where that was not done before: the site is ready for
/// the first time.
pub(crate) fn seal(data_dir: &Path) -> io::Result<()> {
    let mut prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
    prepared.retain(|inner| inner.strong_count() > 0);
    let below: Vec<Arc<Inner>> =
        prepared.iter().filter_map(Weak::upgrade).filter(|inner| inner.live.starts_with(data_dir)).collect();
    drop(prepared);
    below.iter().try_for_each(|inner| inner.seal())
}

impl Snapshot {
    /// Prepares the folder `name` of the data directory: at deploy it is made, `seed` fills it, and that is the state it
    /// goes back to. After a restart of the service it is left as it was, and `seed` isn't called.
    ///
    /// # Errors
    /// `seed` fails, or the disk does.
    pub fn prepare(data_dir: &Path, name: &str, seed: impl FnOnce(&Path) -> Result<()>) -> Result<Self> {
        let live = data_dir.join(name);
        let copies = data_dir.join(OWN_FOLDER).join("snapshots").join(name);
        let state = copies.join("state");
        if !state.is_dir() {
            // What is there without a state is the rest of a seed that failed.
            remove(&live)?;
            fs::create_dir_all(&live)?;
            seed(&live)?;
            fs::create_dir_all(&copies)?;
            take_state(&live, &copies)?;
        } else if !live.is_dir() {
            copy(&state, &live)?;
        }
        let inner = Arc::new(Inner { live, copies, next: Mutex::new(None) });
        // `next` may be half made, or be the old folder, if the service died: it is made anew.
        *inner.next() = inner.make_next_in_background();
        PREPARED.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&inner));
        Ok(Self(inner))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0.live
    }

    /// Takes the folder back to the state at deploy.
    ///
    /// # Errors
    /// The disk fails; the folder is then as it was.
    pub fn restore(&self) -> Result<()> {
        self.0.restore()
    }
}

impl Inner {
    fn next(&self) -> MutexGuard<'_, Option<Making>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seal(&self) -> io::Result<()> {
        let mut next = self.next();
        let sealed = self.copies.join("sealed");
        if sealed.exists() {
            return Ok(());
        }
        if differs(&self.live, &self.copies.join("state"))? {
            // The next copy is being made from what is about to be replaced.
            if let Some(making) = next.take() {
                let _ = making.join();
            }
            take_state(&self.live, &self.copies)?;
            *next = self.make_next_in_background();
        }
        fs::write(sealed, "")
    }

    fn restore(&self) -> Result<()> {
        let mut next = self.next();
        let made = next.take().is_some_and(|making| matches!(making.join(), Ok(Ok(()))));
        if !made {
            make_next(&self.copies)?;
        }
        let spare = self.copies.join("next");
        match renameat_with(CWD, &spare, CWD, &self.live, RenameFlags::EXCHANGE) {
            Ok(()) => fs::rename(&spare, self.copies.join("old"))?,
            // A file system that can't exchange: for a moment the folder is absent.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOENT) => {
                if self.live.exists() {
                    fs::rename(&self.live, self.copies.join("old"))?;
                }
                fs::rename(&spare, &self.live)?;
            }
            Err(error) => return Err(io::Error::from(error).into()),
        }
        *next = self.make_next_in_background();
        Ok(())
    }

    /// Where no thread can be had, the next restore makes the copy itself.
    fn make_next_in_background(&self) -> Option<Making> {
        let copies = self.copies.clone();
        thread::Builder::new().name("snapshot".to_owned()).spawn(move || make_next(&copies)).ok()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let next = self.next.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(making) = next.take() {
            // Its result is for a restore that no longer comes.
            let _ = making.join();
        }
    }
}

/// Makes what the folder holds the state that it goes back to, once that is copied whole.
fn take_state(live: &Path, copies: &Path) -> io::Result<()> {
    let (part, state) = (copies.join("part"), copies.join("state"));
    remove(&part)?;
    copy(live, &part)?;
    remove(&state)?;
    fs::rename(part, state)
}

fn make_next(copies: &Path) -> io::Result<()> {
    remove(&copies.join("old"))?;
    remove(&copies.join("next"))?;
    copy(&copies.join("state"), &copies.join("next"))
}

/// Removes a folder if it is there. Whoever still has it open may add files meanwhile, so once more, a few times.
fn remove(folder: &Path) -> io::Result<()> {
    const TRIES: usize = 5;
    for tries_left in (0..TRIES).rev() {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && tries_left > 0 => {}
            result => return result,
        }
    }
    Ok(())
}

/// Whether a folder is not what was copied from it. A copy keeps lengths and times.
fn differs(live: &Path, copied: &Path) -> io::Result<bool> {
    let mut names = 0;
    for entry in fs::read_dir(live)? {
        let entry = entry?;
        let (kind, other) = (entry.file_type()?, copied.join(entry.file_name()));
        let Ok(beside) = fs::symlink_metadata(&other) else {
            // Sockets and pipes are not copied.
            if kind.is_file() || kind.is_dir() || kind.is_symlink() {
                return Ok(true);
            }
            continue;
        };
        names += 1;
        let metadata = entry.metadata()?;
        let same = if kind.is_dir() {
            beside.is_dir() && !differs(&entry.path(), &other)?
        } else if kind.is_symlink() {
            beside.is_symlink() && fs::read_link(entry.path())? == fs::read_link(&other)?
        } else {
            beside.is_file() && metadata.len() == beside.len() && metadata.modified()? == beside.modified()?
        };
        if !same {
            return Ok(true);
        }
    }
    Ok(fs::read_dir(copied)?.count() != names)
}

/// Copies a folder with the permissions and times of its files. Links stay links; sockets and pipes are left out, for they
/// belong to who made them.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target, kind) = (entry.path(), to.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            copy(&source, &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else if kind.is_file() {
            copy_file(&source, &target)?;
        }
    }
    fs::set_permissions(to, fs::metadata(from)?.permissions())
}

fn copy_file(source: &Path, target: &Path) -> io::Result<()> {
    fs::copy(source, target)?;
    let modified = fs::metadata(source)?.modified()?;
    // A file that may not be opened keeps its new time.
    if let Ok(file) = File::open(target) {
        file.set_times(FileTimes::new().set_modified(modified))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
