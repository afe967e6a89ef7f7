//! A memory bomb at a terminal (row 60), on a machine that is made small by a memory cgroup.
//!
//! Each sandbox has a memory cgroup, so that what gets more than its share ends by itself, whatever score it gives itself: where the
//! deploy's owner lacks `CAP_SYS_RESOURCE`, as every ordinary user does, a process inside may lower its `oom_score_adj` to the owner's.

use std::{
    fs,
    path::{Path, PathBuf},
};

use agentenv_protocol::control::DeployState;
use agentenv_tests::{Deploy, PATIENCE, Process, Terminal, eventually, is_root};

use super::*;
use crate::{limits::page, python::program};

/// All that the test, its deploy and the bomb may have: less than any machine has.
const MACHINE_BYTES: u64 = 2 << 30;

/// A memory cgroup that this process is in, with all that it starts, for as long as it is held.
struct SmallMachine {
    group: PathBuf,
    before: PathBuf,
}

impl SmallMachine {
    /// Makes one, and enters it.
    fn enter() -> Self {
        let parent = own_group();
        let group = parent.join(format!("agentenv-test-{}", std::process::id()));
        fs::create_dir(&group).unwrap_or_else(|error| panic!("{}: {error}", group.display()));
        let machine = Self { group, before: parent };
        fs::write(machine.group.join("memory.limit_in_bytes"), MACHINE_BYTES.to_string()).expect("a limit");
        move_into(&machine.group).expect("root may move itself");
        machine
    }
}

impl SmallMachine {
    /// How many processes of its deploys' sandboxes the kernel has ended for want of memory.
    fn kills(&self) -> u32 {
        let folders = |folder: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
            entries.filter(|path| path.is_dir()).collect()
        };
        let kills = |group: &PathBuf| -> Option<u32> {
            let events = fs::read_to_string(group.join("memory.oom_control")).ok()?;
            events.lines().find_map(|line| line.strip_prefix("oom_kill "))?.parse().ok()
        };
        folders(&self.group).iter().flat_map(|deploy| folders(deploy)).filter_map(|group| kills(&group)).sum()
    }
}

impl Drop for SmallMachine {
    fn drop(&mut self) {
        let _ = move_into(&self.before);
        // The kernel needs a moment to see that the last process has left.
        eventually("the cgroup can be removed", PATIENCE, || fs::remove_dir(&self.group).ok());
    }
}

fn move_into(group: &Path) -> std::io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}

/// The memory cgroup of this process.
fn own_group() -> PathBuf {
    let groups = fs::read_to_string("/proc/self/cgroup").expect("the kernel says");
    let own = groups.lines().find_map(|line| line.split_once(":memory:"));
    let (_, path) = own.expect("cgroup version 1, as the sandboxes' limits need it");
    Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/'))
}

/// Takes and writes to all the memory there is.
const GROW: &str = r#"
def grow():
    taken = []
    while True: taken.append(bytearray(b"x") * (16 << 20))
"#;
/// By many, so that the end of one of them ends nothing, and each as good as the kernel lets it be: everything else there ends first.
const GROW_BY_MANY: &str = r#"
try: open("/proc/self/oom_score_adj", "w").write("0")
except OSError: pass
children = []
for _ in range(20):
    child = os.fork()
    if child == 0: grow()
    children.append(child)
for child in children: os.waitpid(child, 0)"#;

/// What must outlive it.
#[track_caller]
fn others(deploy: &Deploy<'_>) -> Vec<Process> {
    vec![deploy.supervisor(), deploy.spawner(), deploy.service("alpha/server"), deploy.service("beta/server")]
}

#[track_caller]
fn assert_others_live(deploy: &Deploy<'_>, before: &[Process]) {
    assert!(before.iter().all(Process::is_alive), "{before:?}");
    assert_eq!(others(deploy), before);
    for site in ["alpha", "beta"] {
        assert_eq!(page(deploy, site).0, 200, "{site}");
    }
}

/// Only root may limit the memory of others; for everybody else the sandbox's own test of row 60 is there.
#[test]
fn row_60_a_memory_bomb_ends_nothing_but_its_computer() {
    if !is_root() {
        return;
    }
    let home = pc();
    let machine = SmallMachine::enter();
    let deploy = home.deploy("work");
    let before = others(&deploy);
    let terminal = Terminal::open(&deploy, PC);
    // 128 and SIGKILL, as the shell says it.
    let one = terminal.run(&program(&format!("{GROW}grow()")));
    assert_eq!(one.code, 137, "{one:?}");
    assert_others_live(&deploy, &before);

    home.run(&["env", "reset", deploy.id()]).ok();
    let terminal = Terminal::open(&deploy, PC);
    let many = terminal.put(&program(&format!("{GROW}{GROW_BY_MANY}")));
    let earlier = machine.kills();
    terminal.line(&format!("python3 {many}"));
    // All that is left there has a better score than the bomb's desktop, which ends with it.
    eventually("the desktop is gone", PATIENCE, || (deploy.status().state == DeployState::Degraded).then_some(()));
    assert!(machine.kills() > earlier, "the kernel has ended something");
    assert_others_live(&deploy, &before);
    home.run(&["env", "reset", deploy.id()]).ok();
    assert_others_live(&deploy, &before);
    let terminal = Terminal::open(&deploy, PC);
    terminal.line("echo again > again");
    assert_eq!(terminal.fetch("again").trim(), "again");
}
