//! One ring: the capture that fills it now, and what was missed between captures.

use std::{
    ops::RangeInclusive,
    os::fd::OwnedFd,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
    time::Duration,
};

use agentenv_model::{CaptureOptions, PlannedWebsite};
use agentenv_net::{CaptureBytes, CaptureMissing};
use agentenv_protocol::{CaptureGap, Name, TrafficCapture, TrafficRing, TrafficService, control::ControlError};
use agentenv_sandbox::{Capture, Health, OpenCaptureError, RingOptions};
use jiff::Timestamp;
use tokio::task::{JoinHandle, spawn_blocking};

use super::keeper;
use crate::{
    captures,
    sandbox_net::GATEWAY,
    supervisor::{ledger::Ledger, sockets::Sockets, specs},
};

/// The interface that a website's services speak over; there is no other.
const INTERFACE: &str = "lo";
/// What the kernel may hold until it is written. Every ring has it, so it is small.
const MEMORY_BYTES: u32 = 2 << 20;
/// How long a listing waits for what the kernel still has.
const FLUSH_LIMIT: Duration = Duration::from_millis(500);

/// One ring.
pub(super) struct Ring {
    website: Name,
    services: Mutex<Vec<TrafficService>>,
    folder: PathBuf,
    options: RingOptions,
    now: RwLock<Now>,
    missed: Mutex<Missed>,
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// Who captures.
struct Now {
    /// The last capture, running or not: it knows its files either way.
    capture: Option<Capture>,
    /// Where the next one gets its socket; gone when the deploy ends.
    sockets: Option<Sockets>,
}

/// What is not in the files.
struct Missed {
    gaps: Vec<CaptureGap>,
    /// When the capture was last seen alive.
    seen: Timestamp,
    /// Packets that the kernel has dropped since the deploy, as the last capture told.
    dropped: u64,
}

impl Ring {
    pub(super) fn new(website: &PlannedWebsite, folder: PathBuf, options: CaptureOptions, sockets: Sockets) -> Self {
        let CaptureOptions { files, file_bytes } = options;
        Self {
            website: website.name.clone(),
            services: Mutex::new(specs::traffic_services(website)),
            folder,
            options: RingOptions { files, file_bytes, memory_bytes: MEMORY_BYTES },
            now: RwLock::new(Now { capture: None, sockets: Some(sockets) }),
            missed: Mutex::new(Missed { gaps: Vec::new(), seen: Timestamp::now(), dropped: 0 }),
            keeper: Mutex::default(),
        }
    }

    fn now(&self) -> RwLockReadGuard<'_, Now> {
        self.now.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_mut(&self) -> RwLockWriteGuard<'_, Now> {
        self.now.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn missed(&self) -> MutexGuard<'_, Missed> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn website(&self) -> &Name {
        &self.website
    }

    /// Notes which ports the connections of a service come from.
    pub(super) fn set_client_ports(&self, name: &Name, ports: &RangeInclusive<u16>) {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(service) = services.iter_mut().find(|service| service.name == *name) {
            service.client_ports = Some((*ports.start(), *ports.end()));
        }
    }

    /// Captures on a new packet socket, in the place of what captured before. Blocks; returns once packets are recorded.
    pub(super) fn record(&self) -> Result<(), String> {
        let sockets = self.now().sockets.clone().ok_or("the deploy ends")?;
        let socket = sockets.sandbox().packet().map_err(|error| error.to_string())?;
        // The one before is gone first: two would number their files alike.
        let before = self.now_mut().capture.take();
        if let Some(before) = before {
            self.end(before);
        }
        let capture =
            Capture::start(socket, INTERFACE, &self.folder, self.options).map_err(|error| error.to_string())?;
        let mut now = self.now_mut();
        if now.sockets.is_some() {
            now.capture = Some(capture);
        }
        drop(now);
        self.missed().seen = Timestamp::now();
        Ok(())
    }

    /// Says why the capture does not run, where it does not. Blocks until it has done something, or for so long.
    pub(super) fn check(&self, limit: Duration) -> Result<(), String> {
        let answers = self.now().capture.as_ref().is_some_and(|capture| capture.flush(limit));
        if answers {
            self.missed().seen = Timestamp::now();
            return Ok(());
        }
        let silent = || format!("the capture does not answer within {} s", limit.as_secs());
        let hung = matches!(self.now().capture.as_ref().map(Capture::health), Some(Health::Hung { .. }));
        Err(self.trouble().filter(|_| !hung).unwrap_or_else(silent))
    }

    /// Why nothing is recorded; `None` where it is, which is noted.
    pub(super) fn trouble(&self) -> Option<String> {
        let health = self.now().capture.as_ref().map(Capture::health);
        match health {
            Some(Health::Running) => {
                self.missed().seen = Timestamp::now();
                None
            }
            Some(Health::Hung { r#for }) => {
                Some(format!("the capture has not been heard of for {} s", r#for.as_secs()))
            }
            Some(Health::Ended { reason }) => Some(format!("the capture ended: {reason}")),
            None => Some("no capture runs".to_owned()),
        }
    }

    /// Readable when the capture has ended by itself.
    pub(super) fn ended(&self) -> Option<OwnedFd> {
        self.now().capture.as_ref()?.ended_fd().try_clone_to_owned().ok()
    }

    /// The deploy's error when a website is not captured (CAP-4).
    pub(super) fn not_recording(&self, reason: &str) -> ControlError {
        ControlError::infrastructure(format!("the traffic of website `{}` is not captured: {reason}", self.website))
            .hint("see `agent-env doctor`, or deploy it without `--capture-traffic`")
    }

    /// Watches the capture until the deploy ends.
    pub(super) fn keep(self: Arc<Self>, ledger: Arc<Ledger>) {
        let about = Arc::clone(&self);
        spawn_blocking(move || about.write_about());
        let task = tokio::spawn(keeper::keep(Arc::clone(&self), ledger));
        *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Opens a gap: nothing is recorded from the time when the capture was last seen alive.
    pub(super) fn missing(&self, reason: &str) {
        let mut missed = self.missed();
        let from = captures::stamp(missed.seen);
        missed.gaps.push(CaptureGap { from, to: None, reason: reason.to_owned(), next_generation: None });
        drop(missed);
        self.write_about();
    }

    /// Closes the gap: a new capture runs.
    pub(super) fn resumed(&self) {
        let next = self.now().capture.as_ref().and_then(|capture| capture.files().last().map(|file| file.generation));
        if let Some(gap) = self.missed().gaps.last_mut() {
            gap.to = Some(captures::stamp(Timestamp::now()));
            gap.next_generation = next;
        }
        self.write_about();
    }

    /// Says in the gap why it stays open.
    pub(super) fn given_up(&self, reason: &str) {
        if let Some(gap) = self.missed().gaps.last_mut() {
            gap.reason = format!("{}; {reason}", gap.reason);
        }
        self.write_about();
    }

    /// Whether every packet since the deploy is recorded.
    pub(super) fn is_whole(&self) -> bool {
        self.missed().gaps.is_empty() && self.trouble().is_none()
    }

    /// The ring as it is.
    pub(super) fn describe(&self) -> TrafficRing {
        let recording = self.trouble().is_none();
        let dropped = self.now().capture.as_ref().map(Capture::dropped);
        let services = self.services.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let missed = self.missed();
        TrafficRing {
            website: self.website.clone(),
            services,
            gateway_address: GATEWAY,
            recording,
            files: self.options.files,
            file_bytes: self.options.file_bytes,
            dropped: dropped.unwrap_or(missed.dropped),
            gaps: missed.gaps.clone(),
        }
    }

    /// Its files, oldest first, with everything that was sent until now. Blocks.
    pub(super) fn files(&self) -> Vec<TrafficCapture> {
        let now = self.now();
        let files = match &now.capture {
            Some(capture) => {
                capture.flush(FLUSH_LIMIT);
                capture.files()
            }
            // Between two captures, or after the last: what is on disk.
            None => agentenv_sandbox::read_ring(&self.folder).unwrap_or_default(),
        };
        drop(now);
        let ring = self.describe();
        files.iter().map(|file| captures::capture(&ring, file)).collect()
    }

    /// Opens one of its files.
    pub(super) fn open(&self, generation: u64) -> Result<CaptureBytes, CaptureMissing> {
        let now = self.now();
        let opened = match &now.capture {
            Some(capture) => capture.open(generation),
            // One that is not there was: generations are listed before they are asked for.
            None => agentenv_sandbox::open_beneath(&self.folder, generation),
        };
        match opened {
            Ok(open) => Ok(CaptureBytes { file: open.file, bytes: open.bytes, complete: open.complete }),
            Err(OpenCaptureError::Gone) => Err(CaptureMissing::RotatedAway),
            Err(OpenCaptureError::Unknown) => Err(CaptureMissing::Unknown),
            Err(OpenCaptureError::Io(error)) => Err(CaptureMissing::Failed(error)),
        }
    }

    /// Ends the capture, once it has written what the kernel has. Blocks; nothing captures afterwards.
    pub(super) fn stop(&self) {
        if let Some(keeper) = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            keeper.abort();
        }
        let mut now = self.now_mut();
        // One socket alone would keep the namespace alive.
        now.sockets = None;
        let capture = now.capture.take();
        drop(now);
        let Some(capture) = capture else { return };
        self.end(capture);
        self.write_about();
    }

    /// Ends a capture, however it is.
    fn end(&self, capture: Capture) {
        self.missed().dropped = capture.dropped();
        match capture.finish() {
            Ok(summary) => self.missed().dropped = summary.dropped,
            Err(error) => tracing::warn!(%error, website = %self.website, "capture"),
        }
    }

    fn write_about(&self) {
        if let Err(error) = captures::write_about(&self.folder, &self.describe()) {
            tracing::warn!(%error, website = %self.website, "what is known of a ring cannot be written");
        }
    }
}
