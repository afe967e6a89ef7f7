//! From inside a sandbox to the host and to its own pid 1 (rows 84 to 90).

use std::{fs, os::unix::net::UnixListener};

use agentenv_tests::{Deploy, PySite, clone_root};

use crate::{
    desk::{SERVICE, all_refused, browser_of, desk, everywhere, pods},
    python::program,
};

#[test]
fn row_84_families_without_a_namespace_are_refused() {
    // UNIX, INET, INET6, NETLINK; of netlink only route and uevent.
    let body = r#"
got = []
for family in range(0, 46):
    for kind in (1, 2, 3, 5):
        for protocol in (range(0, 23) if family == 16 else (0, 1, 132, 136)):
            try:
                socket.socket(family, kind, protocol).close()
                got.append([family, protocol if family == 16 else 0])
            except OSError: pass
show(sorted({tuple(x) for x in got}))"#;
    everywhere(body, |sandbox, answer| {
        for pair in answer.as_array().expect("families") {
            let family = pair[0].as_u64().unwrap_or_default();
            let netlink_ok = family != 16 || [0, 15].contains(&pair[1].as_u64().unwrap_or_default());
            assert!([1, 2, 10, 16].contains(&family) && netlink_ok, "{sandbox}: family {pair} is open: {answer}");
        }
        assert!(answer.as_array().is_some_and(|pairs| pairs.iter().any(|pair| pair[0] == 2)), "INET works: {answer}");
    });
}

#[test]
fn row_84_vsock_is_refused() {
    everywhere(
        r#"
show({"stream": attempt(lambda: socket.socket(40, 1).close()), "datagram": attempt(lambda: socket.socket(40, 2).close()),
      "device": attempt(lambda: os.open("/dev/vsock", os.O_RDWR))})"#,
        all_refused,
    );
}

#[test]
fn row_85_sockets_of_the_host_by_path_are_absent() {
    let home = desk();
    let path = home.path().join("host.sock");
    let _listener = UnixListener::bind(&path).expect("a socket on the host");
    let deploy = home.deploy("desk");
    let control = deploy.folder().join("control.sock");
    assert!(control.exists(), "the control socket is there on the host");
    let body = format!(
        r#"
def connect(path):
    with socket.socket(socket.AF_UNIX) as s: s.connect(path)
paths = ["{}", "{}", "/run/nscd/socket", "/var/run/nscd/socket", "/run/systemd/resolve/io.systemd.Resolve", "/run/user/0/bus",
         "/run/dbus/system_bus_socket", "/tmp/.X11-unix/X0", "/run/systemd/private", "/dev/log", "/run/systemd/journal/stdout"]
show({{path: attempt(lambda: connect(path)) for path in paths}})"#,
        path.display(),
        control.display()
    );
    for sandbox in [SERVICE, browser_of(&deploy)] {
        all_refused(sandbox, &deploy.python(sandbox, &program(&body)));
    }
}

#[test]
fn row_86_state_keyrings_and_shared_memory_are_out_of_reach() {
    let home = desk();
    let shared = tempfile_in("/dev/shm");
    let deploy = home.deploy("desk");
    let body = format!(
        r#"
import fcntl
def lock(path):
    with open(path, "r+") as f: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
show({{
    "lock": attempt(lambda: lock("{folder}/lock")),
    "record": attempt(lambda: open("{folder}/deploy.json").read(1)),
    "token": attempt(lambda: open("{folder}/control.token").read(1)),
    "clone": attempt(lambda: os.listdir("{clone}")),
    "shm": attempt(lambda: open("{shared}").read(1)),
    "passwd": attempt(lambda: open("/etc/shadow").read(1)),
    "home": attempt(lambda: os.listdir("/root")),
    "var": attempt(lambda: os.listdir("/var/lib")),
    "session keyring": attempt(lambda: syscall(250, 0, -3, 0)),
    "user keyring": attempt(lambda: syscall(249, ctypes.c_char_p(b"user"), ctypes.c_char_p(b"x"), 0, -4)),
}})"#,
        folder = deploy.folder().display(),
        clone = clone_root().display(),
    );
    for sandbox in [SERVICE, browser_of(&deploy)] {
        all_refused(sandbox, &deploy.python(sandbox, &program(&body)));
    }
    fs::remove_file(shared).expect("the shared file is removed");
}

fn tempfile_in(folder: &str) -> String {
    let path = format!("{folder}/agentenv-test-{}", std::process::id());
    fs::write(&path, "of the host").expect("a file on the host");
    path
}

#[test]
fn row_87_pid_1_is_out_of_its_childrens_hands() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    let before = deploy.service(SERVICE);
    let body = r#"
import resource, signal
limit = struct.pack("QQ", 0, 0)
answers = {
    "prlimit": attempt(lambda: syscall(302, 1, 7, ctypes.c_char_p(limit), 0)),
    "oom_score_adj": attempt(lambda: open("/proc/1/oom_score_adj", "w").write("1000")),
}
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD, signal.SIGSTOP, signal.SIGKILL):
    attempt(lambda: os.kill(1, number))
show(answers)"#;
    all_refused(SERVICE, &deploy.python(SERVICE, &program(body)));
    assert!(before.is_alive(), "pid 1 is alive");
    assert_eq!(deploy.service(SERVICE), before, "and the same");
    assert_eq!(answer_of(&deploy, "alpha"), 200, "and the site answers");
}

fn answer_of(deploy: &Deploy<'_>, site: &str) -> u16 {
    let request = format!("GET /website/{site}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    agentenv_tests::raw_http(&deploy.info.gateway_url, request.as_bytes()).status
}

#[test]
fn row_90_stdout_is_a_pipe_with_nothing_to_truncate() {
    let home = pods(&[PySite::new("alpha").before("log('before the truncation')")]);
    let deploy = home.deploy("pods");
    let body = r#"
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
    let answer = deploy.python(SERVICE, &program(body));
    all_refused(SERVICE, &answer["answers"]);
    for (path, link) in answer["links"].as_object().expect("links") {
        let link = link.as_str().unwrap_or_default();
        assert!(link.starts_with("pipe:") || link == "/dev/null", "{path} is {link}");
    }
    let logs = home.run(&["env", "logs", deploy.id(), SERVICE]).ok();
    assert!(logs.contains("before the truncation"), "the log is whole: {logs}");
}
