//! What a gateway gives of a deploy's captured traffic (PR-4), as the composing crate hands it over.

use std::{fs::File, io};

use agentenv_protocol::{CaptureId, TrafficCaptureListing};

/// The captures of a deploy. Both calls may block: they run beside the async runtime, few at a time.
pub trait Captures: Send + Sync {
    /// Everything there is, the oldest file of each ring first.
    fn list(&self) -> TrafficCaptureListing;

    /// Opens one file, beneath the folder of its ring and without following links.
    ///
    /// # Errors
    /// There is no such file, or it can't be opened.
    fn open(&self, id: &CaptureId) -> Result<CaptureBytes, CaptureMissing>;
}

/// An opened capture file. Whoever holds it can read it to its end, also when the ring has removed it.
#[derive(Debug)]
pub struct CaptureBytes {
    /// A regular file.
    pub file: File,
    /// How much of it is whole records; what comes behind is not given. Never changes again what is before it.
    pub bytes: u64,
    /// Whether it can't grow any more.
    pub complete: bool,
}

/// Why a capture file is not given.
#[derive(Debug, thiserror::Error)]
pub enum CaptureMissing {
    /// It was there, and the ring has removed it since.
    #[error("it was rotated away")]
    RotatedAway,
    /// No ring has, or had, a file of this id.
    #[error("there is none")]
    Unknown,
    /// It is there and can't be opened.
    #[error("it can't be opened: {0}")]
    Failed(#[source] io::Error),
}
