//! Running a bundle's `build` commands, as the caller and with the caller's network: put only what you trust (ENV-12).

use std::{
    collections::VecDeque,
    ffi::OsString,
    fs, io,
    os::unix::fs::{DirBuilderExt as _, symlink},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use agentenv_protocol::{ExitCode, Name, control::ControlError};
use agentenv_store::SOURCE_DATE_EPOCH;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::unix::pipe,
    process::{Child, Command},
};
use toml_edit::{DocumentMut, InlineTable, Item, Table, Value};

use super::{error::io_error, refused, sdk::Sdk};

/// Python, everywhere.
const PYTHON: &str = "/usr/bin/python3";
/// The longest build: a cold one of a large site takes minutes.
const BUILD_TIMEOUT: Duration = Duration::from_secs(60 * 60);
/// How long a tool may take to say what it is.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the last output may take once the command has ended: something it left behind may hold the pipe.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Lines of output that an error shows.
const LAST_LINES: usize = 20;
/// The longest line that is kept.
const MAX_LINE_BYTES: usize = 2000;

/// What builds find around them.
pub(super) struct Workplace {
    target: PathBuf,
    /// A folder whose `python3` is [`PYTHON`], so that a version manager's does not come first.
    tools: PathBuf,
}

impl Workplace {
    /// Writes what cargo reads beside the scratch copy: the SDK in place of the published one, and the shared target folder.
    pub(super) fn prepare(cache: &Path, folder: &Path) -> Result<Self, ControlError> {
        let sdk = Sdk::get().unpack(cache)?;
        let workplace = Self { target: cache.join("target"), tools: cache.join("tools") };
        let config = folder.join(".cargo/config.toml");
        let mut text = String::from("# Written by `agent-env website put`, for this build.\n");
        text.push_str(&cargo_config(&sdk, &workplace.target));
        write_if_changed(&config, &text).map_err(|error| io_error(&config, error))?;
        workplace.make_tools().map_err(|error| io_error(&workplace.tools, error))?;
        Ok(workplace)
    }

    fn make_tools(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(&self.tools)?;
        let link = self.tools.join("python3");
        if fs::read_link(&link).is_ok_and(|target| target == Path::new(PYTHON)) {
            return Ok(());
        }
        let _ = fs::remove_file(&link);
        match symlink(PYTHON, &link) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    fn path(&self) -> OsString {
        let caller = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
        let all = std::iter::once(self.tools.clone()).chain(std::env::split_paths(&caller));
        // A folder with a `:` in its name cannot be in PATH; then the caller's has to do.
        std::env::join_paths(all).unwrap_or(caller)
    }
}

fn cargo_config(sdk: &Path, target: &Path) -> String {
    let text = |path: &Path| Value::from(path.to_string_lossy().into_owned());
    let mut config = DocumentMut::new();
    let table = |key: &str, value: Value| {
        let mut table = Table::new();
        table.insert(key, Item::Value(value));
        table
    };
    let mut source = InlineTable::new();
    source.insert("path", text(sdk));
    let mut patch = Table::new();
    patch.set_implicit(true);
    patch.insert("crates-io", Item::Table(table("agentenv-sdk", Value::InlineTable(source))));
    config.insert("patch", Item::Table(patch));
    config.insert("build", Item::Table(table("target-dir", text(target))));
    config.to_string()
}

/// Cargo looks at the file's time, so that the same text is not written twice.
fn write_if_changed(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, text)
}

/// What the tools say about themselves; what is not there says nothing.
pub(super) async fn toolchain() -> String {
    let (rust, python) = tokio::join!(version("rustc", "-vV"), version(PYTHON, "-VV"));
    format!("{rust}\n{python}")
}

async fn version(program: &str, flag: &str) -> String {
    let output = Command::new(program).arg(flag).stdin(Stdio::null()).kill_on_drop(true).output();
    match tokio::time::timeout(VERSION_TIMEOUT, output).await {
        Ok(Ok(output)) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Ok(Err(_)) | Err(_) => String::new(),
    }
}

/// Runs one command in the scratch copy. Its output goes to `progress` line by line, and its last lines into the error.
pub(super) async fn run(
    name: &Name,
    command: &[String],
    site: &Path,
    workplace: &Workplace,
    progress: &(dyn Fn(&str) + Send + Sync),
) -> Result<(), ControlError> {
    let program = command.first().map(String::as_str).unwrap_or_default();
    let (mut child, output) = spawn(command, site, workplace).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
            let message = format!("the build of `{name}` needs the program `{program}`: {error}");
            refused(message, "install it, or change `build` in env.toml")
        }
        _ => ControlError::infrastructure(format!("the build program `{program}` cannot be started: {error}")),
    })?;
    let last = Last::default();
    let ended = {
        let mut output = std::pin::pin!(forward(output, progress, &last));
        let waited = tokio::time::timeout(BUILD_TIMEOUT, async {
            tokio::select! {
                () = &mut output => child.wait().await,
                ended = child.wait() => {
                    let _ = tokio::time::timeout(DRAIN_TIMEOUT, &mut output).await;
                    ended
                }
            }
        });
        waited.await
    };
    finish(name, command, ended, &mut child, last).await
}

async fn finish(
    name: &Name,
    command: &[String],
    ended: Result<io::Result<ExitStatus>, tokio::time::error::Elapsed>,
    child: &mut Child,
    last: Last,
) -> Result<(), ControlError> {
    let words = command.join(" ");
    let failure = match ended {
        Ok(Ok(status)) if status.success() => return Ok(()),
        Ok(Ok(status)) => refused(format!("the build of `{name}` failed: `{words}` ended with {status}"), ""),
        Ok(Err(error)) => ControlError::infrastructure(format!("the build of `{name}` cannot be waited for: {error}")),
        Err(_) => {
            // Dropping it kills it as well; this also reaps it.
            let _ = child.kill().await;
            let message = format!("the build of `{name}` took longer than {} s: `{words}`", BUILD_TIMEOUT.as_secs());
            ControlError::new(ExitCode::TimedOut, message)
        }
    };
    Err(failure.hint("its last lines say why; nothing was stored").log(last.take()))
}

fn spawn(command: &[String], site: &Path, workplace: &Workplace) -> io::Result<(Child, pipe::Receiver)> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    // A relative program is the bundle's, and `execve` would look from here.
    let program = if program.contains('/') { site.join(program).into_os_string() } else { OsString::from(program) };
    // One pipe for both, so that their lines stay in order.
    let (output, ours) = io::pipe()?;
    let mut build = Command::new(program);
    build
        .args(arguments)
        .current_dir(site)
        .env("PATH", workplace.path())
        .env("CARGO_TARGET_DIR", &workplace.target)
        // What is made does not depend on when, and Python's bytecode stays valid when times are evened out.
        .env("SOURCE_DATE_EPOCH", SOURCE_DATE_EPOCH.to_string())
        // Links into a package cache would be copied anyway.
        .env("UV_LINK_MODE", "copy")
        .stdin(Stdio::null())
        .stdout(ours.try_clone()?)
        .stderr(ours)
        .kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        // What cargo tells about the package that runs us, where it does, is not about the site.
        let ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
        if name.to_str().is_some_and(|name| ours.iter().any(|prefix| name.starts_with(prefix))) {
            build.env_remove(name);
        }
    }
    Ok((build.spawn()?, pipe::Receiver::from_owned_fd(output.into())?))
}

/// The last lines of output.
#[derive(Default)]
struct Last(Mutex<VecDeque<String>>);

impl Last {
    fn push(&self, line: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(line.to_owned());
    }

    fn take(self) -> Vec<String> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).into()
    }
}

async fn forward(output: pipe::Receiver, progress: &(dyn Fn(&str) + Send + Sync), last: &Last) {
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    loop {
        // A reader that fails has nothing more to say; the exit status tells the rest.
        let Ok(piece) = reader.fill_buf().await else { return };
        if piece.is_empty() {
            break;
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(piece.len(), |end| end + 1);
        // The rest of an endless line is dropped.
        line.extend(piece[..end.unwrap_or(taken)].iter().take(MAX_LINE_BYTES.saturating_sub(line.len())));
        reader.consume(taken);
        if end.is_some() {
            tell(&line, progress, last);
            line.clear();
        }
    }
    if !line.is_empty() {
        tell(&line, progress, last);
    }
}

fn tell(line: &[u8], progress: &(dyn Fn(&str) + Send + Sync), last: &Last) {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end();
    progress(text);
    last.push(text);
}
