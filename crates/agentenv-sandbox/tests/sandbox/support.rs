//! A spawner, sandboxes in it, and the output of what runs there.

use std::{
    fs::File,
    io::Read as _,
    os::fd::{AsFd as _, OwnedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

use agentenv_protocol::SandboxName;
use agentenv_sandbox::{
    Cgroup, DataDir, Environment, ExitInfo, Limits, Mount, NetworkKind, Sandbox, SandboxError, SandboxSpec,
    SeccompProfile, Service, ServiceSpec, Spawner, UidAllocator,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Nothing here takes a tenth of it, on an idle machine.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Where this program is inside.
pub const PROBE: &str = "/probe";

pub struct Host {
    pub spawner: Spawner,
    pub uids: UidAllocator,
}

pub struct Output {
    pub exit: ExitInfo,
    pub stdout: String,
    pub stderr: String,
}

impl Host {
    pub fn new() -> Self {
        Self::marked(&marker())
    }

    pub fn marked(marker: &str) -> Self {
        Self { spawner: Spawner::launch(marker).unwrap(), uids: UidAllocator::detect() }
    }

    pub fn create(&self, network: NetworkKind) -> Sandbox {
        self.try_create(network).unwrap()
    }

    pub fn try_create(&self, network: NetworkKind) -> Result<Sandbox, SandboxError> {
        let data = (network == NetworkKind::Pod).then_some(DataDir { bytes: 16 << 20 });
        let uid = self.uids.allocate()?;
        self.spawner.create(&SandboxSpec {
            name: "shop".into(),
            network,
            uid,
            data,
            packets: network == NetworkKind::Pod,
            cgroup: Cgroup::default(),
        })
    }

    pub fn start(&self, sandbox: &Sandbox, spec: &ServiceSpec) -> Service {
        self.spawner.start(sandbox, spec, &environment()).unwrap()
    }

    pub fn output(&self, sandbox: &Sandbox, command: &[&str]) -> Output {
        finish(self.start(sandbox, &spec(sandbox, command)))
    }

    /// What a probe prints in a new service of the sandbox.
    pub fn probe(&self, sandbox: &Sandbox, probe: &[&str]) -> String {
        let command: Vec<_> = [PROBE, crate::probe::COMMAND].iter().chain(probe).copied().collect();
        let output = self.output(sandbox, &command);
        assert_eq!(output.exit, ExitInfo::Code(0), "{probe:?}: {}{}", output.stdout, output.stderr);
        output.stdout.trim().to_owned()
    }
}

/// A deploy's id that nobody else has.
pub fn marker() -> String {
    agentenv_protocol::DeployId::random().to_string()
}

pub fn environment() -> Environment {
    Environment::new([("PATH".to_owned(), "/usr/bin:/bin".into()), ("LANG".to_owned(), "C.UTF-8".into())]).unwrap()
}

/// This program, readable to everybody.
pub fn probe_mount() -> Mount {
    Mount::ReadOnly { source: std::env::current_exe().unwrap(), target: PROBE.into() }
}

pub fn spec(sandbox: &Sandbox, command: &[&str]) -> ServiceSpec {
    ServiceSpec {
        name: SandboxName::parse("shop/server").unwrap(),
        command: command.iter().map(|word| (*word).to_owned()).collect(),
        cwd: PathBuf::from("/"),
        mounts: vec![probe_mount()],
        etc: Vec::new(),
        hostname: "shop".into(),
        data: sandbox.network() == NetworkKind::Pod,
        tmp_bytes: 16 << 20,
        shm_bytes: 64 << 20,
        home_bytes: Some(256 << 20),
        seccomp: match sandbox.network() {
            NetworkKind::Pod | NetworkKind::LivePod => SeccompProfile::Service,
            NetworkKind::Browser => SeccompProfile::Browser,
        },
        limits: Limits::default(),
        client_ports: None,
    }
}

/// Reads what a service says until it has ended.
pub fn finish(mut service: Service) -> Output {
    let stdout = service.stdout.take().unwrap();
    let stderr = service.stderr.take().unwrap();
    let texts = read_to_end([stdout, stderr], LIMIT);
    let exit = service.wait_exit(LIMIT).expect("the service has closed its streams and goes on");
    let [stdout, stderr] = texts.map(|text| String::from_utf8_lossy(&text).into_owned());
    Output { exit, stdout, stderr }
}

fn read_to_end(pipes: [OwnedFd; 2], limit: Duration) -> [Vec<u8>; 2] {
    let deadline = Instant::now() + limit;
    let mut texts = [Vec::new(), Vec::new()];
    let mut open = [true, true];
    let mut files = pipes.map(File::from);
    while open.contains(&true) {
        let events = |open| if open { PollFlags::IN } else { PollFlags::empty() };
        let mut fds: Vec<_> = (0..2).map(|i| PollFd::from_borrowed_fd(files[i].as_fd(), events(open[i]))).collect();
        assert!(
            Instant::now() < deadline,
            "no end of {:?}",
            texts.map(|text| String::from_utf8_lossy(&text).into_owned())
        );
        poll(&mut fds, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).unwrap();
        let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        for i in 0..2 {
            let mut buffer = [0; 4096];
            if open[i] && ready[i] {
                match files[i].read(&mut buffer) {
                    Ok(0) => open[i] = false,
                    Ok(length) => texts[i].extend_from_slice(&buffer[..length]),
                    Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
                }
            }
        }
    }
    texts
}

/// Waits for a line of a running service's output.
pub fn line(service: &mut Service) -> String {
    let mut file = File::from(service.stdout.as_ref().unwrap().try_clone().unwrap());
    let deadline = Instant::now() + LIMIT;
    let mut text = Vec::new();
    while text.last() != Some(&b'\n') {
        assert!(Instant::now() < deadline, "no line");
        let mut fds = [PollFd::new(&file, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).unwrap();
        let mut byte = [0];
        match file.read(&mut byte) {
            Ok(0) => panic!("the output ended: {:?}", String::from_utf8_lossy(&text)),
            Ok(_) => text.push(byte[0]),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    String::from_utf8_lossy(&text).trim().to_owned()
}

/// Waits until a condition holds, looking again every millisecond.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}
