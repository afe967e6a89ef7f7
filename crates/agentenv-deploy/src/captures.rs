//! Captured packets as they lie on disk: what a deploy that ended, or whose gateway does not answer, still has of them (CAP-7).
//!
//! Each website has a folder below `captures/` in the deploy's: the files of its ring, and `about.json`, in which the supervisor
//! keeps who speaks in it and what was missed. Everything is read without following links.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use agentenv_protocol::{CaptureId, Name, TrafficCapture, TrafficCaptureListing, TrafficRing};
pub use agentenv_sandbox::OpenCaptureError;
use agentenv_sandbox::{CaptureFile, read_ring};
use jiff::Timestamp;

use crate::{DeployDir, DeployRecord, RecordError};

/// What the supervisor says about a ring.
const ABOUT: &str = "about.json";
/// The longest such file: gaps are few, since captures are started again three times a minute at most.
const ABOUT_LIMIT: u64 = 16 << 20;

/// Why captures cannot be discarded.
#[derive(Debug, thiserror::Error)]
pub enum DiscardError {
    /// The deploy runs: close it with `discard_captures`.
    #[error("the deploy is still running")]
    Running,
    /// The record can't be read or written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The files can't be removed.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
}

/// Everything that is on disk of a deploy's captures. Reads every file through, to count its packets.
///
/// # Errors
/// A folder can't be read; one that isn't there holds nothing.
pub fn listing(dir: &DeployDir) -> io::Result<TrafficCaptureListing> {
    let record = dir.load().ok();
    let mut listing = TrafficCaptureListing::default();
    for website in websites(&dir.captures())? {
        let folder = dir.captures().join(website.as_str());
        let files = read_ring(&folder)?;
        let ring = describe(&folder, &website, &files, record.as_ref());
        listing.captures.extend(files.iter().map(|file| capture(&ring, file)));
        listing.rings.push(ring);
    }
    Ok(listing)
}

/// Opens a file that is on disk.
///
/// # Errors
/// There is none, it is no plain file, or the kernel refuses.
pub fn open(dir: &DeployDir, id: &CaptureId) -> Result<File, OpenCaptureError> {
    agentenv_sandbox::open_file_beneath(&dir.captures().join(id.website.as_str()), id.generation)
}

/// Removes what is on disk of one website's captures, or of all, once they are stored or nobody wants them; the deploy's record
/// names them no more. Done already is done.
///
/// # Errors
/// The deploy still runs, or the kernel refuses.
pub fn discard(dir: &DeployDir, website: Option<&Name>) -> Result<(), DiscardError> {
    let mut record = dir.load()?;
    if !record.is_over() {
        return Err(DiscardError::Running);
    }
    let folder = website.map_or_else(|| dir.captures(), |website| dir.captures().join(website.as_str()));
    remove(&folder).map_err(|source| DiscardError::Io { path: folder, source })?;
    dir.change(&mut record, |record| note_unstored(&dir.captures(), record)).map_err(DiscardError::Record)
}

/// Removes a folder of captures, where there is one.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether a folder of captures holds any: then it is no garbage, whatever else is true of its deploy.
pub(crate) fn any(folder: &Path) -> bool {
    // A folder that can't be read is kept.
    websites(folder).map_or(true, |websites| !websites.is_empty())
}

/// Takes into the record which websites have files on disk.
pub(crate) fn note_unstored(folder: &Path, record: &mut DeployRecord) {
    // One that can't be read is still named.
    if let (Some(captures), Ok(websites)) = (&mut record.captures, websites(folder)) {
        captures.unstored = websites;
    }
}

/// The websites that have a ring here, by name.
fn websites(folder: &Path) -> io::Result<Vec<Name>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut websites = Vec::new();
    for entry in entries {
        let entry = entry?;
        // What else lies here, a link above all, is not ours.
        if entry.file_type()?.is_dir()
            && has_files(&entry.path())?
            && let Some(name) = entry.file_name().to_str().and_then(|name| Name::parse(name).ok())
        {
            websites.push(name);
        }
    }
    websites.sort();
    Ok(websites)
}

fn has_files(ring: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(ring)? {
        if Path::new(&entry?.file_name()).extension().is_some_and(|extension| extension == "pcap") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A ring that nobody fills any more, as its folder and the deploy's record tell it.
fn describe(folder: &Path, website: &Name, files: &[CaptureFile], record: Option<&DeployRecord>) -> TrafficRing {
    let at_ready = || record?.info.as_ref()?.captures.iter().find(|ring| ring.website == *website).cloned();
    let about = read_about(folder).filter(|about| about.website == *website).or_else(at_ready);
    let mut ring = about.unwrap_or_else(|| TrafficRing {
        website: website.clone(),
        services: Vec::new(),
        gateway_address: crate::sandbox_net::GATEWAY,
        recording: false,
        files: record.and_then(|record| record.captures.as_ref()).map_or(0, |captures| captures.files),
        file_bytes: record.and_then(|record| record.captures.as_ref()).map_or(0, |captures| captures.file_bytes),
        dropped: 0,
        gaps: Vec::new(),
    });
    ring.recording &= record.is_none_or(|record| !record.is_over());
    ring.dropped = ring.dropped.max(files.iter().map(|file| file.dropped).sum());
    ring
}

fn read_about(folder: &Path) -> Option<TrafficRing> {
    use std::{io::Read as _, os::unix::fs::OpenOptionsExt as _};
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits().cast_signed();
    let file = fs::File::options().read(true).custom_flags(flags).open(folder.join(ABOUT)).ok()?;
    let mut bytes = Vec::new();
    file.take(ABOUT_LIMIT).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Writes what is to be said about a ring when nobody can be asked any more. In one step, but not through to the disk: nor are
/// the packets.
pub(crate) fn write_about(folder: &Path, ring: &TrafficRing) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec_pretty(ring)?)?;
    file.persist(folder.join(ABOUT)).map(drop).map_err(|error| error.error)
}

/// A file of a ring as listings show it.
pub(crate) fn capture(ring: &TrafficRing, file: &CaptureFile) -> TrafficCapture {
    TrafficCapture {
        id: CaptureId { website: ring.website.clone(), generation: file.generation },
        website: ring.website.clone(),
        services: ring.services.iter().map(|service| service.name.clone()).collect(),
        generation: file.generation,
        bytes: file.bytes,
        packets: file.packets,
        first_packet: file.first_us.and_then(at_microsecond),
        last_packet: file.last_us.and_then(at_microsecond),
        state: file.state,
        dropped: file.dropped,
    }
}

fn at_microsecond(microseconds: u64) -> Option<String> {
    Timestamp::from_microsecond(i64::try_from(microseconds).ok()?).ok().map(stamp)
}

/// RFC 3339, UTC, microseconds.
pub(crate) fn stamp(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests;
