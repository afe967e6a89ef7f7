//! From inside a sandbox to the host and to its own pid 1 (rows 84 to 90).

use std::{
    fs,
    os::unix::net::UnixListener,
    path::{Path, PathBuf},
};

use agentenv_tests::{Deploy, PySite, clone_root};
use serde_json::{Value, json};

use crate::{
    desk::{DISPLAYS, SERVICE, all_refused, browser_of, desk, everywhere, pods},
    python::program,
};

/// Row 84: the families that sockets can be made of.
pub const FAMILIES: &str = r#"
got = []
for family in range(0, 46):
    for kind in (1, 2, 3, 5):
        for protocol in (range(0, 23) if family == 16 else (0, 1, 132, 136)):
            try:
                socket.socket(family, kind, protocol).close()
                got.append([family, protocol if family == 16 else 0])
            except OSError: pass
show(sorted({tuple(x) for x in got}))"#;

/// UNIX, INET, INET6, NETLINK; of netlink only route and uevent.
#[track_caller]
pub fn only_families_with_a_namespace(sandbox: &str, answer: &Value) {
    for pair in answer.as_array().expect("families") {
        let family = pair[0].as_u64().unwrap_or_default();
        let netlink_ok = family != 16 || [0, 15].contains(&pair[1].as_u64().unwrap_or_default());
        assert!([1, 2, 10, 16].contains(&family) && netlink_ok, "{sandbox}: family {pair} is open: {answer}");
    }
    assert!(answer.as_array().is_some_and(|pairs| pairs.iter().any(|pair| pair[0] == 2)), "INET works: {answer}");
}

#[test]
fn row_84_families_without_a_namespace_are_refused() {
    everywhere(FAMILIES, only_families_with_a_namespace);
}

/// Row 84: the one that leads to the hypervisor.
pub const VSOCK: &str = r#"
show({"stream": attempt(lambda: socket.socket(40, 1).close()), "datagram": attempt(lambda: socket.socket(40, 2).close()),
      "device": attempt(lambda: os.open("/dev/vsock", os.O_RDWR))})"#;

#[test]
fn row_84_vsock_is_refused() {
    everywhere(VSOCK, all_refused);
}

/// Row 85: sockets of the host by path, this one among them, and X servers' that are not the sandbox's own.
pub fn sockets_of_the_host(deploy: &Deploy<'_>, listening: &Path, displays: &[&str]) -> String {
    let control = deploy.folder().join("control.sock");
    assert!(control.exists(), "the control socket is there on the host");
    format!(
        r#"
def connect(path):
    with socket.socket(socket.AF_UNIX) as s: s.connect(path)
paths = ["{}", "{}", "/run/nscd/socket", "/var/run/nscd/socket", "/run/systemd/resolve/io.systemd.Resolve", "/run/user/0/bus",
         "/run/dbus/system_bus_socket", "/run/systemd/private", "/dev/log", "/run/systemd/journal/stdout", *json.loads({:?})]
show({{path: attempt(lambda: connect(path)) for path in paths}})"#,
        listening.display(),
        control.display(),
        json!(displays).to_string(),
    )
}

#[test]
fn row_85_sockets_of_the_host_by_path_are_absent() {
    let home = desk();
    let path = home.path().join("host.sock");
    let _listener = UnixListener::bind(&path).expect("a socket on the host");
    let deploy = home.deploy("desk");
    let body = sockets_of_the_host(&deploy, &path, &DISPLAYS);
    for sandbox in [SERVICE, browser_of(&deploy)] {
        all_refused(sandbox, &deploy.python(sandbox, &program(&body)));
    }
}

/// A file in the host's shared memory, for as long as it is held.
pub struct Shared {
    path: PathBuf,
}

impl Shared {
    /// Makes it.
    pub fn new() -> Self {
        let path = PathBuf::from(format!("/dev/shm/agentenv-test-{}", std::process::id()));
        fs::write(&path, "of the host").expect("a file on the host");
        Self { path }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Row 86: state files of the deploy, keyrings, and files of the host.
pub fn state_keyrings_and_shared_memory(deploy: &Deploy<'_>, shared: &Shared) -> String {
    format!(
        r#"
import fcntl
def lock(path):
    with open(path, "r+") as f: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
show({{
    "lock": attempt(lambda: lock("{folder}/lock")),
    "record": attempt(lambda: open("{folder}/deploy.json").read(1)),
    "token": attempt(lambda: open("{folder}/control.token").read(1)),
    "clone": attempt(lambda: os.listdir("{clone}")),
    "shm": attempt(lambda: open("{}").read(1)),
    "passwd": attempt(lambda: open("/etc/shadow").read(1)),
    "home": attempt(lambda: os.listdir("/root")),
    "var": attempt(lambda: os.listdir("/var/lib")),
    "session keyring": attempt(lambda: syscall(250, 0, -3, 0)),
    "user keyring": attempt(lambda: syscall(249, ctypes.c_char_p(b"user"), ctypes.c_char_p(b"x"), 0, -4)),
}})"#,
        shared.path.display(),
        folder = deploy.folder().display(),
        clone = clone_root().display(),
    )
}

#[test]
fn row_86_state_keyrings_and_shared_memory_are_out_of_reach() {
    let home = desk();
    let shared = Shared::new();
    let deploy = home.deploy("desk");
    let body = state_keyrings_and_shared_memory(&deploy, &shared);
    for sandbox in [SERVICE, browser_of(&deploy)] {
        all_refused(sandbox, &deploy.python(sandbox, &program(&body)));
    }
}

/// Row 87: limits, score and signals of pid 1.
pub const PID_1: &str = r#"
import resource, signal
limit = struct.pack("QQ", 0, 0)
answers = {
    "prlimit": attempt(lambda: syscall(302, 1, 7, ctypes.c_char_p(limit), 0)),
    "oom_score_adj": attempt(lambda: open("/proc/1/oom_score_adj", "w").write("1000")),
}
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD, signal.SIGSTOP, signal.SIGKILL):
    attempt(lambda: os.kill(1, number))
show(answers)"#;

#[test]
fn row_87_pid_1_is_out_of_its_childrens_hands() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    let before = deploy.service(SERVICE);
    all_refused(SERVICE, &deploy.python(SERVICE, &program(PID_1)));
    assert!(before.is_alive(), "pid 1 is alive");
    assert_eq!(deploy.service(SERVICE), before, "and the same");
    assert_eq!(answer_of(&deploy, "alpha"), 200, "and the site answers");
}

fn answer_of(deploy: &Deploy<'_>, site: &str) -> u16 {
    let request = format!("GET /website/{site}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    agentenv_tests::raw_http(&deploy.info.gateway_url, request.as_bytes()).status
}

/// Row 90: truncates what others write to.
pub const TRUNCATE_OUTPUTS: &str = r#"
pids = [p for p in os.listdir("/proc") if p.isdigit()]
links, answers = {}, {}
for pid in pids:
    for number in (1, 2):
        path = f"/proc/{pid}/fd/{number}"
        try: links[path] = os.readlink(path)
        except OSError: continue
        if not links[path].startswith("pipe:"): continue
        answers[path] = attempt(lambda: os.truncate(path, 0))
show({"links": links, "answers": answers})"#;

#[test]
fn row_90_stdout_is_a_pipe_with_nothing_to_truncate() {
    let home = pods(&[PySite::new("alpha").before("log('before the truncation')")]);
    let deploy = home.deploy("pods");
    let answer = deploy.python(SERVICE, &program(TRUNCATE_OUTPUTS));
    all_refused(SERVICE, &answer["answers"]);
    for (path, link) in answer["links"].as_object().expect("links") {
        let link = link.as_str().unwrap_or_default();
        assert!(link.starts_with("pipe:") || link == "/dev/null", "{path} is {link}");
    }
    let logs = home.run(&["env", "logs", deploy.id(), SERVICE]).ok();
    assert!(logs.contains("before the truncation"), "the log is whole: {logs}");
}
