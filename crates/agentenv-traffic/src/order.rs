//! Records in the order in which they began.

use std::collections::BTreeMap;

use crate::{limits, record::Record};

/// Records that wait for earlier ones, which are not over yet: as many as the limits allow.
#[derive(Default)]
pub(crate) struct InOrder {
    /// By when they began, and among those of one moment by the order in which they came; each with its weight.
    waiting: BTreeMap<(u64, u64), (usize, Record)>,
    number: u64,
    bytes: usize,
}

impl InOrder {
    pub(crate) fn push(&mut self, record: Record) {
        self.number += 1;
        let weight = record.weight();
        self.bytes += weight;
        self.waiting.insert((record.started_us(), self.number), (weight, record));
    }

    /// The first record: where there are more than may wait, or nothing more can come before it.
    pub(crate) fn pop(&mut self, over: bool) -> Option<Record> {
        let full = self.waiting.len() > limits::ORDERED_RECORDS || self.bytes > limits::ORDERED_BYTES;
        let (_, (weight, record)) = if full || over { self.waiting.pop_first()? } else { return None };
        self.bytes -= weight;
        Some(record)
    }
}
