//! The second thread of a capture: puts packets into files. A disk that stalls holds up this one alone.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender},
    },
    time::Instant,
};

use super::{
    batch::Batch,
    files::Writer,
    index::{End, Index},
};
use crate::failure::Failure;

/// Batches that wait to be written, of 256 KiB at most: 32 MiB are what a busy disk takes a second for.
pub(super) const QUEUE_BATCHES: usize = 128;
/// Empty batches that wait to be filled again, with their memory.
pub(super) const SPARE_BATCHES: usize = 2;

/// What the thread works with.
pub(super) struct Writing {
    pub(super) writer: Writer,
    pub(super) index: Arc<Index>,
    pub(super) ended: Arc<OwnedFd>,
    pub(super) batches: Receiver<Batch>,
    pub(super) spares: SyncSender<Batch>,
}

/// Says that the capture has ended, however it did: by a panic too.
struct Farewell {
    index: Arc<Index>,
    ended: Arc<OwnedFd>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        self.index.update(|state| {
            state.end.get_or_insert_with(|| End::Failed("its thread panicked".to_owned()));
        });
        let _ = rustix::io::write(&*self.ended, &1_u64.to_ne_bytes());
    }
}

/// The whole life of the thread.
pub(super) fn run(mut writing: Writing) {
    let _farewell = Farewell { index: writing.index.clone(), ended: writing.ended.clone() };
    let end = writing.write();
    if let End::Failed(reason) = &end {
        tracing::error!(folder = %writing.writer.folder().display(), reason, "a capture ended");
    }
    writing.index.update(|state| {
        if end == End::Stopped {
            state.flushed = u64::MAX;
        }
        state.end = Some(end);
    });
}

impl Writing {
    fn write(&mut self) -> End {
        while let Ok(batch) = self.batches.recv() {
            self.index.beat(Instant::now());
            if self.index.is_abandoned() {
                // The folder may be another capture's by now.
                return End::Failed("it was given up".to_owned());
            }
            if let Err(failure) = self.take(&batch) {
                return self.end(End::failed(&failure));
            }
            if let Some(end) = batch.end {
                return self.end(end);
            }
            // Where there are enough its memory is given back.
            let _ = self.spares.try_send(batch.emptied());
        }
        self.end(End::Failed("its first thread panicked".to_owned()))
    }

    fn take(&mut self, batch: &Batch) -> Result<(), Failure> {
        self.writer.write(&batch.records)?;
        self.writer.count(batch.counted, Instant::now())?;
        if let Some(flush) = batch.flush {
            self.index.update(|state| state.flushed = flush);
        }
        Ok(())
    }

    /// Writes down what there is. After a failure, what fails now would only say again why.
    fn end(&mut self, end: End) -> End {
        match (self.writer.finish(), end) {
            (Err(failure), End::Stopped) => End::failed(&failure),
            (_, end) => end,
        }
    }
}
