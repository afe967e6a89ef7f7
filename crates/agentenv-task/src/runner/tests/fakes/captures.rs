//! Fakes of what deploys capture, and of universes.

use std::{io::Write as _, net::Ipv4Addr};

use agentenv_protocol::{
    CaptureId, CaptureState, DeployId, PCAP_MEDIA_TYPE, RunId, TrafficCapture, TrafficCaptureListing, TrafficRing,
    UniverseId,
};
use agentenv_store::Holder;
use serde_json::Value;

use super::{Fakes, Fault, World, name};
use crate::{
    event::Work,
    record::{ArtifactRecord, RunRecord},
    run_log::LogError,
    traffic::{CaptureError, CaptureSource, OpenCapture, TrafficCaptures},
    universes::{NewCapture, StoredUniverse, Universes},
};

/// The most files that a fake ring keeps.
pub(in crate::runner::tests) const RING: usize = 10;

/// A file of the ring of `shop`.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::runner::tests) struct FakeCapture {
    pub generation: u64,
    pub bytes: Vec<u8>,
    pub growing: bool,
}

#[derive(Clone, Debug)]
pub(in crate::runner::tests) struct FakeUniverse {
    pub holder: Holder,
    pub document: Value,
    pub artifacts: Vec<ArtifactRecord>,
}

impl World {
    pub fn next_artifact(&mut self) -> String {
        self.stored += 1;
        format!("a-{:012x}", self.stored)
    }

    pub fn capture(&mut self, deploy: &DeployId) {
        let last = self.captured.len();
        let files = self.captured.iter().zip(1..).map(|(length, generation)| FakeCapture {
            generation,
            bytes: bytes(generation, *length),
            growing: generation == last as u64,
        });
        let files = files.collect();
        self.rings.insert(deploy.clone(), files);
    }

    /// More packets for the current file.
    pub fn grow(&mut self, deploy: &DeployId, by: usize) {
        if let Some(file) = self.rings.get_mut(deploy).and_then(|files| files.last_mut()) {
            file.bytes = bytes(file.generation, file.bytes.len() + by);
        }
    }

    /// A new current file.
    pub fn rotate(&mut self, deploy: &DeployId, length: usize) {
        let Some(files) = self.rings.get_mut(deploy) else { return };
        let generation = files.last().map_or(1, |file| file.generation + 1);
        files.iter_mut().for_each(|file| file.growing = false);
        files.push(FakeCapture { generation, bytes: bytes(generation, length), growing: true });
        if files.len() > RING {
            files.remove(0);
        }
    }

    pub fn end_capture(&mut self, deploy: &DeployId) {
        let open = self.rings.get(deploy).is_some_and(|files| files.iter().any(|file| file.growing));
        if open {
            self.grow(deploy, self.tail);
        }
        self.rings.get_mut(deploy).into_iter().flatten().for_each(|file| file.growing = false);
    }

    pub fn discard(&mut self, deploy: &DeployId, stored: &TrafficCaptures) {
        let files = self.listing(deploy).captures;
        if !self.alive.contains(deploy) && files.iter().all(|capture| stored.has_whole(capture)) {
            self.rings.remove(deploy);
        }
    }

    pub fn reconcile(&self, record: &mut RunRecord) {
        for (deploy, entry) in record.captures() {
            if let Some(universe) = self.universes.get(&entry.universe_id) {
                record.reconcile_captures(&deploy, &universe.artifacts);
            }
        }
    }

    fn listing(&self, deploy: &DeployId) -> TrafficCaptureListing {
        let Some(files) = self.rings.get(deploy) else { return TrafficCaptureListing::default() };
        let alive = self.alive.contains(deploy);
        let one = |file: &FakeCapture| TrafficCapture {
            id: id(file.generation),
            website: name("shop"),
            services: vec![name("server")],
            generation: file.generation,
            bytes: file.bytes.len() as u64,
            packets: file.bytes.len() as u64 / 100,
            first_packet: None,
            last_packet: None,
            state: if file.growing && alive { CaptureState::Growing } else { CaptureState::Complete },
            dropped: 0,
        };
        let ring = TrafficRing {
            website: name("shop"),
            services: Vec::new(),
            gateway_address: Ipv4Addr::LOCALHOST,
            recording: alive,
            files: RING as u32,
            file_bytes: 1000,
            dropped: 0,
            gaps: self.gaps.clone(),
        };
        TrafficCaptureListing { captures: files.iter().map(one).collect(), rings: vec![ring] }
    }
}

/// What is in a file: a longer one begins as the shorter one.
pub(in crate::runner::tests) fn bytes(generation: u64, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u64 + generation) as u8).collect()
}

pub(in crate::runner::tests) fn id(generation: u64) -> CaptureId {
    CaptureId { website: name("shop"), generation }
}

pub(super) struct FakeSource {
    pub fakes: Fakes,
    pub deploy: DeployId,
}

fn failed(fault: Fault) -> CaptureError {
    match fault {
        Fault::Gone => CaptureError::RotatedAway,
        _ => CaptureError::Failed("the gateway is gone".to_owned()),
    }
}

impl CaptureSource for FakeSource {
    fn list(&self) -> Work<'_, Result<TrafficCaptureListing, CaptureError>> {
        Box::pin(async {
            self.fakes.call("list_captures".to_owned(), |world| world.listing(&self.deploy)).await.map_err(failed)
        })
    }

    fn open<'a>(&'a self, capture: &'a TrafficCapture) -> Work<'a, Result<OpenCapture, CaptureError>> {
        Box::pin(async move {
            let found = self.fakes.call(format!("open {}", capture.id), |world| {
                let files = world.rings.get(&self.deploy).into_iter().flatten();
                let file = files.clone().find(|file| file.generation == capture.generation);
                file.map(|file| file.bytes.clone())
            });
            let bytes = found.await.map_err(failed)?.ok_or(CaptureError::RotatedAway)?;
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            Ok(OpenCapture { file, path: capture.id.to_string().into() })
        })
    }
}

impl Universes for Fakes {
    fn create_universe<'a>(
        &'a self,
        holder: &'a Holder,
        id: &'a UniverseId,
        document: &'a Value,
    ) -> Work<'a, Result<(), LogError>> {
        Box::pin(self.keep("create_universe", |world| {
            world.universes.entry(id.clone()).or_insert_with(|| FakeUniverse {
                holder: holder.clone(),
                document: document.clone(),
                artifacts: Vec::new(),
            });
        }))
    }

    fn update_universe<'a>(&'a self, id: &'a UniverseId, document: &'a Value) -> Work<'a, Result<(), LogError>> {
        Box::pin(self.keep("update_universe", |world| {
            world.universes.get_mut(id).expect("it was created").document = document.clone();
        }))
    }

    fn universe<'a>(&'a self, id: &'a UniverseId) -> Work<'a, Result<Option<StoredUniverse>, LogError>> {
        Box::pin(async {
            let world = self.0.lock().unwrap();
            let found = world.universes.get(id).cloned();
            Ok(found.map(|found| StoredUniverse { document: found.document, artifacts: found.artifacts }))
        })
    }

    fn universes_of<'a>(&'a self, holder: &'a Holder) -> Work<'a, Result<Vec<UniverseId>, LogError>> {
        Box::pin(async {
            let world = self.0.lock().unwrap();
            Ok(world.universes.iter().filter(|(_, found)| found.holder == *holder).map(|(id, _)| id.clone()).collect())
        })
    }

    fn put_capture<'a>(&'a self, _holder: &'a Holder, new: NewCapture) -> Work<'a, Result<ArtifactRecord, LogError>> {
        let call = format!("put_capture {}", new.name);
        Box::pin(async move {
            self.keep(&call, move |world| {
                use std::io::{Read as _, Seek as _};
                let (mut file, mut bytes) = (new.file, Vec::new());
                file.rewind().unwrap();
                file.take(new.bytes).read_to_end(&mut bytes).unwrap();
                assert_eq!(bytes.len() as u64, new.bytes);
                let artifact = ArtifactRecord {
                    id: world.next_artifact(),
                    name: new.name,
                    media_type: PCAP_MEDIA_TYPE.to_owned(),
                    size: new.bytes,
                    sha256: String::new(),
                    step: new.step,
                    sensitive: true,
                    universe: Some(new.universe.clone()),
                };
                world.artifacts.insert(artifact.id.clone(), bytes);
                world.universes.get_mut(&new.universe).expect("it was created").artifacts.push(artifact.clone());
                artifact
            })
            .await
        })
    }

    fn remove_artifact<'a>(&'a self, artifact: &'a str) -> Work<'a, Result<(), LogError>> {
        Box::pin(self.keep("remove_artifact", move |world| {
            world.artifacts.remove(artifact);
            world.universes.values_mut().for_each(|found| found.artifacts.retain(|stored| stored.id != artifact));
        }))
    }

    fn run_of_deploy<'a>(&'a self, deploy: &'a DeployId) -> Work<'a, Result<Option<RunId>, LogError>> {
        Box::pin(async {
            let world = self.0.lock().unwrap();
            let of = |record: &&RunRecord| record.deploys.iter().any(|entry| entry.deploy == *deploy);
            Ok(world.records.values().find(of).map(|record| record.run.clone()))
        })
    }
}
