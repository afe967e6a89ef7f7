//! A body while its bytes come.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::decode::{Coding, Decoder, Sink};
use crate::{
    budget::{Budget, Reservation},
    limits,
    record::{Body, Flag},
};

/// What is wanted of bodies, and what they may take together.
#[derive(Clone, Debug)]
pub(crate) struct Bodies {
    budget: Budget,
    /// Decoded bytes of each that are kept.
    keep: Option<usize>,
    decodable: Arc<AtomicU64>,
}

impl Bodies {
    pub(crate) fn new(budget: &Budget, keep: Option<usize>) -> Self {
        let decodable = Arc::new(AtomicU64::new(limits::DECODED_BYTES_OF_RING));
        Self { budget: budget.clone(), keep, decodable }
    }

    /// The account that all of a ring takes from.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// A body with a `Content-Encoding`.
    pub(crate) fn begin(&self, encoding: Option<&str>) -> BodyReader {
        BodyReader {
            all: self.clone(),
            coding: Coding::parse(encoding),
            encoded: 0,
            decoder: None,
            kept: None,
            hole: false,
            failed: false,
        }
    }
}

/// A body that is being read.
#[derive(Debug)]
pub(crate) struct BodyReader {
    all: Bodies,
    coding: Option<Coding>,
    encoded: u64,
    decoder: Option<(Decoder, Reservation)>,
    /// What the decoder had given until it failed.
    kept: Option<Sink>,
    hole: bool,
    failed: bool,
}

impl BodyReader {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.encoded += bytes.len() as u64;
        if self.failed {
            return;
        }
        if self.decoder.is_none() && !self.start() {
            return;
        }
        let Some((decoder, reservation)) = &mut self.decoder else { return };
        let before = decoder.sink().bytes;
        let kept = decoder.sink().kept.len();
        let written = decoder.write(bytes);
        let sink = decoder.sink();
        let decoded = sink.bytes - before;
        if self.coding != Some(Coding::Identity) {
            let left = self.all.decodable.load(Ordering::Relaxed).saturating_sub(decoded);
            self.all.decodable.store(left, Ordering::Relaxed);
        }
        if !reservation.grow(sink.kept.len() - kept) {
            sink.keep = sink.kept.len();
            sink.over = true;
        }
        if written.is_err() {
            self.stop();
        }
    }

    fn start(&mut self) -> bool {
        let Some(coding) = self.coding else {
            self.failed = true;
            return false;
        };
        let left = limits::DECODED_BYTES.min(self.all.decodable.load(Ordering::Relaxed));
        // What needs no decoding costs nothing more, however long it is.
        let left = if coding == Coding::Identity { u64::MAX } else { left };
        let sink = Sink { keep: self.all.keep.unwrap_or(0), left, ..Sink::default() };
        match self.all.budget.reserve(coding.memory()) {
            Some(reservation) => self.decoder = Some((Decoder::new(coding, sink), reservation)),
            None => self.kept = Some(Sink { over: true, ..Sink::default() }),
        }
        self.failed = self.decoder.is_none();
        !self.failed
    }

    fn stop(&mut self) {
        self.failed = true;
        if let Some((mut decoder, _)) = self.decoder.take() {
            self.kept = Some(std::mem::take(decoder.sink()));
        }
    }

    /// Bytes are missing: what is encoded can't be decoded from here on.
    pub(crate) fn lost(&mut self) {
        self.hole = true;
        if self.coding != Some(Coding::Identity) {
            self.stop();
        }
    }

    /// What was read, and what is to be known of it.
    pub(crate) fn finish(mut self) -> (Body, Vec<Flag>) {
        let mut flags = Vec::new();
        if let Some((decoder, _)) = &mut self.decoder
            && decoder.finish().is_err()
        {
            self.failed = true;
        }
        let undecoded = self.failed && self.encoded > 0;
        self.stop();
        let sink = self.kept.unwrap_or_default();
        if undecoded {
            flags.push(Flag::BodyUndecoded);
        }
        if sink.over {
            flags.push(Flag::OverLimit);
        }
        if self.hole {
            flags.push(Flag::Incomplete);
        }
        let content = self.all.keep.is_some().then_some(sink.kept);
        if content.as_ref().is_some_and(|content| (content.len() as u64) < sink.bytes) {
            flags.push(Flag::BodyCut);
        }
        (Body { encoded_bytes: self.encoded, decoded_bytes: sink.bytes, content }, flags)
    }
}
