//! Limits of a sandbox's user namespace. The kernel charges inotify and namespaces to the namespace's *owner* as well,
//! which is the caller for all sandboxes: a uid of its own doesn't keep one of them from using up what all may have.

use std::fs;

use crate::{failure::Failure, kernel::Kernel, network::sysctl, spec::NetworkKind};

/// The part of the host's inotify limits that one sandbox may have.
const SHARE: u64 = 8;
/// At least so many inotify instances and watches, whatever the host's limits are: Chromium uses two instances.
const MIN_INSTANCES: u64 = 8;
const MIN_WATCHES: u64 = 1024;
/// Nested user, pid and network namespaces of a browser: one of each for its zygote and for each process of a kind that
/// gets its own. The sandbox's own services count among the pid and network namespaces.
const BROWSERS_NAMESPACES: u64 = 64;

/// Sets them, from inside the namespace.
pub(crate) fn set(kernel: Kernel, network: NetworkKind) -> Result<(), Failure> {
    let share = |limit: &str, min: u64| {
        let host = fs::read_to_string(format!("/proc/sys/fs/inotify/{limit}")).ok();
        let host: Option<u64> = host.and_then(|text| text.trim().parse().ok());
        (host.unwrap_or(0) / SHARE).max(min).to_string()
    };
    sysctl(kernel, "user/max_inotify_instances", &share("max_user_instances", MIN_INSTANCES))?;
    sysctl(kernel, "user/max_inotify_watches", &share("max_user_watches", MIN_WATCHES))?;
    match network {
        // The second lock on that door: seccomp refuses them first.
        NetworkKind::Pod | NetworkKind::LivePod => sysctl(kernel, "user/max_user_namespaces", "0"),
        NetworkKind::Browser => ["user", "pid", "net"].into_iter().try_for_each(|kind| {
            sysctl(kernel, &format!("user/max_{kind}_namespaces"), &BROWSERS_NAMESPACES.to_string())
        }),
    }
}
