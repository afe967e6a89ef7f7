//! The tracker on disk, and the Python process through which Roundup reads and writes it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How long one request may take: a load of a few thousand issues is well within.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The longest answer: everything that an agent could write into a tracker of `/data`'s size.
const ANSWER_MAX_BYTES: u64 = 64 << 20;

/// Why Roundup gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum RoundupError {
    /// The interpreter or the script is missing.
    #[error("roundup's data process could not be started")]
    Start(#[source] io::Error),
    /// The pipe broke.
    #[error("roundup's data process could not be talked to")]
    Talk(#[source] io::Error),
    /// It ended, or wrote something else than one line of JSON.
    #[error("roundup's data process ended or answered garbage; its last lines are in the site's log")]
    Garbage,
    /// It took too long.
    #[error("roundup's data process gave no answer within {} s", ANSWER_LIMIT.as_secs())]
    Slow,
}

/// A tracker home whose database is written through Roundup's own classes.
pub struct Roundup {
    script: PathBuf,
    home: PathBuf,
    process: Mutex<Option<DataProcess>>,
}

struct DataProcess {
    // Killed when it is dropped.
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Roundup {
    /// Names a tracker home without opening it; the process is started by the first request.
    pub fn new(script: PathBuf, home: PathBuf) -> Self {
        Self { script, home, process: Mutex::new(None) }
    }

    /// Sends one request to `roundup_data.py` and returns its answer.
    ///
    /// The process is taken out while it works: a caller that goes away in between ends it instead of leaving its answer
    /// to the next one.
    pub async fn ask(&self, request: &Value) -> Result<Value, RoundupError> {
        let mut slot = self.process.lock().await;
        let mut process = match slot.take().and_then(DataProcess::if_it_runs) {
            Some(process) => process,
            None => self.start()?,
        };
        let answer = timeout(ANSWER_LIMIT, process.ask(request)).await.map_err(|_| RoundupError::Slow)??;
        *slot = Some(process);
        Ok(answer)
    }

    /// Runs `work` while no request is under way.
    pub async fn quietly<T>(&self, work: impl FnOnce() -> T) -> T {
        let _quiet = self.process.lock().await;
        work()
    }

    fn start(&self) -> Result<DataProcess, RoundupError> {
        let mut child = Command::new("/usr/bin/python3")
            // As the frontend is started: with nothing of the host but the standard library.
            .args(["-I", "-S"])
            .arg(&self.script)
            .arg(&self.home)
            // Roundup needs none of the server's variables, the site key least of all.
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(RoundupError::Start)?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(RoundupError::Garbage);
        };
        Ok(DataProcess { child, requests, answers: BufReader::new(answers) })
    }
}

impl DataProcess {
    /// None where it was killed since the last request, say for want of memory.
    fn if_it_runs(mut self) -> Option<Self> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    async fn ask(&mut self, request: &Value) -> Result<Value, RoundupError> {
        let mut line = request.to_string();
        line.push('\n');
        self.requests.write_all(line.as_bytes()).await.map_err(RoundupError::Talk)?;
        let mut answer = Vec::new();
        (&mut self.answers).take(ANSWER_MAX_BYTES).read_until(b'\n', &mut answer).await.map_err(RoundupError::Talk)?;
        serde_json::from_slice(&answer).map_err(|_| RoundupError::Garbage)
    }
}

/// Makes a tracker home out of the built one, by links: nothing in it may change but `db`, which is left out.
///
/// A home that exists is left as it is: a server that was restarted goes on with what it had.
pub fn link_home(built: &Path, home: &Path) -> io::Result<()> {
    fs::create_dir_all(home)?;
    for entry in fs::read_dir(built)? {
        let entry = entry?;
        let link = home.join(entry.file_name());
        if entry.file_name() != "db" && link.symlink_metadata().is_err() {
            symlink(entry.path(), link)?;
        }
    }
    Ok(())
}

/// Copies what a folder holds into another one, which exists.
pub fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir(&target)?;
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
