//! Records in the order in which they began.

use std::{cmp::Ordering, collections::BinaryHeap};

use crate::{limits, record::Record};

/// A record in the heap: the one that began first comes out first.
struct Entry {
    number: u64,
    record: Record,
}

impl Entry {
    fn key(&self) -> (u64, u64) {
        (self.record.started_us(), self.number)
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Records that wait for earlier ones, which are not over yet: as many as the limits allow.
#[derive(Default)]
pub(crate) struct InOrder {
    heap: BinaryHeap<Entry>,
    number: u64,
    bytes: usize,
}

impl InOrder {
    pub(crate) fn push(&mut self, record: Record) {
        self.number += 1;
        self.bytes += record.weight();
        self.heap.push(Entry { number: self.number, record });
    }

    /// The first record: where there are more than may wait, or nothing more can come before it.
    pub(crate) fn pop(&mut self, over: bool) -> Option<Record> {
        let full = self.heap.len() > limits::ORDERED_RECORDS || self.bytes > limits::ORDERED_BYTES;
        let entry = if full || over { self.heap.pop()? } else { return None };
        self.bytes -= entry.record.weight();
        Some(entry.record)
    }
}
