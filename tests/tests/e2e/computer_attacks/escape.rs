//! Out of a computer's sandbox (rows 45 to 52, 84 to 87, 90 and 94).

use std::os::unix::net::UnixListener;

use agentenv_tests::{Terminal, raw_http};

use super::*;
use crate::{
    desk::all_refused,
    escape::{
        Abstract, DESCRIPTORS, KERNEL_FILES, OTHER_PROCESSES, STATUSES, SYS_AND_CGROUPS, TYPE_INTO_A_TERMINAL,
        forbidden_calls, mounts_of_a_nested_namespace,
    },
    inside::{
        FAMILIES, PID_1, Shared, TRUNCATE_OUTPUTS, VSOCK, only_families_with_a_namespace, sockets_of_the_host,
        state_keyrings_and_shared_memory,
    },
    python::program,
    secrets::{CANARY, ENVIRONMENTS, site_with_secret},
};

/// Whose X server is at display 0: the computer's own, so it is left out of what must be absent (rows 47 and 85).
const OTHERS_DISPLAYS: [&str; 0] = [];

#[test]
fn rows_45_to_52_kernel_files_sockets_processes_calls_and_terminals() {
    let home = pc();
    let outside = Abstract::listen();
    let deploy = home.deploy("work");
    let terminal = Terminal::open(&deploy, PC);
    let answers = ask(
        &terminal,
        &[
            // First: the others open more.
            ("50", DESCRIPTORS),
            ("50 of all", EVERYBODYS_DESCRIPTORS),
            ("45", KERNEL_FILES),
            ("46", SYS_AND_CGROUPS),
            ("47", &outside.attack(&OTHERS_DISPLAYS)),
            ("48", OTHER_PROCESSES),
            ("49", &forbidden_calls()),
            ("51", STATUSES),
            ("52", TYPE_INTO_A_TERMINAL),
        ],
    );
    for row in ["45", "46", "47", "48", "49", "52"] {
        all_refused(PC, &answers[row]);
    }
    row_50_only_its_own_terminal_and_files(&answers);
    row_51_no_capability_no_new_privileges_and_a_filter(&answers["51"]);
    // Chromium's own sandbox needs nested user namespaces (row 49); as everything in one, it mounts nothing all the same.
    let nested = ask(&terminal, &[("49", &mounts_of_a_nested_namespace())]);
    all_refused(PC, &nested["49"]);
}

/// Where each descriptor of each process leads, as far as it may be seen.
const EVERYBODYS_DESCRIPTORS: &str = r#"
seen = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        for name in os.listdir(f"/proc/{pid}/fd"): seen[f"{pid} {name}"] = os.readlink(f"/proc/{pid}/fd/{name}")
    except OSError: pass
show({"seen": seen, "terminal": os.ttyname(0)})"#;

/// The terminal's programs have its terminal; nobody has a descriptor that leads to the host.
#[track_caller]
fn row_50_only_its_own_terminal_and_files(answers: &Value) {
    let (answer, all) = (&answers["50"], &answers["50 of all"]);
    let own = answer["own"].as_object().expect("descriptors");
    let mut numbers: Vec<&str> = own.keys().map(String::as_str).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, ["0", "1", "2"], "{answer}");
    assert_eq!((&own["0"], &answer["cwd"]), (&all["terminal"], &json!("/home/agent")), "{answer}");
    assert!(all["terminal"].as_str().is_some_and(|name| name.starts_with("/dev/pts/")), "a terminal of its own: {all}");
    // Beside a file of the home is the home: what must not be is a folder of the host.
    for (number, beside) in answer["through"].as_object().expect("attempts") {
        let beside = beside.as_str().unwrap_or_default();
        assert!(!beside.starts_with("ok") || beside.contains("Documents"), "by descriptor {number}: {beside}");
    }
    let inside =
        ["pipe:", "socket:", "anon_inode:", "/dev/", "/home/agent", "/tmp/", "/proc", "/usr/", "/etc/", "/memfd:"];
    let seen = all["seen"].as_object().expect("descriptors");
    assert!(seen.len() > 50, "a desktop has many: {seen:?}");
    for (whose, link) in seen {
        let link = link.as_str().unwrap_or_default();
        assert!(inside.iter().any(|place| link.starts_with(place)), "{whose} is {link}");
    }
}

#[track_caller]
fn row_51_no_capability_no_new_privileges_and_a_filter(answer: &Value) {
    let processes = answer.as_object().expect("processes");
    assert!(processes.len() > 5, "{answer}");
    for (pid, status) in processes {
        assert_eq!((&status["NoNewPrivs"], &status["Seccomp"]), (&json!("1"), &json!("2")), "process {pid}: {status}");
        assert!(!status["Uid"].as_str().unwrap_or_default().split('\t').any(|id| id == "0"), "process {pid}: {status}");
        // Chromium's own sandbox gives its zygotes capabilities in a user namespace of theirs.
        if status["Name"].as_str().is_some_and(|name| name.starts_with("chrom")) {
            continue;
        }
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(status[set], "0000000000000000", "process {pid}: {status}");
        }
    }
}

#[test]
fn rows_84_to_87_and_90_families_sockets_state_pid_1_and_outputs() {
    let home = pc();
    let path = home.path().join("host.sock");
    let _listener = UnixListener::bind(&path).expect("a socket on the host");
    let shared = Shared::new();
    let deploy = home.deploy("work");
    let before = deploy.service(PC);
    let terminal = Terminal::open(&deploy, PC);
    let answers = ask(
        &terminal,
        &[
            ("84", FAMILIES),
            ("84 vsock", VSOCK),
            ("85", &sockets_of_the_host(&deploy, &path, &OTHERS_DISPLAYS)),
            ("86", &state_keyrings_and_shared_memory(&deploy, &shared)),
            ("87", PID_1),
            ("90", TRUNCATE_OUTPUTS),
        ],
    );
    only_families_with_a_namespace(PC, &answers["84"]);
    for row in ["84 vsock", "85", "86", "87"] {
        all_refused(PC, &answers[row]);
    }
    assert!(before.is_alive() && deploy.service(PC) == before, "row 87: pid 1 is alive, and the same");
    // Row 90: the desktop writes to pipes, into a log that is whole.
    let cut = answers["90"]["answers"].as_object().expect("attempts");
    assert!(!cut.is_empty(), "there are pipes to cut: {}", answers["90"]);
    all_refused(PC, &answers["90"]["answers"]);
    for (path, link) in answers["90"]["links"].as_object().expect("links") {
        let link = link.as_str().unwrap_or_default();
        let own = ["pipe:", "socket:", "/dev/null", "/dev/pts/", "/home/agent/"];
        assert!(own.iter().any(|place| link.starts_with(place)), "{path} is {link}");
    }
    let log = home.run(&["env", "logs", deploy.id(), PC]).ok();
    assert!(!log.trim().is_empty(), "the desktop's log is there");
}

#[test]
fn row_94_settings_of_sites_are_of_no_process_there() {
    let home = work(&[site_with_secret()], &[PC]).with("CANARY_KEY", CANARY);
    let deploy = home.deploy("work");
    let terminal = Terminal::open(&deploy, PC);
    let found = ask(&terminal, &[("94", ENVIRONMENTS)])["94"].to_string();
    assert!(found.contains("openbox"), "the desktop's own processes are there: {found}");
    for other in [CANARY, "site.py", "front.py", "AGENTENV_WEBSITE_SETTINGS", "AGENTENV_SITE_KEY", &deploy.token()] {
        assert!(!found.contains(other), "{other}: {found}");
    }
    let own = deploy.python("alpha/server", &program(ENVIRONMENTS)).to_string();
    assert!(own.contains("site.py"), "the server is in its own: {own}");
    let page = raw_http(
        &deploy.info.gateway_url,
        b"GET /website/alpha/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(page.status, 200, "{}", page.raw);
}
