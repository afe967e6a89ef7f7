//! One direction of a connection: sequence numbers, and segments that can't be passed on yet.

use std::collections::BTreeMap;

use crate::{budget::Reservation, limits};

/// Where offsets begin: far enough from 0 for segments that are before the first one seen.
const ORIGIN: u64 = 1 << 40;

/// A segment that waits for an earlier one.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) time_us: u64,
    pub(crate) ack: Option<u32>,
    pub(crate) bytes: Vec<u8>,
    /// Of the account that all connections share.
    pub(crate) _reservation: Reservation,
}

/// Since when a direction has been waiting for the byte at an offset.
#[derive(Debug)]
struct Wait {
    at: Option<u64>,
    packets: u64,
    clock_us: u64,
}

/// One direction.
///
/// Offsets are sequence numbers without their wrapping, from an arbitrary origin.
#[derive(Debug, Default)]
pub(crate) struct Half {
    /// A sequence number and its offset, never far behind.
    anchor: Option<(u32, u64)>,
    /// The next byte to pass on; absent until it is known where the stream begins.
    pub(crate) next: Option<u64>,
    /// The initial sequence number, where it was captured.
    pub(crate) initial: Option<u32>,
    held: BTreeMap<u64, Held>,
    pub(crate) held_bytes: usize,
    /// The byte up to which the other end has acknowledged.
    acked: Option<u64>,
    /// Where it ends.
    pub(crate) end: Option<u64>,
    /// Whether its end was passed on.
    pub(crate) ended: bool,
    wait: Option<Wait>,
    pub(crate) packets: u64,
    /// Payload bytes passed on.
    pub(crate) bytes: u64,
    /// Payload bytes that were not captured.
    pub(crate) lost: u64,
}

impl Half {
    /// The offset of a sequence number.
    pub(crate) fn offset(&mut self, seq: u32) -> u64 {
        self.anchor.get_or_insert((seq, ORIGIN));
        self.offset_of(seq).unwrap_or(ORIGIN)
    }

    /// The same, where anything is known of this direction.
    pub(crate) fn offset_of(&self, seq: u32) -> Option<u64> {
        let (anchor, offset) = self.anchor?;
        let distance = seq.wrapping_sub(anchor).cast_signed();
        Some(offset.saturating_add_signed(distance.into()))
    }

    /// Passes to a new next byte.
    pub(crate) fn set_next(&mut self, next: u64) {
        if let Some((seq, offset)) = &mut self.anchor {
            // A segment is shorter than 4 GiB, and so is what a gap is taken to be.
            *seq = seq.wrapping_add(next.wrapping_sub(*offset) as u32);
            *offset = next;
        }
        self.next = Some(next);
    }

    pub(crate) fn acknowledged(&mut self, ack: u32) {
        let offset = self.offset(ack);
        self.acked = self.acked.max(Some(offset));
    }

    pub(crate) fn hold(&mut self, offset: u64, held: Held) {
        // The first of two that differ counts, unless the second is longer: then it is the one with more.
        if self.held.get(&offset).is_some_and(|other| other.bytes.len() >= held.bytes.len()) {
            return;
        }
        self.held_bytes += held.bytes.len() + limits::HELD_OVERHEAD;
        if let Some(replaced) = self.held.insert(offset, held) {
            self.held_bytes -= replaced.bytes.len() + limits::HELD_OVERHEAD;
        }
    }

    /// The first held segment and its offset.
    pub(crate) fn first(&self) -> Option<(u64, &Held)> {
        self.held.first_key_value().map(|(offset, held)| (*offset, held))
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Held)> {
        let (offset, held) = self.held.pop_first()?;
        self.held_bytes -= held.bytes.len() + limits::HELD_OVERHEAD;
        Some((offset, held))
    }

    /// Whether the other end is known to have received everything before an offset.
    pub(crate) fn was_received(&self, offset: u64) -> bool {
        self.acked.is_some_and(|acked| acked >= offset)
    }

    /// Whether it has waited at its next byte for so many packets of the connection, or for so long.
    pub(crate) fn has_waited(&mut self, packets: u64, clock_us: u64, limit: (u64, u64)) -> bool {
        match &self.wait {
            Some(wait) if wait.at == self.next => {
                packets - wait.packets >= limit.0 || clock_us.saturating_sub(wait.clock_us) >= limit.1
            }
            _ => {
                self.wait = Some(Wait { at: self.next, packets, clock_us });
                false
            }
        }
    }
}
