//! A terminal that stops or plays what the supervisor speaks to: it is told so in time, and a reset brings the desktop back.

use std::fs;

use agentenv_protocol::ExitCode;
use agentenv_tests::{Deploy, Hand, Terminal};

use super::*;
use crate::{limits::page, python::program};

/// What the supervisor may take more while somebody plays DevTools.
const MORE_KB: u64 = 64 << 10;

/// Ends Chromium and listens where it did; answers as `HOW` says.
const PLAY_DEVTOOLS: &str = r#"
import signal, threading, time
def chromiums():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file: line = file.read()
        except OSError: continue
        if "--remote-debugging-port" in line and "--type=" not in line: yield int(pid)
for pid in chromiums(): os.kill(pid, signal.SIGKILL)
def listen():
    while True:
        try: return socket.create_server(("127.0.0.1", 9222))
        except OSError: time.sleep(0.01)
listener = listen()
def answer(s):
    if HOW == "silence": time.sleep(600)
    s.recv(4096)
    if HOW == "garbage": s.sendall(b"\0\1\2 HTTP/9 what\r\n\r\n")
    if HOW == "no end of a head":
        s.sendall(b"HTTP/1.1 200 OK\r\n")
        while True: s.sendall(b"X-More: " + b"x" * 60000 + b"\r\n")
    if HOW == "no end of a body":
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\": \"")
        while True: s.sendall(b"x" * 60000)
    if HOW == "elsewhere":
        body = json.dumps({"Browser": "Chrome/1", "webSocketDebuggerUrl": "ws://169.254.169.254:80/devtools/browser/x"})
        s.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    s.close()
def serve():
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=answer, args=(connection,), daemon=True).start()
threading.Thread(target=serve, daemon=True).start()
open("plays", "w").close()
signal.pause()"#;

fn resident_kb(deploy: &Deploy<'_>) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", deploy.supervisor().pid)).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the kernel says");
    line.trim_end_matches("kB").trim().parse().expect("a number")
}

#[test]
fn row_65_who_plays_devtools_in_a_computer_is_found_out_in_time() {
    let home = pc();
    let deploy = home.deploy("work");
    for how in ["silence", "garbage", "no end of a head", "no end of a body", "elsewhere"] {
        home.run(&["env", "sign-in", deploy.id(), "alpha=ada"]).ok();
        let before = resident_kb(&deploy);
        let terminal = Terminal::open(&deploy, PC);
        let name = terminal.put(&program(&format!("HOW = {how:?}\n{PLAY_DEVTOOLS}")));
        terminal.line(&format!("python3 {name}"));
        terminal.fetch("plays");
        let signed = home.run(&["env", "sign-in", deploy.id(), "alpha=ada"]);
        signed.fails(ExitCode::Infrastructure, &[PC]);
        let more = resident_kb(&deploy).saturating_sub(before);
        assert!(more < MORE_KB, "{how}: the supervisor took {more} kB");
        assert_eq!(page(&deploy, "beta").0, 200, "{how}");
        home.run(&["env", "reset", deploy.id()]).ok();
    }
    home.run(&["env", "sign-in", deploy.id(), "alpha=ada"]).ok();
}

#[test]
fn a_stopped_x_server_is_said_to_be_slow_and_a_reset_ends_it() {
    let home = pc();
    let deploy = home.deploy("work");
    let terminal = Terminal::open(&deploy, PC);
    // Not before the line has been typed to its end: typing waits for the server too.
    terminal.line("until [ -e program-1.py ]; do read -t 0.05; done; kill -STOP $(pgrep Xtigervnc); echo > stopped");
    terminal.put("");
    terminal.fetch("stopped");
    let hand = Hand::new(&deploy.info.computers[0].cdp_url);
    let (status, kind, message) = hand.refused(r#"{"action": "left_click", "coordinate": [5, 5]}"#);
    assert_eq!((status, kind.as_str()), (504, "slow"), "{message}");
    assert_eq!(hand.ask("GET", "/screenshot", "").0, 504);
    assert_eq!(page(&deploy, "beta").0, 200);
    home.run(&["env", "reset", deploy.id()]).ok();
    assert!(hand.look(None).colours() > 20);
}
