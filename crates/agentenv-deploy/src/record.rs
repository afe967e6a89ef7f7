//! The record of one deploy on disk: written before anything exists, replaced atomically, kept after the end.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use agentenv_protocol::{
    DeployId, Home, IdError, Name,
    control::{ControlError, DeployInfo, DeployState},
};
use serde::{Deserialize, Serialize};

use crate::LiveAccount;

/// The newest format of `deploy.json` that this program reads.
const FORMAT: u32 = 1;

/// What `deploy.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeployRecord {
    /// Format of the file.
    pub format: u32,
    /// Id.
    pub deploy: DeployId,
    /// The unique name it was given.
    pub name: Option<Name>,
    /// The env.
    pub env: Name,
    /// The versions that it runs: env name and version.
    pub versions: Vec<(Name, u64)>,
    /// `sandbox`.
    pub provider: String,
    /// Whether a live site is part of it (LIVE-5).
    pub live: bool,
    /// Whether services share the caller's uid, so that sandboxes can exhaust each other's per-uid limits.
    pub single_uid: bool,
    /// How it captures the packets of its websites, where it does.
    #[serde(default)]
    pub captures: Option<RecordedCaptures>,
    /// What its live sites are signed in with (RUN-4).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<LiveAccount>,
    /// State.
    pub state: DeployState,
    /// RFC 3339, UTC.
    pub created: String,
    /// What was printed when it got ready.
    pub info: Option<DeployInfo>,
    /// Why it ended, where it failed.
    pub error: Option<ControlError>,
}

/// What a deploy's record says of its captures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCaptures {
    /// How many files each ring has.
    pub files: u32,
    /// How long each of them gets, in bytes.
    pub file_bytes: u64,
    /// The websites whose rings have, or may have, files on disk that nobody stored (CAP-7).
    pub unstored: Vec<Name>,
}

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// The file is not a record.
    #[error("{path} is not a deploy record: {source}")]
    Torn {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// The file was written by a newer program.
    #[error("{path} has format {found}, this program reads up to {FORMAT}")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
}

/// The deploys that have a folder in the home, running or not.
pub fn deploy_ids(home: &Home) -> impl Iterator<Item = DeployId> + use<> {
    let entries = fs::read_dir(home.deploys()).into_iter().flatten().flatten();
    entries.filter_map(|entry| DeployId::parse(entry.file_name().to_str()?).ok())
}

/// The folder of one deploy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployDir(PathBuf);

impl DeployDir {
    /// Takes the folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The record.
    pub fn record(&self) -> PathBuf {
        self.0.join("deploy.json")
    }

    /// What the supervisor holds a write lock on while it lives.
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Where it is commanded.
    pub fn control_socket(&self) -> PathBuf {
        self.0.join("control.sock")
    }

    /// The control token, 0600.
    pub fn control_token(&self) -> PathBuf {
        self.0.join("control.token")
    }

    /// The deploy's id, as the folder's name has it.
    ///
    /// # Errors
    /// The folder is no deploy's.
    pub fn id(&self) -> Result<DeployId, IdError> {
        DeployId::parse(self.0.file_name().and_then(|name| name.to_str()).unwrap_or_default())
    }

    /// The home that the deploy is in.
    pub(crate) fn home(&self) -> Option<Home> {
        self.0.parent().and_then(Path::parent).map(Home::at)
    }

    /// The certificate authority.
    pub fn ca(&self) -> PathBuf {
        self.0.join("ca.pem")
    }

    /// Writes down which cgroups are about to be made, a line each, for whoever has to remove them.
    pub(crate) fn note_cgroups(&self, folders: &[PathBuf]) -> io::Result<()> {
        let lines: String = folders.iter().map(|folder| format!("{}\n", folder.display())).collect();
        fs::write(self.cgroups(), lines)
    }

    /// Removes the cgroups that were written down; no process is in them any more.
    pub(crate) fn remove_cgroups(&self) -> io::Result<()> {
        let noted = match fs::read_to_string(self.cgroups()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            noted => noted?,
        };
        let folders: Vec<PathBuf> = noted.lines().map(PathBuf::from).collect();
        agentenv_sandbox::remove_cgroups(&folders)?;
        fs::remove_file(self.cgroups())
    }

    fn cgroups(&self) -> PathBuf {
        self.0.join("cgroups")
    }

    /// The rings of captured packets, a folder for each website.
    pub fn captures(&self) -> PathBuf {
        self.0.join("captures")
    }

    /// The denied log, one JSON object a line.
    pub fn denied(&self) -> PathBuf {
        self.0.join("denied.jsonl")
    }

    /// Logs of services, browsers and the supervisor.
    pub fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// Reads the record.
    pub fn load(&self) -> Result<DeployRecord, RecordError> {
        let path = self.record();
        let bytes = fs::read(&path).map_err(|source| RecordError::Io { path: path.clone(), source })?;
        let record: DeployRecord =
            serde_json::from_slice(&bytes).map_err(|source| RecordError::Torn { path: path.clone(), source })?;
        if record.format > FORMAT {
            return Err(RecordError::Newer { path, found: record.format });
        }
        Ok(record)
    }

    /// Replaces the record: a reader sees the old or the new one, also after a power cut.
    pub fn save(&self, record: &DeployRecord) -> Result<(), RecordError> {
        let path = self.record();
        replace(&path, |file| serde_json::to_writer_pretty(file, record).map_err(io::Error::from))
            .map_err(|source| RecordError::Io { path, source })
    }

    /// Changes the record, and writes it where that changed anything.
    pub(crate) fn change(
        &self,
        record: &mut DeployRecord,
        change: impl FnOnce(&mut DeployRecord),
    ) -> Result<(), RecordError> {
        let before = record.clone();
        change(record);
        if *record == before { Ok(()) } else { self.save(record) }
    }
}

impl DeployRecord {
    /// Makes the record of a deploy about to start.
    pub fn new(deploy: DeployId, name: Option<Name>, env: Name, versions: Vec<(Name, u64)>, live: bool) -> Self {
        Self {
            format: FORMAT,
            deploy,
            name,
            env,
            versions,
            provider: "sandbox".to_owned(),
            live,
            single_uid: false,
            captures: None,
            accounts: Vec::new(),
            state: DeployState::Starting,
            created: jiff::Timestamp::now().to_string(),
            info: None,
            error: None,
        }
    }

    /// Whether nothing of it should be running any more.
    pub fn is_over(&self) -> bool {
        matches!(self.state, DeployState::Closed | DeployState::Failed)
    }
}

/// Replaces a file atomically and durably.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    // JSON is written a word at a time.
    let mut buffered = io::BufWriter::new(file.as_file_mut());
    write(&mut buffered)?;
    buffered.flush()?;
    drop(buffered);
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> DeployRecord {
        DeployRecord::new(DeployId::random(), None, Name::parse("shop").unwrap(), Vec::new(), false)
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DeployDir::new(folder.path());
        let mut written = record();
        dir.save(&written).unwrap();
        written.state = DeployState::Failed;
        dir.save(&written).unwrap();
        assert_eq!(dir.load().unwrap(), written);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn row_81_a_reader_has_the_old_record_or_the_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DeployDir::new(folder.path());
        let old = record();
        dir.save(&old).unwrap();
        let mut reader = fs::File::open(dir.record()).unwrap();
        dir.save(&DeployRecord { state: DeployState::Closed, ..old.clone() }).unwrap();
        let mut text = String::new();
        io::Read::read_to_string(&mut reader, &mut text).unwrap();
        assert_eq!(serde_json::from_str::<DeployRecord>(&text).unwrap(), old);
        assert!(dir.load().unwrap().is_over());
    }

    #[test]
    fn row_81_a_record_torn_at_every_byte_is_said_to_be_torn() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DeployDir::new(folder.path());
        dir.save(&record()).unwrap();
        let whole = fs::read(dir.record()).unwrap();
        for end in 0..whole.len() {
            fs::write(dir.record(), &whole[..end]).unwrap();
            assert!(matches!(dir.load(), Err(RecordError::Torn { .. })), "cut at {end}");
        }
    }

    #[test]
    fn a_record_from_before_captures_is_read() {
        let mut old = serde_json::to_value(record()).unwrap();
        old.as_object_mut().unwrap().remove("captures").unwrap();
        assert_eq!(serde_json::from_value::<DeployRecord>(old).unwrap().captures, None);
    }

    #[test]
    fn a_newer_format_is_refused_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DeployDir::new(folder.path());
        dir.save(&DeployRecord { format: 2, ..record() }).unwrap();
        assert!(matches!(dir.load(), Err(RecordError::Newer { found: 2, .. })));
    }
}
