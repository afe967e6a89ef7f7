//! How steps and runs end.

use std::fmt;

use agentenv_protocol::{ErrorKind, ExitCode, control::ControlError};
use serde::{Deserialize, Serialize};

/// How a step or a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// All of it was done, every check held.
    Passed,
    /// A check did not hold.
    Failed,
    /// The harness ended with an error of its own.
    AgentError,
    /// The machine, a service or this program failed, or the run was stopped: it says nothing about the agent.
    InfrastructureError,
    /// A real site asked for a human.
    BlockedBySite,
    /// A step took longer than its `timeout_s`.
    TimedOut,
}

impl Outcome {
    /// As records write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::AgentError => "agent_error",
            Self::InfrastructureError => "infrastructure_error",
            Self::BlockedBySite => "blocked_by_site",
            Self::TimedOut => "timed_out",
        }
    }

    /// How `task run` exits (SPEC §11).
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Passed => ExitCode::Done,
            Self::Failed | Self::AgentError | Self::BlockedBySite => ExitCode::Failed,
            Self::InfrastructureError => ExitCode::Infrastructure,
            Self::TimedOut => ExitCode::TimedOut,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a step did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How the step ends; never [`Outcome::Passed`].
    pub outcome: Outcome,
    /// One sentence that names the thing.
    pub message: String,
    /// What to do about it.
    pub hint: String,
    /// The last log lines of who is to blame.
    pub log: Vec<String>,
}

impl Failure {
    /// Makes one.
    pub(crate) fn new(outcome: Outcome, message: impl Into<String>) -> Self {
        Self { outcome, message: message.into(), hint: String::new(), log: Vec::new() }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let outcome = match (error.kind, error.exit) {
            (Some(ErrorKind::BlockedBySite), _) => Outcome::BlockedBySite,
            (_, ExitCode::TimedOut) => Outcome::TimedOut,
            _ => Outcome::InfrastructureError,
        };
        Self { outcome, message: error.message, hint: error.hint, log: error.log }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_and_kinds_by_table() {
        for (kind, exit, outcome, code) in [
            (None, ExitCode::Infrastructure, Outcome::InfrastructureError, 4),
            (None, ExitCode::Refused, Outcome::InfrastructureError, 4),
            (None, ExitCode::TimedOut, Outcome::TimedOut, 5),
            (Some(ErrorKind::BlockedBySite), ExitCode::Failed, Outcome::BlockedBySite, 1),
            (Some(ErrorKind::BadRequest), ExitCode::Failed, Outcome::InfrastructureError, 4),
        ] {
            let error = ControlError { kind, ..ControlError::new(exit, "x") };
            let failure = Failure::from(error);
            assert_eq!((failure.outcome, failure.outcome.exit_code() as u8), (outcome, code), "{kind:?} {exit:?}");
        }
        assert_eq!(Outcome::Passed.exit_code() as u8, 0);
        assert_eq!(Outcome::AgentError.exit_code() as u8, 1);
    }
}
