//! System calls: the ones that rustix doesn't have, and the gate that every step of a creation goes through, so that a
//! test can fail the Nth of them.

#![expect(unsafe_code, reason = "system calls that no safe wrapper exists for; each block says why it is sound")]

use std::{
    os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd},
    path::Path,
    sync::atomic::{AtomicU32, Ordering},
};

use rustix::{io::Errno, process::Pid};

use crate::failure::Failure;

/// The gate of a creation's system calls. Copied into every forked child.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kernel {
    faults: Option<Faults>,
}

/// A countdown shared by a spawner and all that it forks.
#[derive(Clone, Copy, Debug)]
struct Faults {
    remaining: &'static AtomicU32,
    errno: Errno,
}

impl Kernel {
    /// A kernel whose `nth` call, counted from 1 over this process and its children, fails once with `errno`.
    pub(crate) fn failing(nth: u32, errno: Errno) -> Result<Self, Errno> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        // SAFETY: a new anonymous mapping of a page aliases nothing, and it is never unmapped, so that a reference of
        // static lifetime to its first word (zeroed, aligned) is sound. Needed to count across forks.
        let remaining = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            let page = mmap_anonymous(std::ptr::null_mut(), 4096, prot, MapFlags::SHARED)?;
            &*page.cast::<AtomicU32>()
        };
        remaining.store(nth, Ordering::SeqCst);
        Ok(Self { faults: Some(Faults { remaining, errno }) })
    }

    /// Makes one system call of a creation.
    pub(crate) fn call<T>(
        self,
        name: &'static str,
        call: impl FnOnce() -> rustix::io::Result<T>,
    ) -> Result<T, Failure> {
        self.enter().and_then(|()| call()).map_err(|errno| Failure::setup(name, errno))
    }

    /// Makes one system call of a creation that concerns a path.
    pub(crate) fn at<T>(
        self,
        name: &'static str,
        path: impl AsRef<Path>,
        call: impl FnOnce() -> rustix::io::Result<T>,
    ) -> Result<T, Failure> {
        self.enter().and_then(|()| call()).map_err(|errno| Failure::setup_at(name, path.as_ref(), errno))
    }

    fn enter(self) -> Result<(), Errno> {
        let Some(faults) = self.faults else { return Ok(()) };
        let step = |left: u32| left.checked_sub(1);
        match faults.remaining.fetch_update(Ordering::SeqCst, Ordering::SeqCst, step) {
            Ok(1) => Err(faults.errno),
            _ => Ok(()),
        }
    }
}

/// Turns a C return value into a result.
pub(crate) fn check(value: libc::c_long) -> Result<libc::c_long, Errno> {
    if value >= 0 {
        return Ok(value);
    }
    Err(last_errno())
}

fn last_errno() -> Errno {
    errno(&std::io::Error::last_os_error())
}

/// The kernel's word in an error of the standard library; `EIO` for one that is none of the kernel's.
pub(crate) fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// What `clone3` takes. (The kernel's `struct clone_args`, first version with `cgroup`.)
#[repr(C, align(8))]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// Which side of a clone one is on.
pub(crate) enum Cloned {
    Child,
    Parent { pid: Pid, pidfd: OwnedFd },
}

/// Clones this process into new namespaces. The child is our child, or with `CLONE_PARENT` our parent's.
pub(crate) fn clone(flags: libc::c_int) -> Result<Cloned, Errno> {
    let mut pidfd: RawFd = -1;
    let parents = flags & libc::CLONE_PARENT != 0;
    let args = CloneArgs {
        flags: (flags | libc::CLONE_PIDFD) as u64,
        pidfd: (&raw mut pidfd) as u64,
        // The kernel refuses a signal of our own beside CLONE_PARENT: the parent gets what it gets for us.
        exit_signal: if parents { 0 } else { libc::SIGCHLD as u64 },
        ..CloneArgs::default()
    };
    // SAFETY: `args` and `pidfd` live across the call; without CLONE_VM the child has its own copy of everything, as
    // after fork. The spawner and all its children have one thread, so no lock is held by a thread that the child lacks.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) })?;
    if pid == 0 {
        return Ok(Cloned::Child);
    }
    // SAFETY: the kernel wrote a new descriptor there that nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Cloned::Parent { pid: pid_of(pid)?, pidfd })
}

/// Forks by the old call: `clone3` is refused by the filters of services. `None` in the child.
pub(crate) fn fork() -> Result<Option<Pid>, Errno> {
    // SAFETY: as `clone`: one thread, own memory; null stack means that the child goes on on a copy of ours.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) })?;
    if pid == 0 { Ok(None) } else { pid_of(pid).map(Some) }
}

fn pid_of(pid: libc::c_long) -> Result<Pid, Errno> {
    i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
}

/// Ends this process at once, without running anything of the parent's that it is a copy of.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: always sound; `std::process::exit` would run the parent's exit handlers.
    unsafe { libc::_exit(code) }
}

/// Leaves the given namespaces.
pub(crate) fn unshare(flags: rustix::thread::UnshareFlags) -> Result<(), Errno> {
    // SAFETY: descriptors are never unshared here (no `FILES`), which is what makes the call unsafe.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

/// Closes every descriptor of `first..=last`.
pub(crate) fn close_range(first: RawFd, last: RawFd) -> Result<(), Errno> {
    range(first, last, 0)
}

/// Has every descriptor of `first..=last` close on exec.
pub(crate) fn close_range_on_exec(first: RawFd, last: RawFd) -> Result<(), Errno> {
    // `CLOSE_RANGE_CLOEXEC`
    range(first, last, 4)
}

fn range(first: RawFd, last: RawFd, flags: libc::c_uint) -> Result<(), Errno> {
    if first > last {
        return Ok(());
    }
    // SAFETY: callers close what they inherited over a fork and own no handle of; those values are never dropped, since
    // the process ends by `exit_now` or `execve`.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).map(|_| ())
}

/// Closes everything but `keep`; what a forked child does first.
pub(crate) fn close_all_but(keep: &[RawFd]) -> Result<(), Errno> {
    let mut keep = keep.to_vec();
    keep.sort_unstable();
    let mut first = 0;
    for fd in keep {
        close_range(first, fd - 1)?;
        first = fd + 1;
    }
    close_range(first, RawFd::MAX)
}

/// Puts `fd` at the number `at`, open across exec.
pub(crate) fn place(fd: BorrowedFd<'_>, at: RawFd) -> Result<(), Errno> {
    if fd.as_raw_fd() == at {
        // SAFETY: changes the flags of a descriptor that we hold.
        return check(unsafe { libc::fcntl(at, libc::F_SETFD, 0) }.into()).map(|_| ());
    }
    // SAFETY: replaces `at`, which the caller, a fork about to exec, has no handle of.
    check(unsafe { libc::dup2(fd.as_raw_fd(), at) }.into()).map(|_| ())
}

/// Mount attributes to set, and never to clear. (The kernel's `struct mount_attr`.)
#[repr(C)]
#[derive(Default)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Sets attributes of a mount, or of everything below it.
pub(crate) fn mount_setattr(tree: BorrowedFd<'_>, recursive: bool, set: u32) -> Result<(), Errno> {
    let attr = MountAttr { set: set.into(), ..MountAttr::default() };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a static NUL-terminated text and `attr` lives across the call, which only reads it.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    check(done).map(|_| ())
}

/// Sets an option of a socket that rustix doesn't have. `value` is plain C data.
pub(crate) fn set_option<T>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `value`, which lives across the call; callers pass plain C data.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, std::ptr::from_ref(value).cast(), length) };
    check(done.into()).map(|_| ())
}

/// Gives up the session keyring that the caller's login holds its keys in, for a new and empty one.
pub(crate) fn join_new_session_keyring() -> Result<(), Errno> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_long = 1;
    // SAFETY: a null name asks for an anonymous keyring; nothing is read or written.
    match check(unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, 0) }) {
        // A kernel without keyrings has none to give away.
        Ok(_) | Err(Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Removes a capability for good. `false` when the kernel knows no such capability.
pub(crate) fn drop_bounding(capability: u32) -> Result<bool, Errno> {
    // SAFETY: takes a number only.
    match check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability as libc::c_ulong, 0, 0, 0) }.into()) {
        Ok(_) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Blocks exactly these signals; returns a set for [`wait_signal`].
pub(crate) fn block_signals(signals: &[libc::c_int]) -> Result<libc::sigset_t, Errno> {
    // SAFETY: `sigemptyset` initializes the set before anything reads it; pointers live across the calls.
    unsafe {
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        for &signal in signals {
            libc::sigaddset(&raw mut set, signal);
        }
        check(libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()).into())?;
        Ok(set)
    }
}

/// Waits for one of the blocked signals: its number, and the sender's pid as seen here (0 when the sender is the kernel
/// or outside our pid namespace).
pub(crate) fn wait_signal(set: &libc::sigset_t) -> Result<(libc::c_int, libc::pid_t), Errno> {
    // SAFETY: the kernel fills `info`; `si_pid` is plain data for every signal that we wait for.
    unsafe {
        let mut info = std::mem::zeroed::<libc::siginfo_t>();
        let signal = check(libc::sigwaitinfo(set, &raw mut info).into())?;
        Ok((i32::try_from(signal).unwrap_or(0), info.si_pid()))
    }
}

/// A descriptor that becomes readable with one of the blocked signals.
pub(crate) fn signal_fd(set: &libc::sigset_t) -> Result<OwnedFd, Errno> {
    // SAFETY: reads the set; the new descriptor is nobody else's.
    unsafe {
        let fd = check(libc::signalfd(-1, set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK).into())?;
        Ok(OwnedFd::from_raw_fd(i32::try_from(fd).map_err(|_| Errno::BADF)?))
    }
}

/// Gives a signal its default effect again: ignored signals stay ignored across exec.
pub(crate) fn default_signal(signal: libc::c_int) {
    // SAFETY: the default disposition runs no code of ours.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
    }
}

/// Takes the descriptor that the parent left at this number.
pub(crate) fn inherited(fd: RawFd) -> OwnedFd {
    // SAFETY: called once, at the start of a process that was started to own this number.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Becomes the program. Returns only if it can't.
pub(crate) fn execve(
    program: &std::ffi::CStr,
    arguments: &[std::ffi::CString],
    variables: &[std::ffi::CString],
) -> Errno {
    let pointers = |texts: &[std::ffi::CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, variables) = (pointers(arguments), pointers(variables));
    // SAFETY: both arrays end in null and point to NUL-terminated texts that live across the call.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), variables.as_ptr()) };
    last_errno()
}

/// Has a command start with `fd` at the number `at` and nothing else beside the standard streams.
pub(crate) fn give_only(command: &mut std::process::Command, fd: OwnedFd, at: RawFd) {
    use std::os::unix::process::CommandExt as _;
    let hook = move || {
        place(std::os::fd::AsFd::as_fd(&fd), at)?;
        // Not closed but marked: the pipe by which `Command` reports a failed exec is among them.
        close_range_on_exec(at + 1, RawFd::MAX)?;
        Ok(())
    };
    // SAFETY: the hook runs between fork and exec; it makes three system calls and neither allocates nor locks.
    unsafe {
        command.pre_exec(hook);
    }
}
