//! Exit codes of the program (SPEC §11).

use serde::{Deserialize, Serialize};

/// How a command ended, as the process's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum ExitCode {
    /// What was asked for was done.
    Done = 0,
    /// The thing asked for failed: a task that `failed`, `agent_error`, `blocked_by_site`.
    Failed = 1,
    /// The command line was wrong.
    Usage = 2,
    /// Refused: bad input, a broken rule of the spec, a missing program, a card that differs.
    Refused = 3,
    /// The machine or a service failed.
    Infrastructure = 4,
    /// It took too long.
    TimedOut = 5,
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}
