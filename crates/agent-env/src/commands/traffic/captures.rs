//! The captures of one deploy, wherever they are: at its gateway while it runs, in its folder when it is over, in the store once
//! they were collected; and what is on record about them.

use std::{
    fs::File,
    io::{self, Read, Seek as _},
    sync::Arc,
};

use agentenv_deploy::DeployDir;
use agentenv_protocol::{
    ArtifactId, CaptureId, DeployId, ExitCode, Home, Name, TrafficCapture, TrafficRing, control::ControlError,
};
use agentenv_store::Store;
use agentenv_task::{
    CaptureError, CaptureSource, RunLog, RunRecord, StoreLog, TrafficCaptures, Universes as _, captures_outside,
    open_captures,
};
use serde::Serialize;
use tokio::runtime::Handle;

use crate::{
    commands::{deploys, run},
    progress,
    put::store_error,
};

/// The captures of one deploy.
pub(super) struct Captures {
    /// The deploy.
    pub deploy: DeployId,
    /// The record of the run that made it: it has the times of the steps.
    pub run: Option<RunRecord>,
    /// What was collected.
    pub collected: Option<TrafficCaptures>,
    /// The files, the oldest of each ring first.
    pub files: Vec<Found>,
    /// The rings: who speaks in them, and their gaps.
    pub rings: Vec<TrafficRing>,
    /// Why only what was collected is here.
    pub unreachable: Option<String>,
    source: Option<Box<dyn CaptureSource>>,
    store: Store,
    home: Home,
}

/// A capture file, and where it is read.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Found {
    /// The file.
    #[serde(flatten)]
    pub capture: TrafficCapture,
    /// Where it is.
    pub place: Place,
    /// The artifact, where it was collected, whole or as far as it was then.
    pub artifact: Option<String>,
}

/// Where a capture file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    /// At the gateway of a deploy that runs.
    Gateway,
    /// In the folder of a deploy that is over.
    Disk,
    /// Stored, and nowhere else.
    Store,
}

/// Why a single file is not given.
pub(super) enum FileError {
    /// The ring has removed it.
    RotatedAway,
    /// Anything else.
    Failed(ControlError),
}

impl Captures {
    /// Opens the captures of a deploy, named by its id or name. One that captures nothing is refused.
    pub(super) async fn open(home: &Home, text: &str) -> Result<Self, ControlError> {
        let dir = deploys::find(home, text);
        let deploy = match (&dir, DeployId::parse(text)) {
            (Ok(dir), _) => id_of(dir)?,
            // Its folder may be gone, or it was made in another home and imported: the store may know it.
            (Err(_), Ok(deploy)) => deploy,
            (Err(error), Err(_)) => return Err(error.clone()),
        };
        let store = Store::open(home).await.map_err(store_error)?;
        let (run, collected) = on_record(&store, &deploy).await?;
        let record = dir.as_ref().ok().and_then(|dir| dir.load().ok());
        if let (Err(error), None) = (&dir, &collected) {
            return Err(error.clone());
        }
        if collected.is_none() && record.as_ref().is_some_and(|record| record.captures.is_none()) {
            return Err(captures_nothing(text));
        }
        let over = record.is_none_or(|record| record.is_over());
        let mut captures = Self {
            deploy,
            run,
            collected,
            files: Vec::new(),
            rings: Vec::new(),
            unreachable: None,
            source: None,
            store,
            home: home.clone(),
        };
        captures.look(if over { Place::Disk } else { Place::Gateway }).await?;
        Ok(captures)
    }

    /// Lists what is there and what was collected, each file once, where there is most of it.
    async fn look(&mut self, place: Place) -> Result<(), ControlError> {
        let listed = match open_captures(&self.home, &self.deploy) {
            Ok(source) => {
                let listing = source.list().await.map_err(|error| failed(&error));
                self.source = Some(source);
                listing
            }
            Err(error) => Err(error),
        };
        let listing = match (listed, &self.collected) {
            (Ok(listing), _) => listing,
            (Err(error), Some(_)) => {
                self.unreachable = Some(error.message);
                agentenv_protocol::TrafficCaptureListing::default()
            }
            (Err(error), None) => return Err(error),
        };
        let stored = |id: &CaptureId| self.collected.as_ref().and_then(|collected| collected.stored(id));
        let mut files: Vec<Found> = listing
            .captures
            .into_iter()
            .filter(|capture| stored(&capture.id).is_none_or(|file| file.bytes <= capture.bytes))
            .map(|capture| Found { artifact: stored(&capture.id).map(|file| file.artifact.clone()), capture, place })
            .collect();
        let here: Vec<CaptureId> = files.iter().map(|found| found.capture.id.clone()).collect();
        for file in self.collected.iter().flat_map(|collected| &collected.files) {
            if !here.contains(&file.id) {
                let artifact = Some(file.artifact.clone());
                files.push(Found { capture: file.capture(), place: Place::Store, artifact });
            }
        }
        files.sort_by(|a, b| a.capture.id.cmp(&b.capture.id));
        self.files = files;
        self.rings = listing.rings;
        for ring in self.collected.iter().flat_map(|collected| &collected.rings) {
            if !self.rings.iter().any(|known| known.website == ring.website) {
                self.rings.push(TrafficRing { recording: false, ..ring.clone() });
            }
        }
        Ok(())
    }

    /// A file by its id.
    pub(super) fn find(&self, id: &CaptureId) -> Option<&Found> {
        self.files.iter().find(|found| found.capture.id == *id)
    }

    /// Opens a file at its beginning; as many bytes of it count as were listed.
    pub(super) async fn file(&self, found: &Found) -> Result<File, FileError> {
        let source = self.source.as_ref().filter(|_| found.place != Place::Store);
        let Some(source) = source else { return self.stored(found).await.map_err(FileError::Failed) };
        let opened = match source.open(&found.capture).await {
            Ok(opened) => opened.file,
            Err(error) => {
                // A collection may have stored it and removed it from disk meanwhile.
                if let Some(file) = self.collected_meanwhile(found).await {
                    return Ok(file);
                }
                return Err(match error {
                    CaptureError::RotatedAway => FileError::RotatedAway,
                    error => FileError::Failed(failed(&error)),
                });
            }
        };
        at_beginning(opened).map_err(|error| FileError::Failed(unreadable(&found.capture.id, &error)))
    }

    async fn collected_meanwhile(&self, found: &Found) -> Option<File> {
        let (_, collected) = on_record(&self.store, &self.deploy).await.ok()?;
        let file = collected?.stored(&found.capture.id).filter(|file| file.bytes >= found.capture.bytes)?.clone();
        let stored = Found { artifact: Some(file.artifact), ..found.clone() };
        self.stored(&stored).await.ok()
    }

    async fn stored(&self, found: &Found) -> Result<File, ControlError> {
        let id = &found.capture.id;
        let missing = || ControlError::infrastructure(format!("capture `{id}` is not stored"));
        let artifact = found.artifact.as_deref().and_then(|artifact| ArtifactId::parse(artifact).ok());
        let artifact = artifact.ok_or_else(missing)?;
        let file = tempfile::tempfile_in(self.home.store()).map_err(|error| unreadable(id, &error))?;
        let copy = file.try_clone().map_err(|error| unreadable(id, &error))?;
        self.store.read_artifact(&artifact, copy).await.map_err(store_error)?;
        at_beginning(file).map_err(|error| unreadable(id, &error))
    }

    /// The files of one ring, opened one after the other, each with its name: for readers that do not wait asynchronously.
    /// Iterate beside the runtime's threads (`spawn_blocking`), never on one of them. What was rotated away meanwhile is an error
    /// of kind `NotFound`.
    pub(super) fn ring(
        self: Arc<Self>,
        website: &Name,
        runtime: Handle,
    ) -> impl Iterator<Item = io::Result<(String, io::Take<File>)>> + Send + use<> {
        let files: Vec<Found> = self.files.iter().filter(|found| found.capture.website == *website).cloned().collect();
        files.into_iter().map(move |found| {
            let name = found.capture.id.to_string();
            match runtime.block_on(self.file(&found)) {
                Ok(file) => Ok((name, file.take(found.capture.bytes))),
                Err(FileError::RotatedAway) => {
                    Err(io::Error::new(io::ErrorKind::NotFound, format!("{name} was rotated away meanwhile")))
                }
                Err(FileError::Failed(error)) => Err(io::Error::other(error.message)),
            }
        })
    }
}

fn at_beginning(mut file: File) -> io::Result<File> {
    file.rewind()?;
    Ok(file)
}

fn id_of(dir: &DeployDir) -> Result<DeployId, ControlError> {
    dir.id().map_err(|error| ControlError::infrastructure(error.to_string()))
}

/// The run of a deploy, and what is on record of its captures: with its run, or with its own universe.
async fn on_record(
    store: &Store,
    deploy: &DeployId,
) -> Result<(Option<RunRecord>, Option<TrafficCaptures>), ControlError> {
    let log = StoreLog::new(store.clone());
    let log_error = |error| run::log_error(&error);
    if let Some(run) = log.run_of_deploy(deploy).await.map_err(log_error)? {
        let record = log.get(&run).await.map_err(log_error)?;
        let collected = record.traffic_captures(deploy);
        return Ok((Some(record), collected));
    }
    Ok((None, captures_outside(&log, deploy).await.map_err(log_error)?))
}

/// What is said of a deploy that captures nothing.
fn captures_nothing(deploy: &str) -> ControlError {
    ControlError::new(ExitCode::Refused, format!("the deploy `{deploy}` captures no traffic"))
        .hint("deploy its env with `--capture-traffic`, or `capture_traffic = true` in the task's deploy_env step")
}

fn failed(error: &CaptureError) -> ControlError {
    ControlError::infrastructure(format!("the captures cannot be read: {error}"))
}

fn unreadable(id: &CaptureId, error: &io::Error) -> ControlError {
    ControlError::infrastructure(format!("capture `{id}` cannot be read: {error}"))
}

/// Says, beside the result, that only what was collected is here.
pub(super) fn note_unreachable(output: crate::output::Output, captures: &Captures) {
    if let Some(reason) = &captures.unreachable {
        progress::note(output, &format!("only what was collected is here: {reason}"));
    }
}
