//! Both directions of a connection together.

use super::{
    Side,
    half::{Half, Held},
};
use crate::{budget::Budget, limits, packet::Segment};

/// A SYN that comes after the first bytes, by at most this much, is of the same connection and came out of order.
const LATE_SYN_BYTES: u64 = 1 << 20;

/// Bytes of one direction, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) time_us: u64,
    /// Where they are in their direction.
    pub(crate) offset: u64,
    /// What the sender had received by then: an offset in the other direction.
    pub(crate) ack: Option<u64>,
    /// Whether the first of them is the first of a captured segment.
    pub(crate) starts_segment: bool,
    pub(crate) bytes: &'a [u8],
}

/// What is told of a connection.
pub(crate) trait Application {
    /// Bytes arrive.
    fn data(&mut self, side: Side, piece: Piece<'_>);
    /// Bytes are missing.
    fn lost(&mut self, side: Side, bytes: u64);
    /// The direction began before the capture did.
    fn began_before(&mut self, side: Side);
    /// Nothing more comes in this direction.
    fn ended(&mut self, side: Side);
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection<A> {
    halves: [Half; 2],
    budget: Budget,
    packets: u64,
    /// When the last bytes were passed on.
    passed_us: u64,
    reset: bool,
    pub(crate) app: A,
}

impl<A: Application> Connection<A> {
    pub(crate) fn new(budget: &Budget, app: A) -> Self {
        Self { halves: <[Half; 2]>::default(), budget: budget.clone(), packets: 0, passed_us: 0, reset: false, app }
    }

    pub(crate) fn half(&self, side: Side) -> &Half {
        &self.halves[side as usize]
    }

    fn half_mut(&mut self, side: Side) -> &mut Half {
        &mut self.halves[side as usize]
    }

    /// Whether an end has broken it off.
    pub(crate) fn was_reset(&self) -> bool {
        self.reset
    }

    /// Whether neither end sends anything more.
    pub(crate) fn is_over(&self) -> bool {
        self.reset || self.halves.iter().all(|half| half.end.is_some())
    }

    /// Whether a segment begins another connection between the same addresses and ports.
    pub(crate) fn is_followed_by(&self, side: Side, segment: &Segment<'_>) -> bool {
        let half = self.half(side);
        if !segment.syn {
            return false;
        }
        if let Some(initial) = half.initial {
            return initial != segment.seq;
        }
        let Some(start) = half.offset_of(segment.seq.wrapping_add(1)) else { return false };
        half.next.is_some() || half.first().is_some_and(|(first, _)| first.wrapping_sub(start) > LATE_SYN_BYTES)
    }

    /// Takes a captured segment.
    pub(crate) fn segment(&mut self, side: Side, time_us: u64, clock_us: u64, segment: &Segment<'_>) {
        self.packets += 1;
        self.half_mut(side).packets += 1;
        if segment.syn {
            self.begin(side, segment.seq);
            if let Some(ack) = segment.ack {
                // It answers the other end's, which may come late or not at all.
                self.begin(side.other(), ack.wrapping_sub(1));
            }
        }
        if let Some(ack) = segment.ack {
            self.half_mut(side.other()).acknowledged(ack);
        }
        if !segment.payload.is_empty() || segment.fin || segment.cut > 0 {
            self.content(side, time_us, segment);
        }
        self.reset |= segment.rst;
        self.pump();
        self.give_up_waiting(clock_us);
    }

    fn begin(&mut self, side: Side, initial: u32) {
        let half = self.half_mut(side);
        if half.next.is_none() {
            half.initial = Some(initial);
            let start = half.offset(initial.wrapping_add(1));
            half.set_next(start);
        }
    }

    fn content(&mut self, side: Side, time_us: u64, segment: &Segment<'_>) {
        let start = segment.seq.wrapping_add(segment.syn.into());
        let half = self.half_mut(side);
        let offset = half.offset(start);
        let length = segment.payload.len() as u64 + u64::from(segment.cut);
        if segment.fin && half.end.is_none() {
            half.end = Some(offset + length);
        }
        if segment.payload.is_empty() || half.next.is_some_and(|next| offset + length <= next) {
            return;
        }
        let ready = half.first().is_none() && half.next.is_some_and(|next| offset <= next);
        if ready && self.is_caused(side, segment.ack) {
            return self.pass(side, offset, time_us, segment.ack, segment.payload);
        }
        if self.held_bytes() + segment.payload.len() > limits::HELD_BYTES {
            self.give_up();
        }
        let bytes = segment.payload.len() + limits::HELD_OVERHEAD;
        let reservation = self.budget.reserve(bytes).or_else(|| {
            self.give_up();
            self.budget.reserve(bytes)
        });
        // Where others hold all there is, these bytes are as good as lost.
        if let Some(reservation) = reservation {
            let held = Held { time_us, ack: segment.ack, bytes: segment.payload.to_vec(), _reservation: reservation };
            self.half_mut(side).hold(offset, held);
        }
    }

    fn held_bytes(&self) -> usize {
        self.halves.iter().map(|half| half.held_bytes).sum()
    }

    /// Whether everything that the sender had received has been passed on.
    fn is_caused(&self, side: Side, ack: Option<u32>) -> bool {
        self.cause(side, ack).is_none()
    }

    /// What a segment's sender had received of the other direction and was not passed on yet: up to where.
    fn cause(&self, side: Side, ack: Option<u32>) -> Option<u64> {
        let other = self.half(side.other());
        let acked = other.offset_of(ack?)?;
        match other.next {
            // The end of a stream is acknowledged like a byte.
            Some(next) => {
                let passed = next + u64::from(other.end == Some(next));
                (acked > passed).then_some(acked)
            }
            None => other.first().is_some().then_some(acked),
        }
    }

    fn pass(&mut self, side: Side, offset: u64, time_us: u64, ack: Option<u32>, bytes: &[u8]) {
        let ack = ack.and_then(|ack| self.half(side.other()).offset_of(ack));
        let half = self.half_mut(side);
        let next = half.next.unwrap_or(offset);
        let known = usize::try_from(next.saturating_sub(offset)).unwrap_or(usize::MAX);
        let Some(new) = bytes.get(known..).filter(|new| !new.is_empty()) else { return };
        half.bytes += new.len() as u64;
        half.set_next(next + new.len() as u64);
        // What had to wait for something could be read when that had come. A clock that was set back is another matter.
        let late = self.passed_us.saturating_sub(time_us) <= limits::LOST_AFTER_US;
        self.passed_us = if late { self.passed_us.max(time_us) } else { time_us };
        let time_us = self.passed_us;
        self.app.data(side, Piece { time_us, offset: next, ack, starts_segment: known == 0, bytes: new });
    }

    /// Passes on everything that waits for nothing.
    fn pump(&mut self) {
        while self.advance(Side::ToServer) | self.advance(Side::ToClient) {}
    }

    fn advance(&mut self, side: Side) -> bool {
        let mut advanced = false;
        while let Some(next) = self.half(side).next {
            let Some((offset, held)) = self.half(side).first() else { break };
            let known = offset + held.bytes.len() as u64 <= next;
            if offset > next || !known && !self.is_caused(side, held.ack) {
                break;
            }
            let Some((offset, held)) = self.half_mut(side).pop() else { break };
            self.pass(side, offset, held.time_us, held.ack, &held.bytes);
            advanced = true;
        }
        let half = self.half_mut(side);
        if !half.ended && half.end.zip(half.next).is_some_and(|(end, next)| next >= end) {
            half.ended = true;
            self.app.ended(side);
            advanced = true;
        }
        advanced
    }

    /// The offset to which a direction would have to skip for anything to go on, if something of it is missing.
    fn skip_target(&self, side: Side) -> Option<u64> {
        let half = self.half(side);
        let next = half.next?;
        let held = half.first().map(|(offset, _)| offset);
        if held.is_some_and(|held| held <= next) {
            // It waits for the other direction only.
            return None;
        }
        let other = self.half(side.other());
        let awaited = other.first().and_then(|(offset, held)| {
            let ready = other.next.is_none_or(|other_next| offset <= other_next);
            if ready { self.cause(side.other(), held.ack) } else { None }
        });
        [held, half.end, awaited].into_iter().flatten().filter(|target| *target > next).min()
    }

    /// Takes what has been missing for too long to be lost.
    fn give_up_waiting(&mut self, clock_us: u64) {
        let mut skipped = true;
        while std::mem::take(&mut skipped) {
            for side in Side::BOTH {
                let packets = self.packets;
                let target = self.skip_target(side);
                let half = self.half_mut(side);
                let limit = match target {
                    Some(target) if half.was_received(target) => (limits::LOST_AFTER_PACKETS, limits::LOST_AFTER_US),
                    Some(_) => (limits::UNACKNOWLEDGED_AFTER_PACKETS, limits::UNACKNOWLEDGED_AFTER_US),
                    None if half.next.is_none() && half.first().is_some() => {
                        (limits::SETTLE_PACKETS, limits::SETTLE_US)
                    }
                    None => continue,
                };
                if half.has_waited(packets, clock_us, limit) {
                    self.skip(side, target);
                    self.pump();
                    skipped = true;
                }
            }
        }
    }

    /// Takes everything that is missing to be lost.
    pub(crate) fn give_up(&mut self) {
        loop {
            self.pump();
            let waiting = |side: Side| {
                let half = self.half(side);
                let target = self.skip_target(side);
                let unsettled = half.next.is_none() && half.first().is_some();
                // What was captured first goes on first.
                let time = half.first().or_else(|| self.half(side.other()).first()).map(|(_, held)| held.time_us);
                (target.is_some() || unsettled).then_some((!unsettled, time, side, target))
            };
            let first = Side::BOTH.into_iter().filter_map(waiting).min_by_key(|(settled, time, ..)| (*settled, *time));
            match first {
                Some((_, _, side, target)) => self.skip(side, target),
                None if self.pass_uncaused() => {}
                None => break,
            }
        }
    }

    /// Passes on the first of what waits for each other, as no real connection does.
    fn pass_uncaused(&mut self) -> bool {
        let captured = |side: &Side| self.half(*side).first().map(|(_, held)| held.time_us);
        let sides = Side::BOTH.into_iter().filter(|side| captured(side).is_some());
        let Some(side) = sides.min_by_key(captured) else { return false };
        if let Some((offset, held)) = self.half_mut(side).pop() {
            self.pass(side, offset, held.time_us, held.ack, &held.bytes);
        }
        true
    }

    fn skip(&mut self, side: Side, target: Option<u64>) {
        let half = self.half_mut(side);
        match (half.next, target) {
            (Some(next), Some(target)) => {
                half.lost += target - next;
                half.set_next(target);
                self.app.lost(side, target - next);
            }
            _ => {
                let Some((first, _)) = half.first() else { return };
                half.set_next(first);
                self.app.began_before(side);
            }
        }
    }
}
