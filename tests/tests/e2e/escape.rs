//! Out of a sandbox: what a hostile service and a hostile page's browser try.

use std::os::unix::net::UnixListener;

use serde_json::json;

use crate::{
    desk::{DISPLAYS, SERVICE, all_refused, browser_of, desk, everywhere},
    python::program,
};

/// Row 45: each is an attempt.
pub const KERNEL_FILES: &str = r#"
def write(path): open(path, "w").write("x")
own = os.stat("/")
def outside():
    root = os.stat("/proc/1/root/.")
    if (root.st_dev, root.st_ino) == (own.st_dev, own.st_ino):
        raise OSError(errno.EACCES, "our own root")
show({
    "core_pattern": attempt(lambda: write("/proc/sys/kernel/core_pattern")),
    "sysrq": attempt(lambda: write("/proc/sysrq-trigger")),
    "/proc/1/root": attempt(outside),
    "kcore": attempt(lambda: open("/proc/kcore", "rb").read(1)),
    "kmsg": attempt(lambda: open("/dev/kmsg", "rb").read(1)),
})"#;

#[test]
fn row_45_kernel_files_are_refused() {
    everywhere(KERNEL_FILES, all_refused);
}

/// Row 46.
pub const SYS_AND_CGROUPS: &str = r#"
def find():
    for folder in ("/sys", "/sys/fs/cgroup"):
        if os.path.isdir(folder) and os.listdir(folder):
            return folder
    raise OSError(errno.ENOENT, "")
def agent(): open("/sys/fs/cgroup/memory/release_agent", "w").write("/tmp/x")
show({"sys": attempt(find), "release_agent": attempt(agent)})"#;

#[test]
fn row_46_sys_and_cgroups_are_refused() {
    everywhere(SYS_AND_CGROUPS, all_refused);
}

/// A socket of the host's that has no path.
pub struct Abstract {
    name: String,
    _listener: UnixListener,
}

impl Abstract {
    /// Listens.
    pub fn listen() -> Self {
        use std::os::{linux::net::SocketAddrExt, unix::net::SocketAddr};
        let name = format!("agentenv-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("an abstract name");
        Self { name, _listener: UnixListener::bind_addr(&address).expect("an abstract socket on the host") }
    }

    /// Row 47: connects to it, to sockets of the host by path, and to those of X servers' that are not the sandbox's own.
    pub fn attack(&self, displays: &[&str]) -> String {
        let (name, displays) = (&self.name, json!(displays).to_string());
        format!(
            r#"
def connect(path):
    with socket.socket(socket.AF_UNIX) as s: s.connect(path)
paths = ["/var/run/docker.sock", "/run/docker.sock", "/run/dbus/system_bus_socket", "\0{name}", *json.loads({displays:?})]
show({{repr(path): attempt(lambda: connect(path)) for path in paths}})"#
        )
    }
}

#[test]
fn row_47_host_sockets_are_absent() {
    everywhere(&Abstract::listen().attack(&DISPLAYS), all_refused);
}

/// Row 48.
pub const OTHER_PROCESSES: &str = r#"
buffer = ctypes.create_string_buffer(8)
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
mine, theirs = Vector(ctypes.addressof(buffer), 8), Vector(0x400000, 8)
others = [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
assert 1 in others
def attach(pid): syscall(101, 16, pid, 0, 0)
def seize(pid): syscall(101, 0x4206, pid, 0, 0)
def read(pid): syscall(310, pid, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0)
answers = {}
for pid in others:
    answers[f"attach {pid}"] = attempt(lambda: attach(pid))
    answers[f"seize {pid}"] = attempt(lambda: seize(pid))
    answers[f"read {pid}"] = attempt(lambda: read(pid))
answers["memory of 1"] = attempt(lambda: open("/proc/1/mem", "rb").read(1))
show(answers)"#;

#[test]
fn row_48_other_processes_are_closed() {
    everywhere(OTHER_PROCESSES, all_refused);
}

/// Number and name of system calls that nothing in a sandbox has a use for.
const FORBIDDEN: &str = r#"
path = ctypes.c_char_p(b"/tmp")
calls = {
    "setns": lambda: syscall(308, os.open("/proc/self/ns/net", os.O_RDONLY), 0),
    "mount": lambda: syscall(165, path, path, ctypes.c_char_p(b"tmpfs"), 0, 0),
    "umount2": lambda: syscall(166, path, 0),
    "pivot_root": lambda: syscall(155, path, path),
    "chroot": lambda: syscall(161, path),
    "fsopen": lambda: syscall(430, ctypes.c_char_p(b"tmpfs"), 0),
    "open_tree": lambda: syscall(428, -100, path, 1),
    "move_mount": lambda: syscall(429, -100, path, -100, path, 0),
    "bpf": lambda: syscall(321, 0, 0, 0),
    "io_uring_setup": lambda: syscall(425, 8, ctypes.create_string_buffer(120)),
    "keyctl": lambda: syscall(250, 0, -3, 0),
    "add_key": lambda: syscall(248, ctypes.c_char_p(b"user"), ctypes.c_char_p(b"k"), ctypes.c_char_p(b"v"), 1, -3),
    "perf_event_open": lambda: syscall(298, ctypes.create_string_buffer(128), 0, -1, -1, 0),
    "userfaultfd": lambda: syscall(323, 0),
    "unshare mount": lambda: syscall(272, 0x00020000),
    "init_module": lambda: syscall(175, 0, 0, path),
    "reboot": lambda: syscall(169, 0, 0, 0, 0),
    "swapon": lambda: syscall(167, path, 0),
    "kexec_load": lambda: syscall(246, 0, 0, 0, 0),
}
"#;

/// Row 49: every one of them.
pub fn forbidden_calls() -> String {
    format!("{FORBIDDEN}\nshow({{name: attempt(call) for name, call in calls.items()}})")
}

/// Row 49: in a user namespace of its own it has every capability there, and still mounts nothing.
pub fn mounts_of_a_nested_namespace() -> String {
    format!(
        "{FORBIDDEN}\nsyscall(272, 0x10000000)\n\
         show({{name: attempt(calls[name]) for name in ('mount', 'unshare mount', 'pivot_root', 'fsopen', 'open_tree')}})"
    )
}

#[test]
fn row_49_calls_that_change_the_world_are_refused() {
    everywhere(&forbidden_calls(), all_refused);
}

#[test]
fn row_49_nested_user_namespaces_are_for_browsers_only() {
    let home = desk();
    let deploy = home.deploy("desk");
    let nested = program(r#"show(attempt(lambda: syscall(272, 0x10000000)))"#);
    assert_ne!(deploy.python(SERVICE, &nested), json!("ok: 0"), "a service makes a user namespace");
    assert_eq!(deploy.python(browser_of(&deploy), &nested), json!("ok: 0"), "Chromium's own sandbox needs one");
    all_refused("browser", &deploy.python(browser_of(&deploy), &program(&mounts_of_a_nested_namespace())));
}

/// Row 50.
pub const DESCRIPTORS: &str = r#"
def descriptors(pid):
    links = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try: links[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError: pass
    return links
own = {n: l for n, l in descriptors("self").items() if "/proc/" not in l}
show({"own": own, "cwd": os.getcwd(), "through": {n: attempt(lambda: os.listdir(f"/proc/self/fd/{n}/..")) for n in range(3)}})"#;

#[test]
fn row_50_nothing_is_inherited_but_three_pipes() {
    everywhere(DESCRIPTORS, |sandbox, answer| {
        let own = answer["own"].as_object().expect("descriptors");
        let mut numbers: Vec<&str> = own.keys().map(String::as_str).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, ["0", "1", "2"], "{sandbox}: {answer}");
        for (number, link) in own {
            let link = link.as_str().unwrap_or_default();
            assert!(link.starts_with("pipe:") || link == "/dev/null", "{sandbox}: descriptor {number} is {link}");
        }
        all_refused(sandbox, &answer["through"]);
    });
}

/// Row 51: what the kernel says of each process.
pub const STATUSES: &str = r#"
def status(pid):
    lines = dict(line.split(":\t", 1) for line in open(f"/proc/{pid}/status").read().splitlines() if ":\t" in line)
    keys = ("Name", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Uid", "Gid", "Groups")
    return {key: lines.get(key, "").strip() for key in keys}
show({pid: status(pid) for pid in os.listdir("/proc") if pid.isdigit()})"#;

#[test]
fn row_51_no_capability_no_new_privileges_and_a_filter() {
    let home = desk();
    let deploy = home.deploy("desk");
    for sandbox in [SERVICE, browser_of(&deploy)] {
        let answer = deploy.python(sandbox, &program(STATUSES));
        let processes = answer.as_object().expect("processes");
        assert!(processes.len() >= 2, "{answer}");
        for (pid, status) in processes {
            assert_eq!(status["NoNewPrivs"], "1", "{sandbox}: process {pid}: {status}");
            let uid = status["Uid"].as_str().unwrap_or_default();
            assert!(!uid.split('\t').any(|id| id == "0"), "{sandbox}: process {pid} has uid 0: {status}");
            // Chromium's own sandbox gives its zygotes capabilities in a user namespace of theirs: not a service's matter.
            if sandbox == SERVICE {
                assert_eq!(status["Seccomp"], "2", "{sandbox}: process {pid}: {status}");
                for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                    assert_eq!(status[set], "0000000000000000", "{sandbox}: process {pid}: {status}");
                }
            }
        }
    }
}

/// Row 52: `TIOCSTI` and its like, into what there is.
pub const TYPE_INTO_A_TERMINAL: &str = r#"
import fcntl
def call(request): syscall(16, 0, request, ctypes.c_char_p(b"x"))
def type_into(open_terminal):
    terminal = open_terminal()
    fcntl.ioctl(terminal, 0x5412, b"x")
show({
    "stdin": attempt(lambda: type_into(lambda: 0)),
    "tty": attempt(lambda: type_into(lambda: os.open("/dev/tty", os.O_RDWR))),
    # The kernel reads half of the number.
    "high bits": attempt(lambda: call(1 << 32 | 0x5412)),
    "console": attempt(lambda: call(0x541c)),
    "pty": attempt(lambda: type_into(lambda: os.openpty()[1])),
})"#;

#[test]
fn row_52_nothing_can_be_typed_into_a_terminal() {
    everywhere(TYPE_INTO_A_TERMINAL, all_refused);
}
