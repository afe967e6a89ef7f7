//! What passes from the thread that takes packets to the one that writes them.

use super::{
    checksum,
    index::End,
    pcap::{self, Record},
    ring::{Frame, Statistics},
};

/// Packets as records, and what has to be told once they are written.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Whole ones.
    pub(super) records: Vec<u8>,
    /// What the kernel dropped since the batch before.
    pub(super) counted: Statistics,
    /// A flush that is done with this batch.
    pub(super) flush: Option<u64>,
    /// Nothing follows this batch.
    pub(super) end: Option<End>,
}

impl Batch {
    /// Adds a packet, with its checksum finished.
    pub(super) fn append(&mut self, frame: &Frame<'_>) {
        let bytes = &frame.bytes[..frame.bytes.len().min(pcap::SNAP_LENGTH as usize)];
        let record = Record {
            seconds: frame.seconds,
            microseconds: frame.nanoseconds / 1000,
            captured: bytes.len() as u32,
            length: frame.length,
        };
        self.records.extend_from_slice(&record.encode());
        let start = self.records.len();
        self.records.extend_from_slice(bytes);
        if frame.unfinished {
            checksum::complete(&mut self.records[start..]);
        }
    }

    /// An empty one with the memory of this one.
    pub(super) fn emptied(mut self) -> Self {
        self.records.clear();
        Self { records: self.records, ..Self::default() }
    }
}
