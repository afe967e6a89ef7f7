//! The `agent-env` program: its commands, and the hidden commands by which it starts its own parts again.

mod check;
mod cli;
mod commands;
mod output;
mod progress;
mod prompt;
mod put;
mod secrets;

use std::{path::PathBuf, process::ExitCode};

/// The hidden command that is a deploy's spawner.
const SPAWNER_COMMAND: &str = "internal-spawner";

fn main() -> ExitCode {
    // Its own parts first: they want neither a command line parser nor a runtime.
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    let rest = arguments.get(1..).unwrap_or_default();
    match arguments.first().map(String::as_str) {
        Some(SPAWNER_COMMAND) => agentenv_sandbox::spawner_main(),
        Some(agentenv_deploy::SUPERVISOR_COMMAND) => {
            agentenv_deploy::supervisor_main(&rest.iter().map(PathBuf::from).collect::<PathBuf>())
        }
        Some(agentenv_deploy::PROBE_COMMAND) => agentenv_deploy::probe_main(rest),
        Some(agentenv_deploy::DESKTOP_COMMAND) => agentenv_deploy::desktop_main(),
        Some(agentenv_deploy::STATIC_COMMAND) => agentenv_deploy::static_main(rest),
        _ => cli::main(),
    }
}
