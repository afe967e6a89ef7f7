//! What an episode leaves behind at a computer, and who is told of its end (rows 82 and 95).

use agentenv_tests::{Deploy, Hand, Terminal, playwright};

use super::*;
use crate::{
    lifecycle::{FOUND_IN_A_BROWSER, LEAVE_IN_A_BROWSER, nothing_is_left_in},
    reset::{assert_told, cdp_client},
};

/// Written wherever something can be; in two, so that a program that looks for it is none itself.
const MARK: &str = r#"MARK = "episode-" + "ce41"
HOME = "/home/agent"
def queue(flags): return syscall(240, ctypes.c_char_p(b"left"), flags, 0o600, 0)
def memory(flags): return syscall(29, 0x45504953, 4096, flags)
"#;

/// Leaves files, memory, a queue, a daemon that listens, and what a next session would start.
const LEAVE: &str = r#"
for path in (f"{HOME}/{MARK}", f"{HOME}/.hidden/{MARK}", f"{HOME}/Documents/{MARK}", f"{HOME}/Desktop/{MARK}.desktop", f"{HOME}/.bashrc",
    f"{HOME}/.config/openbox/autostart", f"{HOME}/.config/autostart/{MARK}.desktop", f"/tmp/{MARK}", f"/dev/shm/{MARK}"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file: file.write(f"touch /tmp/{MARK}-started\n")
queue(0o102)
memory(0o1600)
if os.fork() == 0:
    os.setsid()
    listener = socket.create_server(("127.0.0.1", 7777))
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3): os.dup2(null, number)
    os.set_inheritable(listener.fileno(), True)
    os.execv("/usr/bin/sleep", [MARK, "1000"])
show({})"#;

/// What of it is there.
const LOOK: &str = r#"
found = []
for top in (HOME, "/tmp", "/dev/shm", "/run", "/var"):
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            if MARK in name: found.append(path)
            try:
                if os.path.isfile(path):
                    with open(path, "rb") as file:
                        if MARK.encode() in file.read(): found.append(f"in {path}")
            except OSError: pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            if MARK in file.read(): found.append(f"process {pid}")
    except OSError: pass
if attempt(lambda: queue(0)).startswith("ok"): found.append("queue")
if attempt(lambda: memory(0)).startswith("ok"): found.append("memory")
if attempt(lambda: tcp("127.0.0.1", 7777)) == "ok": found.append("listener")
with open(f"{HOME}/.Xauthority", "rb") as file: cookie = file.read().hex()
show({"found": found, "cookie": cookie, "history": os.path.exists(f"{HOME}/.bash_history")})"#;

/// Selects a line of the terminal by the mouse, or not, and pastes what is selected into a file.
#[track_caller]
fn pasted(terminal: &Terminal<'_, '_>, selects: bool) -> String {
    if selects {
        terminal.line("clear; yes episode-ce41 | head -20; echo > shown");
        terminal.fetch("shown");
        let at = terminal.middle();
        terminal.hand().act(&json!({ "action": "triple_click", "coordinate": at }));
    }
    // Keys that come before `cat` runs would be the shell's.
    terminal.line("rm -f pasted; (echo > reads; cat > pasting); mv pasting pasted");
    terminal.fetch("reads");
    terminal.hand().key("shift+Insert");
    terminal.hand().key("Return");
    terminal.hand().key("ctrl+d");
    terminal.fetch("pasted")
}

/// One episode: nothing of an earlier one is there, then what can be left is left; gives the X server's cookie.
#[track_caller]
fn episode(deploy: &Deploy<'_>) -> String {
    let (leave, look) = (format!("{MARK}{LEAVE}"), format!("{MARK}{LOOK}"));
    // First: a page that is opened comes before the terminal.
    nothing_is_left_in(&playwright(deploy, FOUND_IN_A_BROWSER));
    playwright(deploy, LEAVE_IN_A_BROWSER);
    let terminal = Terminal::open(deploy, PC);
    let first = ask(&terminal, &[("82", &look)])["82"].clone();
    assert_eq!((&first["found"], &first["history"]), (&json!([]), &json!(false)), "{first}");
    terminal.line("history > remembers; mv remembers remembered");
    assert!(!terminal.fetch("remembered").contains("history -a"), "the shell's history is new");
    assert_eq!(pasted(&terminal, false).trim(), "", "the clipboard is empty");
    assert_eq!(deploy.operation("alpha", "data/get", &json!({})), json!({"data": {"rows": []}}));

    deploy.operation("alpha", "data/load", &json!({"data": {"rows": ["of an episode"]}}));
    ask(&terminal, &[("82", &leave)]);
    assert!(pasted(&terminal, true).contains("episode-ce41"), "there is something to paste");
    terminal.line("history -a");
    let last = ask(&terminal, &[("82", &look)])["82"].clone();
    let found = last["found"].as_array().expect("a list");
    for left in ["process", "queue", "memory", "listener", "/home/agent/.bashrc", "/tmp/", "/dev/shm/"] {
        let is_there = found.iter().any(|one| one.as_str().is_some_and(|one| one.contains(left)));
        assert!(is_there, "{left} is there before the reset: {last}");
    }
    assert_eq!(last["history"], true, "{last}");
    first["cookie"].as_str().expect("a cookie").to_owned()
}

/// Several episodes with a reset after each, as the deploy foresees them: its report says `how`.
#[track_caller]
fn episodes(home: &Home, deploy: &Deploy<'_>, count: usize, how: &str) {
    let mut cookies = Vec::new();
    for number in 0..count {
        cookies.push(episode(deploy));
        let (old, processes) = (deploy.service(PC), deploy.processes());
        let report = home.run(&["env", "reset", deploy.id(), "--json"]).json();
        assert!(report["browsers"][PC].as_str().is_some_and(|said| said.starts_with(how)), "reset {number}: {report}");
        assert!(!old.is_alive(), "the old desktop is gone");
        let daemon = processes.iter().find(|process| process.name == "sleep").expect("the daemon ran");
        assert!(!daemon.is_alive(), "the daemon of the episode is gone");
    }
    cookies.push(episode(deploy));
    cookies.sort();
    cookies.dedup();
    assert_eq!(cookies.len(), count + 1, "the cookie of the last desktop opens none");
}

#[test]
fn row_82_a_reset_leaves_nothing_of_the_episode() {
    let home = pc();
    episodes(&home, &home.deploy("work"), 1, "cold");
}

/// The second spare is in the sandbox of the first episode.
#[test]
fn row_82_a_reset_by_a_spare_leaves_nothing_either() {
    let home = pc();
    episodes(&home, &home.deploy_with("work", &["--expect-reset"]), 2, "spare");
}

#[test]
fn row_95_a_client_of_a_computers_chromium_is_told_why_it_goes() {
    let home = pc();
    let deploy = home.deploy("work");
    let cdp_url = &deploy.info.computers[0].cdp_url;
    let mut client = cdp_client(&deploy, cdp_url);
    home.run(&["env", "reset", deploy.id()]).ok();
    assert_told(&mut client);
    cdp_client(&deploy, cdp_url);
    assert!(Hand::new(cdp_url).look(None).colours() > 20, "the same URL, a new desktop");
}
