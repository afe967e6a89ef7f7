//! The kernel's ring of a packet socket (`TPACKET_V3`): blocks of frames that it fills and we give back.

#![expect(unsafe_code, reason = "memory that is shared with the kernel; each block says why it is sound")]

use std::{
    ffi::c_void,
    os::fd::{AsFd as _, BorrowedFd},
    ptr::NonNull,
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::{
    io::Errno,
    mm::{MapFlags, ProtFlags},
};

use super::socket::{self, PacketSocket};
use crate::{failure::Failure, kernel::Kernel};

/// A block holds whole frames only. Three of the longest on `lo` (65,549 bytes and the kernel's 68) fit in one, and the
/// default ring has eight: the kernel fills seven while one is being written.
const BLOCK_BYTES: u32 = 256 << 10;
/// The kernel can't go on while its only block is with us.
const MIN_BLOCKS: u32 = 2;
/// The ring must not take all memory: 1 GiB.
const MAX_BLOCKS: u32 = 4096;
/// Nominal in this version of the ring; frames take what they need.
const FRAME_BYTES: u32 = 2048;
/// When the kernel hands over a block that isn't full. So old is what readers of a growing file see.
const RETIRE_MS: u32 = 20;

/// Offsets within a block: `struct tpacket_block_desc` with `struct tpacket_hdr_v1`.
const BLOCK_STATUS: usize = 8;
const BLOCK_PACKETS: usize = 12;
const BLOCK_FIRST: usize = 16;

/// What the kernel has counted since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    /// Packets that came, those included that were dropped.
    pub(crate) packets: u64,
    pub(crate) dropped: u64,
    /// How often the ring was full.
    pub(crate) freezes: u64,
}

/// A packet socket with its ring, mapped.
pub(crate) struct Ring {
    // Unmapped before the socket closes.
    map: Map,
    socket: PacketSocket,
    blocks: usize,
    next: usize,
}

impl Ring {
    /// Gives the socket a ring. Takes a grace period of the kernel, some milliseconds.
    pub(crate) fn new(kernel: Kernel, socket: PacketSocket, memory_bytes: u32) -> Result<Self, Failure> {
        let blocks = (memory_bytes / BLOCK_BYTES).clamp(MIN_BLOCKS, MAX_BLOCKS);
        let fd = socket.as_fd();
        let version = libc::tpacket_versions::TPACKET_V3 as libc::c_int;
        kernel.call("setsockopt (PACKET_VERSION)", || socket::set(fd, libc::PACKET_VERSION, &version))?;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES,
            tp_block_nr: blocks,
            tp_frame_size: FRAME_BYTES,
            tp_frame_nr: BLOCK_BYTES / FRAME_BYTES * blocks,
            tp_retire_blk_tov: RETIRE_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        kernel.call("setsockopt (PACKET_RX_RING)", || socket::set(fd, libc::PACKET_RX_RING, &request))?;
        let map = kernel.call("mmap of the packet ring", || Map::new(fd, (BLOCK_BYTES * blocks) as usize))?;
        Ok(Self { map, socket, blocks: blocks as usize, next: 0 })
    }

    /// The index of an interface in the socket's namespace.
    pub(crate) fn interface(&self, kernel: Kernel, name: &str) -> Result<u32, Failure> {
        kernel.call("looking up the interface", || rustix::net::netdevice::name_to_index(&self.socket, name))
    }

    /// Begins to receive what passes an interface, in both directions.
    pub(crate) fn bind(&self, kernel: Kernel, interface: u32) -> Result<(), Failure> {
        let bind = |protocol| kernel.call("bind of the packet socket", || socket::bind(self.fd(), interface, protocol));
        // First without a protocol, to learn what link it is before anything is received.
        bind(0)?;
        match kernel.call("getsockname of the packet socket", || socket::link_type(self.fd()))? {
            // Here each packet passes twice: on its way out and in.
            libc::ARPHRD_LOOPBACK => {
                let ignore = || socket::set(self.fd(), libc::PACKET_IGNORE_OUTGOING, &1_i32);
                kernel.call("setsockopt (PACKET_IGNORE_OUTGOING)", ignore)?;
            }
            libc::ARPHRD_ETHER => {}
            // The files say that what is in them is Ethernet.
            _ => return Err(Failure::setup("recording a link that isn't Ethernet", Errno::OPNOTSUPP)),
        }
        bind(libc::ETH_P_ALL as u16)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The next block that the kernel has handed over.
    pub(crate) fn next_block(&mut self) -> Option<Block<'_>> {
        let block = self.map.block(self.next)?;
        self.next = (self.next + 1) % self.blocks;
        Some(block)
    }

    /// Receives nothing more; what is in the ring stays there.
    pub(crate) fn refuse_more(&self, kernel: Kernel) -> Result<(), Failure> {
        kernel.call("setsockopt (SO_ATTACH_FILTER)", || socket::refuse_all(self.fd()))
    }

    /// What happened since the last time; the kernel counts from 0 again.
    pub(crate) fn statistics(&self, kernel: Kernel) -> Result<Statistics, Failure> {
        let counted = kernel.call("getsockopt (PACKET_STATISTICS)", || socket::statistics(self.fd()))?;
        Ok(Statistics {
            packets: counted.tp_packets.into(),
            dropped: counted.tp_drops.into(),
            freezes: counted.tp_freeze_q_cnt.into(),
        })
    }
}

/// The memory that is shared with the kernel.
struct Map {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and any thread may read, write and unmap it. Needed since the ring is
// set up on the caller's thread and used on the capture's.
unsafe impl Send for Map {}

impl Map {
    fn new(socket: BorrowedFd<'_>, bytes: usize) -> Result<Self, Errno> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing. Needed to read the ring at all.
        let start = unsafe { rustix::mm::mmap(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED, socket, 0)? };
        Ok(Self { start: NonNull::new(start).ok_or(Errno::NOMEM)?, bytes })
    }

    /// A block, if the kernel has handed it over.
    fn block(&mut self, index: usize) -> Option<Block<'_>> {
        let (at, bytes) = (index * BLOCK_BYTES as usize, BLOCK_BYTES as usize);
        assert!(at + bytes <= self.bytes, "blocks are counted by the ring");
        // SAFETY: within the mapping, which outlives the borrow; aligned, since a block starts at a page. Both sides only
        // touch this word atomically. Needed to learn whose the block is.
        let status = unsafe { AtomicU32::from_ptr(self.start.as_ptr().cast::<u8>().add(at + BLOCK_STATUS).cast()) };
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: within the mapping and behind the status word. The kernel writes none of it from when it set the status,
        // loaded with acquire above, until `Block::drop` has given the block back; `&mut self` keeps others from having it
        // meanwhile. Needed to read packets without copying them first.
        let rest = unsafe {
            let start = self.start.as_ptr().cast::<u8>().add(at + BLOCK_PACKETS);
            std::slice::from_raw_parts(start, bytes - BLOCK_PACKETS)
        };
        Some(Block { status, rest })
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nothing borrows any more. Needed since a mapped ring outlives its socket.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.bytes) };
    }
}

/// A block that is ours until it is dropped.
pub(crate) struct Block<'r> {
    status: &'r AtomicU32,
    /// From [`BLOCK_PACKETS`] on.
    rest: &'r [u8],
}

impl Block<'_> {
    /// The frames in it, in the order in which they came.
    pub(crate) fn frames(&self) -> impl Iterator<Item = Frame<'_>> {
        let count = number(self.rest, 0).unwrap_or(0);
        let mut at = number(self.rest, BLOCK_FIRST - BLOCK_PACKETS).unwrap_or(0) as usize;
        (0..count).map_while(move |_| {
            let header = self.rest.get(at.checked_sub(BLOCK_PACKETS)?..)?;
            at += number(header, 0)? as usize;
            Frame::parse(header)
        })
    }
}

impl Drop for Block<'_> {
    fn drop(&mut self) {
        self.status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }
}

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'b> {
    pub(crate) seconds: u32,
    pub(crate) nanoseconds: u32,
    /// How long it was; `bytes` may be less of it.
    pub(crate) length: u32,
    /// Whether its checksum is for a network card to finish.
    pub(crate) unfinished: bool,
    pub(crate) bytes: &'b [u8],
}

impl<'b> Frame<'b> {
    /// Reads `struct tpacket3_hdr` and what it points to.
    fn parse(header: &'b [u8]) -> Option<Self> {
        let start = u16::from_ne_bytes(header.get(24..26)?.try_into().ok()?).into();
        let captured = number(header, 12)? as usize;
        Some(Self {
            seconds: number(header, 4)?,
            nanoseconds: number(header, 8)?,
            length: number(header, 16)?,
            unfinished: number(header, 20)? & libc::TP_STATUS_CSUMNOTREADY != 0,
            bytes: header.get(start..start + captured)?,
        })
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
