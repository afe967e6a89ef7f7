//! A terminal that takes all it can get: neighbours go on, and a reset brings the desktop back (rows 59, 88 and 89).

use std::{fs, time::Duration};

use agentenv_tests::{Deploy, PATIENCE, Processes, Terminal, eventually, is_root};

use super::*;
use crate::{
    limits::{NEIGHBOUR, TAKE, page},
    python::program,
};

/// How long a neighbour may take at most.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// Some of the scheduler's slices: less than that is as good as nothing on a machine whose processors are all wanted.
const SLICES: Duration = Duration::from_millis(25);
/// Processes and threads that a computer may have.
const TASKS: usize = 4096;

/// Every process forks for as long as it can, and then waits.
const BOMB: &str = r#"
import gc, signal
gc.disable()
while True:
    try: os.fork()
    except OSError: break
signal.pause()"#;

/// Processes and threads below a computer's pid 1.
fn tasks(deploy: &Deploy<'_>) -> usize {
    let tree = Processes::all().tree(deploy.service(PC).pid);
    let threads = |pid| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    tree.iter().map(|process| threads(process.pid)).sum()
}

/// Asks a site many times; gives the slowest answer.
#[track_caller]
fn slowest(deploy: &Deploy<'_>, site: &str) -> Duration {
    let times = (0..20).map(|_| {
        let (status, took) = page(deploy, site);
        assert_eq!(status, 200, "{site} answers");
        took
    });
    times.max().expect("twenty")
}

#[test]
fn row_59_a_fork_bomb_meets_its_limit_and_a_reset_ends_it() {
    let home = pc();
    let deploy = home.deploy("work");
    let terminal = Terminal::open(&deploy, PC);
    let name = terminal.put(&program(BOMB));
    terminal.line(&format!("python3 {name}"));
    let mut last = 0;
    let most = eventually("the bomb has met its limit", PATIENCE, || {
        let now = tasks(&deploy);
        let rests = now == last;
        last = now;
        (rests && now > TASKS / 2).then_some(now)
    });
    assert!(most <= TASKS, "{most} processes and threads");
    // Nothing more starts there; everything else goes on.
    assert_ne!(deploy.exec(PC, &["sh", "-c", "true | cat"]).code, 0, "a shell there forks");
    deploy.exec("beta/server", &["true"]).ok();
    let took = slowest(&deploy, "beta");
    assert!(took < ANSWERS_WITHIN, "beta answers after {took:?}");
    home.run(&["env", "reset", deploy.id()]).ok();
    assert!(tasks(&deploy) < TASKS / 4, "the bomb is gone");
    let terminal = Terminal::open(&deploy, PC);
    terminal.line("echo again > again");
    assert_eq!(terminal.fetch("again").trim(), "again");
}

/// Many more than there are processors want all the time there is, for a while.
const SPIN: &str = r#"
import signal
for _ in range(64):
    if os.fork() == 0:
        signal.alarm(30)
        while True: pass
open('spinning', 'w').close()
signal.pause()"#;

/// The 99th of a hundred answers, in order of time.
#[track_caller]
fn p99(deploy: &Deploy<'_>, site: &str) -> Duration {
    let mut times: Vec<Duration> = (0..100).map(|_| page(deploy, site).1).collect();
    times.sort();
    times[98]
}

/// Only where a sandbox has a group of its own; elsewhere processor time is not limited, and the doctor says so.
#[test]
fn row_59_a_bomb_that_spins_takes_a_neighbour_no_more_than_its_share() {
    if !is_root() {
        return;
    }
    let home = pc();
    let deploy = home.deploy("work");
    let terminal = Terminal::open(&deploy, PC);
    let alone = p99(&deploy, "beta");
    let name = terminal.put(&program(SPIN));
    terminal.line(&format!("python3 {name}"));
    terminal.fetch("spinning");
    let beside = p99(&deploy, "beta");
    // Seen: 0.5 ms alone and 4 ms beside it, since whoever has a processor keeps it for its slice of 3 ms.
    assert!(beside < (alone * 2).max(SLICES), "{alone:?} alone, {beside:?} beside the bomb");
    home.run(&["env", "reset", deploy.id()]).ok();
}

#[test]
fn row_88_what_a_terminal_holds_is_not_taken_from_another_sandbox() {
    let home = pc();
    let deploy = home.deploy("work");
    let terminal = Terminal::open(&deploy, PC);
    let name = terminal.put(&program(&format!("{TAKE}\nos.rename('holding', 'held')\nsys.stdin.read()")));
    terminal.line(&format!("python3 -u {name} > holding 2>&1"));
    let held = terminal.fetch("held");
    assert!(held.contains("in flight"), "{held}");
    let neighbour = deploy.python("beta/server", &program(NEIGHBOUR));
    assert_eq!(neighbour, json!({"send": "ok", "inotify": true}), "while the terminal holds {held}");
    assert_eq!(page(&deploy, "beta").0, 200);
    terminal.hand().key("ctrl+d");
    terminal.line("echo again > again");
    assert_eq!(terminal.fetch("again").trim(), "again", "it has let go");
}

/// Has alpha accept no more, has many wait for it, and times beta.
const WAIT_IN_VAIN: &str = r#"
import threading, time
def get(host, path, limit):
    with socket.create_connection((host, 80), limit) as s:
        s.settimeout(limit)
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        return s.recv(100).decode()[:12]
def in_vain():
    try: get("alpha.test", "/", 6)
    except OSError: pass
stopped = get("alpha.test", "/stop-accepting", 5)
waiting = [threading.Thread(target=in_vain) for _ in range(40)]
for thread in waiting: thread.start()
times = []
for _ in range(20):
    began = time.monotonic()
    answer = get("beta.test", "/", 5)
    times.append([answer, time.monotonic() - began])
alive = sum(thread.is_alive() for thread in waiting)
for thread in waiting: thread.join()
show({"stopped": stopped, "slowest": max(times, key=lambda one: one[1]), "answers": sorted({one[0] for one in times}), "waiting": alive})"#;

#[test]
fn row_89_a_site_that_never_accepts_keeps_no_other_connection_of_a_computer_waiting() {
    let home = pc();
    let deploy = home.deploy("work");
    let terminal = Terminal::open(&deploy, PC);
    let answer = ask(&terminal, &[("89", WAIT_IN_VAIN)])["89"].clone();
    assert_eq!(
        (&answer["stopped"], &answer["answers"]),
        (&json!("HTTP/1.1 200"), &json!(["HTTP/1.1 200"])),
        "{answer}"
    );
    assert!(answer["waiting"].as_u64().is_some_and(|waiting| waiting > 20), "many waited all the time: {answer}");
    assert!(answer["slowest"][1].as_f64().is_some_and(|seconds| seconds < 2.0), "beta waits for alpha: {answer}");
}
