//! A supervisor that nobody wants any more when it begins: its starter was killed, and another command reaped the deploy
//! before this process had its lock (row 67). The moment is too short to be met from outside, so it is made here.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Command, Stdio},
};

use agentenv_deploy::{DeployDir, DeployRecord, SUPERVISOR_COMMAND};
use agentenv_protocol::{DeployId, Name, control::DeployState};
use serde_json::json;

#[test]
fn row_67_a_deploy_that_was_given_up_is_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let id = DeployId::random();
    let dir = DeployDir::new(folder.path().join("deploys").join(id.as_str()));
    fs::create_dir_all(dir.path()).unwrap();
    let mut record = DeployRecord::new(id, None, Name::parse("nothing").unwrap(), Vec::new(), false);
    record.state = DeployState::Failed;
    dir.save(&record).unwrap();
    let plan: agentenv_model::Plan = serde_json::from_value(json!({
        "env": "nothing", "version": 1, "provider": "sandbox", "versions": [],
        "websites": [], "browsers": [], "site_table": [], "warnings": [],
    }))
    .expect("a plan of nothing");
    let mut supervisor = Command::new(env!("CARGO_BIN_EXE_agent-env"))
        .arg(SUPERVISOR_COMMAND)
        .arg(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = supervisor.stdin.take().unwrap();
    writeln!(input, "{}", json!({ "plan": plan, "trees": {}, "variables": {}, "ttl": null })).unwrap();
    // Its input stays open meanwhile: somebody waits.
    let mut said = String::new();
    BufReader::new(supervisor.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let given_up = said.contains("given up before its supervisor began");
    if !given_up {
        supervisor.kill().unwrap();
    }
    let status = supervisor.wait().unwrap();
    drop(input);
    assert!(given_up, "{said}");
    assert!(!status.success());
    assert_eq!(dir.load().unwrap(), record, "the record is as it was");
    assert!(!dir.control_socket().exists() && !dir.control_token().exists());
}
