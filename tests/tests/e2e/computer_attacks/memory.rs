//! A memory bomb at a terminal (row 60), on a machine that is made small by a memory cgroup.
//!
//! What inside dies first is told by `oom_score_adj`. Where the deploy's owner lacks `CAP_SYS_RESOURCE`, as every ordinary user does,
//! a process inside may lower its own again, down to the owner's: a bomb of many that do so is as likely to end others. Only a
//! memory cgroup for each sandbox would hold that, and there is none yet.

use std::{
    fs,
    path::{Path, PathBuf},
};

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
        let (parent, limit) = own_group();
        let group = parent.join(format!("agentenv-test-{}", std::process::id()));
        fs::create_dir(&group).unwrap_or_else(|error| panic!("{}: {error}", group.display()));
        let machine = Self { group, before: parent };
        fs::write(machine.group.join(limit), MACHINE_BYTES.to_string()).expect("a limit");
        move_into(&machine.group).expect("root may move itself");
        machine
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

/// The memory cgroup of this process, or with cgroup v2 the root, which alone may hold both processes and groups; and the file of
/// a group's limit.
fn own_group() -> (PathBuf, &'static str) {
    let groups = fs::read_to_string("/proc/self/cgroup").expect("the kernel says");
    let first = groups.lines().find_map(|line| line.split_once(":memory:"));
    match first {
        Some((_, path)) => {
            (Path::new("/sys/fs/cgroup/memory").join(path.trim_start_matches('/')), "memory.limit_in_bytes")
        }
        None => (PathBuf::from("/sys/fs/cgroup"), "memory.max"),
    }
}

/// Takes and writes to all the memory there is.
const GROW: &str = r#"
def grow():
    taken = []
    while True: taken.append(bytearray(b"x") * (16 << 20))
"#;
/// By many, so that the end of one of them ends nothing.
const GROW_BY_MANY: &str = r#"
children = []
for _ in range(20):
    child = os.fork()
    if child == 0: grow()
    children.append(child)
ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
show(ends)"#;

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
    terminal.line(&format!("python3 {many} > ends; echo $? > ended"));
    eventually("the kernel has ended something", PATIENCE, || {
        let events = fs::read_to_string(machine.group.join("memory.oom_control")).unwrap_or_default();
        let events = events + &fs::read_to_string(machine.group.join("memory.events")).unwrap_or_default();
        let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "))?.parse::<u32>().ok()?;
        (kills >= 3).then_some(())
    });
    assert_others_live(&deploy, &before);
    home.run(&["env", "reset", deploy.id()]).ok();
    assert_others_live(&deploy, &before);
    let terminal = Terminal::open(&deploy, PC);
    terminal.line("echo again > again");
    assert_eq!(terminal.fetch("again").trim(), "again");
}
