//! Giving everything up: identity, capabilities, new privileges.

use rustix::{
    process::{DumpableBehavior, Signal},
    thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets, Gid, Uid},
};

use crate::{
    failure::Failure,
    kernel::{self, Kernel},
    spec::INSIDE_ID,
};

/// Capabilities that any kernel may come to have; the loop ends at the first that this one doesn't know.
const MAX_CAPABILITIES: u32 = 64;

/// Gives up everything of a process that enters a sandbox and builds nothing there.
pub(crate) fn give_up(kernel: Kernel, set_groups: bool, life: std::os::fd::BorrowedFd<'_>) -> Result<(), Failure> {
    become_inside(kernel, set_groups)?;
    hide(kernel)?;
    drop_all(kernel)?;
    die_with_spawner(kernel, life)
}

/// Becomes the inside uid and gid, without any other group. The capabilities stay: only leaving uid 0 clears them, and
/// nobody is uid 0 here.
pub(crate) fn become_inside(kernel: Kernel, set_groups: bool) -> Result<(), Failure> {
    if set_groups {
        kernel.call("setgroups", || rustix::thread::set_thread_groups(&[]))?;
    }
    let (uid, gid) = (Uid::from_raw(INSIDE_ID), Gid::from_raw(INSIDE_ID));
    kernel.call("setresgid", || rustix::thread::set_thread_res_gid(gid, gid, gid))?;
    kernel.call("setresuid", || rustix::thread::set_thread_res_uid(uid, uid, uid))?;
    kernel.call("keyctl", kernel::join_new_session_keyring)
}

/// Drops every capability from every set, and every way to get one back.
pub(crate) fn drop_all(kernel: Kernel) -> Result<(), Failure> {
    drop_all_but(kernel, CapabilitySet::empty())
}

/// Drops every capability but these, which this process may use and nothing that it executes.
pub(crate) fn drop_all_but(kernel: Kernel, kept: CapabilitySet) -> Result<(), Failure> {
    let bits = CapabilitiesSecureBits::NO_ROOT
        | CapabilitiesSecureBits::NO_ROOT_LOCKED
        | CapabilitiesSecureBits::NO_SETUID_FIXUP
        | CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    kernel.call("prctl (securebits)", || rustix::thread::set_capabilities_secure_bits(bits))?;
    for capability in 0..MAX_CAPABILITIES {
        if !kernel.call("prctl (bounding set)", || kernel::drop_bounding(capability))? {
            break;
        }
    }
    kernel.call("prctl (ambient set)", rustix::thread::clear_ambient_capability_set)?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    kernel.call("capset", || rustix::thread::set_capabilities(None, sets))?;
    kernel.call("prctl (no new privileges)", || rustix::thread::set_no_new_privs(true))
}

/// Keeps processes of the same uid out of this one's memory and `/proc` files.
pub(crate) fn hide(kernel: Kernel) -> Result<(), Failure> {
    kernel.call("prctl (dumpable)", || rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable))
}

/// Has the kernel kill this process when its parent, the spawner, ends; fails if it already has.
///
/// Comes after the last change of credentials, which would clear the setting. `life` is a pipe whose other end only the
/// spawner holds: `getppid` tells nothing across pid namespaces.
pub(crate) fn die_with_spawner(kernel: Kernel, life: std::os::fd::BorrowedFd<'_>) -> Result<(), Failure> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    kernel.call("prctl (parent death signal)", || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        let mut fds = [PollFd::new(&life, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        if fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            Err(rustix::io::Errno::OWNERDEAD)
        } else {
            Ok(())
        }
    })
}
