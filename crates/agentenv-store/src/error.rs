//! Why the store could not do something.

use std::{error::Error as _, io, path::PathBuf};

use agentenv_protocol::{ArtifactId, Digest, ExitCode, IdError, Name, RunId, UniverseId};

use crate::tree::TreeError;

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk, or the caller's share of it, is full. Nothing was stored.
    #[error("no space is left for {path}")]
    Full {
        /// What could not be written.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("{path}: {source}")]
    Io {
        /// What it is about.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// The database refused.
    #[error("{path}: {source}")]
    Database {
        /// The database's file.
        path: PathBuf,
        /// SQLite's word.
        source: sqlx::Error,
    },
    /// The database cannot be brought to this program's schema.
    #[error("{path} cannot be opened by this version of agent-env: {source}")]
    Schema {
        /// The database's file.
        path: PathBuf,
        /// What is in the way.
        source: sqlx::migrate::MigrateError,
    },
    /// The object store refused.
    #[error("{path}: {source}")]
    Object {
        /// The object.
        path: PathBuf,
        /// The object store's word.
        source: object_store::Error,
    },
    /// A stored file's bytes are not the ones that were stored.
    #[error("{path} is damaged: its bytes do not have the digest that it is named by")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A stored document is not JSON.
    #[error("the record of {what} is damaged: {source}")]
    Record {
        /// Whose record.
        what: String,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// A stored id or name is not one.
    #[error("the record of {what} is damaged: {source}")]
    RecordId {
        /// Whose record.
        what: String,
        /// What is wrong.
        source: IdError,
    },
    /// A tree cannot be stored or unpacked.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// No env has this name.
    #[error("there is no env `{name}`")]
    NoEnv {
        /// The name.
        name: Name,
        /// The nearest name that is stored.
        near: Option<Name>,
    },
    /// The env has no such version.
    #[error("env `{name}` has no version {version}")]
    NoVersion {
        /// The env.
        name: Name,
        /// The version.
        version: u64,
    },
    /// Something runs or ran the version.
    #[error("env `{name}` version {version} is used by {holders}", holders = holders.join(", "))]
    InUse {
        /// The env.
        name: Name,
        /// The version.
        version: u64,
        /// Deploys, runs and multi envs.
        holders: Vec<String>,
    },
    /// No tree has this digest.
    #[error("tree {0} is not stored")]
    NoTree(Digest),
    /// No run has this id.
    #[error("there is no run `{0}`")]
    NoRun(RunId),
    /// The run is on record already.
    #[error("run `{0}` is on record already")]
    RunExists(RunId),
    /// No artifact has this id.
    #[error("there is no artifact `{0}`")]
    NoArtifact(ArtifactId),
    /// No universe has this id.
    #[error("there is no artifact universe `{0}`")]
    NoUniverse(UniverseId),
    /// A universe of this id is somebody else's.
    #[error("artifact universe `{0}` belongs to another run or deploy")]
    UniverseTaken(UniverseId),
    /// What is to be an artifact is not a plain file within its folder.
    #[error("{path} is not collected: {reason}")]
    NotAFile {
        /// The file.
        path: PathBuf,
        /// What it is.
        reason: &'static str,
    },
    /// A file grew or shrank while it was read.
    #[error("{path} changed while it was read")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A file is longer than an artifact may be.
    #[error("{path} has {size} bytes, more than the {limit} of an artifact")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// Another command holds the store.
    #[error("{path} is held by another agent-env command")]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// A thread of the store ended early.
    #[error("the work on {path} was cut short")]
    Cut {
        /// What it worked on.
        path: PathBuf,
    },
}

impl StoreError {
    /// Takes an I/O error about a path; a full disk has its own variant.
    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        if is_full(&source) { Self::Full { path } } else { Self::Io { path, source } }
    }

    /// Takes an object store's error about an object.
    pub(crate) fn object(path: impl Into<PathBuf>, source: object_store::Error) -> Self {
        let path = path.into();
        let mut cause = source.source();
        while let Some(error) = cause {
            if error.downcast_ref::<io::Error>().is_some_and(is_full) {
                return Self::Full { path };
            }
            cause = error.source();
        }
        Self::Object { path, source }
    }

    /// How a command that ends with this error exits (SPEC §11).
    pub fn exit(&self) -> ExitCode {
        match self {
            Self::Tree(error) => error.exit(),
            Self::NoEnv { .. }
            | Self::NoVersion { .. }
            | Self::InUse { .. }
            | Self::NoRun(_)
            | Self::RunExists(_)
            | Self::NoArtifact(_)
            | Self::NoUniverse(_)
            | Self::UniverseTaken(_)
            | Self::NotAFile { .. }
            | Self::TooLong { .. }
            | Self::Schema { .. } => ExitCode::Refused,
            Self::Full { .. }
            | Self::Io { .. }
            | Self::Database { .. }
            | Self::Object { .. }
            | Self::Damaged { .. }
            | Self::Record { .. }
            | Self::RecordId { .. }
            | Self::NoTree(_)
            | Self::Changed { .. }
            | Self::Busy { .. }
            | Self::Cut { .. } => ExitCode::Infrastructure,
        }
    }

    /// What to do about it; empty where there is nothing to say.
    pub fn hint(&self) -> String {
        match self {
            Self::Full { .. } => "free some space, or run `agent-env store gc`".to_owned(),
            Self::NoEnv { near: Some(near), .. } => {
                format!("did you mean `{near}`? `agent-env env list` shows what is stored")
            }
            Self::NoEnv { near: None, .. } => "`agent-env env list` shows what is stored".to_owned(),
            Self::NoVersion { name, .. } => format!("`agent-env env list {name}` shows its versions"),
            Self::InUse { .. } => "close the deploys, or keep the version: runs stay readable through it".to_owned(),
            Self::Damaged { .. } | Self::NoTree(_) => "put the env again".to_owned(),
            Self::Schema { .. } => "it was written by a newer agent-env: use that one".to_owned(),
            Self::Busy { .. } => "try again when the other command has ended".to_owned(),
            Self::NoRun(_) => "`agent-env run list` shows the runs".to_owned(),
            Self::Tree(error) => error.hint().to_owned(),
            _ => String::new(),
        }
    }
}

/// Whether the error says that the disk or the caller's share of it is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}
