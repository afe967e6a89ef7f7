//! A ring of files that turns, with bytes that say where they are from.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use agentenv_net::{CaptureBytes, CaptureMissing, Captures};
use agentenv_protocol::{CaptureId, CaptureState, Name, TrafficCapture, TrafficCaptureListing};
use tempfile::TempDir;

/// A record: its generation and its place there.
pub const RECORD: usize = 16;

pub fn record(generation: u64, index: u64) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&generation.to_be_bytes());
    record[8..].copy_from_slice(&index.to_be_bytes());
    record
}

/// The bytes of a file within a range.
pub fn content(generation: u64, start: usize, end: usize) -> Vec<u8> {
    let (first, last) = (start / RECORD, end.div_ceil(RECORD));
    let mut bytes = Vec::with_capacity((last - first) * RECORD);
    for index in first..last {
        bytes.extend_from_slice(&record(generation, index as u64));
    }
    bytes[start - first * RECORD..end - first * RECORD].to_vec()
}

pub fn id(generation: u64) -> CaptureId {
    CaptureId { website: Name::parse("shop").unwrap(), generation }
}

pub struct Ring {
    folder: TempDir,
    files: u64,
    file_bytes: usize,
    turning: Mutex<Turning>,
    pub opened: AtomicUsize,
}

struct Turning {
    oldest: u64,
    current: u64,
    file: File,
    bytes: usize,
}

impl Ring {
    /// `file_bytes` is a number of records.
    pub fn new(files: u64, file_bytes: usize) -> Self {
        assert_eq!(file_bytes % RECORD, 0);
        let folder = tempfile::tempdir().unwrap();
        let file = File::create_new(folder.path().join("1.pcap")).unwrap();
        let turning = Mutex::new(Turning { oldest: 1, current: 1, file, bytes: 0 });
        Self { folder, files, file_bytes, turning, opened: AtomicUsize::new(0) }
    }

    pub fn path(&self, generation: u64) -> PathBuf {
        self.folder.path().join(format!("{generation}.pcap"))
    }

    /// Adds so many records by one write, fewer where the file ends; the file they went to, and how many they were.
    pub fn add(&self, records: usize) -> (u64, usize) {
        let mut turning = self.turning.lock().unwrap();
        if turning.bytes == self.file_bytes {
            turning.current += 1;
            turning.file = File::create_new(self.path(turning.current)).unwrap();
            turning.bytes = 0;
            if turning.current - turning.oldest >= self.files {
                fs::remove_file(self.path(turning.oldest)).unwrap();
                turning.oldest += 1;
            }
        }
        let (generation, start) = (turning.current, turning.bytes);
        let end = (start + records * RECORD).min(self.file_bytes);
        turning.file.write_all(&content(generation, start, end)).unwrap();
        turning.bytes = end;
        (generation, (end - start) / RECORD)
    }

    pub fn add_all(&self, mut records: usize) {
        while records > 0 {
            records -= self.add(records).1;
        }
    }

    /// Adds records until the ring has removed this file.
    pub fn turn_away(&self, generation: u64) {
        while self.path(generation).exists() {
            self.add(4096);
        }
    }
}

impl Captures for Ring {
    fn list(&self) -> TrafficCaptureListing {
        let turning = self.turning.lock().unwrap();
        let capture = |generation| {
            let growing = generation == turning.current;
            let bytes = if growing { turning.bytes } else { self.file_bytes } as u64;
            TrafficCapture {
                id: id(generation),
                website: id(generation).website,
                services: Vec::new(),
                generation,
                bytes,
                packets: bytes / RECORD as u64,
                first_packet: None,
                last_packet: None,
                state: if growing { CaptureState::Growing } else { CaptureState::Complete },
                dropped: 0,
            }
        };
        TrafficCaptureListing { captures: (turning.oldest..=turning.current).map(capture).collect(), rings: Vec::new() }
    }

    fn open(&self, id: &CaptureId) -> Result<CaptureBytes, CaptureMissing> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let turning = self.turning.lock().unwrap();
        if id.website.as_str() != "shop" || id.generation > turning.current {
            return Err(CaptureMissing::Unknown);
        }
        if id.generation < turning.oldest {
            return Err(CaptureMissing::RotatedAway);
        }
        let file = File::open(self.path(id.generation)).map_err(CaptureMissing::Failed)?;
        let complete = id.generation < turning.current;
        let bytes = if complete { self.file_bytes } else { turning.bytes } as u64;
        Ok(CaptureBytes { file, bytes, complete })
    }
}

/// One file of this length, of zeros that take no space: for clients that take nothing.
pub struct Sparse(pub u64);

impl Captures for Sparse {
    fn list(&self) -> TrafficCaptureListing {
        TrafficCaptureListing::default()
    }

    fn open(&self, _: &CaptureId) -> Result<CaptureBytes, CaptureMissing> {
        let file = || -> io::Result<File> {
            let file = tempfile::tempfile()?;
            file.set_len(self.0)?;
            Ok(file)
        };
        Ok(CaptureBytes { file: file().map_err(CaptureMissing::Failed)?, bytes: self.0, complete: true })
    }
}
