//! What a sandbox may take of the machine beside the others: memory and processor time, by cgroups, where this process may make them.
//!
//! Each sandbox has a group of its own beneath the one that its supervisor is in. At its limit of memory only its own processes are
//! ended, whatever score they gave themselves; and a group gets as much time as another, however many processes want it. A process
//! joins before it enters the sandbox, in which no group is seen.
//!
//! Version 1 alone, so far: in version 2 a group that has processes has no groups with limits beneath it.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

/// The controllers; each has a hierarchy of its own.
const CONTROLLERS: [&str; 2] = ["memory", "cpu"];
/// What a sandbox gets of the memory that there is for its supervisor: nothing but a bomb comes near.
const MEMORY_SHARE: u64 = 2;
/// How long the kernel may take to see that a process that was ended has left its group.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// The file by which a process joins a group.
const JOIN: &str = "cgroup.procs";

/// Why sandboxes have no limit of memory and processor time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sandboxes have no limit of memory and processor time: {0}")]
pub struct Unlimited(String);

/// The group of one sandbox, in each hierarchy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroup(pub(crate) Vec<PathBuf>);

/// The groups of all sandboxes of one deploy: a folder in each hierarchy, with a folder for each sandbox.
pub struct Cgroups {
    folders: Vec<PathBuf>,
    memory_bytes: u64,
    made: AtomicU32,
}

impl fmt::Debug for Cgroups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cgroups").field(&self.folders).finish()
    }
}

impl Cgroups {
    /// Finds out where those of a deploy may be. Nothing is made: [`Cgroups::folders`] are written down first, for whoever has to
    /// remove them.
    ///
    /// # Errors
    /// The kernel has no such hierarchies.
    pub fn plan(marker: &str) -> Result<Self, Unlimited> {
        let read = |path: &str| fs::read_to_string(path).map_err(|error| Unlimited(format!("{path}: {error}")));
        let (groups, mounts) = (read("/proc/self/cgroup")?, read("/proc/self/mountinfo")?);
        let own = |controller: &str| {
            own_group(&groups, &mounts, controller)
                .ok_or_else(|| Unlimited(format!("the `{controller}` controller of cgroup version 1 is not mounted")))
        };
        let own: Vec<PathBuf> = CONTROLLERS.into_iter().map(own).collect::<Result<_, _>>()?;
        let memory_bytes = available(&own[0], &read("/proc/meminfo")?) / MEMORY_SHARE;
        let folders = own.iter().map(|own| own.join(format!("agent-env-{marker}"))).collect();
        Ok(Self { folders, memory_bytes, made: AtomicU32::new(0) })
    }

    /// The folders.
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Makes the folders.
    ///
    /// # Errors
    /// This process may not, as an ordinary user's with version 1.
    pub fn make(&self) -> Result<(), Unlimited> {
        for folder in &self.folders {
            fs::create_dir(folder).map_err(|error| Unlimited(format!("{}: {error}", folder.display())))?;
        }
        Ok(())
    }

    /// Makes the group of one more sandbox, with its limits.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn sandbox(&self) -> Result<Cgroup, Unlimited> {
        self.with_memory(self.memory_bytes).map_err(|error| Unlimited(error.to_string()))
    }

    fn with_memory(&self, bytes: u64) -> io::Result<Cgroup> {
        let number = self.made.fetch_add(1, Ordering::Relaxed).to_string();
        let group = Cgroup(self.folders.iter().map(|folder| folder.join(&number)).collect());
        for folder in &group.0 {
            fs::create_dir(folder)?;
        }
        let [memory, ..] = &group.0[..] else { return Ok(group) };
        fs::write(memory.join("memory.limit_in_bytes"), bytes.to_string())?;
        // With swap besides, where the kernel counts that.
        match fs::write(memory.join("memory.memsw.limit_in_bytes"), bytes.to_string()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(group),
        }
    }
}

impl Cgroup {
    /// Has this process join, and with it whatever it starts.
    pub(crate) fn join(folders: &[PathBuf]) -> io::Result<()> {
        folders.iter().try_for_each(|folder| fs::write(folder.join(JOIN), "0"))
    }
}

/// Removes the groups of a deploy, in which no process is any more: its [`Cgroups::folders`]. What is not there is removed.
///
/// # Errors
/// A process is still in one.
pub fn remove_cgroups(folders: &[PathBuf]) -> io::Result<()> {
    for folder in folders {
        // The kernel's own files are no folders, and go with theirs.
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                remove(&entry.path())?;
            }
        }
        remove(folder)?;
    }
    Ok(())
}

fn remove(group: &Path) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match fs::remove_dir(group) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && began.elapsed() < LEAVE_LIMIT => {
                std::thread::sleep(LOOK_AGAIN);
            }
            removed => return removed,
        }
    }
}

/// The folder of the group that this process is in.
fn own_group(groups: &str, mounts: &str, controller: &str) -> Option<PathBuf> {
    let has = |list: &str| list.split(',').any(|one| one == controller);
    // `4:memory:/path`
    let path = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        fields.next().filter(|controllers| has(controllers)).and_then(|_| fields.next())
    })?;
    // `ID PARENT DEVICE ROOT POINT OPTIONS … - cgroup SOURCE OPTIONS`
    let (root, point) = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        kind.next().filter(|name| *name == "cgroup")?;
        kind.nth(1).filter(|options| has(options))?;
        let mut fields = mount.split(' ').skip(3);
        Some((fields.next()?, fields.next()?))
    })?;
    let below = Path::new(path).strip_prefix(root).ok()?;
    Some(Path::new(point).join(below))
}

/// The memory that a group may have, in bytes: the machine's, or less where it or one above it has a limit.
fn available(group: &Path, meminfo: &str) -> u64 {
    let machine = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let machine =
        machine.and_then(|line| line.trim_end_matches("kB").trim().parse().ok()).map_or(u64::MAX, |kb: u64| kb << 10);
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let limit = stat.lines().find_map(|line| line.strip_prefix("hierarchical_memory_limit "));
    machine.min(limit.and_then(|bytes| bytes.parse().ok()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
                          31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
                          32 30 0:28 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                          33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_own_group_is_found_by_its_mount() {
        let groups = "4:memory:/docker/1/mine\n1:cpu,cpuacct:/\n0::/x\n";
        let own = |controller: &str| own_group(groups, MOUNTS, controller);
        assert_eq!(own("memory"), Some("/sys/fs/cgroup/memory/mine".into()));
        assert_eq!(own("cpu"), Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(own("pids"), None);
        assert_eq!(own_group("4:memory:/elsewhere\n", MOUNTS, "memory"), None, "what is mounted is not where it is");
    }

    #[test]
    fn the_machines_memory_is_what_there_is_at_most() {
        let folder = tempfile::tempdir().unwrap();
        let meminfo = "MemTotal:       1024 kB\nMemFree: 1 kB\n";
        assert_eq!(available(folder.path(), meminfo), 1 << 20);
        for (limit, bytes) in [(9_223_372_036_854_771_712_u64, 1 << 20), (4096, 4096)] {
            fs::write(folder.path().join("memory.stat"), format!("cache 1\nhierarchical_memory_limit {limit}\n"))
                .unwrap();
            assert_eq!(available(folder.path(), meminfo), bytes);
        }
    }

    #[test]
    fn what_is_not_there_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let deploy = folder.path().join("agent-env-d-1");
        fs::create_dir_all(deploy.join("0")).unwrap();
        remove_cgroups(&[deploy.clone(), folder.path().join("other")]).unwrap();
        assert!(!deploy.exists());
    }
}
