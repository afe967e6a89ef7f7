//! What a child of the spawner reports when a step fails: small, serializable, typed by whose fault it is.

use std::path::Path;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Whose fault a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// A step of ours that the kernel refused.
    Setup,
    /// A host path to mount.
    Source,
    /// The working directory.
    Cwd,
    /// The program isn't there.
    ProgramMissing,
    /// The program is there, what its first line names isn't.
    InterpreterMissing,
    /// The program is there and can't be executed.
    ProgramRefused,
}

/// One failed step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    /// The system call and its path, or the path or program alone.
    pub(crate) what: String,
    pub(crate) errno: i32,
}

impl Failure {
    pub(crate) fn new(kind: Kind, what: impl Into<String>, errno: Errno) -> Self {
        Self { kind, what: what.into(), errno: errno.raw_os_error() }
    }

    pub(crate) fn setup(call: &str, errno: Errno) -> Self {
        Self::new(Kind::Setup, call, errno)
    }

    pub(crate) fn setup_at(call: &str, path: &Path, errno: Errno) -> Self {
        Self::setup(call, errno).at(path)
    }

    /// The same failure, with the path that the call concerned.
    pub(crate) fn at(self, path: &Path) -> Self {
        Self { what: format!("{} of `{}`", self.what, path.display()), ..self }
    }

    /// The same failure, blamed on a path that the caller named.
    pub(crate) fn of_source(self, path: &Path) -> Self {
        Self { kind: Kind::Source, what: path.display().to_string(), errno: self.errno }
    }

    pub(crate) fn io(&self) -> std::io::Error {
        std::io::Error::from_raw_os_error(self.errno)
    }
}
