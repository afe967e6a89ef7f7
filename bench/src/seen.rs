//! What a running deploy is made of, seen from outside: so the floor runs the same, whatever the supervisor plans.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use agentenv_protocol::SandboxName;
use agentenv_sandbox::{Limits, Mount, NetworkKind, SeccompProfile, ServiceSpec};
use agentenv_tests::{Deploy, Processes};

use crate::{
    devtools,
    floor::{Service, Up},
};

/// Where DevTools listen inside a browser's sandbox.
const DEVTOOLS: u16 = 9222;
/// As the supervisor gives them: `/tmp`, `/dev/shm` of a service and of a browser, a browser's home and tasks.
const TMP_BYTES: u64 = 256 << 20;
const SHM_BYTES: u64 = 64 << 20;
const BROWSER_SHM_BYTES: u64 = 1 << 30;
const BROWSER_HOME_BYTES: u64 = 2 << 30;
const BROWSER_TASKS: u64 = 4096;
/// Chromium writes its title over its variables, so these are ours to name: where it may write, and that there is no bus.
const BROWSER_VARIABLES: [(&str, &str); 8] = [
    ("HOME", agentenv_sandbox::HOME),
    ("PATH", "/usr/bin:/bin"),
    ("TMPDIR", "/tmp"),
    ("TZ", "UTC"),
    ("LANG", "C.UTF-8"),
    ("LANGUAGE", "en_US"),
    ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent"),
    ("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent"),
];
/// What a browser's `/etc` has and every other lacks.
const BROWSER_ETC: [&str; 2] = ["fonts", "chromium"];

/// A service of a website.
pub fn service(deploy: &Deploy<'_>, website: &str, service: &str, tree: &Path) -> Service {
    let seen = Seen::of(deploy, &format!("{website}/{service}"));
    let port = seen.environment.iter().find(|(name, _)| name == "PORT");
    let port = port.and_then(|(_, value)| value.parse().ok()).expect("every service has a port");
    let site = Mount::ReadOnly { source: tree.to_owned(), target: "/site".into() };
    let spec = ServiceSpec {
        cwd: "/site".into(),
        mounts: vec![site],
        hostname: website.to_owned(),
        data: true,
        ..seen.spec(SHM_BYTES, SeccompProfile::Service)
    };
    Service { spec, environment: seen.environment, up: Up::Port(port), network: NetworkKind::Pod }
}

/// A browser with as many tabs as it is to have, each with nothing to load.
pub fn browser(deploy: &Deploy<'_>, browser: &str, tabs: usize) -> Service {
    let mut seen = Seen::of(deploy, browser);
    seen.environment = BROWSER_VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    // Chromium shows its arguments joined. There is no forward port; what comes last is the tab that it starts with.
    seen.command = seen.command.iter().flat_map(|word| word.split(' ').map(str::to_owned)).collect();
    seen.command.retain(|word| !word.starts_with("--proxy-server="));
    seen.command.pop();
    seen.command.push(devtools::TAB.to_owned());
    let spec = ServiceSpec {
        cwd: agentenv_sandbox::HOME.into(),
        home_bytes: Some(BROWSER_HOME_BYTES),
        limits: Limits { nproc: BROWSER_TASKS, ..Limits::default() },
        ..seen.spec(BROWSER_SHM_BYTES, SeccompProfile::Browser)
    };
    Service { spec, environment: seen.environment, up: Up::Tabs(DEVTOOLS, tabs), network: NetworkKind::Browser }
}

/// A program as it runs.
struct Seen {
    name: String,
    command: Vec<String>,
    environment: Vec<(String, String)>,
    etc: Vec<(String, Vec<u8>)>,
}

impl Seen {
    fn of(deploy: &Deploy<'_>, name: &str) -> Self {
        let first = deploy.service(name);
        let all = Processes::all();
        let program =
            all.iter().find(|process| process.parent == first.pid).unwrap_or_else(|| panic!("{name} runs nothing"));
        let proc = PathBuf::from(format!("/proc/{}", program.pid));
        let words = |file: &str| -> Vec<String> {
            let bytes = fs::read(proc.join(file)).unwrap_or_else(|error| panic!("{file} of {name}: {error}"));
            bytes
                .split(|byte| *byte == 0)
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .filter(|word| !word.is_empty())
                .collect()
        };
        let environment = words("environ");
        let environment = environment
            .iter()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut etc = Vec::new();
        for below in BROWSER_ETC {
            let folder = proc.join("root/etc").join(below);
            if folder.is_dir() {
                collect(&folder, below, &mut etc).unwrap_or_else(|error| panic!("/etc/{below} of {name}: {error}"));
            }
        }
        Self { name: name.to_owned(), command: words("cmdline"), environment: environment.collect(), etc }
    }

    fn spec(&self, shm_bytes: u64, seccomp: SeccompProfile) -> ServiceSpec {
        ServiceSpec {
            client_ports: None,
            name: SandboxName::parse(&self.name).expect("a deploy's name of a sandbox is one"),
            command: self.command.clone(),
            cwd: "/".into(),
            mounts: Vec::new(),
            etc: self.etc.clone(),
            hostname: self.name.clone(),
            data: false,
            tmp_bytes: TMP_BYTES,
            shm_bytes,
            home_bytes: None,
            seccomp,
            limits: Limits::default(),
        }
    }
}

/// The files of a folder of `/etc`, by their path.
fn collect(folder: &Path, below: &str, files: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{below}/{name}");
        match entry.file_type()? {
            kind if kind.is_dir() => collect(&entry.path(), &path, files)?,
            kind if kind.is_file() => files.push((path, fs::read(entry.path())?)),
            _ => {}
        }
    }
    Ok(())
}
