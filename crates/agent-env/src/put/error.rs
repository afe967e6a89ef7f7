//! Errors of the model and the store, as commands report them.

use agentenv_model::Problems;
use agentenv_protocol::{ExitCode, control::ControlError};
use agentenv_store::StoreError;

/// A refusal.
pub(crate) fn refused(message: impl Into<String>, hint: impl Into<String>) -> ControlError {
    ControlError::new(ExitCode::Refused, message).hint(hint)
}

/// What is wrong with an env: the one problem as a sentence, several as lines below one.
pub(crate) fn problems_error(problems: &Problems) -> ControlError {
    match problems.as_slice() {
        [problem] => {
            ControlError::new(problems.exit(), format!("{}: {}", problem.place, problem.message)).hint(&problem.hint)
        }
        several => ControlError::new(problems.exit(), format!("the env has {} problems", several.len()))
            .hint("mend each of these")
            .log(several.iter().map(ToString::to_string).collect()),
    }
}

/// Why the store could not do something.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
pub(crate) fn store_error(error: StoreError) -> ControlError {
    ControlError::new(error.exit(), error.to_string()).hint(error.hint())
}

/// A machine that fails.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
pub(crate) fn io_error(path: &std::path::Path, error: std::io::Error) -> ControlError {
    let full = matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded);
    let hint = if full { "free some space, or run `agent-env store gc`" } else { "" };
    ControlError::infrastructure(format!("{}: {error}", path.display())).hint(hint)
}
