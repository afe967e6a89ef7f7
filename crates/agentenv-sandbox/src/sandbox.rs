//! The supervisor's handle of a sandbox.

use std::{
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::Mutex,
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketType, ipproto},
    process::{Pid, Signal},
};

use crate::{
    broker::{self, ANSWER_BYTES},
    capture::PacketSocket,
    cgroup::Cgroup,
    error::SandboxError,
    process::ended_within,
    spec::NetworkKind,
    uid::Uid,
    wire::{self, WireError},
};

/// How long a broker may take to end after its socket closed; it has nothing to do but to exit.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// A sandbox: namespaces that lead nowhere, and the broker that makes sockets in them.
///
/// Dropping it ends the broker; [`Sandbox::close`] also waits and reports. Services have to be ended first, and every
/// socket that was placed closed: one alone keeps the network namespace alive.
#[derive(Debug)]
pub struct Sandbox {
    pub(crate) name: String,
    pub(crate) network: NetworkKind,
    pub(crate) uid: Uid,
    pub(crate) cgroup: Cgroup,
    pub(crate) socket: Mutex<OwnedFd>,
    pub(crate) pid: Pid,
    pub(crate) pidfd: OwnedFd,
    /// User, network, mount.
    pub(crate) namespaces: [OwnedFd; 3],
}

impl Sandbox {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What its network namespace is for.
    pub fn network(&self) -> NetworkKind {
        self.network
    }

    /// Whom its services run as on the host.
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// The broker's pid.
    pub fn broker_pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Readable when the broker has ended, and with it the sandbox.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Places `count` TCP sockets: unconnected, unbound, non-blocking. Bind, listen or connect with them from here.
    ///
    /// # Errors
    /// The broker has ended or can't make them, or what came isn't what was asked for.
    pub fn tcp(&self, count: usize) -> Result<Vec<OwnedFd>, SandboxError> {
        self.place(broker::TCP, count)
    }

    /// Places `count` UDP sockets. Never set `SO_REUSEADDR` on one that is to be bound: two UDP sockets that both have
    /// it share an address, so a process inside could take its datagrams.
    ///
    /// # Errors
    /// As [`Sandbox::tcp`].
    pub fn udp(&self, count: usize) -> Result<Vec<OwnedFd>, SandboxError> {
        self.place(broker::UDP, count)
    }

    /// Makes a packet socket in its network namespace, for a [`Capture`](crate::Capture). It receives nothing yet.
    ///
    /// # Errors
    /// As [`Sandbox::tcp`]; `EPERM` from a sandbox that was made without [`SandboxSpec::packets`](crate::SandboxSpec).
    pub fn packet(&self) -> Result<PacketSocket, SandboxError> {
        let [socket] = wire::exactly(self.place(broker::PACKET, 1)?).map_err(|error| self.wire(error))?;
        Ok(PacketSocket::of_checked(socket))
    }

    /// Ends the broker and waits for it.
    ///
    /// # Errors
    /// It did not end.
    pub fn close(self) -> Result<(), SandboxError> {
        let socket = self.socket.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let _ = rustix::net::shutdown(&*socket, rustix::net::Shutdown::Both);
        drop(socket);
        if ended_within(self.pidfd.as_fd(), CLOSE_LIMIT) {
            return Ok(());
        }
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
        if ended_within(self.pidfd.as_fd(), CLOSE_LIMIT) { Ok(()) } else { Err(self.wire(WireError::TimedOut)) }
    }

    fn place(&self, kind: u8, count: usize) -> Result<Vec<OwnedFd>, SandboxError> {
        let mut sockets = Vec::with_capacity(count);
        while sockets.len() < count {
            let batch = (count - sockets.len()).min(wire::MAX_FDS);
            let socket = self.socket.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            sockets.extend(ask(socket.as_fd(), kind, batch).map_err(|error| self.wire(error))?);
        }
        Ok(sockets)
    }

    fn wire(&self, error: WireError) -> SandboxError {
        match error {
            WireError::Closed => SandboxError::BrokerGone { sandbox: self.name.clone() },
            source => SandboxError::Wire { name: self.name.clone(), source },
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}

/// Asks a broker for at most [`wire::MAX_FDS`] sockets. What comes out of a sandbox is checked, though a broker runs nothing of a site's.
fn ask(socket: BorrowedFd<'_>, kind: u8, count: usize) -> Result<Vec<OwnedFd>, WireError> {
    let wanted = u8::try_from(count).map_err(|_| WireError::Count { got: count, expected: wire::MAX_FDS })?;
    wire::send_bytes(socket, &[kind, wanted], &[])?;
    let mut buffer = [0; ANSWER_BYTES];
    let (answer, fds) = wire::receive_bytes(socket, &mut buffer).inspect_err(|error| {
        if matches!(error, WireError::TimedOut) {
            // A late answer would be taken for the next request's.
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
    })?;
    match answer.try_into().map(i32::from_ne_bytes) {
        Ok(0) => {}
        Ok(errno) => return Err(WireError::Refused(std::io::Error::from_raw_os_error(errno))),
        Err(_) => return Err(WireError::Truncated),
    }
    if fds.len() != count {
        return Err(WireError::Count { got: fds.len(), expected: count });
    }
    let (family, kind, protocol, expected) = match kind {
        // Fresh, without a protocol: it receives nothing yet.
        broker::PACKET => (AddressFamily::PACKET, SocketType::RAW, None, "a packet socket"),
        broker::TCP => (AddressFamily::INET, SocketType::STREAM, Some(ipproto::TCP), "a TCP socket"),
        _ => (AddressFamily::INET, SocketType::DGRAM, Some(ipproto::UDP), "a UDP socket"),
    };
    let fits = |fd: &OwnedFd| -> Result<bool, Errno> {
        use rustix::net::sockopt;
        Ok(sockopt::socket_domain(fd)? == family
            && sockopt::socket_type(fd)? == kind
            && sockopt::socket_protocol(fd)? == protocol)
    };
    if fds.iter().all(|fd| fits(fd).unwrap_or(false)) { Ok(fds) } else { Err(WireError::NotThatSocket { expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A broker that answers once, with these sockets.
    fn answer(errno: i32, sockets: &[(SocketType, AddressFamily)]) -> Result<Vec<OwnedFd>, WireError> {
        let (ours, theirs) = wire::pair().unwrap();
        let sockets: Vec<_> =
            sockets.iter().map(|(kind, family)| rustix::net::socket(*family, *kind, None).unwrap()).collect();
        let fds: Vec<_> = sockets.iter().map(OwnedFd::as_fd).collect();
        // The socket holds the answer before the question is asked.
        wire::send_bytes(theirs.as_fd(), &errno.to_ne_bytes(), &fds).unwrap();
        ask(ours.as_fd(), broker::TCP, 2)
    }

    #[test]
    fn what_comes_out_is_what_was_asked_for() {
        let tcp = (SocketType::STREAM, AddressFamily::INET);
        assert_eq!(answer(0, &[tcp, tcp]).unwrap().len(), 2);
        for count in [0, 1, 3] {
            assert!(matches!(answer(0, &vec![tcp; count]), Err(WireError::Count { expected: 2, .. })));
        }
        for other in [
            (SocketType::DGRAM, AddressFamily::INET),
            (SocketType::STREAM, AddressFamily::INET6),
            (SocketType::STREAM, AddressFamily::UNIX),
        ] {
            assert!(matches!(answer(0, &[tcp, other]), Err(WireError::NotThatSocket { .. })), "{other:?}");
        }
        assert!(matches!(answer(libc::EMFILE, &[]), Err(WireError::Refused(_))));
    }

    #[test]
    fn an_ended_broker_is_closed() {
        let (ours, _) = wire::pair().unwrap();
        assert!(matches!(ask(ours.as_fd(), broker::TCP, 1), Err(WireError::Closed)));
        assert!(matches!(ask(ours.as_fd(), broker::TCP, 1000), Err(WireError::Count { .. })));
    }
}
