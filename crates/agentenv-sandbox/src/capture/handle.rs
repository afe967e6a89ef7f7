//! The handle of a running capture.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
    sync::{Arc, mpsc::sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use agentenv_protocol::CaptureState;
use rustix::{
    event::{EventfdFlags, eventfd},
    io::Errno,
};

use super::{
    RingOptions,
    error::{CaptureError, OpenCaptureError},
    files::Writer,
    folder::Folder,
    index::{CaptureFile, CaptureSummary, End, Health, Index, OpenCapture},
    receive::{self, Fault, Receiving},
    ring::Ring,
    socket::PacketSocket,
    write::{self, Writing},
};
use crate::{failure::Failure, kernel::Kernel};

/// How long a thread may take to end: to drain the ring, and for a write that a busy disk holds up.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// The same for one that has been silent for long already.
const HUNG_STOP_LIMIT: Duration = Duration::from_secs(1);
/// What tests of the project set to have captures fail; see [`Fault`].
const FAULT_VARIABLE: &str = "AGENTENV_TEST_CAPTURE";

/// A running capture: two threads of this process, of which one owns a kernel ring, the other the files of a folder.
///
/// Stop it with [`Capture::stop`], which reports; dropping it stops it too. Its socket keeps the network namespace alive
/// until then.
#[derive(Debug)]
pub struct Capture {
    index: Arc<Index>,
    folder: Arc<Folder>,
    wake: Arc<OwnedFd>,
    ended: Arc<OwnedFd>,
    /// Empty once they were joined, or given up.
    threads: Vec<JoinHandle<()>>,
}

impl Capture {
    /// Begins to capture an interface into a folder, which is made if there is none. Goes on with the generations that
    /// it holds. When this returns, packets are being recorded, and a first file is there.
    ///
    /// # Errors
    /// The ring, the interface, the folder or its first file can't be had.
    pub fn start(
        socket: PacketSocket,
        interface: &str,
        folder: &Path,
        options: RingOptions,
    ) -> Result<Self, CaptureError> {
        let fault = std::env::var(FAULT_VARIABLE).map_or(Fault::None, |text| Fault::parse(&text));
        Self::begin(Kernel::default(), socket, interface, folder, options, fault)
    }

    /// A capture whose `nth` system call, counted from 1, fails once with `errno`; for tests.
    ///
    /// # Errors
    /// As [`Capture::start`].
    #[doc(hidden)]
    pub fn start_failing(
        (nth, errno): (u32, i32),
        socket: PacketSocket,
        interface: &str,
        folder: &Path,
        options: RingOptions,
    ) -> Result<Self, CaptureError> {
        let kernel = Kernel::failing(nth, Errno::from_raw_os_error(errno));
        let kernel = kernel.map_err(|errno| CaptureError::Call { step: "mmap".to_owned(), source: errno.into() })?;
        Self::begin(kernel, socket, interface, folder, options, Fault::None)
    }

    /// A capture that misbehaves as `AGENTENV_TEST_CAPTURE` would have it; for tests.
    ///
    /// # Errors
    /// As [`Capture::start`].
    #[doc(hidden)]
    pub fn start_with_fault(
        fault: &str,
        socket: PacketSocket,
        interface: &str,
        folder: &Path,
        options: RingOptions,
    ) -> Result<Self, CaptureError> {
        Self::begin(Kernel::default(), socket, interface, folder, options, Fault::parse(fault))
    }

    fn begin(
        kernel: Kernel,
        socket: PacketSocket,
        interface: &str,
        folder: &Path,
        options: RingOptions,
        fault: Fault,
    ) -> Result<Self, CaptureError> {
        let unusable = |failure: Failure| CaptureError::Folder { path: folder.to_owned(), source: failure.io() };
        let folder = Arc::new(Folder::make(kernel, folder).map_err(unusable)?);
        let event = || {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            kernel.call("eventfd", || eventfd(0, flags)).map(Arc::new)
        };
        let (wake, ended) = (event()?, event()?);
        let ring = Ring::new(kernel, socket, options.memory_bytes)?;
        let unknown =
            |source: Failure| CaptureError::Interface { interface: interface.to_owned(), source: source.io() };
        let device = ring.interface(kernel, interface).map_err(unknown)?;
        // Before the folder is read: what comes meanwhile waits in the ring.
        ring.bind(kernel, device)?;
        let index = Arc::new(Index::new(Instant::now()));
        let writer = Writer::open(kernel, folder.clone(), options, index.clone())?;
        let first = index.state().files.len() == 1;
        let fault = match fault {
            Fault::ExitAfter(_) | Fault::HangAfter(_) if !first => Fault::None,
            fault => fault,
        };
        let (batches, to_write) = sync_channel(write::QUEUE_BATCHES);
        let (spare, spares) = sync_channel(write::SPARE_BATCHES);
        let writing = Writing { writer, index: index.clone(), ended: ended.clone(), batches: to_write, spares: spare };
        let (interface, waking) = (interface.to_owned(), wake.clone());
        let receiving =
            Receiving { kernel, ring, interface, index: index.clone(), wake: waking, batches, spares, fault };
        let threads = vec![
            thread(kernel, "ae-capture-out", move || write::run(writing))?,
            // If this one can't be, the other ends: nobody is left to send to it.
            thread(kernel, "ae-capture", move || receive::run(receiving))?,
        ];
        Ok(Self { index, folder, wake, ended, threads })
    }

    /// The files, oldest first. The last one grows; everything told of it is in it already.
    pub fn files(&self) -> Vec<CaptureFile> {
        self.index.state().files.iter().cloned().collect()
    }

    /// Opens a file for reading. It stays readable when it is rotated away.
    ///
    /// # Errors
    /// It was rotated away, there never was such a file, or it can't be opened.
    pub fn open(&self, generation: u64) -> Result<OpenCapture, OpenCaptureError> {
        let found = {
            let state = self.index.state();
            let last = state.files.back().map_or(0, |file| file.generation);
            match state.files.iter().find(|file| file.generation == generation) {
                Some(file) => file.clone(),
                None if (1..=last).contains(&generation) => return Err(OpenCaptureError::Gone),
                None => return Err(OpenCaptureError::Unknown),
            }
        };
        let file = self.folder.open_file(generation).map_err(|error| match error {
            // Between the look and the opening.
            OpenCaptureError::Unknown => OpenCaptureError::Gone,
            error => error,
        })?;
        Ok(OpenCapture { file, bytes: found.bytes, complete: found.state != CaptureState::Growing })
    }

    /// Packets that the kernel dropped under this capture. Those of captures before it are in [`Capture::files`].
    pub fn dropped(&self) -> u64 {
        self.index.state().dropped
    }

    /// How it is.
    pub fn health(&self) -> Health {
        self.index.health(Instant::now())
    }

    /// Readable once it has ended.
    pub fn ended_fd(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Waits until everything that the kernel has received so far is in the files and listed; whether it is. `false` at
    /// once if it has ended, and at the limit if it hangs.
    pub fn flush(&self, limit: Duration) -> bool {
        let wanted = self.index.ask_flush();
        self.wake();
        self.index.wait(limit, |state| state.flushed >= wanted || state.end.is_some());
        self.index.state().flushed >= wanted
    }

    /// Ends it: nothing more is received, what the kernel has is written, drops are counted a last time, and the socket
    /// is closed.
    ///
    /// # Errors
    /// It had ended by itself, or its threads don't end; the files are valid to their last whole records all the same.
    pub fn stop(mut self) -> Result<CaptureSummary, CaptureError> {
        self.end()
    }

    /// As [`Capture::stop`], but returns as soon as everything is in the files. The socket is closed some grace periods of the
    /// kernel later, by the capture's own thread.
    ///
    /// # Errors
    /// As [`Capture::stop`].
    pub fn finish(mut self) -> Result<CaptureSummary, CaptureError> {
        let finished = self.conclude();
        self.threads.clear();
        finished
    }

    fn end(&mut self) -> Result<CaptureSummary, CaptureError> {
        let ended = self.conclude();
        for thread in self.threads.drain(..) {
            // A panic was told above: a farewell said so.
            let _ = thread.join();
        }
        ended
    }

    fn conclude(&mut self) -> Result<CaptureSummary, CaptureError> {
        let waited = match self.health() {
            Health::Hung { .. } => HUNG_STOP_LIMIT,
            Health::Running | Health::Ended { .. } => STOP_LIMIT,
        };
        self.index.ask_stop();
        self.wake();
        if !self.index.wait(waited, |state| state.end.is_some()) {
            self.index.abandon();
            self.wake();
            self.threads.clear();
            return Err(CaptureError::Hung { waited });
        }
        match &self.index.state().end {
            Some(End::Failed(reason)) => return Err(CaptureError::Ended { reason: reason.clone() }),
            Some(End::Stopped) | None => {}
        }
        Ok(self.index.summary())
    }

    fn wake(&self) {
        // It fails only when the counter is full, and then the thread is awake.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }
}

/// Whether a socket can have a ring and receive what passes its namespace's loopback.
pub(crate) fn check(socket: PacketSocket) -> Result<(), CaptureError> {
    let kernel = Kernel::default();
    let ring = Ring::new(kernel, socket, RingOptions::default().memory_bytes)?;
    Ok(ring.bind(kernel, ring.interface(kernel, "lo")?)?)
}

fn thread(kernel: Kernel, name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Failure> {
    kernel.call("clone of a capture's thread", || {
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        spawned.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
    })
}

impl Drop for Capture {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            let _ = self.end();
        }
    }
}
