//! Host programs of a task: the agent's harness and check commands, each in a process group of its own, its output
//! bounded, ended with everything that it started.

use std::{
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use agentenv_protocol::{CACHE_ENV, HOME_ENV, RunId};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::{
    io::{AsyncReadExt as _, Interest, unix::AsyncFd},
    net::unix::pipe,
    time::{Instant, sleep, sleep_until, timeout},
};

use crate::{
    action::Program,
    event::Stream,
    output::{Lines, OutputFile},
    stop::Stop,
    strays,
};

/// Marks every process of a run's programs, and tells a harness its run.
pub(crate) const RUN_ENV: &str = "AGENTENV_RUN";
/// What a program gets to end by itself after TERM.
const TERM_GRACE: Duration = Duration::from_secs(5);
/// How long the output of an ended program is still read: what it wrote is in the pipes already.
const DRAIN_LIMIT: Duration = Duration::from_secs(2);
/// One read of a pipe.
const READ_BYTES: usize = 16 * 1024;
/// The last lines of standard error that go on record when a program fails.
const TAIL_LINES: usize = 20;

/// A program to run.
pub(crate) struct Job<'a> {
    pub run: &'a RunId,
    pub program: &'a Program,
    pub folder: &'a Path,
    /// The program's own variables, besides the caller's.
    pub variables: Vec<(&'static str, OsString)>,
    /// Where its output is kept: `stdout.log` and `stderr.log`.
    pub logs: PathBuf,
    pub deadline: Instant,
    /// What listeners and the record never see: agent tokens, which a program may print with its variables.
    pub masked: Vec<String>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself.
    Exited(ExitStatus),
    /// It was ended at its deadline.
    TimedOut,
    /// It was ended because somebody asked the run to stop.
    Stopped(&'static str),
}

/// What is left of a program.
#[derive(Debug)]
pub(crate) struct Finished {
    pub ended: Ended,
    /// The last lines of its standard error.
    pub tail: Vec<String>,
}

/// Runs a program to its end; `line` hears what it writes. When this returns nothing of the program runs any more.
pub(crate) async fn run(job: Job<'_>, stop: &Stop, line: &(dyn Fn(Stream, String) + Sync)) -> io::Result<Finished> {
    std::fs::create_dir_all(&job.logs)?;
    let mut out = OutputFile::create(&job.logs.join("stdout.log"))?;
    let mut err = OutputFile::create(&job.logs.join("stderr.log"))?;
    let mut group = Group::spawn(&job)?;
    let (stdout, stderr) = group.pipes()?;
    let masked = job.masked.as_slice();
    let mut tail = std::collections::VecDeque::new();
    let ended = {
        let pump = async {
            let to_tail = |text: String| {
                let text = mask(text, masked);
                tail.push_back(text.clone());
                if tail.len() > TAIL_LINES {
                    tail.pop_front();
                }
                line(Stream::Stderr, text);
            };
            tokio::join!(
                pump(stdout, &mut out, |text| line(Stream::Stdout, mask(text, masked))),
                pump(stderr, &mut err, to_tail)
            );
        };
        tokio::pin!(pump);
        let ending = group.ending(job.deadline, stop);
        tokio::pin!(ending);
        let mut pumped = false;
        let ended = loop {
            tokio::select! {
                ended = &mut ending => break ended?,
                () = &mut pump, if !pumped => pumped = true,
            }
        };
        // Whoever still held a pipe is dead by now, so the end of the pipes is near.
        if !pumped {
            let _ = timeout(DRAIN_LIMIT, pump).await;
        }
        ended
    };
    out.finish()?;
    err.finish()?;
    Ok(Finished { ended, tail: tail.into() })
}

async fn pump(mut pipe: pipe::Receiver, file: &mut OutputFile, mut line: impl FnMut(String)) {
    let mut buffer = vec![0; READ_BYTES];
    let mut lines = Lines::default();
    while let Ok(length @ 1..) = pipe.read(&mut buffer).await {
        file.write(&buffer[..length]);
        lines.feed(&buffer[..length], &mut line);
    }
    lines.finish(&mut line);
}

fn mask(text: String, masked: &[String]) -> String {
    masked.iter().fold(text, |text, word| text.replace(word, "***"))
}

/// A program and everything that it starts.
struct Group<'a> {
    run: &'a RunId,
    child: Child,
    pidfd: AsyncFd<OwnedFd>,
    reaped: bool,
}

impl<'a> Group<'a> {
    fn spawn(job: &Job<'a>) -> io::Result<Self> {
        let (program, arguments) = job.program.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(job.folder)
            .env_clear()
            .envs(inherited())
            .envs(&job.program.env)
            .envs(job.variables.iter().map(|(name, value)| (name, value)))
            .env(RUN_ENV, job.run.as_str())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn()?;
        #[expect(deprecated, reason = "an `OwnedFd` keeps its descriptor; the constructor that says so is unsafe")]
        let watched = pidfd_open(Pid::from_child(&child), PidfdFlags::NONBLOCK)
            .map_err(io::Error::from)
            .and_then(|pidfd| AsyncFd::with_interest(pidfd, Interest::READABLE));
        match watched {
            Ok(pidfd) => Ok(Self { run: job.run, child, pidfd, reaped: false }),
            Err(error) => {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
                Err(error)
            }
        }
    }

    fn pipes(&mut self) -> io::Result<(pipe::Receiver, pipe::Receiver)> {
        let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
        let stdout = self.child.stdout.take().ok_or_else(missing)?;
        let stderr = self.child.stderr.take().ok_or_else(missing)?;
        Ok((pipe::Receiver::from_owned_fd(stdout.into())?, pipe::Receiver::from_owned_fd(stderr.into())?))
    }

    /// Waits for the end, or brings it about at the deadline or a request: TERM, grace, KILL.
    async fn ending(&mut self, deadline: Instant, stop: &Stop) -> io::Result<Ended> {
        let early = tokio::select! {
            biased;
            exited = self.exited() => { exited?; None }
            why = stop.asked() => Some(Ended::Stopped(why)),
            () = sleep_until(deadline) => Some(Ended::TimedOut),
        };
        if early.is_some() {
            self.signal(Signal::TERM);
            tokio::select! {
                exited = self.exited() => exited?,
                () = sleep(TERM_GRACE) => {}
            }
        }
        let status = self.end()?;
        Ok(early.unwrap_or(Ended::Exited(status)))
    }

    async fn exited(&self) -> io::Result<()> {
        self.pidfd.readable().await.map(drop)
    }

    fn signal(&self, signal: Signal) {
        // The leader is not reaped yet, so its number is still its group's. No such group: all of it is gone.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    /// Kills what is left, also what left the group, and reaps the leader.
    fn end(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::KILL);
        strays::kill(self.run);
        self.reaped = true;
        self.child.wait()
    }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.end();
        }
    }
}

/// The caller's variables without the program's own, which may be secrets of an enclosing deploy; where things are kept
/// stays known.
fn inherited() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| {
        let own = name.as_encoded_bytes().starts_with(b"AGENTENV_");
        !own || name == HOME_ENV || name == CACHE_ENV
    })
}

#[cfg(test)]
mod tests;
