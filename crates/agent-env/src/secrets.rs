//! Where the value of a `secret:` reference comes from: a variable, a command of the user's, or a stored file (ENV-7).

use std::{path::PathBuf, process::Stdio, time::Duration};

use agentenv_protocol::{ExitCode, Home, SecretPath, control::ControlError};
use agentenv_store::{MAX_SECRET_BYTES, SecretError, SecretFiles, SecretValueError, secret_value};
use secrecy::SecretString;
use tokio::{io::AsyncReadExt as _, process::Command};

/// Names a program that prints the secret whose path is its only argument; without it secrets are stored files.
pub(crate) const COMMAND_VARIABLE: &str = "AGENTENV_SECRETS_COMMAND";
/// How long that program may take: somebody may have to unlock something.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// The places that are looked at, in this order.
#[derive(Clone, Debug)]
pub(crate) struct SecretSources {
    files: SecretFiles,
    command: Option<PathBuf>,
}

/// Where one secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// This variable.
    Variable(String),
    /// This program, if it knows the secret.
    Command(PathBuf),
    /// A stored file.
    Stored,
}

impl SecretSources {
    pub(crate) fn of(home: &Home) -> Self {
        let command = std::env::var_os(COMMAND_VARIABLE).filter(|command| !command.is_empty()).map(PathBuf::from);
        Self { files: SecretFiles::of(home), command }
    }

    pub(crate) fn files(&self) -> &SecretFiles {
        &self.files
    }

    /// Where a secret would be looked up, without a look at its value; `None` where it is missing for certain.
    pub(crate) fn source(&self, path: &SecretPath, stored: &[SecretPath]) -> Option<Source> {
        let variable = path.variable();
        if std::env::var_os(&variable).is_some_and(|value| !value.is_empty()) {
            return Some(Source::Variable(variable));
        }
        match &self.command {
            Some(command) => Some(Source::Command(command.clone())),
            None => stored.contains(path).then_some(Source::Stored),
        }
    }

    /// Looks a secret up; `None` where there is none.
    pub(crate) async fn find(&self, path: &SecretPath) -> Result<Option<SecretString>, ControlError> {
        let variable = path.variable();
        match std::env::var(&variable) {
            Ok(value) if value.is_empty() => {}
            Ok(value) => return Ok(Some(value.into())),
            Err(std::env::VarError::NotPresent) => {}
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(refused(format!("the variable `{variable}` of `secret:{path}` is not UTF-8"), ""));
            }
        }
        match &self.command {
            Some(command) => ask(command, path).await,
            None => self.files.get(path).map_err(|error| secret_error(&error)),
        }
    }
}

/// Runs the user's program for one secret. What it prints is shown to nobody, its errors go where ours go.
async fn ask(program: &PathBuf, path: &SecretPath) -> Result<Option<SecretString>, ControlError> {
    let shown = program.display();
    let mut child = Command::new(program)
        .arg(path.as_str())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            refused(format!("`secret:{path}` is asked of {shown}, which cannot be started: {error}"), HINT)
        })?;
    let mut bytes = Vec::with_capacity(MAX_SECRET_BYTES + 3);
    let answered = async {
        if let Some(stdout) = child.stdout.take() {
            // Its line's end is not counted, and one byte more than fits tells that it is too long.
            stdout.take(MAX_SECRET_BYTES as u64 + 3).read_to_end(&mut bytes).await?;
        }
        child.wait().await
    };
    let status = match tokio::time::timeout(COMMAND_TIMEOUT, answered).await {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => return Err(refused(format!("`secret:{path}` is asked of {shown}: {error}"), HINT)),
        Err(_) => {
            let message = format!("{shown} did not answer for `secret:{path}` within {} s", COMMAND_TIMEOUT.as_secs());
            return Err(ControlError::new(ExitCode::TimedOut, message).hint(HINT));
        }
    };
    // A program that was cut off in the middle of too much ends by that, not by itself.
    let cut = bytes.len() == MAX_SECRET_BYTES + 3;
    if !status.success() && !cut {
        return Err(refused(format!("{shown} ended with {status} when asked for `secret:{path}`"), HINT));
    }
    match secret_value(bytes) {
        Ok(value) => Ok(Some(value)),
        Err(SecretValueError::Empty) => Ok(None),
        Err(error) => Err(refused(format!("{shown} was asked for `secret:{path}`: {error}"), HINT)),
    }
}

const HINT: &str = "AGENTENV_SECRETS_COMMAND names a program that prints the secret whose path is its argument, or \
    nothing where there is none";

fn refused(message: String, hint: &str) -> ControlError {
    ControlError::new(ExitCode::Refused, message).hint(hint)
}

/// Why a stored secret cannot be read or changed, as commands report it.
pub(crate) fn secret_error(error: &SecretError) -> ControlError {
    ControlError::new(error.exit(), error.to_string()).hint(error.hint())
}
