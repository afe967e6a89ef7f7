//! What is on record about the captures of one deploy.

use std::collections::BTreeMap;

use agentenv_protocol::{
    CaptureGap, CaptureId, CaptureState, DeployId, Name, TrafficCapture, TrafficCaptureListing, TrafficRing, UniverseId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::record::ArtifactRecord;

/// Key of [`Context::metadata`](crate::Context::metadata): what became of the captures, by deploy (CAP-5).
pub const TRAFFIC_CAPTURES_KEY: &str = "traffic_captures";
/// The header of a pcap file: with fewer good bytes there is nothing to store.
const PCAP_HEADER_BYTES: u64 = 24;
/// The folder of captures among a run's artifacts.
const ARTIFACT_FOLDER: &str = "traffic";

/// What became of one deploy's captures: on the run record, and the document of their universe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrafficCaptures {
    /// The deploy's id.
    pub env_id: DeployId,
    /// The artifact universe that the stored files are in.
    pub universe_id: UniverseId,
    /// Whether every file that was there was stored.
    pub status: CollectionStatus,
    /// Why it is partial.
    pub reason: Option<String>,
    /// The stored files, the oldest of each ring first.
    pub files: Vec<StoredCapture>,
    /// What is not stored, or not to its end; as far as it is still there, `traffic rescue` stores it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_stored: Vec<CaptureLeft>,
    /// Files that their ring removed before they were stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rotated_away: Vec<CaptureId>,
    /// The rings as they were when they were last looked at: who speaks in them, what was dropped, and the gaps (CAP-4).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rings: Vec<TrafficRing>,
}

/// How far a collection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectionStatus {
    /// Every file was stored, the growing one up to its last whole record.
    Complete,
    /// Not every one, or the collection goes on.
    Partial,
}

/// A capture file that is an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCapture {
    /// Its id in the deploy.
    pub id: CaptureId,
    /// The artifact.
    pub artifact: String,
    /// The artifact's name.
    pub name: String,
    /// The website whose packets it holds.
    pub website: Name,
    /// The website's services.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<Name>,
    /// Its place in the ring's order.
    pub generation: u64,
    /// Bytes that were stored.
    pub bytes: u64,
    /// SHA-256 of them.
    pub sha256: String,
    /// Packets in them; unknown where the collection died just after the file was stored.
    pub packets: Option<u64>,
    /// When the first was captured.
    pub first_packet: Option<String>,
    /// When the last was captured.
    pub last_packet: Option<String>,
    /// Whether it could still grow when it was stored; unknown as above.
    pub state: Option<CaptureState>,
    /// Packets that the kernel dropped while it was the current one.
    #[serde(default)]
    pub dropped: u64,
}

/// A capture file that is not stored, or not to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureLeft {
    /// Its id in the deploy.
    pub id: CaptureId,
    /// Its length when it was last looked at.
    pub bytes: u64,
}

/// The name of a capture as an artifact.
pub(crate) fn artifact_name(id: &CaptureId) -> String {
    format!("{ARTIFACT_FOLDER}/{}/{:010}.pcap", id.website, id.generation)
}

/// The capture that an artifact's name means.
fn capture_id(name: &str) -> Option<CaptureId> {
    let (website, file) = name.strip_prefix(ARTIFACT_FOLDER)?.strip_prefix('/')?.split_once('/')?;
    let generation = file.strip_suffix(".pcap")?.parse().ok()?;
    let id = CaptureId { website: Name::parse(website).ok()?, generation };
    (artifact_name(&id) == name).then_some(id)
}

impl TrafficCaptures {
    /// Nothing is stored yet.
    pub(crate) fn new(deploy: DeployId) -> Self {
        Self {
            env_id: deploy,
            universe_id: UniverseId::random(),
            status: CollectionStatus::Partial,
            reason: None,
            files: Vec::new(),
            not_stored: Vec::new(),
            rotated_away: Vec::new(),
            rings: Vec::new(),
        }
    }

    /// As the document of its universe.
    pub(crate) fn document(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Whether every file that was there was stored.
    pub fn is_complete(&self) -> bool {
        self.status == CollectionStatus::Complete
    }

    /// The stored file of a capture.
    pub fn stored(&self, id: &CaptureId) -> Option<&StoredCapture> {
        self.files.iter().find(|file| file.id == *id)
    }

    /// Whether every listed byte of a capture is stored.
    pub fn has_whole(&self, capture: &TrafficCapture) -> bool {
        self.stored(&capture.id).is_some_and(|file| file.bytes >= capture.bytes)
    }

    /// Bytes of all stored files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Takes in what is there now; returns what is to be stored, in order. What was there and is gone is lost.
    pub(crate) fn look(&mut self, listing: &TrafficCaptureListing) -> Vec<TrafficCapture> {
        let listed = |id: &CaptureId| listing.captures.iter().any(|capture| capture.id == *id);
        for left in std::mem::take(&mut self.not_stored) {
            if !listed(&left.id) && self.stored(&left.id).is_none() {
                self.lose(left.id);
            }
        }
        if !listing.rings.is_empty() {
            self.rings.clone_from(&listing.rings);
        }
        for capture in &listing.captures {
            // Seen again with all its bytes stored: now it is known what is in them, and whether more can come.
            if let Some(file) = self.files.iter_mut().find(|file| file.id == capture.id && file.bytes == capture.bytes)
            {
                file.describe(capture);
            }
        }
        let mut missing: Vec<TrafficCapture> =
            listing.captures.iter().filter(|capture| !self.has_whole(capture)).cloned().collect();
        self.not_stored = missing.iter().map(CaptureLeft::of).collect();
        missing.retain(is_readable);
        missing
    }

    /// Names a file that its ring removed.
    pub(crate) fn lose(&mut self, id: CaptureId) {
        self.not_stored.retain(|left| left.id != id);
        if !self.rotated_away.contains(&id) {
            self.rotated_away.push(id);
        }
    }

    /// Puts a stored file in; returns the artifact that it replaces.
    pub(crate) fn add(&mut self, capture: &TrafficCapture, artifact: &ArtifactRecord) -> Option<String> {
        let mut file = StoredCapture::of(capture.id.clone(), artifact);
        file.describe(capture);
        self.not_stored.retain(|left| left.id != capture.id);
        self.insert(file)
    }

    fn insert(&mut self, file: StoredCapture) -> Option<String> {
        let replaced = self.files.iter().position(|old| old.id == file.id).map(|at| self.files.remove(at).artifact);
        let at = self.files.partition_point(|old| old.id < file.id);
        self.files.insert(at, file);
        replaced
    }

    /// Takes in what the universe has, in the order in which it was stored: of each capture the longest artifact counts, and of
    /// equal ones the one that is on record.
    pub(crate) fn reconcile(&mut self, universe: &[ArtifactRecord]) -> Reconciled {
        let mut found = Reconciled::default();
        let mut best: BTreeMap<CaptureId, &ArtifactRecord> = BTreeMap::new();
        for artifact in universe {
            let Some(id) = capture_id(&artifact.name) else { continue };
            let known = self.stored(&id).is_some_and(|known| known.artifact == artifact.id);
            match best.get(&id) {
                Some(other) if other.size > artifact.size || other.size == artifact.size && !known => {
                    found.superseded.push(artifact.id.clone());
                }
                _ => found.superseded.extend(best.insert(id, artifact).map(|other| other.id.clone())),
            }
        }
        for (id, artifact) in best {
            if self.stored(&id).is_none_or(|known| known.artifact != artifact.id) {
                self.not_stored.retain(|left| left.id != id || left.bytes > artifact.size);
                self.insert(StoredCapture::of(id, artifact));
                found.new.push(artifact.clone());
            }
        }
        found
    }

    /// Why it is partial, though nothing went wrong with what is there.
    pub(crate) fn loss(&self) -> Option<String> {
        let lost = self.rotated_away.iter().map(|id| format!("{id} was removed before it was stored"));
        let unreadable = self.not_stored.iter().filter(|left| left.bytes < PCAP_HEADER_BYTES);
        let all: Vec<String> =
            lost.chain(unreadable.map(|left| format!("{} holds nothing readable", left.id))).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}

/// The times in which rings recorded nothing, in words (CAP-4).
pub fn gaps(rings: &[TrafficRing]) -> Vec<String> {
    let gap = |ring: &TrafficRing, gap: &CaptureGap| {
        let to = gap.to.as_ref().map_or_else(|| " on".to_owned(), |to| format!(" to {to}"));
        format!("the traffic of {} was not recorded from {}{to}: {}", ring.website, gap.from, gap.reason)
    };
    rings.iter().flat_map(|ring| ring.gaps.iter().map(move |one| gap(ring, one))).collect()
}

/// What a universe had that the record had not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reconciled {
    /// Stored files that were not on record.
    pub new: Vec<ArtifactRecord>,
    /// Artifacts that longer ones of the same capture replace.
    pub superseded: Vec<String>,
}

impl StoredCapture {
    fn of(id: CaptureId, artifact: &ArtifactRecord) -> Self {
        Self {
            artifact: artifact.id.clone(),
            name: artifact.name.clone(),
            website: id.website.clone(),
            services: Vec::new(),
            generation: id.generation,
            bytes: artifact.size,
            sha256: artifact.sha256.clone(),
            packets: None,
            first_packet: None,
            last_packet: None,
            state: None,
            dropped: 0,
            id,
        }
    }

    fn describe(&mut self, capture: &TrafficCapture) {
        self.services.clone_from(&capture.services);
        self.packets = Some(capture.packets);
        self.first_packet.clone_from(&capture.first_packet);
        self.last_packet.clone_from(&capture.last_packet);
        self.state = Some(capture.state);
        self.dropped = capture.dropped;
    }

    /// As a gateway would list it.
    pub fn capture(&self) -> TrafficCapture {
        TrafficCapture {
            id: self.id.clone(),
            website: self.website.clone(),
            services: self.services.clone(),
            generation: self.generation,
            bytes: self.bytes,
            packets: self.packets.unwrap_or(0),
            first_packet: self.first_packet.clone(),
            last_packet: self.last_packet.clone(),
            state: self.state.unwrap_or(CaptureState::Complete),
            dropped: self.dropped,
        }
    }
}

impl CaptureLeft {
    fn of(capture: &TrafficCapture) -> Self {
        Self { id: capture.id.clone(), bytes: capture.bytes }
    }
}

fn is_readable(capture: &TrafficCapture) -> bool {
    capture.bytes >= PCAP_HEADER_BYTES
}

#[cfg(test)]
mod tests;
