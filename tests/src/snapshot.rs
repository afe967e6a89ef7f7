//! The machine before and after.

use std::{
    collections::BTreeSet,
    fs,
    ops::Range,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant},
};

use crate::{Process, Processes, program};

/// What a deploy could leave on the machine. For tests that run alone: others' deploys would be seen too.
#[derive(Debug)]
pub struct Snapshot {
    things: BTreeSet<String>,
}

/// Exited processes vanish when their parent has reaped them, the rest of a namespace a moment later.
const SETTLE: Duration = Duration::from_secs(5);

impl Snapshot {
    /// What is there now.
    pub fn take() -> Self {
        let mut things = BTreeSet::new();
        let own = Process::of(std::process::id()).expect("this process is there").namespaces();
        for process in Processes::all().iter() {
            // One that has ended waits for its parent only; init reaps those that were left to it.
            if process.state == 'Z' {
                continue;
            }
            if may_be_ours(uid(process)) && is_ours(process, &own) {
                things.insert(format!("process {} {} {}", process.pid, process.start, process.arguments()));
            }
            // Also a namespace that a process holds by a descriptor only.
            let descriptors = fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten().flatten();
            let held = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
            let held = held.map(|path| path.display().to_string()).filter(|link| is_namespace(link));
            things.extend(process.namespaces().into_iter().chain(held).map(|name| format!("namespace {name}")));
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo is readable");
        things.extend(mounts.lines().map(|line| format!("mount {}", line.split(' ').nth(4).unwrap_or_default())));
        cgroups(Path::new("/sys/fs/cgroup"), &mut things);
        let runtime = format!("/run/user/{}", rustix::process::geteuid().as_raw());
        for folder in ["/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock", &runtime, "/sys/class/net"] {
            files(Path::new(folder), &mut things);
        }
        Self { things }
    }

    /// Checks that nothing has come since, but what `expected` explains.
    #[track_caller]
    pub fn assert_nothing_left_but(&self, expected: &[&str]) {
        let start = Instant::now();
        loop {
            let now = Self::take();
            let new = now.things.difference(&self.things);
            let left: Vec<&String> = new.filter(|thing| !expected.iter().any(|part| thing.contains(part))).collect();
            if left.is_empty() {
                return;
            }
            assert!(start.elapsed() < SETTLE, "left behind: {left:#?}");
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// Whether anything has come since: a snapshot that sees no running deploy proves nothing of a closed one.
    pub fn differs(&self) -> bool {
        Self::take().things.difference(&self.things).next().is_some()
    }

    /// Checks that nothing has come since, but this home.
    #[track_caller]
    pub fn assert_nothing_left(&self, home: &crate::Home) {
        self.assert_nothing_left_but(&[&home.path().display().to_string()]);
    }
}

/// A process of ours: it runs the program, or is in another user namespace, or has an id that only sandboxes have.
fn is_ours(process: &Process, own: &[String]) -> bool {
    let user = |namespaces: &[String]| namespaces.iter().find(|name| name.starts_with("user:")).cloned();
    let theirs = user(&process.namespaces());
    let elsewhere = theirs.is_some() && theirs != user(own);
    let runs_it = process.program().is_some_and(|file| file.starts_with(&program().display().to_string()));
    elsewhere
        || runs_it
        || process.arguments().contains("internal-s")
        || uid(process) != rustix::process::geteuid().as_raw()
}

/// Whether what has this owner may have been made by a deploy of ours: us, or an id that only our sandboxes have.
fn may_be_ours(uid: u32) -> bool {
    let own = rustix::process::geteuid();
    uid == own.as_raw()
        || if own.is_root() { uid >= FIRST_SANDBOX_UID } else { subordinate(own.as_raw()).contains(&uid) }
}

/// The first id of root's sandboxes; ordinary users, services and subordinate ids are below.
const FIRST_SANDBOX_UID: u32 = 524_288;

/// The ids that `/etc/subuid` lends to this user.
fn subordinate(uid: u32) -> Range<u32> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let name = fields.into_iter().find(|fields| fields.get(2) == Some(&uid.to_string().as_str()));
    let name = name.map(|fields| fields[0].to_owned()).unwrap_or_default();
    let ranges = fs::read_to_string("/etc/subuid").unwrap_or_default();
    let range = ranges.lines().find_map(|line| {
        let (user, rest) = line.split_once(':')?;
        let (first, count) = rest.split_once(':')?;
        let (first, count): (u32, u32) = (first.parse().ok()?, count.parse().ok()?);
        (user == name || user == uid.to_string()).then(|| first..first.saturating_add(count))
    });
    range.unwrap_or_default()
}

fn uid(process: &Process) -> u32 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:\t"));
    // 65534 is what an id looks like that this namespace doesn't know.
    line.and_then(|ids| ids.split('\t').next()?.parse().ok()).filter(|id| *id < u32::MAX - 1).unwrap_or_default()
}

fn is_namespace(link: &str) -> bool {
    ["net:[", "user:[", "mnt:[", "pid:[", "ipc:[", "uts:[", "cgroup:["].iter().any(|kind| link.starts_with(kind))
}

/// Our groups have our name, wherever the supervisor was; others come and go with whatever else the machine does.
fn cgroups(folder: &Path, things: &mut BTreeSet<String>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        if entry.file_name().to_string_lossy().starts_with("agent-env") {
            things.insert(format!("cgroup {}", entry.path().display()));
        }
        cgroups(&entry.path(), things);
    }
}

fn files(folder: &Path, things: &mut BTreeSet<String>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.metadata().is_ok_and(|data| may_be_ours(data.uid())));
    things.extend(ours.map(|entry| format!("file {}", entry.path().display())));
}
