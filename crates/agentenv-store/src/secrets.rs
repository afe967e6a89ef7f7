//! Stored secrets (ENV-7): one file each, for the user's eyes only, written whole or not at all.

use std::{
    fmt,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use agentenv_protocol::{ExitCode, Home, SecretPath};
use rustix::fs::OFlags;
use secrecy::{ExposeSecret as _, SecretString};

use crate::{
    StoreError,
    lock::{self, Mode},
    store::make_folder,
};

/// The longest secret: keys and certificates have a few kilobytes, and a variable of a process 128 KiB.
pub const MAX_SECRET_BYTES: usize = 64 * 1024;
/// What stands for `/` in a file's name; no path has one.
const SEPARATOR: &str = "+";
/// What the files begin with that are no secrets: no path begins with its separator.
const NEW_PREFIX: &str = "+new-";
/// The lock of those who change something.
const LOCK: &str = "+lock";

/// Why a value cannot be a secret. It never says the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretValueError {
    /// Nothing.
    #[error("the value is empty")]
    Empty,
    /// More than a secret has.
    #[error("the value is longer than {MAX_SECRET_BYTES} bytes")]
    TooLong,
    /// No text, or one with NUL in it.
    #[error("the value is not UTF-8 text without NUL")]
    NotText,
}

/// The secret in bytes that a command printed or somebody typed: without the line's end that they put behind it.
pub fn secret_value(mut bytes: Vec<u8>) -> Result<SecretString, SecretValueError> {
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    if bytes.is_empty() {
        return Err(SecretValueError::Empty);
    }
    if bytes.len() > MAX_SECRET_BYTES {
        return Err(SecretValueError::TooLong);
    }
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text.into()),
        _ => Err(SecretValueError::NotText),
    }
}

/// Why a stored secret cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file system refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else may have read it.
    #[error("{file} can be read by other users")]
    Open {
        /// The file.
        file: PathBuf,
    },
    /// The file is no plain file with one name, or holds no text.
    #[error("{file} is not a stored secret")]
    Damaged {
        /// The file.
        file: PathBuf,
    },
}

impl SecretError {
    /// How a command that ends with this error exits.
    pub fn exit(&self) -> ExitCode {
        match self {
            Self::Store(error) => error.exit(),
            Self::Open { .. } | Self::Damaged { .. } => ExitCode::Refused,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Store(error) => error.hint(),
            Self::Open { .. } => {
                "get a new one where it is from, and store that with `agent-env secret set`".to_owned()
            }
            Self::Damaged { .. } => "store it again with `agent-env secret set`".to_owned(),
        }
    }
}

/// The stored secrets of a home.
#[derive(Clone)]
pub struct SecretFiles {
    root: PathBuf,
    folder: PathBuf,
}

impl fmt::Debug for SecretFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretFiles").field("folder", &self.folder).finish()
    }
}

impl SecretFiles {
    /// The secrets of a home; makes no folder.
    pub fn of(home: &Home) -> Self {
        Self { root: home.root().to_owned(), folder: home.secrets() }
    }

    fn file(&self, path: &SecretPath) -> PathBuf {
        self.folder.join(path.as_str().replace('/', SEPARATOR))
    }

    /// Stores a secret and answers whether it took another one's place.
    pub fn set(&self, path: &SecretPath, value: &SecretString) -> Result<bool, SecretError> {
        let file = self.file(path);
        let _lock = self.change()?;
        let fail = |error| StoreError::io(&file, error);
        let there = file.symlink_metadata().is_ok();
        let mut new = tempfile::Builder::new()
            .prefix(NEW_PREFIX)
            .permissions(Permissions::from_mode(0o600))
            .tempfile_in(&self.folder)
            .map_err(fail)?;
        new.write_all(value.expose_secret().as_bytes()).map_err(fail)?;
        new.as_file().sync_all().map_err(fail)?;
        new.persist(&file).map_err(|error| fail(error.error))?;
        self.sync()?;
        Ok(there)
    }

    /// Reads a secret; `None` where there is none.
    pub fn get(&self, path: &SecretPath) -> Result<Option<SecretString>, SecretError> {
        let name = self.file(path);
        let fail = |error| StoreError::io(&name, error);
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        let file = match OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(&name) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fail(error).into()),
        };
        let metadata = file.metadata().map_err(fail)?;
        if !metadata.is_file() || metadata.nlink() != 1 {
            return Err(SecretError::Damaged { file: name });
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(SecretError::Open { file: name });
        }
        let mut bytes = Vec::with_capacity(MAX_SECRET_BYTES + 1);
        file.take(MAX_SECRET_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(fail)?;
        let text = String::from_utf8(bytes).ok().filter(|text| !text.is_empty() && text.len() <= MAX_SECRET_BYTES);
        match text {
            Some(text) => Ok(Some(text.into())),
            None => Err(SecretError::Damaged { file: name }),
        }
    }

    /// The paths of all secrets, in order.
    pub fn list(&self) -> Result<Vec<SecretPath>, SecretError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StoreError::io(&self.folder, error).into()),
        };
        let mut paths = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| StoreError::io(&self.folder, error))?.file_name();
            let path = name.to_str().and_then(|name| SecretPath::parse(&name.replace(SEPARATOR, "/")).ok());
            paths.extend(path);
        }
        paths.sort();
        Ok(paths)
    }

    /// Removes a secret and answers whether there was one.
    pub fn remove(&self, path: &SecretPath) -> Result<bool, SecretError> {
        let file = self.file(path);
        if !self.folder.exists() {
            return Ok(false);
        }
        let _lock = self.change()?;
        match fs::remove_file(&file) {
            Ok(()) => Ok(self.sync().map(|()| true)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(StoreError::io(&file, error).into()),
        }
    }

    /// Makes the folder, keeps others from changing anything, and removes what a killed command left half-written.
    fn change(&self) -> Result<lock::Hold, StoreError> {
        make_folder(&self.root, 0o700)?;
        make_folder(&self.folder, 0o700)?;
        fs::set_permissions(&self.folder, Permissions::from_mode(0o700))
            .map_err(|error| StoreError::io(&self.folder, error))?;
        let hold = lock::take(&self.folder.join(LOCK), Mode::Alone)?;
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(NEW_PREFIX) {
                fs::remove_file(entry.path()).map_err(|error| StoreError::io(entry.path(), error))?;
            }
        }
        Ok(hold)
    }

    fn sync(&self) -> Result<(), StoreError> {
        let folder: &Path = &self.folder;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| StoreError::io(folder, error))
    }
}
