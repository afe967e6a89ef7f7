//! Packet sockets and their options.

#![expect(unsafe_code, reason = "socket options that no safe wrapper exists for; each block says why it is sound")]

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType},
};

use crate::kernel;

/// A packet socket that receives nothing yet: its protocol is 0 until a capture binds it.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

impl PacketSocket {
    /// Makes one in this process's network namespace.
    ///
    /// # Errors
    /// `PermissionDenied` without `CAP_NET_RAW`; otherwise what the kernel says.
    pub fn open() -> std::io::Result<Self> {
        Ok(Self(make()?))
    }

    /// Takes one that came from a broker and was checked.
    pub(crate) fn of_checked(socket: OwnedFd) -> Self {
        Self(socket)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Protocol 0: with another one it would receive the packets of every interface before it has a ring.
pub(crate) fn make() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)
}

/// Sets an option of a packet socket.
pub(super) fn set<T>(socket: BorrowedFd<'_>, option: libc::c_int, value: &T) -> Result<(), Errno> {
    kernel::set_option(socket, libc::SOL_PACKET, option, value)
}

/// Receives a protocol of one interface from now on; nothing if it is 0.
pub(super) fn bind(socket: BorrowedFd<'_>, interface: u32, protocol: u16) -> Result<(), Errno> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: libc::c_int::try_from(interface).map_err(|_| Errno::NODEV)?,
        ..NO_ADDRESS
    };
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `address`, which lives across the call. Needed since rustix has no
    // addresses of this family.
    let done = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    kernel::check(done.into()).map(|_| ())
}

const NO_ADDRESS: libc::sockaddr_ll = libc::sockaddr_ll {
    sll_family: 0,
    sll_protocol: 0,
    sll_ifindex: 0,
    sll_hatype: 0,
    sll_pkttype: 0,
    sll_halen: 0,
    sll_addr: [0; 8],
};

/// What kind of link the socket is bound to: `ARPHRD_LOOPBACK`, `ARPHRD_ETHER` and the like.
pub(super) fn link_type(socket: BorrowedFd<'_>) -> Result<u16, Errno> {
    let mut address = NO_ADDRESS;
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: address and length live across the call, and the kernel writes no more than `length` bytes of plain numbers.
    // Needed as in `bind`.
    let done = unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut length) };
    kernel::check(done.into()).map(|_| address.sll_hatype)
}

/// Has the kernel pass nothing more to the socket, at once; unlike closing it, this waits for nobody.
pub(super) fn refuse_all(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    // `BPF_RET | BPF_K`: keep 0 bytes.
    let mut nothing = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }];
    let program = libc::sock_fprog { len: 1, filter: nothing.as_mut_ptr() };
    kernel::set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Packets and drops since this was last asked.
pub(super) fn statistics(socket: BorrowedFd<'_>) -> Result<libc::tpacket_stats_v3, Errno> {
    let mut counted = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
    let mut length = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
    // SAFETY: value and length live across the call, and the kernel writes no more than `length` bytes of plain numbers.
    // Needed since rustix has no packet options.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counted).cast(),
            &raw mut length,
        )
    };
    kernel::check(done.into()).map(|_| counted)
}
