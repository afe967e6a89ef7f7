//! A run as one file: a tar of `run.json` and `artifacts/ID`, to carry to another home.
//!
//! Import takes nothing on trust: names in the file are looked up in the record and never used as paths, and every
//! artifact must have the size and the digest that the record says.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use agentenv_protocol::RunId;
use agentenv_store::Holder;
use sha2::{Digest as _, Sha256};

use crate::{
    record::{ArtifactRecord, RECORD_FORMAT, RunRecord, RunState},
    run_log::{LogError, NewFile, RunLog},
};

/// The record within the file.
const RECORD_NAME: &str = "run.json";
/// The folder of artifacts within the file.
const ARTIFACTS_NAME: &str = "artifacts";
/// The longest record that is read: tens of thousands of artifacts.
const RECORD_LIMIT: u64 = 64 << 20;
/// The longest artifact that is read, as the store has it.
const ARTIFACT_LIMIT: u64 = 8 << 30;

/// Why a run could not be exported or imported.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// The file is not an exported run.
    #[error("{path} is not an exported run: {reason}")]
    NotARun {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Only a run that is over can be exported.
    #[error("run {0} is not over")]
    NotOver(RunId),
    /// The store failed, or has the run already.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Writes a run that is over, with its artifacts, to a file; one that is there is replaced, whole or not at all.
pub async fn export_run(log: &dyn RunLog, run: &RunId, to: &Path) -> Result<RunRecord, ArchiveError> {
    let record = log.get(run).await?;
    if record.state != RunState::Done {
        return Err(ArchiveError::NotOver(run.clone()));
    }
    let error = |source| ArchiveError::Io { path: to.to_owned(), source };
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let scratch = tempfile::tempdir().map_err(error)?;
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(error)?;
    let mut tar = tar::Builder::new(file.as_file_mut());
    let document = serde_json::to_vec_pretty(&record).map_err(|json| error(json.into()))?;
    append(&mut tar, RECORD_NAME, document.len() as u64, document.as_slice()).map_err(error)?;
    for artifact in &record.artifacts {
        let copy = scratch.path().join("artifact");
        log.write_artifact(run, artifact, copy.clone()).await?;
        let opened = fs::File::open(&copy).map_err(error)?;
        append(&mut tar, &format!("{ARTIFACTS_NAME}/{}", artifact.id), artifact.size, opened).map_err(error)?;
    }
    tar.into_inner().map_err(error)?;
    file.as_file().sync_all().map_err(error)?;
    file.persist(to).map_err(|persist| error(persist.error))?;
    Ok(record)
}

fn append(tar: &mut tar::Builder<impl Write>, name: &str, size: u64, bytes: impl Read) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o644);
    tar.append_data(&mut header, name, bytes)
}

/// Takes a run from a file into the store. It gets its own id; a run that is here already is refused, but one whose
/// import was cut short is gone on with.
pub async fn import_run(log: &dyn RunLog, from: &Path) -> Result<RunRecord, ArchiveError> {
    let path = from.to_owned();
    let unpacked = tokio::task::spawn_blocking(move || unpack(&path)).await;
    let cut = |_| ArchiveError::Io { path: from.to_owned(), source: io::ErrorKind::Interrupted.into() };
    let Unpacked { mut record, folder } = unpacked.map_err(cut)??;
    let artifacts = std::mem::take(&mut record.artifacts);
    record.imported = true;
    match log.create(&record).await {
        Ok(()) => {}
        Err(LogError::RunExists(run)) => {
            let here = log.get(&run).await?;
            if !here.imported || here.artifacts.len() >= artifacts.len() {
                return Err(LogError::RunExists(run).into());
            }
            record = here;
        }
        Err(error) => return Err(error.into()),
    }
    let kept = record.artifacts.len();
    for (_, entry) in record.captures() {
        log.create_universe(&Holder::Run(record.run.clone()), &entry.universe_id, &entry.document()).await?;
    }
    for artifact in artifacts.into_iter().skip(kept) {
        let old = artifact.id.clone();
        let file = NewFile {
            name: artifact.name,
            media_type: artifact.media_type,
            step: artifact.step,
            folder: folder.path().to_owned(),
            path: artifact.id.into(),
            sensitive: artifact.sensitive,
            universe: artifact.universe,
        };
        let stored = log.put_file(&record.run, file).await?;
        record.rename_capture(&old, &stored.id);
        record.artifacts.push(stored);
        log.update(&record).await?;
    }
    for (_, entry) in record.captures() {
        log.update_universe(&entry.universe_id, &entry.document()).await?;
    }
    Ok(record)
}

/// An exported run whose every artifact is checked and lies in a folder under its id.
struct Unpacked {
    record: RunRecord,
    folder: tempfile::TempDir,
}

fn unpack(path: &Path) -> Result<Unpacked, ArchiveError> {
    let error = |source| ArchiveError::Io { path: path.to_owned(), source };
    let not_a_run = |reason: String| ArchiveError::NotARun { path: path.to_owned(), reason };
    let folder = tempfile::tempdir().map_err(error)?;
    let mut archive = tar::Archive::new(fs::File::open(path).map_err(error)?);
    let mut entries = archive.entries().map_err(error)?.enumerate();
    let first = entries.next().ok_or_else(|| not_a_run("it is empty".to_owned()))?.1;
    let mut first = first.map_err(|tar| not_a_run(tar.to_string()))?;
    let record = read_record(&mut first).map_err(not_a_run)?;
    let mut wanted: BTreeSet<String> = record.artifacts.iter().map(|artifact| artifact.id.clone()).collect();
    for (_, entry) in entries {
        let mut entry = entry.map_err(|tar| not_a_run(tar.to_string()))?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let artifact = name
            .strip_prefix(ARTIFACTS_NAME)
            .and_then(|rest| rest.strip_prefix('/'))
            .filter(|_| entry.header().entry_type().is_file())
            .filter(|id| wanted.remove(*id))
            .and_then(|id| record.artifacts.iter().find(|artifact| artifact.id == id))
            .ok_or_else(|| not_a_run(format!("`{}` does not belong in it", name.escape_debug())))?;
        copy_checked(&mut entry, artifact, &folder.path().join(&artifact.id)).map_err(not_a_run)?;
    }
    match wanted.first() {
        Some(missing) => Err(not_a_run(format!("artifact {missing} is missing"))),
        None => Ok(Unpacked { record, folder }),
    }
}

fn read_record(entry: &mut tar::Entry<'_, impl Read>) -> Result<RunRecord, String> {
    if entry.path_bytes().as_ref() != RECORD_NAME.as_bytes() || !entry.header().entry_type().is_file() {
        return Err(format!("it does not begin with {RECORD_NAME}"));
    }
    let mut bytes = Vec::new();
    entry.take(RECORD_LIMIT + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > RECORD_LIMIT {
        return Err(format!("{RECORD_NAME} is longer than {RECORD_LIMIT} bytes"));
    }
    let document: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| format!("{RECORD_NAME}: {error}"))?;
    let format = document.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if format > u64::from(RECORD_FORMAT) {
        return Err(format!("its format is {format}, this program reads up to {RECORD_FORMAT}"));
    }
    let record: RunRecord = serde_json::from_value(document).map_err(|error| format!("{RECORD_NAME}: {error}"))?;
    let good = |id: &str| agentenv_protocol::ArtifactId::parse(id).is_ok();
    if let Some(bad) = record.artifacts.iter().find(|artifact| !good(&artifact.id)) {
        return Err(format!("`{}` is not an artifact's id", bad.id.escape_debug()));
    }
    if record.state != RunState::Done {
        return Err("the run was not over".to_owned());
    }
    Ok(record)
}

fn copy_checked(entry: &mut impl Read, artifact: &ArtifactRecord, to: &Path) -> Result<(), String> {
    let mut file = fs::File::create_new(to).map_err(|error| error.to_string())?;
    let limit = artifact.size.min(ARTIFACT_LIMIT);
    let mut digest = Sha256::new();
    let mut left = entry.take(limit + 1);
    let mut buffer = vec![0; 64 * 1024];
    let mut size = 0;
    loop {
        let length = left.read(&mut buffer).map_err(|error| error.to_string())?;
        if length == 0 {
            break;
        }
        size += length as u64;
        digest.update(&buffer[..length]);
        file.write_all(&buffer[..length]).map_err(|error| error.to_string())?;
    }
    if size != artifact.size || hex::encode(digest.finalize()) != artifact.sha256 {
        return Err(format!("the bytes of artifact {} are not those of the record", artifact.id));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
