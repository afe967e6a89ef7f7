//! The last steps of a service's own process, or of one that is executed beside it: it becomes the program.

use std::{
    ffi::{CString, OsStr},
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::Access,
    io::Errno,
    process::{Resource, Rlimit},
};

use crate::{
    environment::read_all,
    failure::{Failure, Kind},
    kernel::{self, Kernel},
    messages::{Program, Report},
    spec::Limits,
    wire,
};

/// Where a program is looked for when its environment has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What a program starts with.
pub(crate) struct Streams {
    /// stdin, stdout, stderr: pipes.
    pub(crate) stdio: [OwnedFd; 3],
    pub(crate) environment: OwnedFd,
    /// To the supervisor; closes on exec, which tells it that the program runs.
    pub(crate) status: OwnedFd,
}

/// Becomes the program; reports why if it can't.
pub(crate) fn become_program(kernel: Kernel, program: &Program, streams: &Streams) -> ! {
    let failure = match run(kernel, program, streams) {
        Ok(never) => match never {},
        Err(failure) => failure,
    };
    // Nobody to tell is nobody to care: the supervisor has closed.
    let _ = wire::send(streams.status.as_fd(), &Report::Failed(failure), &[]);
    kernel::exit_now(127)
}

fn run(kernel: Kernel, program: &Program, streams: &Streams) -> Result<std::convert::Infallible, Failure> {
    kernel.call("setsid", || match rustix::process::setsid() {
        // Already a leader: the parent has made this process so.
        Ok(_) | Err(Errno::PERM) => Ok(()),
        Err(errno) => Err(errno),
    })?;
    limit(kernel, &program.limits)?;
    for (at, stream) in (0..).zip(&streams.stdio) {
        kernel.call("dup2", || kernel::place(stream.as_fd(), at))?;
    }
    // What is ignored stays ignored across exec: Rust ignores SIGPIPE, and whoever started us may have left more.
    (1..=libc::SIGRTMAX()).for_each(kernel::default_signal);
    kernel.call("sigprocmask", || kernel::block_signals(&[]))?;
    let variables = variables(kernel, streams.environment.as_fd())?;
    rustix::process::chdir(&program.cwd)
        .map_err(|errno| Failure::new(Kind::Cwd, program.cwd.display().to_string(), errno))?;
    let path = find(&program.command[0], &variables)?;
    let text = |text: &OsStr| CString::new(text.as_bytes()).map_err(|_| Failure::setup("execve", Errno::INVAL));
    let arguments = program.command.iter().map(|word| text(OsStr::new(word))).collect::<Result<Vec<_>, _>>()?;
    let file = text(path.as_os_str())?;
    kernel.call("close_range", || kernel::close_range_on_exec(3, i32::MAX))?;
    if program.waits {
        kernel.call("waiting for the word to begin", || {
            match wire::receive_bytes(streams.status.as_fd(), &mut [0; 1]) {
                Ok(([_], _)) => Ok(()),
                _ => Err(Errno::CANCELED),
            }
        })?;
    }
    kernel.call("sendmsg", || wire::send(streams.status.as_fd(), &Report::Executing, &[]).map_err(|_| Errno::PIPE))?;
    let errno = kernel::execve(&file, &arguments, &variables);
    Err(refused(&program.command[0], &path, errno))
}

fn limit(kernel: Kernel, limits: &Limits) -> Result<(), Failure> {
    for (resource, value) in
        [(Resource::Nofile, limits.nofile), (Resource::Nproc, limits.nproc), (Resource::Core, limits.core)]
    {
        // A lower limit of the caller's stays: without a capability it can't be raised, and root may lack it too.
        let hard = rustix::process::getrlimit(resource).maximum;
        let value = Some(hard.map_or(value, |hard| hard.min(value)));
        kernel.call("setrlimit", || rustix::process::setrlimit(resource, Rlimit { current: value, maximum: value }))?;
    }
    Ok(())
}

fn variables(kernel: Kernel, environment: BorrowedFd<'_>) -> Result<Vec<CString>, Failure> {
    let bytes =
        kernel.call("reading the environment", || read_all(environment).map_err(|error| kernel::errno(&error)))?;
    Ok(bytes
        .split_inclusive(|&byte| byte == 0)
        .filter_map(|text| CString::from_vec_with_nul(text.to_vec()).ok())
        .collect())
}

/// Looks for the program as a shell does.
fn find(program: &str, variables: &[CString]) -> Result<PathBuf, Failure> {
    let missing = |errno| Failure::new(Kind::ProgramMissing, program, errno);
    if program.contains('/') {
        let path = PathBuf::from(program);
        return rustix::fs::access(&path, Access::EXISTS).map(|()| path).map_err(missing);
    }
    let path = variables.iter().find_map(|variable| variable.to_bytes().strip_prefix(b"PATH="));
    let path = path.map_or(OsStr::new(DEFAULT_PATH), OsStr::from_bytes);
    let executable = |path: &PathBuf| path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok();
    std::env::split_paths(path).map(|folder| folder.join(program)).find(executable).ok_or_else(|| missing(Errno::NOENT))
}

fn refused(program: &str, path: &Path, errno: Errno) -> Failure {
    let kind = match errno {
        // It was there a moment ago: what is missing is the interpreter that it names, or its loader.
        Errno::NOENT if path.exists() => Kind::InterpreterMissing,
        Errno::NOENT => Kind::ProgramMissing,
        _ => Kind::ProgramRefused,
    };
    Failure::new(kind, program, errno)
}
