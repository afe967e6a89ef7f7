//! A ring, read file by file.

use std::io::Read;

use agentenv_protocol::TrafficRing;

use crate::{
    limits,
    note::{Damage, FileNote, TrafficError},
    order::InOrder,
    packet::{Captured, FileError, Packets},
    record::Record,
    secrets::Secrets,
    step::{Step, step_at},
    tracker::Tracker,
};

/// One file of a ring.
#[derive(Debug)]
pub struct CaptureFile<R> {
    /// What it is called in notes and errors.
    pub name: String,
    /// Its bytes.
    pub bytes: R,
}

/// What is wanted of a ring.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The steps of the task that the deploy was made for, in order.
    pub steps: Vec<Step>,
    /// How many decoded bytes of each body to give; `None` gives no bodies.
    pub body_bytes: Option<usize>,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files.
    pub files: u64,
    /// Packets.
    pub packets: u64,
    /// Files that don't hold what they should.
    pub notes: Vec<FileNote>,
}

/// The exchanges and flows of one ring, in the order in which they began.
///
/// An iterator that reads as far as it must. Those that are still going on when 16,384 others, or 64 MiB of them, wait for them
/// come late.
pub struct RingTraffic<I, R: Read> {
    files: I,
    current: Option<(String, Packets<R>)>,
    tracker: Tracker,
    secrets: Secrets,
    ready: InOrder,
    steps: Vec<Step>,
    summary: Summary,
    over: bool,
}

impl<I, R> RingTraffic<I, R>
where
    I: Iterator<Item = Result<CaptureFile<R>, TrafficError>>,
    R: Read,
{
    /// Reads a ring's files, the oldest first.
    pub fn new(ring: TrafficRing, files: I, options: Options) -> Self {
        Self {
            files,
            current: None,
            tracker: Tracker::new(ring, options.body_bytes),
            secrets: Secrets::default(),
            ready: InOrder::default(),
            steps: options.steps,
            summary: Summary::default(),
            over: false,
        }
    }

    /// What was read so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Bytes held of what isn't over.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        self.tracker.held_bytes()
    }

    fn advance(&mut self) -> Result<(), TrafficError> {
        let Some((name, packets)) = &mut self.current else { return self.next_file() };
        match packets.next() {
            Ok(Some(captured)) => {
                self.summary.packets += 1;
                if let Captured::Packet(packet) = captured {
                    self.tracker.packet(&packet);
                }
            }
            Ok(None) => self.current = None,
            Err(FileError::Damaged(damage)) => {
                let name = std::mem::take(name);
                self.current = None;
                self.note(name, damage);
            }
            Err(FileError::Io(source)) => {
                let file = std::mem::take(name);
                self.current = None;
                return Err(TrafficError::Read { file, source });
            }
        }
        Ok(())
    }

    fn next_file(&mut self) -> Result<(), TrafficError> {
        let Some(file) = self.files.next() else {
            self.over = true;
            self.tracker.finish();
            return Ok(());
        };
        self.summary.files += 1;
        let CaptureFile { name, bytes } = file?;
        match Packets::open(bytes) {
            Ok(packets) => self.current = Some((name, packets)),
            Err(FileError::Damaged(damage)) => self.note(name, damage),
            Err(FileError::Io(source)) => return Err(TrafficError::Read { file: name, source }),
        }
        Ok(())
    }

    fn note(&mut self, file: String, damage: Damage) {
        if self.summary.notes.len() < limits::NOTES {
            self.summary.notes.push(FileNote { file, damage });
        }
    }

    fn collect(&mut self) {
        for mut record in self.tracker.take_done() {
            let step = step_at(&self.steps, record.started_us());
            match &mut record {
                Record::Exchange(exchange) => {
                    exchange.step = step;
                    self.secrets.learn(exchange);
                }
                Record::Flow(flow) => flow.step = step,
            }
            self.ready.push(record);
        }
    }
}

impl<I, R> Iterator for RingTraffic<I, R>
where
    I: Iterator<Item = Result<CaptureFile<R>, TrafficError>>,
    R: Read,
{
    type Item = Result<Record, TrafficError>;

    /// After an error the rest is read without the file that it was in.
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(mut record) = self.ready.pop(self.over) {
                if let Record::Exchange(exchange) = &mut record {
                    self.secrets.mask(exchange);
                }
                return Some(Ok(record));
            }
            if self.over {
                return None;
            }
            if let Err(error) = self.advance() {
                return Some(Err(error));
            }
            self.collect();
        }
    }
}
