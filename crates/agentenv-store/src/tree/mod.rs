//! Trees: a folder as one deterministic tar, named by its SHA-256.
//!
//! Folders and executables are 0755, other files 0644, owner and times are the same for all, entries are in order of
//! their names: two folders with the same files have the same digest. A tree holds folders, plain files, and symbolic
//! links that stay within it, and nothing else.

mod links;
mod pack;
mod store;
mod unpack;

use std::{io, path::PathBuf};

use agentenv_protocol::ExitCode;

pub use links::{LinkError, check_links};

/// The most bytes of a tree's files: a site with its dependencies, not a disk image.
pub const MAX_TREE_BYTES: u64 = 8 * 1024 * 1024 * 1024;
/// The most entries of a tree; `node_modules` of a large app has a tenth of it.
pub const MAX_TREE_ENTRIES: usize = 1_000_000;
/// The time of every file of a tree, 1980-01-01, the oldest that a zip can hold. Builds are told, so that what they make
/// does not depend on the time of its sources (Python's bytecode would).
pub const SOURCE_DATE_EPOCH: u64 = 315_532_800;

/// Why a folder is not a tree, or a tar not one of ours.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The file system refused.
    #[error("{path}: {source}")]
    Io {
        /// What it is about.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// A symbolic link that does not stay within the tree.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A second name of a file may be outside the tree.
    #[error("{path} is a hard link to a file outside the tree")]
    HardLink {
        /// The file.
        path: PathBuf,
    },
    /// Neither folder, nor plain file, nor symbolic link.
    #[error("{path} is {what}")]
    Kind {
        /// What it is about.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A file grew or shrank while it was read.
    #[error("{path} changed while it was read")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// More bytes than [`MAX_TREE_BYTES`].
    #[error("the tree has more than {MAX_TREE_BYTES} bytes at {path}")]
    TooLarge {
        /// Where the limit was passed.
        path: PathBuf,
    },
    /// More entries than [`MAX_TREE_ENTRIES`].
    #[error("the tree has more than {MAX_TREE_ENTRIES} entries at {path}")]
    TooMany {
        /// Where the limit was passed.
        path: PathBuf,
    },
    /// A stored tar is not one that this program writes.
    #[error("entry `{entry}` of the stored tree is refused: {reason}")]
    Entry {
        /// Its path, as far as it can be shown.
        entry: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl TreeError {
    /// How a command that ends with this error exits.
    pub fn exit(&self) -> ExitCode {
        match self {
            Self::Io { .. } | Self::Changed { .. } => ExitCode::Infrastructure,
            _ => ExitCode::Refused,
        }
    }

    /// What to do about it; empty where there is nothing to say.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Link(_) | Self::HardLink { .. } => "copy the file into the folder, or name the link in .gitignore",
            Self::Kind { .. } | Self::TooLarge { .. } | Self::TooMany { .. } => "name it in .gitignore",
            Self::Changed { .. } => "put it again when nothing writes there",
            Self::Io { .. } | Self::Entry { .. } => "",
        }
    }
}
