//! `env cp`: a file out of a sandbox, or into one, by a command that runs in it.

use std::{
    io,
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use agentenv_protocol::{
    ExitCode, Home, SandboxName,
    control::{ControlError, ExecRequest},
};
use clap::Args;
use serde_json::json;
use tokio::io::AsyncWrite;

use super::deploys::DeployArg;
use crate::{output::Output, put};

/// The largest file: what a computer's home holds.
const BYTES_LIMIT: u64 = 2 << 30;
/// How long a copy may take: a sandbox could go on for ever.
const TIME_LIMIT: Duration = Duration::from_secs(600);
/// What is kept of a command's complaint.
const COMPLAINT_BYTES: u64 = 4096;
/// How a command says that a path is no file.
const NO_FILE: i32 = 66;
/// Writes a regular file to its output. A pipe of the sandbox's would never end.
const READ: &str = r#"[ -f "$1" ] || exit 66; exec cat -- "$1""#;
/// Writes its input to a path, or into a folder under a name; whole or not at all.
const WRITE: &str = r#"to=$1; [ -d "$to" ] && to=${to%/}/$2; part=$to.agent-env-part
cat > "$part" && [ "$(wc -c < "$part")" -eq "$3" ] && mv -f -- "$part" "$to" || { rm -f -- "$part"; exit 1; }"#;

/// Arguments of `env cp`.
#[derive(Args, Debug)]
pub(crate) struct CpArgs {
    #[command(flatten)]
    deploy: DeployArg,
    /// A file: `COMPUTER:PATH` (relative to its home), or a path of this machine
    from: Place,
    /// Where to; a folder keeps the file's name
    to: Place,
}

/// One end of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Sandbox { name: SandboxName, path: String },
    Here(PathBuf),
}

impl std::str::FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // A path of this machine that has a colon can be written with `./` before it.
        match text.split_once(':').map(|(name, path)| (SandboxName::parse(name), path)) {
            Some((Ok(_), "")) => Err("expected SANDBOX:PATH, with a path".to_owned()),
            Some((Ok(name), path)) => Ok(Self::Sandbox { name, path: path.to_owned() }),
            _ => Ok(Self::Here(PathBuf::from(text))),
        }
    }
}

/// `env cp`
pub(crate) async fn cp(home: &Home, output: Output, args: &CpArgs) -> Result<(), ControlError> {
    let copy = async {
        match (&args.from, &args.to) {
            (Place::Sandbox { name, path }, Place::Here(to)) => fetch(home, args, (name, path), to).await,
            (Place::Here(from), Place::Sandbox { name, path }) => send(home, args, from, (name, path)).await,
            _ => Err(ControlError::new(ExitCode::Usage, "one end of a copy is in a sandbox, the other one is not")
                .hint("such as `agent-env env cp DEPLOY desk:Documents/notes.txt notes.txt`")),
        }
    };
    let bytes = match tokio::time::timeout(TIME_LIMIT, copy).await {
        Ok(copied) => copied?,
        Err(_) => {
            let message = format!("the copy did not end within {} s", TIME_LIMIT.as_secs());
            return Err(ControlError::new(ExitCode::TimedOut, message));
        }
    };
    output.result(&json!({ "bytes": bytes }), || format!("{bytes} bytes copied"))
}

async fn fetch(home: &Home, args: &CpArgs, (name, path): (&SandboxName, &str), to: &Path) -> Result<u64, ControlError> {
    let to = if to.is_dir() { to.join(last_name(path)?) } else { to.to_owned() };
    let failed = |error: &dyn std::fmt::Display| {
        ControlError::new(ExitCode::Refused, format!("{} cannot be written: {error}", to.display()))
    };
    // Whole or not at all, and never by way of a link that is there.
    let part = tempfile::NamedTempFile::new_in(put::parent(&to)).map_err(|error| failed(&error))?;
    let mut file = Bounded::new(part.reopen().map_err(|error| failed(&error))?, BYTES_LIMIT);
    let command = ["/bin/sh", "-c", READ, "cp", path].map(str::to_owned).into();
    run(home, args, (name, path), command, tokio::io::empty(), &mut file).await?;
    let bytes = BYTES_LIMIT - file.left;
    drop(file);
    part.persist(&to).map_err(|error| failed(&error.error))?;
    Ok(bytes)
}

async fn send(
    home: &Home,
    args: &CpArgs,
    from: &Path,
    (name, path): (&SandboxName, &str),
) -> Result<u64, ControlError> {
    let refused = |why: &dyn std::fmt::Display| {
        ControlError::new(ExitCode::Refused, format!("{} cannot be copied: {why}", from.display()))
    };
    let metadata = std::fs::metadata(from).map_err(|error| refused(&error))?;
    let bytes = metadata.len();
    if !metadata.is_file() {
        return Err(refused(&"it is no file"));
    }
    if bytes > BYTES_LIMIT {
        return Err(refused(&format!("it has {bytes} bytes, more than {BYTES_LIMIT}")));
    }
    let file = tokio::fs::File::open(from).await.map_err(|error| refused(&error))?;
    let from = from.to_str().ok_or_else(|| refused(&"its name is no text"))?;
    let command = vec!["/bin/sh", "-c", WRITE, "cp", path, last_name(from)?];
    let mut command: Vec<String> = command.into_iter().map(str::to_owned).collect();
    command.push(bytes.to_string());
    run(home, args, (name, path), command, file, &mut tokio::io::sink()).await?;
    Ok(bytes)
}

/// Runs a command in the sandbox; what it complains of is the error.
async fn run(
    home: &Home,
    args: &CpArgs,
    (name, path): (&SandboxName, &str),
    command: Vec<String>,
    stdin: impl tokio::io::AsyncRead + Unpin + Send + 'static,
    stdout: &mut (impl AsyncWrite + Unpin),
) -> Result<(), ControlError> {
    let refused = |why: &str| ControlError::new(ExitCode::Refused, format!("{name}:{path} {why}"));
    let mut complaint = Bounded::new(Vec::new(), COMPLAINT_BYTES);
    let request = ExecRequest { sandbox: name.clone(), command };
    match args.deploy.client(home)?.exec(&request, stdin, stdout, &mut complaint).await? {
        0 => Ok(()),
        NO_FILE => Err(refused("is no file")),
        code => {
            let said = in_one_line(&complaint.to);
            let why = if said.is_empty() { format!("the command ended with {code}") } else { said };
            Err(refused(&format!("cannot be copied: {why}")))
        }
    }
}

/// What the file is called, whichever folder it is in.
fn last_name(path: &str) -> Result<&str, ControlError> {
    let name = path.rsplit('/').next().filter(|name| !name.is_empty() && *name != "." && *name != "..");
    name.ok_or_else(|| ControlError::new(ExitCode::Usage, format!("`{path}` is no path of a file")))
}

/// Text without the ends of its lines; nothing where it is no text.
fn in_one_line(text: &[u8]) -> String {
    str::from_utf8(text).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is written up to a limit.
struct Bounded<W> {
    to: W,
    left: u64,
}

impl<W> Bounded<W> {
    fn new(to: W, left: u64) -> Self {
        Self { to, left }
    }
}

impl<W: io::Write + Unpin> AsyncWrite for Bounded<W> {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let length = bytes.len() as u64;
        if length > self.left {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than what is taken")));
        }
        // Neither memory nor a regular file blocks for long, and nothing else runs meanwhile.
        let written = self.to.write(bytes);
        if let Ok(length) = written {
            self.left -= length as u64;
        }
        Poll::Ready(written)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_end_is_in_a_sandbox() {
        let sandbox =
            |name: &str, path: &str| Place::Sandbox { name: SandboxName::parse(name).unwrap(), path: path.to_owned() };
        for (text, place) in [
            ("desk:notes.txt", sandbox("desk", "notes.txt")),
            ("tracker/frontend:/tmp/a:b", sandbox("tracker/frontend", "/tmp/a:b")),
            ("notes.txt", Place::Here("notes.txt".into())),
            ("./desk:notes.txt", Place::Here("./desk:notes.txt".into())),
            ("/tmp/x", Place::Here("/tmp/x".into())),
        ] {
            assert_eq!(text.parse::<Place>().unwrap(), place);
        }
        assert!("desk:".parse::<Place>().is_err());
        for (path, name) in [("a/b.txt", Some("b.txt")), ("b", Some("b")), ("a/", None), ("/", None), ("a/..", None)] {
            assert_eq!(last_name(path).ok(), name, "{path}");
        }
    }
}
