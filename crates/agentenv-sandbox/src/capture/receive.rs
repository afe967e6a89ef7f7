//! The first thread of a capture: takes packets out of the kernel's ring before it is full, whatever the disk does.

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender},
    },
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::sockopt,
};

use super::{
    batch::Batch,
    index::{BEAT, End, Index},
    priority,
    ring::Ring,
};
use crate::{failure::Failure, kernel::Kernel};

/// How long what the kernel has may take to come out once no more comes in: a block is handed over within 20 ms, and
/// there are a few megabytes to take.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);

/// What a test wants to go wrong: `AGENTENV_TEST_CAPTURE`, of the project's own tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fault {
    #[default]
    None,
    /// `exit`: the capture ends at once.
    Exit,
    /// `hang`: it stands still.
    Hang,
    /// `exit-after=N`: the first capture of a folder ends after so many packets.
    ExitAfter(u64),
    /// `hang-after=N`: the first capture of a folder stands still after so many packets.
    HangAfter(u64),
}

impl Fault {
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "exit" => Self::Exit,
            "hang" => Self::Hang,
            _ => match text.split_once("-after=").map(|(what, count)| (what, count.parse())) {
                Some(("exit", Ok(count))) => Self::ExitAfter(count),
                Some(("hang", Ok(count))) => Self::HangAfter(count),
                _ => Self::None,
            },
        }
    }
}

/// Why the thread has nothing more to do.
enum Over {
    /// How the capture ended; the writer is to be told.
    End(End),
    /// The writer has ended, or nobody waits for us any more.
    Alone,
}

impl From<Failure> for Over {
    fn from(failure: Failure) -> Self {
        Self::End(End::failed(&failure))
    }
}

/// What the thread works with.
pub(super) struct Receiving {
    pub(super) kernel: Kernel,
    pub(super) ring: Ring,
    pub(super) interface: String,
    pub(super) index: Arc<Index>,
    pub(super) wake: Arc<OwnedFd>,
    pub(super) batches: SyncSender<Batch>,
    /// Batches that were written, to be filled again.
    pub(super) spares: Receiver<Batch>,
    pub(super) fault: Fault,
}

/// Where the thread is.
#[derive(Default)]
struct Progress {
    /// To be sent.
    batch: Batch,
    sent: Option<Instant>,
    /// Packets that the kernel has put into the ring, as far as it was asked.
    received: u64,
    /// Packets that were taken out.
    taken: u64,
    /// The last flush that was seen.
    flush: u64,
    /// Packets to take out before it is done; `None` once it is.
    flush_at: Option<u64>,
    /// Since when nothing more comes in.
    draining: Option<Instant>,
}

/// The whole life of the thread. Ends by closing the ring, which takes some grace periods of the kernel.
pub(super) fn run(mut receiving: Receiving) {
    priority::prefer_this_thread();
    let mut at = Progress::default();
    let mut step = receiving.misbehave();
    while step.is_ok() {
        step = receiving.step(&mut at);
    }
    if let Err(Over::End(end)) = step {
        // Where the writer is gone it has said why.
        let _ = receiving.batches.send(Batch { end: Some(end), ..at.batch });
    }
}

impl Receiving {
    /// Takes a block, or waits for one.
    fn step(&mut self, at: &mut Progress) -> Result<(), Over> {
        let now = Instant::now();
        if self.index.is_abandoned() {
            return Err(Over::Alone);
        }
        self.begin_flush(at)?;
        self.drain(at, now)?;
        let any = self.take_block(at);
        if any {
            self.count(at)?;
        }
        if at.flush_at.is_some_and(|packets| at.taken >= packets) {
            at.flush_at = None;
            at.batch.flush = Some(at.flush);
        }
        let due = at.sent.is_none_or(|sent| now.saturating_duration_since(sent) >= BEAT);
        if any || due || at.batch.flush.is_some() {
            at.sent = Some(now);
            // An empty one says that we live.
            let batch = std::mem::replace(&mut at.batch, self.spares.try_recv().unwrap_or_default());
            self.batches.send(batch).map_err(|_| Over::Alone)?;
        }
        match self.fault {
            Fault::ExitAfter(packets) if at.taken >= packets => {
                Err(Over::End(End::Failed("a test ended it".to_owned())))
            }
            Fault::HangAfter(packets) if at.taken >= packets => Err(self.hang()),
            _ if any => Ok(()),
            _ => self.wait(),
        }
    }

    /// Notes how much is to be taken out before a flush that was asked for is done.
    fn begin_flush(&self, at: &mut Progress) -> Result<(), Failure> {
        let asked = self.index.asked_flush();
        if at.flush_at.is_none() && asked > at.flush {
            self.count(at)?;
            at.flush = asked;
            at.flush_at = Some(at.received);
        }
        Ok(())
    }

    /// Ends the capture once it was told to and all is taken out.
    fn drain(&self, at: &mut Progress, now: Instant) -> Result<(), Over> {
        if at.draining.is_none() && self.index.asked_stop() {
            at.draining = Some(now);
            self.ring.refuse_more(self.kernel)?;
            self.count(at)?;
        }
        let Some(since) = at.draining else { return Ok(()) };
        if at.taken >= at.received {
            // One that was on its way past the filter may have come in meanwhile.
            self.count(at)?;
            if at.taken >= at.received {
                return Err(Over::End(End::Stopped));
            }
        }
        if now.saturating_duration_since(since) > DRAIN_LIMIT {
            return Err(Failure::setup("draining the packet ring", Errno::TIMEDOUT).into());
        }
        Ok(())
    }

    /// Takes the packets of a block, if the kernel has handed one over.
    fn take_block(&mut self, at: &mut Progress) -> bool {
        let Some(block) = self.ring.next_block() else { return false };
        for frame in block.frames() {
            at.batch.append(&frame);
            at.taken += 1;
        }
        true
    }

    /// Asks the kernel what came and what was dropped since the last time.
    fn count(&self, at: &mut Progress) -> Result<(), Failure> {
        let counted = self.ring.statistics(self.kernel)?;
        at.received += counted.packets.saturating_sub(counted.dropped);
        at.batch.counted.dropped += counted.dropped;
        at.batch.counted.freezes += counted.freezes;
        Ok(())
    }

    /// Waits for a block, a request, or the time to say that we live.
    fn wait(&self) -> Result<(), Over> {
        let wanted = PollFlags::IN | PollFlags::ERR;
        let socket = self.ring.fd();
        let mut fds = [PollFd::from_borrowed_fd(socket, wanted), PollFd::new(&*self.wake, PollFlags::IN)];
        let limit = Timespec { tv_sec: BEAT.as_secs().cast_signed(), tv_nsec: i64::from(BEAT.subsec_nanos()) };
        match poll(&mut fds, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure::setup("poll", errno).into()),
        }
        let (packets, woken) = (fds[0].revents(), fds[1].revents());
        if woken.contains(PollFlags::IN) {
            let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
        }
        if packets.contains(PollFlags::ERR)
            && let Ok(Err(errno)) = sockopt::socket_error(socket)
        {
            // An interface that went down may come up again, and the socket hears it again then.
            let there = self.ring.interface(self.kernel, &self.interface).is_ok();
            if errno != Errno::NETDOWN || !there {
                return Err(Failure::setup(&format!("receiving from interface `{}`", self.interface), errno).into());
            }
        }
        Ok(())
    }

    /// What a test asked for.
    fn misbehave(&self) -> Result<(), Over> {
        match self.fault {
            Fault::Exit => Err(Over::End(End::Failed("a test ended it".to_owned()))),
            Fault::Hang => Err(self.hang()),
            Fault::None | Fault::ExitAfter(_) | Fault::HangAfter(_) => Ok(()),
        }
    }

    /// Stands still until nobody waits any more.
    fn hang(&self) -> Over {
        loop {
            let _ = poll(&mut [PollFd::new(&*self.wake, PollFlags::IN)], None);
            let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
            if self.index.is_abandoned() {
                return Over::Alone;
            }
        }
    }
}
