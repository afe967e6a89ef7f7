//! How a command ended.

use std::{
    io::{Read, Write},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use agentenv_protocol::ExitCode;
use serde_json::Value;

use crate::wait::eventually;

/// A command's exit code and what it wrote.
#[derive(Debug)]
pub struct Outcome {
    /// The command as it was run.
    pub command: String,
    /// Exit code; 128 + N for signal N.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
}

/// Runs a command to its end, and until nobody holds its output any more; fails when that takes longer than `limit`.
#[track_caller]
pub fn run_within(limit: Duration, command: &mut Command, input: Option<&[u8]>) -> Outcome {
    let shown = format!("{command:?}");
    let start = Instant::now();
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut child = command
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{shown}: {error}"));
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        let input = input.to_owned();
        thread::spawn(move || pipe.write_all(&input));
    }
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let status = wait(&mut child, &shown, limit);
    // A process that the command left behind must not hold its output: `$(agent-env env deploy)` would hang.
    let rest = limit.saturating_sub(start.elapsed()).max(Duration::from_secs(1));
    let gather = |stream: mpsc::Receiver<Vec<u8>>, name: &str| {
        let bytes = stream.recv_timeout(rest).unwrap_or_else(|_| panic!("{shown}: somebody still holds its {name}"));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let (stdout, stderr) = (gather(stdout, "standard output"), gather(stderr, "standard error"));
    Outcome { code: code(status), stdout, stderr, took: start.elapsed(), command: shown }
}

fn drain(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    let mut stream = stream.expect("the stream was asked for");
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let _ = send.send(bytes);
    });
    receive
}

#[track_caller]
fn wait(child: &mut Child, shown: &str, limit: Duration) -> ExitStatus {
    let start = Instant::now();
    eventually(shown, limit + Duration::from_secs(5), || {
        let ended = child.try_wait().expect("a child can be waited for");
        if ended.is_none() && start.elapsed() > limit {
            let _ = child.kill();
            panic!("{shown}: still running after {limit:?}");
        }
        ended
    })
}

fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

impl Outcome {
    /// The standard output of a command that must have succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{}\nstdout: {}\nstderr: {}", self.command, self.stdout, self.stderr);
        self.stdout
    }

    /// The JSON on the last line of the standard output of a command that must have succeeded.
    #[track_caller]
    pub fn json(self) -> Value {
        let out = self.ok();
        serde_json::from_str(&out)
            .or_else(|_| serde_json::from_str(out.lines().last().unwrap_or_default()))
            .unwrap_or_else(|error| panic!("not JSON: {error}: {out}"))
    }

    /// Checks that the command failed with this code, and that its error names each of these things.
    #[track_caller]
    pub fn fails(&self, code: ExitCode, names: &[&str]) {
        let shown = format!("{}\nstdout: {}\nstderr: {}", self.command, self.stdout, self.stderr);
        assert_eq!(self.code, code as i32, "exit code of {shown}");
        // Progress comes before the error, and may name anything.
        let begins = self.stderr.find("error: ").or_else(|| self.stderr.find("{\"error\":"));
        let error = begins.map_or("", |at| &self.stderr[at..]);
        let sentence = error.lines().next().unwrap_or_default();
        assert!(sentence.len() > "error: ".len(), "there is no error: {shown}");
        for name in names {
            assert!(error.contains(name), "the error doesn't name {name:?}: {shown}");
        }
        for internal in ["panicked at", "RUST_BACKTRACE", "Some(", "Error {", "os error 0"] {
            assert!(!self.stderr.contains(internal), "the error shows {internal:?}: {shown}");
        }
    }
}

/// Both outputs of a command, for assertions about what it says.
pub fn text(outcome: &Outcome) -> String {
    format!("{}{}", outcome.stdout, outcome.stderr)
}
