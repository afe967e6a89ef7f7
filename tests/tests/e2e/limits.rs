//! One sandbox that takes all it can get: the others go on.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use agentenv_tests::{Deploy, Home, PySite, raw_http};
use serde_json::json;

use crate::{
    desk::{browser_of, desk, pods},
    python::program,
};

/// Starts a program in a sandbox that prints a line when it holds what it could get, and holds it until its input ends.
fn holder(home: &Home, deploy: &Deploy<'_>, sandbox: &str, body: &str) -> (Child, String) {
    let text = program(&format!("{body}\nsys.stdin.read()"));
    let mut child = home
        .command(["env", "exec", deploy.id(), sandbox, "--", "/usr/bin/python3", "-u", "-c", &text])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("exec starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("the program says what it holds");
    (child, line)
}

fn release(mut child: Child) {
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.flush();
    }
    child.wait().expect("exec ends");
}

/// What a neighbour needs to go on working.
pub const NEIGHBOUR: &str = r#"
import array
pipes = [os.pipe() for _ in range(20)]
def send():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [r for r, w in pipes]))])
inotify = libc.inotify_init()
show({"send": attempt(send), "inotify": inotify >= 0})"#;

/// Row 88: takes what it can get, and says on a line how much that is.
pub const TAKE: &str = r#"
import array, fcntl
held = {"in flight": 0, "pipes": 0, "inotify": 0}
pairs = []
try:
    while held["inotify"] < 5000 and libc.inotify_init() >= 0: held["inotify"] += 1
except OSError: pass
try:
    for _ in range(50):
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        a.setblocking(False)
        pairs.append((a, b))
        for _ in range(5):
            a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 25))])
            held["in flight"] += 25
except OSError: pass
try:
    while held["pipes"] < 1000:
        r, w = os.pipe()
        try: fcntl.fcntl(w, 1031, 1 << 20)
        except OSError: pass
        held["pipes"] += 1
except OSError: pass
print(json.dumps(held))"#;

#[test]
fn row_88_what_one_sandbox_holds_is_not_taken_from_another() {
    let home = pods(&[PySite::new("alpha"), PySite::new("beta")]);
    let deploy = home.deploy("pods");
    let (child, held) = holder(&home, &deploy, "alpha/server", TAKE);
    assert!(held.contains("in flight"), "{held}");
    let neighbour = deploy.python("beta/server", &program(NEIGHBOUR));
    assert_eq!(neighbour, json!({"send": "ok", "inotify": true}), "while alpha holds {held}");
    assert_eq!(page(&deploy, "beta").0, 200);
    release(child);
}

/// Asks for a site's page, and how long that took.
pub fn page(deploy: &Deploy<'_>, site: &str) -> (u16, Duration) {
    let start = Instant::now();
    let request = format!("GET /website/{site}/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let reply = raw_http(&deploy.info.gateway_url, request.as_bytes());
    (reply.status, start.elapsed())
}

#[test]
fn row_89_a_site_that_never_accepts_keeps_nobody_else_waiting() {
    let home = pods(&[PySite::new("alpha"), PySite::new("beta")]);
    let deploy = home.deploy("pods");
    let stop = b"GET /website/alpha/stop-accepting HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(raw_http(&deploy.info.gateway_url, stop).status, 200);
    std::thread::scope(|scope| {
        // More than a backlog holds; each of them waits for alpha in vain.
        for _ in 0..40 {
            scope.spawn(|| {
                let address = deploy.info.gateway_url.trim_start_matches("http://").trim_end_matches('/');
                let mut stream = std::net::TcpStream::connect(address).expect("the gateway accepts");
                stream.set_read_timeout(Some(Duration::from_secs(6))).expect("a limit");
                let _ =
                    stream.write_all(b"GET /website/alpha/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
                let _ = std::io::Read::read(&mut stream, &mut [0; 64]);
            });
        }
        for _ in 0..20 {
            let (status, took) = page(&deploy, "beta");
            assert!(status == 200 && took < Duration::from_secs(2), "beta waits for alpha: {status} after {took:?}");
        }
    });
}

/// Listens again where somebody else does.
pub const LISTEN_AGAIN: &str = r"
def steal(address, port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind((address, port))
    s.listen(100)
    stolen.append(s)
stolen = []";
/// Row 93, after [`LISTEN_AGAIN`].
pub const STEAL: &str = r#"
alpha = socket.getaddrinfo("alpha.test", 443)[0][4][0]
tried = {f"{a}:{p}": attempt(lambda: steal(a, p)) for a in (alpha, "0.0.0.0") for p in (443, 80)}
answers = []
for _ in range(30):
    with socket.create_connection((alpha, 80), 5) as s:
        s.settimeout(5)
        s.sendall(b"GET / HTTP/1.1\r\nHost: alpha.test\r\nConnection: close\r\n\r\n")
        try: answers.append(b"200" in s.recv(100))
        except OSError: answers.append(False)
show({"tried": tried, "answers": sum(answers)})"#;

#[test]
fn row_93_no_connection_to_a_placed_socket_is_stolen() {
    let home = desk();
    let deploy = home.deploy("desk");
    let answer = deploy.python(browser_of(&deploy), &program(&format!("{LISTEN_AGAIN}{STEAL}")));
    assert_eq!(answer["answers"], 30, "every connection is answered by the site: {answer}");
}
