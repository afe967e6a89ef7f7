//! What supervisor, spawner and the processes that it forks say to each other.

use std::{ops::RangeInclusive, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    failure::Failure,
    spec::{DataDir, Limits, Mount, NetworkKind, SeccompProfile},
    uid::Ids,
};

/// Supervisor to spawner, one at a time.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Descriptors: the broker's end of its socket.
    Create(Create),
    /// Descriptors: see [`StartFds`].
    Start(Start),
    /// Descriptors: see [`ExecFds`].
    Exec(Exec),
}

/// Spawner to supervisor. With a pidfd for [`Request::Create`].
pub(crate) type Reply = Result<u32, Failure>;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Create {
    pub(crate) name: String,
    pub(crate) network: NetworkKind,
    pub(crate) ids: Ids,
    pub(crate) data: Option<DataDir>,
    /// Whether its broker makes packet sockets.
    pub(crate) packets: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) program: Program,
    pub(crate) mounts: Vec<Mount>,
    /// Path below `/etc` and length; the contents follow each other in the memory file [`StartFds::etc`].
    pub(crate) etc: Vec<(PathBuf, usize)>,
    pub(crate) hostname: String,
    pub(crate) data: bool,
    pub(crate) tmp_bytes: u64,
    pub(crate) shm_bytes: u64,
    pub(crate) home_bytes: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Exec {
    pub(crate) program: Program,
}

/// What to become, and as whom.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) command: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) seccomp: SeccompProfile,
    pub(crate) limits: Limits,
    /// `false` with a single uid: the kernel refuses `setgroups` there.
    pub(crate) set_groups: bool,
    pub(crate) client_ports: Option<RangeInclusive<u16>>,
    /// The folders of the groups that it joins.
    pub(crate) cgroup: Vec<PathBuf>,
    /// Whether it waits, prepared, for a word on its status socket before it becomes the program.
    pub(crate) waits: bool,
}

/// The descriptors of [`Request::Start`], in this order.
pub(crate) const START_FDS: usize = 10;
/// The descriptors of [`Request::Exec`], in this order: six `ns` files (user, net, mnt, pid, ipc, uts, cgroup are
/// seven), then stdin, stdout, stderr, environment, status, exit.
pub(crate) const EXEC_FDS: usize = 13;

/// A child of the spawner to the supervisor, over the socket of its own.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Report {
    /// The broker is ready. Descriptors: its user, network and mount namespaces.
    Ready,
    /// The service's pid 1, or the process to exec, exists. Descriptors: its pidfd.
    Cloned(u32),
    /// Pid 1 has begun. Descriptors: its mount, pid, ipc, uts and cgroup namespaces.
    Namespaces,
    /// Its sockets get client ports of its own, which were asked for; or why not: the kernel can't.
    ClientPorts(Option<Failure>),
    /// All is prepared; if the connection now closes without [`Report::Failed`], the program runs.
    Executing,
    /// It won't be.
    Failed(Failure),
}
