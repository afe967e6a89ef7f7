//! A running deploy, and what it leaves behind.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use agentenv_protocol::control::{DeniedEntry, DeployInfo, DeployStatus};
use serde_json::Value;

use crate::{Home, Outcome, PATIENCE, Process, Processes, eventually, run_within};

/// A command inside a sandbox is one small check.
const EXEC_LIMIT: Duration = Duration::from_secs(60);

/// A deploy that ends with the test: when it is dropped it is closed, and nothing of it may be left.
pub struct Deploy<'h> {
    /// What `env deploy --json` printed.
    pub info: DeployInfo,
    home: &'h Home,
    open: bool,
}

impl<'h> Deploy<'h> {
    pub(crate) fn of(home: &'h Home, info: DeployInfo) -> Self {
        Self { info, home, open: true }
    }

    /// Its id.
    pub fn id(&self) -> &str {
        self.info.deploy.as_str()
    }

    /// The folder of the test's home.
    pub fn home_path(&self) -> &Path {
        self.home.path()
    }

    /// Its folder.
    pub fn folder(&self) -> PathBuf {
        self.home.deploy_folder(self.id())
    }

    /// Runs a command inside a sandbox.
    #[track_caller]
    pub fn exec(&self, sandbox: &str, command: &[&str]) -> Outcome {
        let mut arguments = vec!["env", "exec", self.id(), sandbox, "--"];
        arguments.extend(command);
        run_within(EXEC_LIMIT, &mut self.home.command(arguments), None)
    }

    /// Runs a Python program inside a sandbox; what it prints must be JSON.
    #[track_caller]
    pub fn python(&self, sandbox: &str, program: &str) -> Value {
        self.exec(sandbox, &["/usr/bin/python3", "-c", program]).json()
    }

    /// `agent-env env cp`, one of whose ends is `SANDBOX:PATH`.
    #[track_caller]
    pub fn copy(&self, from: &str, to: &str) -> Outcome {
        self.home.run(&["env", "cp", self.id(), from, to])
    }

    /// `agent-env env status --json`.
    #[track_caller]
    pub fn status(&self) -> DeployStatus {
        let json = self.home.run(&["env", "status", self.id(), "--json"]).json();
        serde_json::from_value(json).expect("the status has its shape")
    }

    /// `agent-env env denied --json`.
    #[track_caller]
    pub fn denied(&self) -> Vec<DeniedEntry> {
        let json = self.home.run(&["env", "denied", self.id(), "--json"]).json();
        serde_json::from_value(json).expect("the denied log has its shape")
    }

    /// The control token.
    #[track_caller]
    pub fn token(&self) -> String {
        self.home.run(&["env", "token", self.id()]).ok().trim().to_owned()
    }

    /// A `website/v1` operation of a site, through the gateway, with the control token.
    #[track_caller]
    pub fn operation(&self, site: &str, operation: &str, body: &Value) -> Value {
        let body = body.to_string();
        let request = format!(
            "POST /svc/{site}/api/{operation} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.token(),
            body.len()
        );
        let reply = crate::raw_http(&self.info.gateway_url, request.as_bytes());
        assert!((200..300).contains(&reply.status), "{operation} of {site}: {}", reply.raw);
        serde_json::from_str(reply.body()).unwrap_or(Value::Null)
    }

    /// Has a page of a website, such as `shop/echo`, hear so many bytes and say them back.
    #[track_caller]
    pub fn talk(&self, page: &str, bytes: usize) {
        let body = Value::from("x".repeat(bytes)).to_string();
        let request = format!(
            "POST /website/{page} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        assert_eq!(crate::raw_http(&self.info.gateway_url, request.as_bytes()).status, 200);
    }

    /// Every process of the deploy: the supervisor and all that descend from it.
    #[track_caller]
    pub fn processes(&self) -> Vec<Process> {
        let all = Processes::all();
        let supervisor = self.supervisor();
        let tree = all.tree(supervisor.pid);
        assert!(tree.len() >= 2, "a supervisor alone: {tree:?}");
        tree
    }

    /// The process that holds the deploy.
    #[track_caller]
    pub fn supervisor(&self) -> Process {
        let found = Processes::all().supervisors(&self.folder()).next().cloned();
        found.unwrap_or_else(|| panic!("no supervisor of {}", self.folder().display()))
    }

    /// The process that starts the others.
    #[track_caller]
    pub fn spawner(&self) -> Process {
        let tree = self.processes();
        let found = tree.iter().find(|process| process.arguments().contains("internal-spawner"));
        found.cloned().unwrap_or_else(|| panic!("no spawner among {tree:?}"))
    }

    /// The pid 1 of one service or browser, as the host sees it.
    #[track_caller]
    pub fn service(&self, sandbox: &str) -> Process {
        let status = self.status();
        let service = status.services.iter().find(|(name, _)| name.as_str() == sandbox);
        let (_, service) = service.unwrap_or_else(|| panic!("no {sandbox} in {status:?}"));
        let pid = service.pid.unwrap_or_else(|| panic!("{sandbox} has no process: {status:?}"));
        Process::of(pid).unwrap_or_else(|| panic!("{sandbox} is gone"))
    }

    /// Closes it, and checks that nothing of it is left.
    #[track_caller]
    pub fn close(mut self) {
        self.close_now();
    }

    #[track_caller]
    fn close_now(&mut self) {
        self.open = false;
        let (processes, supervisor) = (self.processes(), self.supervisor());
        self.home.run(&["env", "close", self.id()]).ok();
        // Closed means gone: what still runs now was left behind. The supervisor has let go of its lock, and is on its way out.
        let left: Vec<_> = processes.iter().filter(|process| **process != supervisor && process.is_alive()).collect();
        assert!(left.is_empty(), "left behind by {}: {left:?}", self.id());
        eventually("the supervisor is gone", PATIENCE, || (!supervisor.is_alive()).then_some(()));
        self.assert_folder_is_a_record_only();
    }

    /// For a deploy that ended by itself or was killed: the next command has removed all of it.
    #[track_caller]
    pub fn gone(mut self, processes: &[Process]) {
        self.open = false;
        self.home.run(&["env", "list", "--json"]).ok();
        eventually("every process of the deploy is gone", PATIENCE, || {
            processes.iter().all(|process| !process.is_alive()).then_some(())
        });
        self.assert_folder_is_a_record_only();
    }

    #[track_caller]
    fn assert_folder_is_a_record_only(&self) {
        for name in ["control.sock", "control.token"] {
            assert!(!self.folder().join(name).exists(), "{name} of the closed {} is left", self.id());
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo is readable");
        assert!(!mounts.contains(self.id()), "a mount of {} is left", self.id());
    }
}

impl Drop for Deploy<'_> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        if thread::panicking() {
            // The test has failed: only what would outlive it matters now.
            let _ = run_within(EXEC_LIMIT, &mut self.home.command(["env", "close", self.id()]), None);
        } else {
            self.close_now();
        }
    }
}
