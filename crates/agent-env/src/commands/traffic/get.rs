//! `traffic get`

use std::{
    fs,
    io::{self, IsTerminal as _, Read as _, Write as _},
    path::{Path, PathBuf},
};

use agentenv_protocol::{CaptureId, ExitCode, Home, control::ControlError};
use clap::Args;
use serde_json::json;

use super::captures::{Captures, FileError, Found, note_unreachable};
use crate::{
    output::{self, Output, columns},
    progress, put,
};

/// Means standard output.
const STDOUT: &str = "-";

/// Arguments of `traffic get`.
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    /// A deploy's id or name; it may be closed
    deploy: String,
    /// The file: an id of `traffic list`, such as `shop.3.pcap`
    #[arg(required_unless_present = "all")]
    id: Option<CaptureId>,
    /// Every file there is
    #[arg(long, conflicts_with = "id", requires = "output")]
    all: bool,
    /// Where to write it: a file, `-` for standard output, with `--all` a folder; the id, here, without it
    #[arg(long, short, value_name = "FILE|DIR|-")]
    output: Option<PathBuf>,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
}

/// `traffic get`
pub(super) async fn get(home: &Home, output: Output, args: &GetArgs) -> Result<(), ControlError> {
    let to_stdout = args.output.as_deref() == Some(Path::new(STDOUT));
    if to_stdout && args.all {
        return Err(ControlError::new(ExitCode::Usage, "several files cannot go to standard output")
            .hint("name a folder: `--all --output DIR`"));
    }
    if to_stdout && io::stdout().is_terminal() {
        return Err(ControlError::new(ExitCode::Usage, "packets do not belong on a terminal")
            .hint("name a file, or pipe it: `agent-env traffic get DEPLOY ID --output - | tshark -r -`"));
    }
    let captures = Captures::open(home, &args.deploy).await?;
    note_unreachable(output, &captures);
    match &args.id {
        Some(id) => one(output, args, &captures, id, to_stdout).await,
        None => all(output, args, &captures).await,
    }
}

async fn one(
    output: Output,
    args: &GetArgs,
    captures: &Captures,
    id: &CaptureId,
    to_stdout: bool,
) -> Result<(), ControlError> {
    let gone = || ControlError::new(ExitCode::Failed, format!("capture `{id}` was rotated away"));
    let Some(found) = captures.find(id) else {
        let lost = captures.collected.as_ref().is_some_and(|collected| collected.rotated_away.contains(id));
        let older = captures.files.iter().find(|found| found.capture.website == id.website);
        if lost || older.is_some_and(|oldest| id.generation < oldest.capture.generation) {
            return Err(gone());
        }
        return Err(ControlError::new(ExitCode::Refused, format!("the deploy has no capture `{id}`"))
            .hint(format!("`agent-env traffic list {}` lists what it has", args.deploy)));
    };
    let target = args.output.clone().unwrap_or_else(|| id.to_string().into());
    if !to_stdout {
        refuse_existing(&target, args.force)?;
    }
    let file = captures.file(found).await.map_err(|error| match error {
        FileError::RotatedAway => gone(),
        FileError::Failed(error) => error,
    })?;
    if to_stdout {
        let copied = io::copy(&mut file.take(found.capture.bytes), &mut io::stdout().lock());
        return output::written(copied.map(drop));
    }
    write(file, found, &target, args.force)?;
    output.result(&json!({ "deploy": captures.deploy, "files": [entry(found, &target)] }), || {
        format!("{} is in {}, {} bytes", id, target.display(), found.capture.bytes)
    })
}

async fn all(output: Output, args: &GetArgs, captures: &Captures) -> Result<(), ControlError> {
    let folder = args.output.clone().unwrap_or_default();
    fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
    // Before the first byte is written. An id is a website's name and a number: it leads nowhere else.
    let targets: Vec<PathBuf> = captures.files.iter().map(|found| folder.join(found.capture.id.to_string())).collect();
    for target in &targets {
        refuse_existing(target, args.force)?;
    }
    let mut written = Vec::new();
    let mut lost = Vec::new();
    for (found, target) in captures.files.iter().zip(&targets) {
        match captures.file(found).await {
            Ok(file) => write(file, found, target, args.force)?,
            Err(FileError::RotatedAway) => {
                progress::note(output, &format!("{} was rotated away meanwhile", found.capture.id));
                lost.push(found.capture.id.to_string());
                continue;
            }
            Err(FileError::Failed(error)) => return Err(error),
        }
        written.push((found, target));
    }
    let entries: Vec<_> = written.iter().map(|(found, target)| entry(found, target)).collect();
    output.result(&json!({ "deploy": captures.deploy, "files": entries, "rotated_away": lost }), || {
        let row = |(found, target): &(&Found, &PathBuf)| {
            vec![target.display().to_string(), format!("{} bytes", found.capture.bytes)]
        };
        if written.is_empty() {
            "no file is there".to_owned()
        } else {
            columns(&written.iter().map(row).collect::<Vec<_>>())
        }
    })?;
    match lost.as_slice() {
        [] => Ok(()),
        lost => Err(ControlError::new(ExitCode::Failed, format!("rotated away meanwhile: {}", lost.join(", ")))
            .hint("the others are written; larger rings: `--capture-files`, `--capture-file-mb`")),
    }
}

fn entry(found: &Found, path: &Path) -> serde_json::Value {
    let capture = &found.capture;
    json!({
        "id": capture.id,
        "path": path,
        "bytes": capture.bytes,
        "packets": capture.packets,
        "state": capture.state,
    })
}

fn refuse_existing(path: &Path, force: bool) -> Result<(), ControlError> {
    if force || path.symlink_metadata().is_err() {
        return Ok(());
    }
    Err(ControlError::new(ExitCode::Refused, format!("{} is there already", path.display()))
        .hint("choose another --output, or replace it with --force"))
}

/// Writes a file whole or not at all, readable for its owner alone: it may hold what people typed.
fn write(file: fs::File, found: &Found, target: &Path, force: bool) -> Result<(), ControlError> {
    let folder = put::parent(target);
    let mut scratch = tempfile::NamedTempFile::new_in(&folder).map_err(|error| unwritable(&folder, &error))?;
    let copied = io::copy(&mut file.take(found.capture.bytes), scratch.as_file_mut())
        .and_then(|copied| scratch.as_file_mut().flush().map(|()| copied))
        .map_err(|error| unwritable(target, &error))?;
    if copied < found.capture.bytes {
        let message = format!("capture `{}` ended after {copied} of {} bytes", found.capture.id, found.capture.bytes);
        return Err(ControlError::infrastructure(message));
    }
    let kept = if force { scratch.persist(target) } else { scratch.persist_noclobber(target) };
    kept.map(drop).map_err(|error| unwritable(target, &error.error))
}

fn unwritable(path: &Path, error: &io::Error) -> ControlError {
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let exit = if full { ExitCode::Infrastructure } else { ExitCode::Refused };
    ControlError::new(exit, format!("{} cannot be written: {error}", path.display())).hint("choose another --output")
}
