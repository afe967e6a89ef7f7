//! Whether sandboxes work here: found out by making some, never by reading settings alone.

use std::{fs, ops::RangeInclusive, path::PathBuf, time::Duration};

use agentenv_protocol::SandboxName;

use crate::{
    Cgroup, Cgroups, DataDir, Environment, ExitInfo, Limits, NetworkKind, Sandbox, SandboxError, SandboxSpec,
    SeccompProfile, Service, ServiceSpec, Spawner, UidAllocator, UidMode, capture, remove_cgroups, split_client_ports,
};

/// How long one of the programs below may take; each is over in milliseconds.
const PROGRAM_LIMIT: Duration = Duration::from_secs(20);
/// Descriptors that a supervisor needs at least: a hundred for each sandbox of a deploy of ten.
const MIN_DESCRIPTORS: u64 = 1024;

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// Whether it works.
    pub ok: bool,
    /// What was seen.
    pub detail: String,
    /// What to do, where it doesn't work or could be better.
    pub fix: Option<String>,
}

impl Check {
    fn good(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, ok: true, detail: detail.into(), fix: None }
    }

    fn bad(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, ok: false, detail: detail.into(), fix: Some(fix.into()) }
    }
}

/// Tries everything that a deploy needs, in order, up to the first step that nothing after it can do without. Call it
/// from the main thread, as [`Spawner::launch`].
pub fn doctor() -> Vec<Check> {
    let allocator = UidAllocator::detect();
    let mut checks = vec![kernel(), uids(&allocator), descriptors(), limits()];
    let spawner = match Spawner::launch("doctor") {
        Ok(spawner) => {
            checks.push(Check::good("spawner", format!("started as process {}", spawner.pid())));
            spawner
        }
        Err(error) => {
            checks.push(Check::bad("spawner", error.to_string(), "is /proc mounted?"));
            return checks;
        }
    };
    for (name, network) in [("pod", NetworkKind::Pod), ("browser", NetworkKind::Browser)] {
        match sandbox(&spawner, &allocator, network) {
            Ok(sandbox) => {
                checks.push(Check::good(name, what_works(network)));
                checks.extend(inside(&spawner, &sandbox));
            }
            Err(error) => checks.push(Check::bad(name, error.to_string(), fix(&error))),
        }
    }
    checks
}

/// Whether a sandbox can be kept from using up the machine. It works without, and is declared.
fn limits() -> Check {
    let name = "limits";
    let tried = Cgroups::plan(&format!("doctor-{}", std::process::id())).and_then(|groups| {
        let made = groups.make().and_then(|()| groups.sandbox().map(drop));
        // Empty, or never made.
        let _ = remove_cgroups(groups.folders());
        made
    });
    match tried {
        Ok(()) => Check::good(name, "memory and processor time of each sandbox, by cgroups"),
        Err(error) => Check {
            name,
            ok: true,
            detail: error.to_string(),
            fix: Some("cgroup version 1 with its memory and cpu controllers, and root".into()),
        },
    }
}

fn what_works(network: NetworkKind) -> &'static str {
    match network {
        NetworkKind::Pod | NetworkKind::LivePod => "user and network namespace, id maps, loopback, free ports, /data",
        NetworkKind::Browser => "user and network namespace, id maps, local route, eth0, no IPv6",
    }
}

fn sandbox(spawner: &Spawner, allocator: &UidAllocator, network: NetworkKind) -> Result<Sandbox, SandboxError> {
    let data = (network == NetworkKind::Pod).then_some(DataDir { bytes: 1 << 20 });
    let uid = allocator.allocate()?;
    spawner.create(&SandboxSpec {
        name: "doctor".into(),
        network,
        uid,
        data,
        packets: network == NetworkKind::Pod,
        cgroup: Cgroup::default(),
    })
}

fn inside(spawner: &Spawner, sandbox: &Sandbox) -> Vec<Check> {
    let sockets = match sandbox.tcp(1) {
        Ok(_) => Check::good("placed sockets", "a socket of the sandbox came out"),
        Err(error) => Check::bad("placed sockets", error.to_string(), fix(&error)),
    };
    let service = run(spawner, sandbox, "service", &["true"], "its own root, pid namespace and filter; `true` ran");
    let mut checks = vec![sockets, service];
    if sandbox.network() == NetworkKind::Pod {
        checks.push(client_ports(spawner, sandbox));
        checks.push(capture(sandbox));
    }
    if sandbox.network() == NetworkKind::Browser {
        // What Chromium's own sandbox is made of; util-linux is on every Debian.
        let nested = ["unshare", "--user", "--pid", "--net", "--fork", "true"];
        checks.push(run(
            spawner,
            sandbox,
            "nested namespaces",
            &nested,
            "user, pid and network, as Chromium's sandbox",
        ));
    }
    checks
}

/// Whether a website's traffic can be captured.
fn capture(sandbox: &Sandbox) -> Check {
    let name = "capture";
    match sandbox.packet().map(capture::check) {
        Ok(Ok(())) => Check::good(name, "a packet socket of the sandbox came out, with a ring"),
        Ok(Err(error)) => Check::bad(name, error.to_string(), "a kernel with CONFIG_PACKET, and 2 MiB of memory"),
        Err(error) => Check::bad(name, error.to_string(), "a kernel with CONFIG_PACKET"),
    }
}

/// Whether a capture can show which service of a website connected to another. It works without, and is declared.
fn client_ports(spawner: &Spawner, sandbox: &Sandbox) -> Check {
    let name = "client ports";
    match start(spawner, sandbox, &["true"], split_client_ports(2).pop()) {
        Ok(service) if service.client_ports().is_some() => {
            Check::good(name, "captures show which service of a website connected")
        }
        Ok(_) => Check {
            name,
            ok: true,
            detail: "captures do not show which service of a website connected".into(),
            fix: Some("Linux 6.3 or newer, and no seccomp listener above this process".into()),
        },
        Err(error) => Check::bad(name, error.to_string(), fix(&error)),
    }
}

fn start(
    spawner: &Spawner,
    sandbox: &Sandbox,
    command: &[&str],
    client_ports: Option<RangeInclusive<u16>>,
) -> Result<Service, SandboxError> {
    let browser = sandbox.network() == NetworkKind::Browser;
    let spec = ServiceSpec {
        name: SandboxName::parse("doctor").map_err(|_| SandboxError::SpawnerGone)?,
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        cwd: PathBuf::from("/"),
        mounts: Vec::new(),
        etc: Vec::new(),
        hostname: "doctor".into(),
        data: !browser,
        tmp_bytes: 1 << 20,
        shm_bytes: 1 << 20,
        home_bytes: None,
        seccomp: if browser { SeccompProfile::Browser } else { SeccompProfile::Service },
        limits: Limits::default(),
        client_ports,
    };
    let environment = Environment::new([]).map_err(|source| SandboxError::Local {
        name: "doctor".into(),
        what: "an environment",
        source,
    })?;
    spawner.start(sandbox, &spec, &environment)
}

fn run(spawner: &Spawner, sandbox: &Sandbox, name: &'static str, command: &[&str], good: &str) -> Check {
    match start(spawner, sandbox, command, None).map(|service| service.wait_exit(PROGRAM_LIMIT)) {
        Ok(Some(ExitInfo::Code(0))) => Check::good(name, good),
        Ok(exit) => Check::bad(name, format!("`{}` ended with {exit:?}", command.join(" ")), NAMESPACES_FIX),
        Err(error) => Check::bad(name, error.to_string(), fix(&error)),
    }
}

const NAMESPACES_FIX: &str = "allow user namespaces for this program: an AppArmor profile with `userns,`; in Docker \
    `--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined`";

/// The fix that fits what this host says about itself.
fn fix(error: &SandboxError) -> String {
    let setting = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    if setting("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return "sysctl -w kernel.unprivileged_userns_clone=1".into();
    }
    if setting("/proc/sys/user/max_user_namespaces").as_deref() == Some("0") {
        return "sysctl -w user.max_user_namespaces=15000".into();
    }
    if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        return NAMESPACES_FIX.into();
    }
    error.hint().unwrap_or_else(|| NAMESPACES_FIX.into())
}

fn kernel() -> Check {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy().into_owned();
    // mount_setattr is the newest of what is needed.
    match version(&release) {
        Some(version) if version >= (5, 12) => Check::good("kernel", release),
        _ => Check::bad("kernel", release, "Linux 5.12 or newer is needed"),
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn uids(allocator: &UidAllocator) -> Check {
    let detail = match allocator.mode() {
        UidMode::Root => "root: a uid of its own for each sandbox".to_owned(),
        UidMode::Subordinate { uids, .. } => {
            format!("a uid of its own for each sandbox, of {} from {}", uids.count, uids.first)
        }
        UidMode::Single { reason } => {
            let detail = format!(
                "one uid for all: sandboxes can exhaust each other (descriptors in flight, pipe pages, inotify): {reason}"
            );
            let fix = "apt-get install uidmap; usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER";
            // It works, and is declared; but it can be better.
            return Check { name: "uids", ok: true, detail, fix: Some(fix.into()) };
        }
    };
    Check::good("uids", detail)
}

fn descriptors() -> Check {
    match rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum {
        Some(hard) if hard < MIN_DESCRIPTORS => {
            Check::bad("descriptors", format!("{hard} at most"), "raise the hard limit: LimitNOFILE=, limits.conf")
        }
        hard => Check::good("descriptors", hard.map_or("no limit".into(), |hard| format!("{hard} at most"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(version("6.18.44-fc-v669"), Some((6, 18)));
        assert_eq!(version("5.10.0-8-amd64"), Some((5, 10)));
        assert_eq!(version("6.1"), Some((6, 1)));
        assert_eq!(version("what"), None);
    }
}
