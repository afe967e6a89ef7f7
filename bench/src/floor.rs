//! The floor: the same processes cloned with the same namespaces, and nothing else.
//!
//! One re-executed process for each sandbox makes its user and network namespaces, and one for each service its mount, pid, ipc,
//! uts and cgroup namespaces, a root with the trees the program reads, `/data` and `/tmp`. Each then starts the program as an
//! ordinary uid and waits until it listens.

use std::{
    env, fs,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use serde::{Deserialize, Serialize};

/// Hidden command: one sandbox.
pub const SANDBOX: &str = "floor-sandbox";
/// Hidden command: one service.
pub const SERVICE: &str = "floor-service";
/// Roundup's server and Chromium refuse uid 0.
const UID: u32 = 1000;
/// How long a service may take to listen, as in a deploy.
const LISTEN_LIMIT: Duration = Duration::from_secs(60);
/// The state of a listening socket in `/proc/net/tcp`.
const LISTENING: &str = "0A";

/// A sandbox: its services are started in order, each when the one before it is up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sandbox {
    /// Its services.
    pub services: Vec<Service>,
}

/// One service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Service {
    /// Program and arguments, run in `/site`.
    pub command: Vec<String>,
    /// Where it listens: that is when it is up.
    pub up: Up,
    /// The tree that is `/site`.
    pub tree: PathBuf,
    /// The folder that is `/data`, of the whole sandbox.
    pub data: PathBuf,
}

/// When a service is up.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Up {
    /// It listens at this port.
    Port(u16),
    /// It has written this file, under `/data`.
    File(String),
}

/// Sandboxes that run.
pub struct Running(Vec<Child>);

/// Starts all of them at once, and returns when every service is up.
pub fn start(sandboxes: &[Sandbox]) -> Running {
    let mut running = Running(sandboxes.iter().map(start_sandbox).collect());
    for child in &mut running.0 {
        let line = read_line(child);
        assert_eq!(line, "up", "a sandbox of the floor failed");
    }
    running
}

impl Running {
    /// Ends all of them.
    pub fn stop(self) {
        for mut child in self.0 {
            end(&mut child);
        }
    }
}

/// Each process of the floor ends when its standard input does.
fn end(child: &mut Child) {
    drop(child.stdin.take());
    child.wait().expect("a child of the floor can be waited for");
}

fn start_sandbox(sandbox: &Sandbox) -> Child {
    let mut child = again(SANDBOX, sandbox).stdout(Stdio::piped()).spawn().expect("the floor starts");
    // The child has its namespaces; only its parent may give it more than one uid.
    assert_eq!(read_line(&mut child), "map", "a sandbox of the floor has no namespaces");
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    for (file, map) in [("uid_map", "0 0 65536"), ("gid_map", "0 0 65536")] {
        fs::write(process.join(file), map).expect("root maps ids");
    }
    writeln!(child.stdin.as_mut().expect("piped"), "mapped").expect("the floor listens");
    child
}

fn again(kind: &str, spec: &impl Serialize) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(kind).arg(serde_json::to_string(spec).expect("a spec is JSON")).stdin(Stdio::piped());
    command
}

/// Byte by byte, so that nothing after the line is taken.
fn read_line(child: &mut Child) -> String {
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("piped");
    let mut byte = [0];
    while out.read(&mut byte).expect("a pipe is readable") == 1 && byte != *b"\n" {
        line.push(char::from(byte[0]));
    }
    line
}

fn tell(word: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush()).expect("the benchmark listens");
}

/// Reads until whoever started this process ends it.
fn until_the_end(mut input: impl Read) {
    let _ = io::copy(&mut input, &mut io::sink());
}

/// One sandbox, in a process of its own.
pub fn sandbox(spec: &str) {
    let spec: Sandbox = serde_json::from_str(spec).expect("a spec");
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).expect("namespaces can be made");
    tell("map");
    let mut input = BufReader::new(io::stdin());
    input.read_line(&mut String::new()).expect("the ids are mapped");
    let services: Vec<Child> = spec
        .services
        .iter()
        .map(|service| {
            let child = again(SERVICE, service).stdout(Stdio::null()).spawn().expect("the floor starts");
            wait_until_up(service);
            child
        })
        .collect();
    tell("up");
    until_the_end(input);
    for mut service in services {
        end(&mut service);
    }
}

fn wait_until_up(service: &Service) {
    let start = Instant::now();
    while !is_up(service) {
        assert!(start.elapsed() < LISTEN_LIMIT, "{:?} never came up", service.command);
        thread::park_timeout(Duration::from_micros(300));
    }
}

fn is_up(service: &Service) -> bool {
    match &service.up {
        Up::Port(port) => ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().any(|table| {
            let wanted = format!(":{port:04X}");
            let table = fs::read_to_string(table).unwrap_or_default();
            table.lines().any(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                fields.get(1).is_some_and(|local| local.ends_with(&wanted)) && fields.get(3) == Some(&LISTENING)
            })
        }),
        Up::File(name) => service.data.join(name).exists(),
    }
}

/// One service, in a process of its own: pid 1 of its pid namespace is the program.
pub fn service(spec: &str) {
    let spec: Service = serde_json::from_str(spec).expect("a spec");
    let namespaces = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    unshare(namespaces).expect("namespaces can be made");
    let root = make_root(&spec).expect("a root can be made");
    std::os::unix::fs::chroot(root).expect("a root can be entered");
    env::set_current_dir("/site").expect("the tree is there");
    let mut child = program(&spec);
    let input: Option<ChildStdin> = child.stdin.take();
    until_the_end(io::stdin());
    drop(input);
    child.kill().expect("pid 1 can be killed");
    child.wait().expect("pid 1 can be waited for");
}

fn program(spec: &Service) -> Child {
    let mut command = Command::new(&spec.command[0]);
    command.args(&spec.command[1..]).env_clear().uid(UID).gid(UID);
    command.env("PATH", "/usr/bin:/bin").env("HOME", "/tmp").env("AGENTENV_SITE_KEY", "bench");
    command.env("AGENTENV_WEBSITE_SETTINGS", "{}").env("LANG", "C.UTF-8");
    if let Up::Port(port) = spec.up {
        command.env("PORT", port.to_string());
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", spec.command))
}

/// The least that the programs run with: the host's folders of programs, `/dev`, and three folders of their own.
fn make_root(spec: &Service) -> nix::Result<PathBuf> {
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    let root = Path::new("/mnt");
    mount(Some("tmpfs"), root, Some("tmpfs"), MsFlags::empty(), Some("size=64m,mode=755"))?;
    let bind = |from: &Path, to: &str| {
        let to = root.join(to);
        fs::create_dir_all(&to).expect("the root is ours");
        mount(Some(from), &to, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)
    };
    for folder in ["usr", "etc", "dev"] {
        bind(&Path::new("/").join(folder), folder)?;
    }
    for link in ["bin", "lib", "lib64", "sbin"] {
        std::os::unix::fs::symlink(format!("usr/{link}"), root.join(link)).expect("the root is ours");
    }
    bind(&spec.tree, "site")?;
    bind(&spec.data, "data")?;
    fs::create_dir_all(root.join("tmp")).expect("the root is ours");
    mount(Some("tmpfs"), &root.join("tmp"), Some("tmpfs"), MsFlags::empty(), Some("size=256m,mode=1777"))?;
    Ok(root.to_owned())
}
