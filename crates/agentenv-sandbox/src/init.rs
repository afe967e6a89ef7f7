//! Pid 1 of a service: builds the root, gives everything up, starts the service's process and reaps.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus},
};

use crate::{
    client_ports, enter,
    environment::read_all,
    failure::Failure,
    kernel::{self, Kernel},
    messages::{Report, Start},
    privileges,
    program::{self, Streams},
    root,
    seccomp::Filters,
    wire,
};

/// What pid 1 ends with when the service's process ends by a signal, as shells do: this plus the signal.
const SIGNALLED: i32 = 128;

/// What pid 1 works with.
pub(crate) struct Init<'a> {
    pub(crate) start: &'a Start,
    pub(crate) streams: &'a Streams,
    pub(crate) etc: Option<&'a OwnedFd>,
    pub(crate) filters: &'a Filters,
    /// Who makes the service's sockets, if it has client ports of its own.
    pub(crate) maker: Option<BorrowedFd<'a>>,
    /// Readable or closed when the spawner has ended.
    pub(crate) life: BorrowedFd<'a>,
}

/// The whole life of a pid 1.
pub(crate) fn main(kernel: Kernel, init: &Init<'_>) -> ! {
    let main = enter::report(init.streams, prepare(kernel, init));
    let Some(main) = main else { program::become_program(kernel, &init.start.program, init.streams) };
    // Children of a hostile service can attack a pid 1 of their own uid, so it holds nothing.
    if kernel::close_range(0, i32::MAX).is_err() {
        kernel::exit_now(127);
    }
    kernel::exit_now(reap(main))
}

/// Everything up to the fork; `None` in the service's own process.
fn prepare(kernel: Kernel, init: &Init<'_>) -> Result<Option<Pid>, Failure> {
    let _ = rustix::thread::set_name(c"ae-init");
    report_namespaces(kernel, init.streams.status.as_fd())?;
    let sources = root::open(kernel, init.start)?;
    privileges::become_inside(kernel, init.start.program.set_groups)?;
    privileges::hide(kernel)?;
    kernel.call("sethostname", || rustix::system::sethostname(init.start.hostname.as_bytes()))?;
    let etc = match init.etc {
        Some(etc) => kernel.call("reading /etc", || read_all(etc.as_fd()).map_err(|error| kernel::errno(&error)))?,
        None => Vec::new(),
    };
    root::build(kernel, init.start, &sources, &etc)?;
    // The descriptors of the host's trees end here.
    drop(sources);
    privileges::drop_all(kernel)?;
    privileges::die_with_spawner(kernel, init.life)?;
    kernel.call("sigprocmask", || kernel::block_signals(&[libc::SIGCHLD, libc::SIGTERM]))?;
    if let Some(maker) = init.maker {
        client_ports::hand_over(kernel, maker, init.streams.status.as_fd())?;
    }
    kernel.call("seccomp", || init.filters.apply())?;
    kernel.call("fork", kernel::fork)
}

/// Hands out what `env exec` joins later, while a `/proc` shows it.
fn report_namespaces(kernel: Kernel, status: BorrowedFd<'_>) -> Result<(), Failure> {
    let mut namespaces = Vec::new();
    for name in ["mnt", "pid", "ipc", "uts", "cgroup"] {
        namespaces.push(open_namespace(kernel, name)?);
    }
    let fds: Vec<_> = namespaces.iter().map(OwnedFd::as_fd).collect();
    kernel.call("sendmsg", || wire::send(status, &Report::Namespaces, &fds).map_err(|_| Errno::PIPE))
}

/// Opens one of this process's namespaces.
pub(crate) fn open_namespace(kernel: Kernel, name: &str) -> Result<OwnedFd, Failure> {
    use rustix::fs::{Mode, OFlags};
    let path = format!("/proc/self/ns/{name}");
    kernel.at("open", &path, || rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()))
}

/// Reaps until the service's process ends; then pid 1 does, and the kernel kills what is left in the namespace.
fn reap(main: Pid) -> i32 {
    let Ok(signals) = kernel::block_signals(&[libc::SIGCHLD, libc::SIGTERM]) else { return 127 };
    loop {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == main => return code(status),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return 127,
            }
        }
        // Only what comes from outside, where our pid namespace has no pid for the sender, is an order to end: the
        // service's processes may signal pid 1 too.
        if let Ok((libc::SIGTERM, 0)) = kernel::wait_signal(&signals) {
            let _ = rustix::process::kill_process(main, Signal::TERM);
        }
    }
}

fn code(status: WaitStatus) -> i32 {
    status.exit_status().or(status.terminating_signal().map(|signal| SIGNALLED + signal)).unwrap_or(127)
}
