//! The capture's thread: blocks of the kernel's ring into files.

use std::{
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::sockopt,
};

use super::{
    files::Writer,
    index::{BEAT, End, Index},
    ring::Ring,
};
use crate::{failure::Failure, kernel::Kernel};

/// How long what the kernel has may take to come out once no more comes in: a block is handed over within 20 ms, and
/// there are a few megabytes to write.
const DRAIN_LIMIT: Duration = Duration::from_secs(3);

/// What a test wants to go wrong: `AGENTENV_TEST_CAPTURE`, of the project's own tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Fault {
    #[default]
    None,
    /// `exit`: the thread ends at once.
    Exit,
    /// `hang`: the thread stands still.
    Hang,
    /// `exit-after=N`: the first capture of a folder ends when it has written so many packets.
    ExitAfter(u64),
}

impl Fault {
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "exit" => Self::Exit,
            "hang" => Self::Hang,
            _ => match text.strip_prefix("exit-after=").and_then(|count| count.parse().ok()) {
                Some(count) => Self::ExitAfter(count),
                None => Self::None,
            },
        }
    }
}

/// What the thread works with.
pub(super) struct Worker {
    pub(super) kernel: Kernel,
    pub(super) ring: Ring,
    pub(super) interface: String,
    pub(super) writer: Writer,
    pub(super) index: Arc<Index>,
    pub(super) wake: Arc<OwnedFd>,
    pub(super) ended: Arc<OwnedFd>,
    pub(super) fault: Fault,
}

/// Why the loop ended without being told to.
enum Stop {
    Failure(Failure),
    Fault(&'static str),
    Abandoned,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// Says that the thread has ended, however it does: a panic too.
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
pub(super) fn run(mut worker: Worker) {
    let farewell = Farewell { index: worker.index.clone(), ended: worker.ended.clone() };
    let captured = worker.capture();
    let end = match captured {
        Ok(()) => worker.writer.finish().err().map_or(End::Stopped, |failure| End::Failed(text(&failure))),
        Err(Stop::Abandoned) => End::Failed("it was given up".to_owned()),
        Err(Stop::Failure(failure)) => worker.end_early(text(&failure)),
        Err(Stop::Fault(what)) => worker.end_early(what.to_owned()),
    };
    if let End::Failed(reason) = &end {
        tracing::error!(interface = worker.interface, reason, "a capture ended");
    }
    worker.index.update(|state| state.end = Some(end));
    drop(farewell);
    // Closing the ring takes a few grace periods of the kernel; nobody but a join waits for it.
    drop(worker);
}

fn text(failure: &Failure) -> String {
    format!("{} failed: {}", failure.what, failure.io())
}

/// Packets that have to be in files before something is done.
#[derive(Clone, Copy)]
struct Target {
    packets: u64,
    flush: u64,
}

impl Worker {
    /// Writes down what there is. What fails now would only say again why.
    fn end_early(&mut self, reason: String) -> End {
        let _ = self.writer.finish();
        End::Failed(reason)
    }

    fn capture(&mut self) -> Result<(), Stop> {
        // Packets that the kernel has put into the ring.
        let mut received = 0;
        let mut target: Option<Target> = None;
        let mut draining: Option<Instant> = None;
        self.misbehave()?;
        loop {
            let now = Instant::now();
            self.index.beat(now);
            if self.index.is_abandoned() {
                return Err(Stop::Abandoned);
            }
            if self.index.asked_stop() && draining.is_none() {
                draining = Some(now);
                self.ring.refuse_more(self.kernel)?;
            }
            if target.is_none() {
                let flush = self.index.asked_flush();
                if draining.is_some() || flush > self.index.state().flushed {
                    received += self.count(now)?;
                    target = Some(Target { packets: received, flush });
                }
            }
            let written = self.writer.written();
            if let Some(reached) = target
                && written >= reached.packets
            {
                target = None;
                self.index.update(|state| state.flushed = state.flushed.max(reached.flush));
                if draining.is_some() {
                    // One that was on its way past the filter may have come in since.
                    received += self.count(now)?;
                    if written >= received {
                        return Ok(());
                    }
                }
                continue;
            }
            if draining.is_some_and(|since| now.saturating_duration_since(since) > DRAIN_LIMIT) {
                return Err(Stop::Failure(Failure::setup("draining the packet ring", Errno::TIMEDOUT)));
            }
            if self.take_block()? {
                received += self.count(now)?;
            } else {
                self.wait()?;
            }
        }
    }

    /// Writes a block, if the kernel has handed one over.
    fn take_block(&mut self) -> Result<bool, Stop> {
        let Some(block) = self.ring.next_block() else { return Ok(false) };
        for frame in block.frames() {
            self.writer.append(&frame)?;
        }
        drop(block);
        self.writer.commit()?;
        if let Fault::ExitAfter(packets) = self.fault
            && self.writer.written() >= packets
        {
            return Err(Stop::Fault("a test ended it"));
        }
        Ok(true)
    }

    /// Notes drops; returns how many packets have entered the ring since the last time.
    fn count(&mut self, now: Instant) -> Result<u64, Failure> {
        let counted = self.ring.statistics(self.kernel)?;
        self.writer.count(counted, now)?;
        Ok(counted.packets.saturating_sub(counted.dropped))
    }

    /// Waits for a block, a request, or the time to say that we live.
    fn wait(&self) -> Result<(), Stop> {
        let wanted = PollFlags::IN | PollFlags::ERR;
        let socket = self.ring.fd();
        let mut fds = [PollFd::from_borrowed_fd(socket, wanted), PollFd::new(&*self.wake, PollFlags::IN)];
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(BEAT.subsec_nanos()) };
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
    fn misbehave(&self) -> Result<(), Stop> {
        match self.fault {
            Fault::Exit => Err(Stop::Fault("a test ended it")),
            Fault::Hang => loop {
                let _ = poll(&mut [PollFd::new(&*self.wake, PollFlags::IN)], None);
                let _ = rustix::io::read(&*self.wake, &mut [0; 8]);
                if self.index.is_abandoned() {
                    return Err(Stop::Abandoned);
                }
            },
            Fault::None | Fault::ExitAfter(_) => Ok(()),
        }
    }
}
