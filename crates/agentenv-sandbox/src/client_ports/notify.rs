//! Seccomp's notifications of calls, and the socket option that rustix doesn't have.

#![expect(unsafe_code, reason = "system calls that no safe wrapper exists for; each block says why it is sound")]

use std::{
    ops::RangeInclusive,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

use crate::{
    kernel::{check, set_option},
    seccomp,
};

/// A socket that somebody asked for.
pub(super) struct Call {
    id: u64,
    pub(super) domain: libc::c_int,
    /// With its flags.
    pub(super) kind: libc::c_int,
    pub(super) protocol: libc::c_int,
}

/// Hears of every socket of IPv4 and IPv6 that a service asks for.
pub(super) struct Listener(pub(super) OwnedFd);

/// Puts this process, and whatever comes of it, under a filter that stops calls for such sockets until they are answered.
pub(super) fn install() -> Result<OwnedFd, Errno> {
    let mut program = seccomp::notify_of_sockets();
    let length = program.len().try_into().map_err(|_| Errno::INVAL)?;
    let filter = libc::sock_fprog { len: length, filter: program.as_mut_ptr().cast() };
    // Once noticed, a call isn't interrupted by signals: it could have its socket already.
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: `filter` and the instructions, of the layout that the kernel knows, live across the call, which copies them.
    let fd =
        check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter) })?;
    // SAFETY: the new descriptor, close-on-exec, is nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(RawFd::try_from(fd).map_err(|_| Errno::BADF)?) })
}

impl Listener {
    /// Asks for answers on the processor that the call is on: the caller waits for nothing else. A matter of speed alone,
    /// known from Linux 6.6 on.
    pub(super) fn wake_here(&self) {
        /// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`
        const SYNC_WAKE_UP: libc::c_ulong = 1;
        // SAFETY: takes a number.
        unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
    }

    /// Waits for the next call; `None` once no process of the service is left.
    pub(super) fn next(&self) -> Result<Option<Call>, Errno> {
        loop {
            let mut fds = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
            rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
            // The kernel before 6.11 would wait in the next call, though nobody is left.
            if !fds[0].revents().contains(PollFlags::IN) {
                return Ok(None);
            }
            // SAFETY: plain numbers, for which all zeroes are valid, and which the kernel wants zeroed.
            let mut call = unsafe { std::mem::zeroed::<libc::seccomp_notif>() };
            match self.control(libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) {
                Ok(_) => {
                    let int = |n: usize| call.data.args[n] as libc::c_int;
                    return Ok(Some(Call { id: call.id, domain: int(0), kind: int(1), protocol: int(2) }));
                }
                // The caller was interrupted or killed in between.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Puts a socket at the caller's next descriptor: its number there.
    pub(super) fn give(&self, call: &Call, socket: BorrowedFd<'_>) -> Result<libc::c_int, Errno> {
        let mut give = libc::seccomp_notif_addfd {
            id: call.id,
            flags: 0,
            srcfd: socket.as_raw_fd().cast_unsigned(),
            newfd: 0,
            newfd_flags: (call.kind & libc::SOCK_CLOEXEC).cast_unsigned(),
        };
        rustix::io::retry_on_intr(|| self.control(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut give))
    }

    /// Lets the caller go on, with a descriptor or an error.
    pub(super) fn answer(&self, call: &Call, given: Result<libc::c_int, Errno>) -> Result<(), Errno> {
        let (val, error) = match given {
            Ok(fd) => (fd.into(), 0),
            Err(errno) => (0, -errno.raw_os_error()),
        };
        let mut answer = libc::seccomp_notif_resp { id: call.id, val, error, flags: 0 };
        rustix::io::retry_on_intr(|| self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer)).map(|_| ())
    }

    fn control<T>(&self, request: libc::Ioctl, argument: *mut T) -> Result<libc::c_int, Errno> {
        // SAFETY: each request of the callers takes a pointer to the structure that they pass, whose size is part of the
        // request's number; it lives across the call.
        let value = check(unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) }.into())?;
        value.try_into().map_err(|_| Errno::BADF)
    }
}

/// Makes a socket from numbers of somebody else's, which the filters of both sides have looked at.
pub(super) fn socket(domain: libc::c_int, kind: libc::c_int, protocol: libc::c_int) -> Result<OwnedFd, Errno> {
    // SAFETY: takes numbers; the new descriptor is nobody else's.
    unsafe {
        let fd = check(libc::socket(domain, kind, protocol).into())?;
        Ok(OwnedFd::from_raw_fd(RawFd::try_from(fd).map_err(|_| Errno::BADF)?))
    }
}

/// Has a socket of IPv4 or IPv6 choose its port from a range, if it comes to choose one.
pub(super) fn set_port_range(socket: BorrowedFd<'_>, ports: &RangeInclusive<u16>) -> Result<(), Errno> {
    const IP_LOCAL_PORT_RANGE: libc::c_int = 51;
    let range = u32::from(*ports.end()) << 16 | u32::from(*ports.start());
    set_option(socket, libc::IPPROTO_IP, IP_LOCAL_PORT_RANGE, &range)
}
