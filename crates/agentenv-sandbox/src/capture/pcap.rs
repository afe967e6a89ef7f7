//! Classic pcap: its header, its records, and how far a file holds whole ones.

use std::io;

/// Whole packets on `lo` have 65,549 bytes; what tcpdump takes too.
pub(crate) const SNAP_LENGTH: u32 = 262_144;
pub(crate) const HEADER_BYTES: usize = 24;
pub(crate) const RECORD_BYTES: usize = 16;
const LINKTYPE_ETHERNET: u32 = 1;
/// Microsecond stamps, least significant byte first.
const MAGIC: u32 = 0xa1b2_c3d4;
/// What is read of a file at once while its records are counted.
const CHUNK_BYTES: usize = 64 << 10;

/// The first bytes of every file.
pub(crate) fn header() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0..4].copy_from_slice(&MAGIC.to_le_bytes());
    header[4..6].copy_from_slice(&2_u16.to_le_bytes());
    header[6..8].copy_from_slice(&4_u16.to_le_bytes());
    header[16..20].copy_from_slice(&SNAP_LENGTH.to_le_bytes());
    header[20..24].copy_from_slice(&LINKTYPE_ETHERNET.to_le_bytes());
    header
}

/// The four numbers before a packet's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) seconds: u32,
    pub(crate) microseconds: u32,
    /// Bytes that follow.
    pub(crate) captured: u32,
    /// Bytes that the packet had.
    pub(crate) length: u32,
}

impl Record {
    pub(crate) fn encode(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        for (at, number) in [self.seconds, self.microseconds, self.captured, self.length].into_iter().enumerate() {
            bytes[at * 4..at * 4 + 4].copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// `None` for what this module never writes.
    fn decode(bytes: [u8; RECORD_BYTES]) -> Option<Self> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let record = Self { seconds: number(0), microseconds: number(4), captured: number(8), length: number(12) };
        (record.captured <= SNAP_LENGTH && record.captured <= record.length && record.microseconds < 1_000_000)
            .then_some(record)
    }

    /// Microseconds since 1970.
    pub(crate) fn stamp_us(self) -> u64 {
        u64::from(self.seconds) * 1_000_000 + u64::from(self.microseconds)
    }

    pub(crate) fn size(self) -> u64 {
        RECORD_BYTES as u64 + u64::from(self.captured)
    }
}

/// What a file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Up to the end of the last whole record; 0 when not even the header is good.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) first_us: Option<u64>,
    pub(crate) last_us: Option<u64>,
    /// Whether something follows that is no whole record.
    pub(crate) damaged: bool,
}

impl Contents {
    pub(crate) fn add(&mut self, record: Record) {
        self.bytes += record.size();
        self.packets += 1;
        self.first_us.get_or_insert(record.stamp_us());
        self.last_us = Some(record.stamp_us());
    }
}

/// The whole records at the beginning of `bytes`, which follow a header or a record.
pub(crate) fn whole_records(bytes: &[u8]) -> Contents {
    let whole = fitting(bytes, u64::MAX, false);
    Contents { damaged: whole.bytes != bytes.len() as u64, ..whole }
}

/// The whole records of `bytes` that fit into `room`; of the first one all, if it is to be taken however long it is.
pub(crate) fn fitting(mut bytes: &[u8], room: u64, first: bool) -> Contents {
    let mut fitting = Contents::default();
    while let Some((head, rest)) = bytes.split_first_chunk::<RECORD_BYTES>() {
        let Some(record) = Record::decode(*head) else { break };
        let Some(rest) = rest.get(record.captured as usize..) else { break };
        let fits = fitting.bytes + record.size() <= room || first && fitting.packets == 0;
        if !fits {
            break;
        }
        fitting.add(record);
        bytes = rest;
    }
    fitting
}

/// Reads a file of `length` bytes by `read_at`, which fills as much of its buffer as there is.
pub(crate) fn scan(length: u64, mut read_at: impl FnMut(&mut [u8], u64) -> io::Result<usize>) -> io::Result<Contents> {
    let mut window = Window { start: 0, bytes: Vec::new() };
    let mut contents = Contents { damaged: true, ..Contents::default() };
    match window.at::<HEADER_BYTES>(0, &mut read_at)? {
        Some(found) if found == header() => contents.bytes = HEADER_BYTES as u64,
        _ => return Ok(contents),
    }
    while let Some(head) = window.at::<RECORD_BYTES>(contents.bytes, &mut read_at)? {
        match Record::decode(head) {
            Some(record) if contents.bytes + record.size() <= length => contents.add(record),
            _ => break,
        }
    }
    contents.damaged = contents.bytes != length;
    Ok(contents)
}

/// A piece of a file: headers of small packets lie close together, those of large ones don't.
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The bytes at `offset`; `None` past the end.
    fn at<const N: usize>(
        &mut self,
        offset: u64,
        read_at: &mut impl FnMut(&mut [u8], u64) -> io::Result<usize>,
    ) -> io::Result<Option<[u8; N]>> {
        if let Some(found) = self.held(offset) {
            return Ok(Some(found));
        }
        self.bytes.resize(CHUNK_BYTES, 0);
        self.start = offset;
        let mut filled = 0;
        while filled < N {
            match read_at(&mut self.bytes[filled..], offset + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        self.bytes.truncate(filled);
        Ok(self.held(offset))
    }

    fn held<const N: usize>(&self, offset: u64) -> Option<[u8; N]> {
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(at..)?.first_chunk().copied()
    }
}

#[cfg(test)]
mod tests;
