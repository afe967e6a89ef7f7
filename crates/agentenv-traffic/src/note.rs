//! What was wrong with the files themselves, and what reading can end with.

use std::io;

use thiserror::Error;

/// Why nothing more of a ring can be read.
#[derive(Debug, Error)]
pub enum TrafficError {
    /// A file could not be opened; whoever opens it names it.
    #[error(transparent)]
    Open(io::Error),
    /// A file could not be read to its end.
    #[error("the capture file {file} cannot be read: {source}")]
    Read {
        /// Which.
        file: String,
        /// Why.
        source: io::Error,
    },
}

/// A file that doesn't hold what it should; what is whole of it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNote {
    /// The file, as it was named to the reader.
    pub file: String,
    /// What is wrong with it.
    pub damage: Damage,
}

impl std::fmt::Display for FileNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.file, self.damage)
    }
}

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Damage {
    /// It has no pcap header.
    #[error("is no pcap file")]
    NotPcap,
    /// It ends within a record, or a record claims a length that no packet has.
    #[error("ends within a record")]
    Truncated,
    /// Its packets have link headers of another kind.
    #[error("has packets of link type {0}, which are not read")]
    UnknownLink(u32),
}
