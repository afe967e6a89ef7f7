//! Errors of captures.

use std::{io, path::PathBuf, time::Duration};

use crate::failure::Failure;

/// Why a capture doesn't run, or ended.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// A system call failed; the path is part of the step where there is one.
    #[error("{step} failed: {source}")]
    Call {
        /// The system call, and the path it concerned.
        step: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The interface isn't in the socket's namespace.
    #[error("there is no interface `{interface}` to capture on: {source}")]
    Interface {
        /// Its name.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The folder of the files can't be made or opened.
    #[error("the folder `{}` can't hold captures: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// It ended by itself.
    #[error("the capture ended: {reason}")]
    Ended {
        /// Why.
        reason: String,
    },
    /// Its thread did not end when it was told to.
    #[error("its thread did not end within {} s", waited.as_secs())]
    Hung {
        /// How long it was waited for.
        waited: Duration,
    },
}

impl From<Failure> for CaptureError {
    fn from(failure: Failure) -> Self {
        Self::Call { source: failure.io(), step: failure.what }
    }
}

/// Why a capture's file can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenCaptureError {
    /// There was such a file; it was rotated away.
    #[error("the file was rotated away")]
    Gone,
    /// There never was one.
    #[error("there is no such file")]
    Unknown,
    /// The kernel's answer, or it isn't a plain file.
    #[error("the file can't be opened: {0}")]
    Io(#[source] io::Error),
}
