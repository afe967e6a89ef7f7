//! A real internet in a network namespace of a test's own: what a deploy of a live site can reach in a test.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use tempfile::TempDir;

use crate::{Home, PATIENCE, eventually};

/// The API token of the one account that the internet knows.
pub const TOKEN: &str = "ghp_octocats-own-token";
/// The value of the account's session cookie.
pub const SESSION: &str = "octocats-own-session";
/// Its name server.
const DNS: &str = "203.0.113.53";

/// Name server, origins of real names, and a recorder of every packet, in a network namespace that leads nowhere.
///
/// The thread that starts it moves into the namespace, so everything that it starts from then on is in there too: commands,
/// supervisors, browsers' clients. Only root can do that: an ordinary user's network namespace comes with a user namespace, in
/// which there are no subordinate ids for sandboxes.
pub struct Internet {
    folder: TempDir,
    origins: Child,
    recorder: Child,
}

impl Internet {
    /// Starts it, and moves this thread into it.
    pub fn start() -> Self {
        assert!(crate::is_root(), "a network namespace with sandboxes in it takes root");
        let folder = tempfile::Builder::new().prefix("ae-net-").tempdir().expect("a temporary folder");
        let script = folder.path().join("internet.py");
        fs::write(&script, include_str!("internet.py")).expect("the script is written");
        let mut origins = Command::new("unshare")
            .args(["--net", "/usr/bin/python3"])
            .args([&script, folder.path()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare starts");
        let mut line = String::new();
        BufReader::new(origins.stdout.take().expect("its output is a pipe"))
            .read_line(&mut line)
            .expect("it says something");
        assert_eq!(line.trim(), "ready");
        let namespace = File::open(format!("/proc/{}/ns/net", origins.id())).expect("its namespace");
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), Some(LinkNameSpaceType::Network))
            .expect("root may enter a namespace");
        let recorder = Self::record(folder.path());
        Self { folder, origins, recorder }
    }

    /// Everything that arrives anywhere, by somebody else's program.
    fn record(folder: &Path) -> Child {
        let recorder = Command::new("tcpdump")
            .args(["-i", "lo", "-nn", "-U", "--immediate-mode", "-w"])
            .arg(folder.join("sink.pcap"))
            .stderr(Stdio::from(File::create(folder.join("tcpdump.log")).expect("a log")))
            .spawn()
            .expect("tcpdump starts");
        eventually("tcpdump listens", PATIENCE, || {
            fs::read_to_string(folder.join("tcpdump.log")).ok().filter(|log| log.contains("listening on"))
        });
        recorder
    }

    /// A home whose commands are told of this internet's name server and root, by the variables that companies set too.
    pub fn home(&self, home: Home) -> Home {
        home.with("AGENTENV_DNS_SERVERS", DNS).with("AGENTENV_CA_BUNDLE", self.ca().to_str().expect("a plain path"))
    }

    /// The root certificate.
    pub fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// What origins do from now on: `captcha`, `refuse`, `hang`, or as usual.
    pub fn set_mode(&self, mode: &str) {
        fs::write(self.folder.path().join("mode"), mode).expect("the mode is written");
    }

    /// Every request that an origin got.
    pub fn requests(&self) -> Vec<Value> {
        self.lines("requests.jsonl")
    }

    /// The requests to one host.
    pub fn requests_to(&self, host: &str) -> Vec<Value> {
        let mut requests = self.requests();
        requests.retain(|request| request["host"] == host);
        requests
    }

    /// Every name that was asked for.
    pub fn names_asked(&self) -> Vec<String> {
        self.lines("dns.jsonl").iter().map(|line| line["name"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Connections to addresses that nobody may reach: a private one, and the machine's own.
    pub fn trapped(&self) -> Vec<Value> {
        self.lines("trapped")
    }

    /// The recorded packets that a filter of tcpdump's takes, a line each.
    pub fn packets(&self, filter: &str) -> Vec<String> {
        let output = Command::new("tcpdump")
            .args(["-nn", "-r"])
            .arg(self.folder.path().join("sink.pcap"))
            .arg(filter)
            .output()
            .expect("tcpdump starts");
        // A filter that is none would find nothing.
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("filter expression"), "{filter}: {said}");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

impl Drop for Internet {
    fn drop(&mut self) {
        for child in [&mut self.recorder, &mut self.origins] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
