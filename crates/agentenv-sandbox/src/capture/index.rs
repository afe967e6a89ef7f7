//! What a capture's thread tells everybody else: which files there are, how far they reach, and that it lives.

use std::{
    collections::VecDeque,
    fs::File,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use agentenv_protocol::CaptureState;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// One file of a ring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureFile {
    /// Its place in the ring's order, from 1.
    pub generation: u64,
    /// Bytes to the end of its last whole record, its header included; 0 if not even that is good.
    pub bytes: u64,
    /// Packets in them.
    pub packets: u64,
    /// When the first of them was captured, in microseconds since 1970.
    pub first_us: Option<u64>,
    /// When the last of them was captured.
    pub last_us: Option<u64>,
    /// Whether it grows, is whole, or ends in something else than a record.
    pub state: CaptureState,
    /// Packets that the kernel dropped while this file was the current one.
    pub dropped: u64,
}

/// A file that is open for reading.
#[derive(Debug)]
pub struct OpenCapture {
    /// The file, at its beginning. It stays readable when it is rotated away.
    pub file: File,
    /// How much of it to read: up to the end of the last whole record.
    pub bytes: u64,
    /// Whether nothing will be added to it.
    pub complete: bool,
}

/// What a capture did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaptureSummary {
    /// The files that are left, oldest first.
    pub files: Vec<CaptureFile>,
    /// Packets that this capture wrote, those included that were rotated away.
    pub packets: u64,
    /// Packets that the kernel dropped under this capture.
    pub dropped: u64,
    /// How often the kernel's ring was full.
    pub freezes: u64,
}

/// How a capture is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Its thread works or waits for packets.
    Running,
    /// Its thread hasn't been heard of for longer than it should take.
    Hung {
        /// How long.
        r#for: Duration,
    },
    /// Its thread has ended.
    Ended {
        /// Why.
        reason: String,
    },
}

/// How often an idle capture says that it lives: 200 of them wake up 200 times a second then.
pub(super) const BEAT: Duration = Duration::from_secs(2);
/// A write to a busy disk may take seconds; more than this is as good as dead.
const HUNG_AFTER: Duration = Duration::from_secs(5);

impl End {
    pub(super) fn failed(failure: &Failure) -> Self {
        Self::Failed(format!("{} failed: {}", failure.what, failure.io()))
    }
}

/// Shared by a capture's thread and its handle.
#[derive(Debug)]
pub(super) struct Index {
    state: Mutex<State>,
    changed: Condvar,
    began: Instant,
    /// Milliseconds after `began`.
    beat: AtomicU64,
    /// The last flush that was asked for, from 1.
    flush: AtomicU64,
    stop: AtomicBool,
    /// Whether nobody waits for the thread any more: it must not touch the folder again, which may be another's by now.
    abandoned: AtomicBool,
}

/// The part that changes together.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Oldest first.
    pub(super) files: VecDeque<CaptureFile>,
    /// Packets written, dropped, and times that the ring was full: of this capture, not of others before it.
    pub(super) packets: u64,
    pub(super) dropped: u64,
    pub(super) freezes: u64,
    /// The last flush that is done.
    pub(super) flushed: u64,
    pub(super) end: Option<End>,
}

/// How the thread ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was told to.
    Stopped,
    /// By itself.
    Failed(String),
}

impl Index {
    pub(super) fn new(began: Instant) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            began,
            beat: AtomicU64::new(0),
            flush: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn beat(&self, now: Instant) {
        let passed = now.saturating_duration_since(self.began).as_millis();
        self.beat.store(u64::try_from(passed).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn health(&self, now: Instant) -> Health {
        match &self.state().end {
            Some(End::Failed(reason)) => return Health::Ended { reason: reason.clone() },
            Some(End::Stopped) => return Health::Ended { reason: "it was stopped".to_owned() },
            None => {}
        }
        let last = self.began + Duration::from_millis(self.beat.load(Ordering::Relaxed));
        let silent = now.saturating_duration_since(last);
        if silent > HUNG_AFTER { Health::Hung { r#for: silent } } else { Health::Running }
    }

    /// Asks for a flush; its number.
    pub(super) fn ask_flush(&self) -> u64 {
        self.flush.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(super) fn asked_flush(&self) -> u64 {
        self.flush.load(Ordering::SeqCst)
    }

    pub(super) fn ask_stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    pub(super) fn asked_stop(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst)
    }

    /// Changes the state, and wakes those who wait for it.
    pub(super) fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Waits until the state is so; whether it came to be.
    pub(super) fn wait(&self, limit: Duration, so: impl Fn(&State) -> bool) -> bool {
        let waited = self.changed.wait_timeout_while(self.state(), limit, |state| !so(state));
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        so(&state)
    }

    pub(super) fn summary(&self) -> CaptureSummary {
        let state = self.state();
        CaptureSummary {
            files: state.files.iter().cloned().collect(),
            packets: state.packets,
            dropped: state.dropped,
            freezes: state.freezes,
        }
    }
}

#[cfg(test)]
mod tests;
