//! A host uid of its own for each sandbox, so that sandboxes can't exhaust each other's per-uid limits.

use std::{
    fmt, fs, io,
    os::linux::net::SocketAddrExt as _,
    os::unix::net::{SocketAddr, UnixDatagram},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use crate::{error::SandboxError, ids};

/// The first uid that root hands out: where systemd's range for containers begins, above everything that Debian gives to
/// people and services.
const FIRST: u32 = 524_288;
/// How many uids are tried at most. More sandboxes than this don't fit on a host.
const MAX_TRIES: u32 = 65_536;

/// Where sandboxes get their uids from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UidMode {
    /// We are root: any uid from 524288 up that is nobody's.
    Root,
    /// We are an ordinary user with subordinate ids and the helpers of the `uidmap` package.
    Subordinate {
        /// The first and number of the subordinate uids.
        uids: Range,
        /// The first and number of the subordinate gids.
        gids: Range,
    },
    /// All sandboxes have the caller's own uid. They can exhaust each other: descriptors in flight, pipe pages, inotify
    /// instances. Doctor and the deploy record say so.
    Single {
        /// Why it isn't another mode.
        reason: String,
    },
}

/// Consecutive ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl Range {
    fn contains(self, id: u32) -> bool {
        id.checked_sub(self.first).is_some_and(|offset| offset < self.count)
    }
}

/// Hands out uids, each claimed on the whole host for as long as a clone of it exists.
#[derive(Clone, Debug)]
pub struct UidAllocator {
    mode: UidMode,
    /// Ids that belong to somebody by `/etc/subuid` or `/etc/subgid`; root keeps out of them.
    taken: Vec<Range>,
}

/// A sandbox's uid and gid on the host. Clones share the claim, which ends with the last of them or with this process.
#[derive(Clone)]
pub struct Uid {
    ids: Ids,
    _claim: Option<Arc<UnixDatagram>>,
}

/// The ids as the spawner needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ids {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) by: MapBy,
}

/// Who may write the maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MapBy {
    Root,
    Helpers,
    /// The namespace's owner maps itself, and gives up `setgroups` for it.
    Owner,
}

impl Uid {
    /// The uid on the host.
    pub fn uid(&self) -> u32 {
        self.ids.uid
    }

    /// The gid on the host.
    pub fn gid(&self) -> u32 {
        self.ids.gid
    }

    /// Whether it is the caller's own, shared with every other sandbox.
    pub fn is_shared(&self) -> bool {
        self.ids.by == MapBy::Owner
    }

    pub(crate) fn ids(&self) -> Ids {
        self.ids
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uid({}:{})", self.ids.uid, self.ids.gid)
    }
}

impl Default for UidAllocator {
    fn default() -> Self {
        Self::detect()
    }
}

impl UidAllocator {
    /// Looks at what this host and user allow.
    pub fn detect() -> Self {
        let [subuid, subgid] = ["/etc/subuid", "/etc/subgid"].map(|path| fs::read_to_string(path).unwrap_or_default());
        let euid = rustix::process::geteuid().as_raw();
        let here =
            ["/proc/self/uid_map", "/proc/self/gid_map"].map(|path| fs::read_to_string(path).unwrap_or_default());
        if euid == 0 && !here.iter().all(|map| maps(map, FIRST)) {
            let reason = format!("root of a user namespace that has no id {FIRST}, as in a rootless container");
            return Self::with_mode(UidMode::Single { reason });
        }
        if euid == 0 {
            let taken = [&subuid, &subgid].into_iter().flat_map(|text| ranges(text)).map(|(_, range)| range).collect();
            return Self { mode: UidMode::Root, taken };
        }
        let name = nix::unistd::User::from_uid(euid.into()).ok().flatten().map(|user| user.name);
        let mode = ordinary_mode(euid, name.as_deref(), &subuid, &subgid, |helper| ids::find(helper).is_some());
        Self { mode, taken: Vec::new() }
    }

    /// Hands out uids as `mode` says, without looking at the host; for tests and for a caller that wants a single uid.
    pub fn with_mode(mode: UidMode) -> Self {
        Self { mode, taken: Vec::new() }
    }

    /// Where the uids come from.
    pub fn mode(&self) -> &UidMode {
        &self.mode
    }

    /// Claims a uid that nobody has and no process runs as.
    ///
    /// # Errors
    /// None is free, or claims can't be made.
    pub fn allocate(&self) -> Result<Uid, SandboxError> {
        match &self.mode {
            UidMode::Root => self.first_free(FIRST, (FIRST..FIRST + MAX_TRIES).map(|id| (id, id)), MapBy::Root),
            UidMode::Subordinate { uids, gids } => {
                // From the end: rootless containers of this user fill the range from its beginning.
                let count = uids.count.min(gids.count);
                let pairs = (0..count.min(MAX_TRIES)).rev().map(|index| (uids.first + index, gids.first + index));
                self.first_free(uids.first, pairs, MapBy::Helpers)
            }
            UidMode::Single { .. } => {
                let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
                Ok(Uid { ids: Ids { uid, gid, by: MapBy::Owner }, _claim: None })
            }
        }
    }

    fn first_free(&self, first: u32, pairs: impl Iterator<Item = (u32, u32)>, by: MapBy) -> Result<Uid, SandboxError> {
        let mut tried = 0;
        for (uid, gid) in pairs {
            tried += 1;
            if self.taken.iter().any(|range| range.contains(uid)) {
                continue;
            }
            let Some(claim) = claim(uid).map_err(SandboxError::Claim)? else { continue };
            // Only under the claim: what ran as this uid for the last holder may not have ended yet.
            let somebodys =
                by == MapBy::Root && nix::unistd::User::from_uid(uid.into()).is_ok_and(|user| user.is_some());
            if !somebodys && !in_use(uid) {
                return Ok(Uid { ids: Ids { uid, gid, by }, _claim: Some(Arc::new(claim)) });
            }
        }
        Err(SandboxError::NoUid { first, tried })
    }
}

/// Takes the claim of a uid: a name of the host's abstract UNIX sockets, which goes with the last descriptor. `None` if
/// somebody has it.
fn claim(uid: u32) -> io::Result<Option<UnixDatagram>> {
    let address = SocketAddr::from_abstract_name(format!("agent-env/uid/{uid}"))?;
    match UnixDatagram::bind_addr(&address) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a process runs as this uid. The kernel looks itself: a walk over `/proc` would be slow, and blind to
/// processes that hide it.
fn in_use(uid: u32) -> bool {
    let answer = rustix::process::getpriority_user(rustix::process::Uid::from_raw(uid));
    answer != Err(rustix::io::Errno::SRCH)
}

/// Which mode an ordinary user gets.
fn ordinary_mode(
    euid: u32,
    name: Option<&str>,
    subuid: &str,
    subgid: &str,
    has_helper: impl Fn(&str) -> bool,
) -> UidMode {
    let number = euid.to_string();
    let longest = |text: &str| {
        let mine = |(owner, _): &(String, Range)| Some(owner.as_str()) == name || *owner == number;
        ranges(text).filter(mine).map(|(_, range)| range).max_by_key(|range| range.count)
    };
    match (longest(subuid), longest(subgid)) {
        _ if !["newuidmap", "newgidmap"].iter().all(|helper| has_helper(helper)) => {
            UidMode::Single { reason: "newuidmap and newgidmap are not installed (package uidmap)".into() }
        }
        (Some(uids), Some(gids)) => UidMode::Subordinate { uids, gids },
        (None, _) => UidMode::Single { reason: "this user has no range in /etc/subuid".into() },
        (_, None) => UidMode::Single { reason: "this user has no range in /etc/subgid".into() },
    }
}

/// Whether an id map of `/proc/PID` has an id of this side.
fn maps(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().map(str::parse);
        let (first, _, count) = (fields.next(), fields.next(), fields.next());
        matches!((first, count), (Some(Ok(first)), Some(Ok(count))) if Range { first, count }.contains(id))
    })
}

/// The `owner:first:count` lines of a subordinate id file.
fn ranges(text: &str) -> impl Iterator<Item = (String, Range)> {
    text.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let (owner, first, count) = (fields.next()?, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        (count > 0 && u32::checked_add(first, count).is_some()).then(|| (owner.to_owned(), Range { first, count }))
    })
}

#[cfg(test)]
mod tests;
