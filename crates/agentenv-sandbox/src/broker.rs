//! The broker of a sandbox: builds its network, then makes sockets in it and hands them out, until the supervisor
//! closes. It never binds, listens or connects: a full backlog would block it.

use std::os::fd::{AsFd as _, AsRawFd, BorrowedFd, OwnedFd};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType},
    thread::{CapabilitySet, UnshareFlags},
};

use crate::{
    capture,
    failure::Failure,
    init::open_namespace,
    kernel::{self, Kernel},
    messages::{Create, Report},
    network, privileges, quota, root,
    seccomp::Filters,
    wire,
};

/// A request: what kind, and how many, at most [`wire::MAX_FDS`].
pub(crate) const REQUEST_BYTES: usize = 2;
/// An answer: an errno, or 0 and the descriptors.
pub(crate) const ANSWER_BYTES: usize = 4;
pub(crate) const TCP: u8 = b't';
pub(crate) const UDP: u8 = b'u';
/// Packet sockets, of a broker that keeps the capability for them.
pub(crate) const PACKET: u8 = b'p';

/// The whole life of a broker; it is in a new user namespace, whose ids are mapped once `go` says so.
pub(crate) fn main(
    kernel: Kernel,
    create: &Create,
    socket: &OwnedFd,
    go: BorrowedFd<'_>,
    life: BorrowedFd<'_>,
    filters: &Filters,
) -> ! {
    if let Err(failure) = prepare(kernel, create, socket.as_fd(), go, life, filters) {
        let _ = wire::send(socket.as_fd(), &Report::Failed(failure), &[]);
        kernel::exit_now(1);
    }
    serve(socket.as_fd());
    kernel::exit_now(0)
}

fn prepare(
    kernel: Kernel,
    create: &Create,
    socket: BorrowedFd<'_>,
    go: BorrowedFd<'_>,
    life: BorrowedFd<'_>,
    filters: &Filters,
) -> Result<(), Failure> {
    let _ = rustix::thread::set_name(c"ae-broker");
    kernel.call("waiting for the id maps", || {
        match rustix::io::retry_on_intr(|| rustix::io::read(go, &mut [0; 1]))? {
            1 => Ok(()),
            _ => Err(Errno::CANCELED),
        }
    })?;
    kernel.call("unshare", || kernel::unshare(UnshareFlags::NEWNET | UnshareFlags::NEWNS))?;
    kernel.at("chdir", "/", || rustix::process::chdir("/"))?;
    quota::set(kernel, create.network)?;
    network::build(kernel, create.network)?;
    if let Some(data) = create.data {
        root::park_data(kernel, data.bytes)?;
    }
    let mut namespaces = Vec::new();
    for name in ["user", "net", "mnt"] {
        namespaces.push(open_namespace(kernel, name)?);
    }
    privileges::hide(kernel)?;
    let kept = if create.packets { CapabilitySet::NET_RAW } else { CapabilitySet::empty() };
    privileges::drop_all_but(kernel, kept)?;
    privileges::die_with_spawner(kernel, life)?;
    kernel.call("close_range", || {
        let keep: Vec<_> = namespaces.iter().map(AsRawFd::as_raw_fd).chain([socket.as_raw_fd()]).collect();
        kernel::close_all_but(&keep)
    })?;
    kernel.call("seccomp", || filters.apply())?;
    let fds: Vec<_> = namespaces.iter().map(OwnedFd::as_fd).collect();
    kernel.call("sendmsg", || wire::send(socket, &Report::Ready, &fds).map_err(|_| Errno::PIPE))
}

/// Answers requests until the supervisor closes, or says something that isn't one.
fn serve(socket: BorrowedFd<'_>) {
    let mut buffer = [0; REQUEST_BYTES];
    while let Ok((&[kind, count], _)) = wire::receive_bytes(socket, &mut buffer) {
        let sent = match sockets(kind, count.into()) {
            Ok(sockets) => {
                let fds: Vec<_> = sockets.iter().map(OwnedFd::as_fd).collect();
                wire::send_bytes(socket, &0_i32.to_ne_bytes(), &fds)
            }
            Err(errno) => wire::send_bytes(socket, &errno.raw_os_error().to_ne_bytes(), &[]),
        };
        if sent.is_err() {
            return;
        }
    }
}

fn sockets(kind: u8, count: usize) -> Result<Vec<OwnedFd>, Errno> {
    if count > wire::MAX_FDS {
        return Err(Errno::INVAL);
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let make = |kind| rustix::net::socket_with(AddressFamily::INET, kind, flags, None);
    let one = || match kind {
        TCP => make(SocketType::STREAM),
        UDP => make(SocketType::DGRAM),
        PACKET => capture::make_socket(),
        _ => Err(Errno::INVAL),
    };
    (0..count).map(|_| one()).collect()
}
