//! Client ports of a service's own, by which a capture of a pod shows who opened a connection.
//!
//! The services of a pod share one network namespace and one uid, and talk over loopback: a packet from 127.0.0.1 to
//! 127.0.0.1 names nobody. The answering side is known by the port it listens on, and the gateway by its address. What
//! is missing is the *initiator* between services. So each service gets a slice of the kernel's range of ephemeral ports
//! ([`split_client_ports`]), and every socket it makes is bound to choose from that slice (`IP_LOCAL_PORT_RANGE`, Linux
//! 6.3). Addresses stay as apps chose them: PostgreSQL's `127.0.0.1/32` goes on to mean what it says.
//!
//! A service doesn't set that option, we do. A second filter stops its `socket(AF_INET or AF_INET6)`; a process of ours
//! beside the service, its **socket maker**, makes the socket in the same namespace, as the same uid, sets the option,
//! and puts it at the service's next descriptor (`SECCOMP_IOCTL_NOTIF_ADDFD`). From there on the socket is the service's,
//! and no call on it passes anybody: `connect`, `bind` to port 0 and a datagram sent without either all choose from the
//! slice.
//!
//! ```text
//! entry ── clone ──> pid 1: filter with a listener, sent to the maker, kept by nobody else; fork, exec
//!   └─ becomes the socket maker: no capability, a filter of its own, two descriptors; ends with the service
//! ```
//!
//! A maker per service, so that a service can hold up only itself: putting a descriptor into a process waits until the
//! process runs. It reads three numbers from registers, so there is nothing to race with, needs no right to trace, and
//! holds one socket at a time. It closes its own copy before the service goes on: the last `close` is the service's. If it
//! ends first, `socket` answers `ENOSYS` and the spawner kills the service. A hostile service can lie about itself, by
//! binding a port or setting the option, but give nobody else's connections a port of its own.
//!
//! Where the kernel can't (before 6.3, or a listener of somebody else's above us), a service has no ports of its own and
//! says so ([`Service::client_ports`](crate::Service::client_ports)).
//!
//! What lost: stopping `connect` and fetching the socket by `pidfd_getfd` (3 to 10 µs cheaper; but another thread may swap
//! the descriptor meanwhile, datagrams without `connect` and `bind` to port 0 escape, it needs the right to trace, and
//! `AF_UNIX` pays too); pinned routes (tell two services apart, and no app that binds or dials 127.0.0.1); the id of a
//! control group (packets don't carry it; attaching BPF needs privilege); a uid per service with `ip rule … uidrange`
//! (changes addresses, and files of `/data` would have several owners); looking up the owner of a socket at its SYN by
//! `sock_diag` and `/proc/PID/fd` (milliseconds each, and late for a short-lived connection).
//!
//! What a service can notice: `socket` takes some 15 µs longer, and it can have no seccomp listener of its own. A signal
//! that comes while `socket` waits to be noticed (some 4 µs) and whose handler doesn't restart calls has it answer
//! `EINTR`, which it otherwise never does; once noticed, only death interrupts. (Before Linux 6.17 such a signal can
//! also, by a race of the kernel's, leave the service an unused descriptor.)

mod notify;

use std::{
    ops::RangeInclusive,
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
};

use rustix::io::Errno;

use crate::{
    enter::{self, Entry},
    failure::Failure,
    kernel::{self, Kernel},
    messages::{Program, Report},
    privileges, wire,
};

use notify::{Call, Listener};

/// What a namespace's `ip_local_port_range` is when it is made; a socket's own range counts only within it.
const EPHEMERAL: RangeInclusive<u16> = 32768..=60999;

/// Splits the ports that clients connect from among the services of a pod: as many ranges, of one length, in order.
pub fn split_client_ports(services: u16) -> Vec<RangeInclusive<u16>> {
    let all = EPHEMERAL.end() - EPHEMERAL.start() + 1;
    let each = all.checked_div(services).unwrap_or(0);
    // More services than ports: none has any of its own.
    let services = if each == 0 { 0 } else { services };
    (0..services).map(|n| EPHEMERAL.start() + n * each).map(|first| first..=first + (each - 1)).collect()
}

/// Whether sockets may be made to choose from a range.
pub(crate) fn is_range(ports: &RangeInclusive<u16>) -> bool {
    *ports.start() > 0 && !ports.is_empty()
}

/// In the service's child, without privileges: has its sockets made by `maker` from here on, and reports whether they are.
pub(crate) fn hand_over(kernel: Kernel, maker: BorrowedFd<'_>, status: BorrowedFd<'_>) -> Result<(), Failure> {
    let ready = kernel.call("waiting for the socket maker", || {
        let mut buffer = [0; ANSWER_BYTES];
        let (answer, _) = wire::receive_bytes(maker, &mut buffer).map_err(|_| Errno::PIPE)?;
        answer.try_into().map(i32::from_ne_bytes).map_err(|_| Errno::PROTO)
    })?;
    let lack = match ready {
        0 => match kernel.call("seccomp (listener)", notify::install) {
            Ok(listener) => {
                let sent = || wire::send_bytes(maker, &[1], &[listener.as_fd()]).map_err(|_| Errno::PIPE);
                kernel.call("sendmsg", sent)?;
                None
            }
            Err(failure) if LACKS.map(Errno::raw_os_error).contains(&failure.errno) => Some(failure),
            Err(failure) => return Err(failure),
        },
        errno => Some(Failure::setup("setsockopt (IP_LOCAL_PORT_RANGE)", Errno::from_raw_os_error(errno))),
    };
    kernel.call("sendmsg", || wire::send(status, &Report::ClientPorts(lack), &[]).map_err(|_| Errno::PIPE))
}

/// The maker's answer when it is ready: 0, or why this kernel can't.
const ANSWER_BYTES: usize = 4;
/// What a kernel answers that can't do it: `EBUSY` where a listener of somebody else's is above us, the others where
/// there are no listeners, or none that wait out signals (before 5.19), or sockets have no range (before 6.3).
const LACKS: [Errno; 4] = [Errno::BUSY, Errno::INVAL, Errno::NOSYS, Errno::NOPROTOOPT];

/// The rest of the life of an entry process: it makes the service's sockets.
pub(crate) fn maker_main(entry: &Entry<'_>, program: &Program, ports: &RangeInclusive<u16>, service: OwnedFd) -> ! {
    let listener = enter::report(&entry.streams, prepare(entry, program, ports, service.as_fd()));
    drop(service);
    let served = match listener {
        Some(listener) => serve(&listener, ports),
        None => Ok(()),
    };
    // The spawner kills a service whose maker ends otherwise.
    kernel::exit_now(if served.is_ok() { 0 } else { 1 })
}

/// Gives up what an entry has, and waits for the listener; `None` when none comes.
fn prepare(
    entry: &Entry<'_>,
    program: &Program,
    ports: &RangeInclusive<u16>,
    service: BorrowedFd<'_>,
) -> Result<Option<Listener>, Failure> {
    let kernel = entry.kernel;
    let status = entry.streams.status.as_fd();
    let _ = rustix::thread::set_name(c"ae-sockets");
    // Whoever makes a socket is its owner for SO_REUSEPORT and `/proc/net`: the service's uid, as without us.
    privileges::give_up(kernel, program.set_groups, entry.life)?;
    kernel.call("close_range", || kernel::close_all_but(&[service.as_raw_fd(), status.as_raw_fd()]))?;
    let tried = kernel.call("setsockopt", || {
        let socket = notify::socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        match notify::set_port_range(socket.as_fd(), ports) {
            Err(errno) if LACKS.contains(&errno) => Ok(errno.raw_os_error()),
            set => set.map(|()| 0),
        }
    })?;
    kernel.call("seccomp", || entry.maker.apply())?;
    kernel.call("sendmsg", || {
        wire::send_bytes(service, &tried.to_ne_bytes(), &[]).map_err(|_| Errno::PIPE)?;
        // Held on to, it would keep the supervisor from seeing the program start.
        kernel::close_range(status.as_raw_fd(), status.as_raw_fd())
    })?;
    // Without a listener the child has failed, and said so, or has none.
    let received = wire::receive_bytes(service, &mut [0; 1]).ok().and_then(|(_, fds)| wire::exactly(fds).ok());
    Ok(received.map(|[listener]| Listener(listener)))
}

/// Makes sockets until nobody is left to ask.
fn serve(listener: &Listener, ports: &RangeInclusive<u16>) -> Result<(), Errno> {
    listener.wake_here();
    while let Some(call) = listener.next()? {
        let given = make(&call, ports).and_then(|socket| listener.give(&call, socket.as_fd()));
        // Our own copy of the socket is closed by now. Gone: the caller was killed meanwhile.
        match listener.answer(&call, given) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn make(call: &Call, ports: &RangeInclusive<u16>) -> Result<OwnedFd, Errno> {
    let socket = notify::socket(call.domain, call.kind, call.protocol)?;
    // It was possible a moment ago, and a socket without it is better than none.
    let _ = notify::set_port_range(socket.as_fd(), ports);
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a service's child makes of a maker's answer, and what it reports.
    fn hand_over_to(answer: Option<Errno>) -> (Result<(), Failure>, Option<Report>) {
        let ((maker, asker), (ours, status)) = (wire::pair().unwrap(), wire::pair().unwrap());
        if let Some(errno) = answer {
            wire::send_bytes(maker.as_fd(), &errno.raw_os_error().to_ne_bytes(), &[]).unwrap();
        }
        drop(maker);
        let handed = hand_over(Kernel::default(), asker.as_fd(), status.as_fd());
        drop(status);
        (handed, wire::receive(ours.as_fd()).ok().map(|(report, _)| report))
    }

    #[test]
    fn a_kernel_without_ranges_is_a_lack_and_a_dead_maker_a_failure() {
        let (handed, report) = hand_over_to(Some(Errno::NOPROTOOPT));
        assert_eq!(handed, Ok(()));
        let Some(Report::ClientPorts(Some(lack))) = report else { panic!("{report:?}") };
        assert_eq!(lack.errno, libc::ENOPROTOOPT);
        let (handed, report) = hand_over_to(None);
        assert_eq!(handed.unwrap_err().errno, libc::EPIPE);
        assert!(report.is_none());
    }

    #[test]
    fn the_ports_are_split_evenly() {
        assert_eq!(split_client_ports(0), []);
        assert_eq!(split_client_ports(1), [32768..=60999]);
        assert_eq!(split_client_ports(3), [32768..=42177, 42178..=51587, 51588..=60997]);
        for services in [2, 7, 100, 28_232] {
            let ranges = split_client_ports(services);
            assert_eq!(ranges.len(), usize::from(services));
            assert!(ranges.iter().all(is_range));
            assert!(ranges.is_sorted_by(|a, b| a.end() < b.start()));
            assert!(ranges.last().is_some_and(|last| last.end() <= EPHEMERAL.end()));
        }
        assert_eq!(split_client_ports(28_233), []);
    }
}
