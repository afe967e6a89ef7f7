//! Where a deploy's captures are read, as a trait: the collection's tests fail its Nth call.

use std::{fs::File, path::PathBuf};

use agentenv_protocol::{TrafficCapture, TrafficCaptureListing};

use crate::event::Work;

/// Why captures cannot be listed or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// The ring has removed the file since it was listed.
    #[error("it was rotated away")]
    RotatedAway,
    /// The gateway or the disk failed.
    #[error("{0}")]
    Failed(String),
}

/// A capture file that is here and can be read from its beginning, whatever becomes of the deploy.
#[derive(Debug)]
pub struct OpenCapture {
    /// A plain file with at least the bytes that were listed.
    pub file: File,
    /// What errors call it.
    pub path: PathBuf,
}

/// The captures of one deploy.
pub trait CaptureSource: Send + Sync {
    /// Everything that is there now, the oldest file of each ring first.
    fn list(&self) -> Work<'_, Result<TrafficCaptureListing, CaptureError>>;

    /// Opens a listed file, once all of its listed bytes are on this machine.
    fn open<'a>(&'a self, capture: &'a TrafficCapture) -> Work<'a, Result<OpenCapture, CaptureError>>;
}
