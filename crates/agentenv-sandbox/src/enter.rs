//! The short-lived process between spawner and service: it enters the sandbox's namespaces and clones, with
//! `CLONE_PARENT`, so that what it clones is the spawner's own child. The spawner itself can't enter: as an ordinary
//! user it could not come back.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::{
    io::Errno,
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use crate::{
    cgroup::Cgroup,
    client_ports,
    failure::Failure,
    init::{self, Init},
    kernel::{self, Cloned, Kernel},
    messages::{Exec, Program, Report, Start},
    privileges,
    program::{self, Streams},
    seccomp::Filters,
    wire,
};

/// What every process of this kind has from the spawner.
pub(crate) struct Entry<'a> {
    pub(crate) kernel: Kernel,
    pub(crate) filters: &'a Filters,
    /// For this process, if it stays to make the service's sockets.
    pub(crate) maker: &'a Filters,
    /// Readable or closed when the spawner has ended.
    pub(crate) life: BorrowedFd<'a>,
    /// Tells the spawner which of its children is new: [`birth`].
    pub(crate) births: BorrowedFd<'a>,
    pub(crate) token: u32,
    pub(crate) streams: Streams,
}

/// What is written to `births`, in one atomic write.
pub(crate) const BIRTH_BYTES: usize = 8;

/// Enters `namespaces` (user, net, mnt of the broker) and starts a service there.
pub(crate) fn start(entry: &Entry<'_>, start: &Start, namespaces: &[OwnedFd; 3], etc: Option<&OwnedFd>) -> ! {
    let own = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWCGROUP;
    let kinds = [LinkNameSpaceType::User, LinkNameSpaceType::Network, LinkNameSpaceType::Mount];
    let entered = enter(entry.kernel, &start.program, &kinds, namespaces);
    clone(entry, &start.program, entered, own, |maker| {
        let Entry { filters, life, streams, .. } = entry;
        init::main(entry.kernel, &Init { start, streams, etc, filters, maker, life: *life })
    })
}

/// Enters `namespaces` (user, net, mnt, pid, ipc, uts, cgroup of a service) and runs a program there.
pub(crate) fn exec(entry: &Entry<'_>, exec: &Exec, namespaces: &[OwnedFd; 7]) -> ! {
    use LinkNameSpaceType as Kind;
    let kinds = [
        Kind::User,
        Kind::Network,
        Kind::Mount,
        Kind::ProcessID,
        Kind::InterProcessCommunication,
        Kind::HostNameAndNISDomainName,
        Kind::ControlGroup,
    ];
    // The service's processes will see the clone: out of reach before it exists.
    let entered = enter(entry.kernel, &exec.program, &kinds, namespaces).and_then(|()| privileges::hide(entry.kernel));
    clone(entry, &exec.program, entered, 0, |maker| {
        let prepared = prepare_exec(entry, exec, maker);
        report(&entry.streams, prepared);
        program::become_program(entry.kernel, &exec.program, &entry.streams)
    })
}

fn prepare_exec(entry: &Entry<'_>, exec: &Exec, maker: Option<BorrowedFd<'_>>) -> Result<(), Failure> {
    let kernel = entry.kernel;
    privileges::give_up(kernel, exec.program.set_groups, entry.life)?;
    if let Some(maker) = maker {
        client_ports::hand_over(kernel, maker, entry.streams.status.as_fd())?;
    }
    kernel.call("seccomp", || entry.filters.apply())
}

/// Before any process of the host when its memory is used up: a sandbox may take all of it in memory files, which count
/// for no process.
const OOM_SCORE: &str = "800";

fn enter<const N: usize>(
    kernel: Kernel,
    program: &Program,
    kinds: &[LinkNameSpaceType; N],
    namespaces: &[OwnedFd; N],
) -> Result<(), Failure> {
    // Inherited, and pid 1's can't be lowered from inside. Refused where the caller's own is higher, which serves too.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    // Inherited too, and out of sight from inside.
    kernel.call("joining cgroups", || Cgroup::join(&program.cgroup).map_err(|error| kernel::errno(&error)))?;
    for (kind, namespace) in kinds.iter().zip(namespaces) {
        kernel.call("setns", || move_into_link_name_space(namespace.as_fd(), Some(*kind)))?;
    }
    Ok(())
}

/// Reports a failure and ends; returns what there is if there is none.
pub(crate) fn report<T>(streams: &Streams, result: Result<T, Failure>) -> T {
    result.unwrap_or_else(|failure| {
        let _ = wire::send(streams.status.as_fd(), &Report::Failed(failure), &[]);
        kernel::exit_now(127)
    })
}

/// Clones; the parent announces the child to spawner and supervisor, lets it go, and ends, or makes its sockets.
fn clone(
    entry: &Entry<'_>,
    program: &Program,
    entered: Result<(), Failure>,
    flags: libc::c_int,
    child: impl FnOnce(Option<BorrowedFd<'_>>),
) -> ! {
    report(&entry.streams, entered);
    let announced = (|| {
        let kernel = entry.kernel;
        let sockets = program.client_ports.as_ref().map(|_| kernel.call("socketpair", wire::pair));
        let (maker, asker) = sockets.transpose()?.unzip();
        let (wait, go) = kernel.call("pipe", || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC))?;
        match kernel.call("clone3", || kernel::clone(flags | libc::CLONE_PARENT))? {
            Cloned::Child => {
                drop((go, maker));
                // Not before the spawner can know whose exit it sees; never if nobody told it.
                if rustix::io::retry_on_intr(|| rustix::io::read(&wait, &mut [0; 1])) != Ok(1) {
                    kernel::exit_now(127);
                }
                drop(wait);
                forget(entry.births);
                child(asker.as_ref().map(OwnedFd::as_fd));
                kernel::exit_now(127)
            }
            Cloned::Parent { pid, pidfd } => {
                let pid = pid.as_raw_nonzero().get().unsigned_abs();
                kernel.call("write", || rustix::io::write(entry.births, &birth(entry.token, pid)))?;
                let status = entry.streams.status.as_fd();
                let sent = || wire::send(status, &Report::Cloned(pid), &[pidfd.as_fd()]).map_err(|_| Errno::PIPE);
                kernel.call("sendmsg", sent)?;
                kernel.call("write", || rustix::io::write(&go, &[1]))?;
                Ok(maker)
            }
        }
    })();
    match (announced, &program.client_ports) {
        (Ok(Some(maker)), Some(ports)) => client_ports::maker_main(entry, program, ports, maker),
        (announced, _) => report(&entry.streams, announced.map(|_| ())),
    }
    kernel::exit_now(0)
}

/// Closes an inherited descriptor that this process must not go on with.
fn forget(fd: BorrowedFd<'_>) {
    let _ = kernel::close_range(fd.as_raw_fd(), fd.as_raw_fd());
}

fn birth(token: u32, pid: u32) -> [u8; BIRTH_BYTES] {
    let mut bytes = [0; BIRTH_BYTES];
    bytes[..4].copy_from_slice(&token.to_ne_bytes());
    bytes[4..].copy_from_slice(&pid.to_ne_bytes());
    bytes
}

/// Reads what [`birth`] wrote: token and pid.
pub(crate) fn parse_birth(bytes: [u8; BIRTH_BYTES]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = bytes;
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}
