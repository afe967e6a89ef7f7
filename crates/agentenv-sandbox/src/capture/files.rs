//! The writer of a ring: records in, files out, never more of them than the ring has.

use std::{
    os::fd::OwnedFd,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use agentenv_protocol::CaptureState;
use rustix::io::Errno;

use super::{
    RingOptions,
    folder::{Folder, RingRecord},
    index::{CaptureFile, Index},
    pcap::{self, Contents},
    ring::Statistics,
};
use crate::{
    failure::Failure,
    kernel::{self, Kernel},
};

/// How often drops are written down: they come by the thousand, and the record is for after a crash.
const RECORD_EVERY: Duration = Duration::from_secs(1);

/// Writes the files of a ring.
pub(super) struct Writer {
    kernel: Kernel,
    folder: Arc<Folder>,
    options: RingOptions,
    index: Arc<Index>,
    file: OwnedFd,
    generation: u64,
    /// Bytes of whole records in the current file, its header included, and packets.
    bytes: u64,
    packets: u64,
    /// When drops were last written down, if some were.
    recorded: Option<Instant>,
}

impl Writer {
    /// Goes on with what the folder holds: publishes a first file of the next generation.
    pub(super) fn open(
        kernel: Kernel,
        folder: Arc<Folder>,
        options: RingOptions,
        index: Arc<Index>,
    ) -> Result<Self, Failure> {
        let (record, listed) = kernel.at("reading", folder.path(), || {
            folder.remove_parts().and_then(|()| folder.read()).map_err(|error| kernel::errno(&error))
        })?;
        let last = listed.last().map_or(0, |file| file.generation).max(record.generation);
        index.update(|state| state.files = listed.into());
        let (generation, file) = begin(kernel, &folder, options, &index, last)?;
        let bytes = pcap::HEADER_BYTES as u64;
        let writer = Self { kernel, folder, options, index, file, generation, bytes, packets: 0, recorded: None };
        writer.record()?;
        Ok(writer)
    }

    /// Where the files are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes whole records, and begins another file wherever this one would get too long.
    pub(super) fn write(&mut self, mut records: &[u8]) -> Result<(), Failure> {
        while !records.is_empty() {
            let room = self.options.file_bytes.saturating_sub(self.bytes);
            let fitting = pcap::fitting(records, room, self.packets == 0);
            if fitting.packets == 0 {
                self.rotate()?;
                continue;
            }
            let (now, later) = records.split_at(fitting.bytes as usize);
            self.put(now, fitting)?;
            records = later;
        }
        Ok(())
    }

    /// Appends records to the current file, of which `contents` tells, and tells how far it reaches.
    fn put(&mut self, records: &[u8], contents: Contents) -> Result<(), Failure> {
        let mut written = 0;
        while written < records.len() {
            let wrote = self.kernel.call("write", || {
                match rustix::io::retry_on_intr(|| rustix::io::write(&self.file, &records[written..]))? {
                    0 => Err(Errno::IO),
                    count => Ok(count),
                }
            });
            match wrote {
                Ok(count) => written += count,
                Err(failure) => {
                    self.account(pcap::whole_records(&records[..written]));
                    return Err(failure.at(&self.folder.path_of(self.generation)));
                }
            }
        }
        self.account(contents);
        Ok(())
    }

    /// Tells of what was written.
    fn account(&mut self, contents: Contents) {
        self.bytes += contents.bytes;
        self.packets += contents.packets;
        self.index.update(|state| {
            state.packets += contents.packets;
            if let Some(file) = state.files.back_mut() {
                file.bytes = self.bytes;
                file.packets = self.packets;
                file.first_us = file.first_us.or(contents.first_us);
                file.last_us = contents.last_us.or(file.last_us);
                if contents.damaged {
                    file.state = CaptureState::Damaged;
                }
            }
        });
    }

    fn rotate(&mut self) -> Result<(), Failure> {
        (self.generation, self.file) = begin(self.kernel, &self.folder, self.options, &self.index, self.generation)?;
        self.bytes = pcap::HEADER_BYTES as u64;
        self.packets = 0;
        Ok(())
    }

    /// Notes what the kernel has dropped while this file was the current one.
    pub(super) fn count(&mut self, counted: Statistics, now: Instant) -> Result<(), Failure> {
        if counted.dropped == 0 && counted.freezes == 0 {
            return Ok(());
        }
        self.index.update(|state| {
            state.dropped += counted.dropped;
            state.freezes += counted.freezes;
            if let Some(file) = state.files.back_mut() {
                file.dropped += counted.dropped;
            }
        });
        if self.recorded.is_none_or(|last| now.saturating_duration_since(last) >= RECORD_EVERY) {
            self.recorded = Some(now);
            self.record()?;
        }
        Ok(())
    }

    /// Ends the current file and writes everything down. What is damaged stays so.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        self.index.update(|state| complete(state.files.back_mut()));
        self.record()
    }

    fn record(&self) -> Result<(), Failure> {
        let files = self.index.state().files.iter().cloned().collect();
        self.folder.write_record(self.kernel, &RingRecord { generation: self.generation, files })
    }
}

/// Publishes the file after `last` and removes the oldest that are too many. The new one is there before an old one goes.
fn begin(
    kernel: Kernel,
    folder: &Folder,
    options: RingOptions,
    index: &Index,
    last: u64,
) -> Result<(u64, OwnedFd), Failure> {
    let generation = last + 1;
    let file = folder.publish(kernel, generation)?;
    let mut removed = Vec::new();
    index.update(|state| {
        complete(state.files.back_mut());
        state.files.push_back(CaptureFile {
            generation,
            bytes: pcap::HEADER_BYTES as u64,
            packets: 0,
            first_us: None,
            last_us: None,
            state: CaptureState::Growing,
            dropped: 0,
        });
        let excess = state.files.len().saturating_sub(options.files.max(1) as usize);
        removed.extend(state.files.drain(..excess).map(|file| file.generation));
    });
    for generation in removed {
        folder.remove(kernel, generation)?;
    }
    Ok((generation, file))
}

fn complete(file: Option<&mut CaptureFile>) {
    if let Some(file) = file
        && file.state == CaptureState::Growing
    {
        file.state = CaptureState::Complete;
    }
}

#[cfg(test)]
mod tests;
