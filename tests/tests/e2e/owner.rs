//! What a running deploy is to other users, to its starter and to whoever commands it.

use std::{
    fs,
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use agentenv_tests::{Deploy, PATIENCE, PySite, eventually, is_root, run_within, stat};
use serde_json::{Value, json};

use crate::desk::pods;

#[test]
fn nothing_in_a_deploys_folder_is_open_to_others() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    let mut open = Vec::new();
    let mut look = |path: &Path| {
        let mode = fs::symlink_metadata(path).expect("it is there").permissions().mode();
        if mode & 0o077 != 0 {
            open.push(format!("{} {:o}", path.display(), mode & 0o777));
        }
    };
    look(&deploy.folder());
    for name in ["deploy.json", "lock", "control.sock", "control.token", "logs", "logs/supervisor.log"] {
        look(&deploy.folder().join(name));
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_control_socket_turns_other_users_away() {
    // Somebody who could pass the folder all the same: only root can make one.
    if !is_root() {
        return;
    }
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    let ask = format!(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(10)\ns.connect({:?})\n\
         try:\n    s.sendall(b'GET /status HTTP/1.1\\r\\nHost: c\\r\\nConnection: close\\r\\n\\r\\n')\n    print(s.recv(12))\n\
         except ConnectionError: print('turned away')",
        deploy.folder().join("control.sock").display()
    );
    let answer = |more: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]).args(more);
        command.args(["/usr/bin/python3", "-c", &ask]);
        run_within(Duration::from_secs(30), &mut command, None).ok()
    };
    assert!(answer(&[]).contains("HTTP/1.1 200"), "root is answered");
    let other = answer(&["--reuid=65534", "--regid=65534", "--clear-groups"]);
    assert!(!other.contains("HTTP"), "another user got {other}");
}

#[test]
fn a_deploys_processes_dump_no_core_and_its_supervisor_has_a_session_of_its_own() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    for process in deploy.processes() {
        let limits = fs::read_to_string(format!("/proc/{}/limits", process.pid)).unwrap_or_default();
        let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap_or_default();
        let words: Vec<&str> = core.split_whitespace().collect();
        assert_eq!(words[4..6], ["0", "0"], "{process:?}: {core}");
    }
    let supervisor = deploy.supervisor();
    let (_, fields) = stat(supervisor.pid).expect("it runs");
    let session = fields.get(3).expect("a session");
    assert_eq!(*session, supervisor.pid.to_string(), "away from its starter's terminal");
}

#[test]
fn the_gateway_listens_on_loopback_alone() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    let port: u16 = deploy.info.gateway_url.trim_end_matches('/').rsplit(':').next().unwrap().parse().expect("a port");
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs::read_to_string(table).unwrap_or_default());
    let listeners: Vec<&str> = tables
        .iter()
        .flat_map(|table| table.lines())
        .filter(|line| line.split_whitespace().nth(3) == Some("0A"))
        .filter_map(|line| line.split_whitespace().nth(1)?.strip_suffix(&format!(":{port:04X}")))
        .collect();
    assert_eq!(listeners, ["0100007F"]);
}

/// Calls the control API as no command does.
fn control(deploy: &Deploy<'_>, path: &str, body: &Value) -> (String, Value) {
    let mut stream = UnixStream::connect(deploy.folder().join("control.sock")).expect("it is there");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time limit can be set");
    let body = body.to_string();
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: c\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .expect("the request can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.lines().next().unwrap_or_default().to_owned(), serde_json::from_str(body).unwrap_or_default())
}

#[test]
fn data_for_a_website_that_is_not_there_is_loaded_nowhere() {
    let home = pods(&[PySite::new("alpha"), PySite::new("beta")]);
    let deploy = home.deploy("pods");
    let data = json!({"data": {"alpha": {"rows": [1]}, "zeta": {"rows": [2]}}});
    let (status, error) = control(&deploy, "/data/load", &data);
    assert!(status.contains("400"), "{status} {error}");
    assert!(error["message"].as_str().is_some_and(|message| message.contains("zeta")), "{error}");
    assert_eq!(deploy.operation("alpha", "data/get", &json!({})), json!({"data": {"rows": []}}));
}

/// A process that the spawner lost sight of: its command line is all that tells whose it is.
struct Lost {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Lost {
    fn of(deploy: &Deploy<'_>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("internal-spawner"), "echo; read line").expect("a script");
        let mut child = Command::new("sh")
            .args(["internal-spawner", deploy.id()])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        child.stdout.as_mut().expect("piped").read_exact(&mut [0]).expect("it runs");
        Self { child, _folder: folder }
    }

    /// Whether it was ended: its input is open, so it has no other reason.
    fn was_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }
}

impl Drop for Lost {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_carries_a_deploys_mark_is_gone_when_it_is_closed() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    let mut lost = Lost::of(&deploy);
    deploy.close();
    assert!(lost.was_ended(), "closed, and a process of it runs");
}

#[test]
fn what_a_dead_deploy_left_running_is_ended_by_the_next_command() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    let (processes, mut lost) = (deploy.processes(), Lost::of(&deploy));
    deploy.supervisor().kill_and_wait();
    deploy.gone(&processes);
    assert!(lost.was_ended(), "reaped, and a process of it runs");
}

#[test]
fn a_command_in_a_sandbox_ends_with_who_started_it() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    let mut caller = home
        .command(["env", "exec", deploy.id(), "alpha/server", "--", "/usr/bin/sleep", "4711"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("exec starts");
    let sleeper = || deploy.processes().into_iter().find(|process| process.arguments().contains("sleep 4711"));
    let sleeper = eventually("the command runs", PATIENCE, || sleeper().filter(|process| process.name == "sleep"));
    caller.kill().expect("a child can be killed");
    caller.wait().expect("a child");
    eventually("the command is gone", PATIENCE, || (!sleeper.is_alive()).then_some(()));
}

#[test]
fn a_deploy_whose_folder_was_removed_ends() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    let processes = deploy.processes();
    fs::remove_dir_all(deploy.folder()).expect("the folder can be removed");
    eventually("every process of the deploy is gone", PATIENCE, || {
        processes.iter().all(|process| !process.is_alive()).then_some(())
    });
    deploy.gone(&processes);
    home.assert_idle();
}
