//! What a caller asks for: plain data, checked before anything exists.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use agentenv_protocol::SandboxName;
use serde::{Deserialize, Serialize};

use crate::{cgroup::Cgroup, client_ports, uid::Uid};

/// The uid and gid that every service has inside; the only ones that exist there. 0 is never mapped.
pub const INSIDE_ID: u32 = 1000;
/// The home folder inside, when a service has one.
pub const HOME: &str = "/home/agent";
/// The names that browsers and computers reach live at addresses of this range.
pub const SITE_RANGE: (std::net::Ipv4Addr, u8) = (std::net::Ipv4Addr::new(198, 18, 0, 0), 15);

/// What a sandbox's network namespace is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkKind {
    /// A website's services: loopback alone, every port free to bind.
    Pod,
    /// The services of a website that reaches real hosts: as [`Self::Pod`], and the local route of a browser.
    LivePod,
    /// A browser or computer: loopback, a local route for [`SITE_RANGE`], and an `eth0` that leads nowhere, so that
    /// `navigator.onLine` is true. No IPv6.
    Browser,
}

/// A sandbox to create: a user namespace, a network namespace and, in a pod, `/data`.
#[derive(Clone, Debug)]
pub struct SandboxSpec {
    /// Names it in errors, logs and `ps`.
    pub name: String,
    /// What its network namespace is for.
    pub network: NetworkKind,
    /// Whom it runs as on the host.
    pub uid: Uid,
    /// The folder its services share, kept across their restarts.
    pub data: Option<DataDir>,
    /// Whether its traffic may be captured: its broker then keeps `CAP_NET_RAW`, for [`Sandbox::packet`](crate::Sandbox::packet).
    pub packets: bool,
    /// Its limits beside other sandboxes, where there are some.
    pub cgroup: Cgroup,
}

/// A pod's `/data`: a tmpfs that lives as long as the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataDir {
    /// Its size at most, in bytes.
    pub bytes: u64,
}

/// One service to start in a sandbox.
#[derive(Clone, Debug)]
pub struct ServiceSpec {
    /// Names it in errors.
    pub name: SandboxName,
    /// The program and its arguments. A program without `/` is looked for in the environment's `PATH`.
    pub command: Vec<String>,
    /// The working directory, inside.
    pub cwd: PathBuf,
    /// What it sees beside `/usr` and the generated files.
    pub mounts: Vec<Mount>,
    /// Files of the generated `/etc`, by their path below it; they replace the defaults.
    pub etc: Vec<(String, Vec<u8>)>,
    /// The host name inside.
    pub hostname: String,
    /// Whether the pod's `/data` is mounted.
    pub data: bool,
    /// The size of `/tmp`, in bytes.
    pub tmp_bytes: u64,
    /// The size of `/dev/shm`, in bytes.
    pub shm_bytes: u64,
    /// The size of a writable [`HOME`], in bytes; without it there is none.
    pub home_bytes: Option<u64>,
    /// Which system calls it may make.
    pub seccomp: SeccompProfile,
    /// Its resource limits.
    pub limits: Limits,
    /// The ports that its connections come from, if they are to be its own: see [`split_client_ports`](crate::split_client_ports).
    pub client_ports: Option<RangeInclusive<u16>>,
}

/// Which system calls a service may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeccompProfile {
    /// No namespace of any kind.
    Service,
    /// Nested user, pid and network namespaces and `chroot`, as Chromium's own sandbox needs.
    Browser,
}

/// Something of the host, or a new file system, at a path inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mount {
    /// A folder or file of the host, read-only with everything mounted below it, no devices, no set-uid programs. Its
    /// files must be readable by everybody: the service's uid owns none of them. The folders above it need not be.
    ReadOnly {
        /// The path on the host, as the caller sees it.
        source: PathBuf,
        /// The absolute path inside.
        target: PathBuf,
    },
    /// An empty writable folder that ends with the service.
    Tmpfs {
        /// The absolute path inside.
        target: PathBuf,
        /// Its size at most, in bytes.
        bytes: u64,
    },
    /// Pseudo-terminals of its own, at `/dev/pts` and `/dev/ptmx`: for what shows a command line.
    Terminals,
}

impl Mount {
    /// Where it is inside.
    pub fn target(&self) -> &Path {
        match self {
            Mount::ReadOnly { target, .. } | Mount::Tmpfs { target, .. } => target,
            Mount::Terminals => Path::new("/dev/pts"),
        }
    }
}

/// Resource limits of each process of a service; soft and hard are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Open descriptors of a process.
    pub nofile: u64,
    /// Processes and threads of the service's uid within its sandbox.
    pub nproc: u64,
    /// Size of a core dump, in bytes.
    pub core: u64,
}

impl Default for Limits {
    /// 1,024 descriptors and processes: the usual soft limit, and what `select` can hold. No core dumps: they would
    /// hold secrets.
    fn default() -> Self {
        Self { nofile: 1024, nproc: 1024, core: 0 }
    }
}

/// Why a specification can't be carried out, found before anything exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No program.
    #[error("its command is empty")]
    EmptyCommand,
    /// A text that ends early for the kernel.
    #[error("`{0}` holds a NUL byte")]
    Nul(String),
    /// A path that must be absolute and without `..`.
    #[error("`{0}` is not an absolute path without `..`")]
    Path(PathBuf),
    /// A file of `/etc` that would be elsewhere.
    #[error("`{0}` is not a relative path below /etc")]
    Etc(String),
    /// A path where something of ours, or of the host that must not show, would be.
    #[error("`{0}` is reserved")]
    Reserved(PathBuf),
    /// Ports that don't exist, or a browser's: its processes make sockets in namespaces of their own.
    #[error("its connections can't come from ports {0:?}")]
    ClientPorts(RangeInclusive<u16>),
    /// More than the wire carries.
    #[error("{what}: {count} are more than {limit}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many were asked for.
        count: usize,
        /// How many can be.
        limit: usize,
    },
}

/// Mounts of one service: each costs a descriptor while it starts, of the 1,024 that any process may have.
pub(crate) const MAX_MOUNTS: usize = 256;
/// The kernel's longest host name.
const MAX_HOSTNAME: usize = 64;

/// What must not appear inside by a mount, whatever the caller says: kernel interfaces and the places we fill.
const RESERVED: [&str; 6] = ["/", "/proc", "/sys", "/dev", "/run", "/var/run"];

impl ServiceSpec {
    /// Checks what can be checked without a sandbox.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        check_command(&self.command)?;
        check_path(&self.cwd)?;
        let too_many = |what, count, limit| SpecError::TooMany { what, count, limit };
        if self.mounts.len() > MAX_MOUNTS {
            return Err(too_many("mounts", self.mounts.len(), MAX_MOUNTS));
        }
        if self.hostname.len() > MAX_HOSTNAME {
            return Err(too_many("bytes of host name", self.hostname.len(), MAX_HOSTNAME));
        }
        if let Some(ports) = &self.client_ports
            && (self.seccomp == SeccompProfile::Browser || !client_ports::is_range(ports))
        {
            return Err(SpecError::ClientPorts(ports.clone()));
        }
        for mount in &self.mounts {
            let target = mount.target();
            check_path(target)?;
            let below = |top: &str| target.starts_with(top) && (top != "/" || target == Path::new("/"));
            if *mount != Mount::Terminals && RESERVED.into_iter().any(below) {
                return Err(SpecError::Reserved(target.to_owned()));
            }
            if let Mount::ReadOnly { source, .. } = mount
                && !source.is_absolute()
            {
                return Err(SpecError::Path(source.clone()));
            }
        }
        for (path, _) in &self.etc {
            let plain = Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
            if path.is_empty() || !plain || path.contains('\0') {
                return Err(SpecError::Etc(path.clone()));
            }
        }
        Ok(())
    }
}

/// Checks a command to run inside.
pub(crate) fn check_command(command: &[String]) -> Result<(), SpecError> {
    if command.first().is_none_or(String::is_empty) {
        return Err(SpecError::EmptyCommand);
    }
    match command.iter().find(|word| word.contains('\0')) {
        Some(word) => Err(SpecError::Nul(word.replace('\0', "\\0"))),
        None => Ok(()),
    }
}

fn check_path(path: &Path) -> Result<(), SpecError> {
    use std::path::Component::{Normal, RootDir};
    let plain = path.components().all(|part| matches!(part, RootDir | Normal(_)));
    let nul = path.as_os_str().as_encoded_bytes().contains(&0);
    if path.is_absolute() && plain && !nul { Ok(()) } else { Err(SpecError::Path(path.to_owned())) }
}

#[cfg(test)]
mod tests;
