//! Errors of this crate.

use std::{io, path::PathBuf};

use crate::{
    failure::{Failure, Kind},
    spec::SpecError,
    wire::WireError,
};

/// Why a sandbox or a service isn't there.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The process that starts everything else could not be started.
    #[error("the spawner could not be started: {0}")]
    Launch(#[source] io::Error),
    /// The spawner ended; its sandboxes end with it.
    #[error("the spawner has ended")]
    SpawnerGone,
    /// A sandbox's broker ended, and with it the sandbox.
    #[error("the broker of sandbox `{sandbox}` has ended")]
    BrokerGone {
        /// The sandbox.
        sandbox: String,
    },
    /// The specification can't be carried out.
    #[error("`{name}`: {source}")]
    Spec {
        /// The sandbox or service.
        name: String,
        /// What is wrong.
        source: SpecError,
    },
    /// The kernel refused a step.
    #[error("`{name}`: {step} failed: {source}")]
    Setup {
        /// The sandbox or service.
        name: String,
        /// The system call, and the path it concerned.
        step: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Something of the host that was to be mounted can't be reached.
    #[error("`{service}` needs `{}`, which can't be mounted: {source}", path.display())]
    Source {
        /// The service.
        service: String,
        /// The path on the host.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The working directory isn't there.
    #[error("the working directory `{}` of `{service}` can't be entered: {source}", path.display())]
    Cwd {
        /// The service.
        service: String,
        /// The path inside.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The program isn't in the sandbox.
    #[error("the program `{program}` of `{service}` is not in its sandbox")]
    ProgramMissing {
        /// The service.
        service: String,
        /// As it was given.
        program: String,
    },
    /// The program is there, its interpreter isn't.
    #[error("the interpreter that `{program}` of `{service}` names is not in its sandbox")]
    InterpreterMissing {
        /// The service.
        service: String,
        /// As it was given.
        program: String,
    },
    /// The program is there and can't be executed.
    #[error("the program `{program}` of `{service}` can't be executed: {source}")]
    ProgramRefused {
        /// The service.
        service: String,
        /// As it was given.
        program: String,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A process of ours ended in the middle of its work.
    #[error("`{name}` ended while it was being started")]
    Died {
        /// The sandbox or service.
        name: String,
    },
    /// What had to be first was not done.
    #[error("`{name}` was called off while it was being started")]
    CalledOff {
        /// The service.
        name: String,
    },
    /// What came over a socket isn't what was asked for.
    #[error("`{name}`: {source}")]
    Wire {
        /// The sandbox or service.
        name: String,
        /// What came.
        source: WireError,
    },
    /// A descriptor, pipe or memory file could not be made here.
    #[error("`{name}`: {what} could not be made: {source}")]
    Local {
        /// The sandbox or service.
        name: String,
        /// What.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No uid is free for another sandbox.
    #[error("no uid is free for another sandbox: {tried} from {first} up are taken")]
    NoUid {
        /// The first that was tried.
        first: u32,
        /// How many were tried.
        tried: u32,
    },
    /// The uid claims can't be made.
    #[error("a uid could not be claimed: {0}")]
    Claim(#[source] io::Error),
}

impl SandboxError {
    /// What to do about it, where something can be said.
    pub fn hint(&self) -> Option<String> {
        let errno = |error: &io::Error| error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
        Some(match self {
            Self::Setup { source, .. } if errno(source) == Some(rustix::io::Errno::PERM) => {
                "run `agent-env doctor`: the kernel or a security module refuses user namespaces here".into()
            }
            Self::Setup { source, .. } if errno(source) == Some(rustix::io::Errno::NOSPC) => {
                "a limit of the host is reached: see /proc/sys/user/max_*_namespaces, or free space".into()
            }
            Self::Source { path, .. } => {
                format!(
                    "every folder of `{}` must be one that you can enter, and its files readable by everybody",
                    path.display()
                )
            }
            Self::ProgramMissing { program, .. } => {
                format!(
                    "a sandbox sees /usr, its site's files and declared tool directories: is `{program}` in one of them?"
                )
            }
            Self::InterpreterMissing { program, .. } => {
                format!(
                    "see the first line of `{program}`; interpreters must be under /usr or a declared tool directory"
                )
            }
            Self::NoUid { .. } => {
                "close deploys, or give this user a longer range in /etc/subuid and /etc/subgid".into()
            }
            _ => return None,
        })
    }

    pub(crate) fn of_failure(name: &str, failure: Failure) -> Self {
        let source = failure.io();
        let (service, what) = (name.to_owned(), failure.what);
        match failure.kind {
            Kind::Setup => Self::Setup { name: service, step: what, source },
            Kind::Source => Self::Source { service, path: what.into(), source },
            Kind::Cwd => Self::Cwd { service, path: what.into(), source },
            Kind::ProgramMissing => Self::ProgramMissing { service, program: what },
            Kind::InterpreterMissing => Self::InterpreterMissing { service, program: what },
            Kind::ProgramRefused => Self::ProgramRefused { service, program: what, source },
        }
    }
}
