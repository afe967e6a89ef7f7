//! Traffic capture: the packets of a network namespace, as a ring of pcap files (CAP-2, CAP-3).
//!
//! ```text
//! broker ── packet socket, protocol 0 ──► Capture::start
//!                                           thread "ae-capture": the kernel's ring (TPACKET_V3) into memory
//!                                             │ a block at a time, checksums completed
//!                                           thread "ae-capture-out": memory into files
//!                                             0000000007.pcap   oldest, unlinked at rotation
//!                                             0000000008.pcap
//!                                             0000000009.pcap   current: grows by whole records
//!                                             ring.json         drops by generation
//! ```
//!
//! The socket is all that ties a capture to its namespace. Threads, ring and files are outside: nothing in the namespace
//! sees, signals or fills them. Two threads, since a rotation on a busy file system took up to 280 ms, and the kernel's
//! ring holds 2 MiB. A file appears under its name with its header already in it, only grows, and
//! is never renamed, truncated or written again afterwards; who holds it open reads it to the end after it was removed.
//! The order of files is that of their generations, never of their times: clocks step.

mod batch;
mod checksum;
mod error;
mod files;
mod folder;
mod handle;
mod index;
mod pcap;
mod priority;
mod receive;
mod ring;
mod socket;
mod write;

use agentenv_protocol::{CAPTURE_FILE_MB_DEFAULT, CAPTURE_FILES_DEFAULT};

pub use error::{CaptureError, OpenCaptureError};
pub use folder::{open_beneath, open_file_beneath, read_ring};
pub use handle::Capture;
pub(crate) use handle::check;
pub use index::{CaptureFile, CaptureSummary, Health, OpenCapture};
pub use socket::PacketSocket;
pub(crate) use socket::make as make_socket;

/// How long a capture's files and its memory get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// Files that are kept. At least one.
    pub files: u32,
    /// Bytes of a file; a single packet may be longer than that.
    pub file_bytes: u64,
    /// Bytes of the kernel's ring, which holds what this process hasn't written yet. Two blocks of 256 KiB at least.
    pub memory_bytes: u32,
}

impl Default for RingOptions {
    /// 10 files of 20 MB (CAP-3), 2 MiB of memory.
    fn default() -> Self {
        let file_bytes = u64::from(CAPTURE_FILE_MB_DEFAULT) * 1_000_000;
        Self { files: CAPTURE_FILES_DEFAULT, file_bytes, memory_bytes: 2 << 20 }
    }
}
