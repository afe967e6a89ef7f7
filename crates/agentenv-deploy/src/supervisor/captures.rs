//! The captures of a deploy (CAP-2 to CAP-4): one ring for each website, recorded by a thread of the supervisor from before its
//! first service starts until after the last has ended.

mod keeper;
mod ring;

use std::{
    ops::RangeInclusive,
    path::PathBuf,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use agentenv_model::{CaptureOptions, PlannedWebsite};
use agentenv_net::{CaptureBytes, CaptureMissing};
use agentenv_protocol::{CaptureId, Name, TrafficCaptureListing, TrafficRing, control::ControlError};
use futures_util::future::{join_all, try_join_all};
use tokio::task::{JoinHandle, spawn_blocking};

use self::ring::Ring;
use super::{ledger::Ledger, sockets::Sockets};
use crate::captures;

/// How long a capture may take to run: it sets up a ring of the kernel's, and writes the head of a file.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How long it may take to show that it runs: it has to be woken once, on a machine that may be busy.
const CHECK_LIMIT: Duration = Duration::from_secs(5);
/// How long it may take to write what the kernel has for it: 2 MiB, to a disk that may be slow.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The rings of a deploy; none where it does not capture.
pub(crate) struct Captures {
    folder: PathBuf,
    options: Option<CaptureOptions>,
    rings: RwLock<Vec<Arc<Ring>>>,
    discard: AtomicBool,
}

impl Captures {
    /// Takes the folder of the rings, and how they are kept, where they are.
    pub(crate) fn new(folder: PathBuf, options: Option<CaptureOptions>) -> Self {
        Self { folder, options, rings: RwLock::default(), discard: AtomicBool::new(false) }
    }

    /// Whether the deploy captures.
    pub(crate) fn are_wanted(&self) -> bool {
        self.options.is_some()
    }

    fn all(&self) -> Vec<Arc<Ring>> {
        self.rings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins to capture a website's sandbox, beside whatever the caller does next.
    pub(crate) fn start(&self, website: &PlannedWebsite, sockets: &Sockets) -> Starting {
        let Some(options) = self.options else { return Starting(None) };
        let ring = Arc::new(Ring::new(website, self.folder.join(website.name.as_str()), options, sockets.clone()));
        let mut rings = self.rings.write().unwrap_or_else(PoisonError::into_inner);
        rings.push(Arc::clone(&ring));
        // Listed in an order of their own: pods come up in any.
        rings.sort_by(|a, b| a.website().cmp(b.website()));
        drop(rings);
        let started = Arc::clone(&ring);
        Starting(Some((ring, spawn_blocking(move || started.record()))))
    }

    /// Refuses a deploy whose captures do not all run (CAP-4). Asks each of them to do something: what only was alive may hang.
    pub(crate) async fn check(&self) -> Result<(), ControlError> {
        try_join_all(self.all().into_iter().map(|ring| async move {
            let asked = Arc::clone(&ring);
            let checked = spawn_blocking(move || asked.check(CHECK_LIMIT)).await;
            checked.unwrap_or_else(|error| Err(error.to_string())).map_err(|reason| ring.not_recording(&reason))
        }))
        .await
        .map(drop)
    }

    /// Notes which ports the connections of a website's service come from, so that packets tell who spoke.
    pub(crate) fn set_client_ports(&self, website: &Name, service: &Name, ports: &RangeInclusive<u16>) {
        if let Some(ring) = self.all().iter().find(|ring| ring.website() == website) {
            ring.set_client_ports(service, ports);
        }
    }

    /// From now on a capture that ends is started again, and what was missed is on record.
    pub(crate) fn keep(&self, ledger: &Arc<Ledger>) {
        for ring in self.all() {
            ring.keep(Arc::clone(ledger));
        }
    }

    /// Whether every packet since the deploy is recorded.
    pub(crate) fn are_whole(&self) -> bool {
        self.all().iter().all(|ring| ring.is_whole())
    }

    /// The rings as they are.
    pub(crate) fn rings(&self) -> Vec<TrafficRing> {
        self.all().iter().map(|ring| ring.describe()).collect()
    }

    /// What is captured is thrown away at the end.
    pub(crate) fn discard_at_end(&self) {
        self.discard.store(true, Ordering::Relaxed);
    }

    /// Ends every capture: what the kernel has for it is written first. The files stay, unless they are to be discarded, and the
    /// record tells of those that do.
    pub(crate) async fn stop(self: &Arc<Self>, ledger: &Arc<Ledger>) {
        if !self.are_wanted() {
            return;
        }
        join_all(self.all().into_iter().map(|ring| async move {
            let stopped = Arc::clone(&ring);
            match tokio::time::timeout(STOP_LIMIT, spawn_blocking(move || stopped.stop())).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, website = %ring.website(), "capture"),
                Err(_) => tracing::warn!(website = %ring.website(), "a capture did not end in time"),
            }
        }))
        .await;
        let (captures, ledger) = (Arc::clone(self), Arc::clone(ledger));
        if let Err(error) = spawn_blocking(move || captures.settle(&ledger)).await {
            tracing::warn!(%error, "captures");
        }
    }

    fn settle(&self, ledger: &Ledger) {
        if self.discard.load(Ordering::Relaxed)
            && let Err(error) = captures::remove(&self.folder)
        {
            tracing::warn!(%error, path = %self.folder.display(), "captures cannot be discarded");
        }
        ledger.note(|record| captures::note_unstored(&self.folder, record));
    }
}

impl agentenv_net::Captures for Captures {
    fn list(&self) -> TrafficCaptureListing {
        let rings = self.all();
        let captures = rings.iter().flat_map(|ring| ring.files()).collect();
        TrafficCaptureListing { captures, rings: rings.iter().map(|ring| ring.describe()).collect() }
    }

    fn open(&self, id: &CaptureId) -> Result<CaptureBytes, CaptureMissing> {
        let ring = self.all().into_iter().find(|ring| *ring.website() == id.website);
        ring.ok_or(CaptureMissing::Unknown)?.open(id.generation)
    }
}

/// A capture on its way; none where the deploy does not capture, or once it was waited for.
pub(crate) struct Starting(Option<(Arc<Ring>, Started)>);

/// Why it does not run, where it does not.
type Started = JoinHandle<Result<(), String>>;

impl Starting {
    /// Returns once the capture runs; at once where there is none.
    pub(crate) async fn joined(&mut self) -> Result<(), ControlError> {
        let Some((ring, task)) = self.0.take() else { return Ok(()) };
        let started = match tokio::time::timeout(START_LIMIT, task).await {
            Ok(Ok(started)) => started,
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("it did not begin within {} s", START_LIMIT.as_secs())),
        };
        started.map_err(|reason| ring.not_recording(&reason))
    }
}
