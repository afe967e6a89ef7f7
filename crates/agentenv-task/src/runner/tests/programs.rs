//! Agent steps and check commands: real programs, real time.

use std::{fs, path::Path, time::Duration};

use agentenv_protocol::control::DeployState;
use serde_json::Value;

use super::{
    consistent,
    fakes::{Fakes, Fault},
    planned_in,
};
use crate::{Event, Outcome, RunRecord, Stream, stop};

const DEPLOY: &str = "[[step]]\nkind = \"deploy_env\"\nenv = \"office\"\n";

fn shell(kind: &str, script: &str, more: &str) -> String {
    let script = Value::from(script).to_string();
    format!("{DEPLOY}[[step]]\nkind = \"{kind}\"\ncommand = [\"sh\", \"-c\", {script}]\n{more}\n")
}

async fn run_in(fakes: &Fakes, home: &Path, steps: &str) -> RunRecord {
    let task = planned_in(fakes, home, steps).await;
    let (_sender, stop) = stop();
    let record = fakes.runner(home).run(task, &stop).await.unwrap();
    consistent(&record);
    assert!(fakes.0.lock().unwrap().alive.is_empty());
    record
}

async fn run(fakes: &Fakes, steps: &str) -> RunRecord {
    let home = tempfile::tempdir().unwrap();
    run_in(fakes, home.path(), steps).await
}

fn artifact(fakes: &Fakes, record: &RunRecord, name: &str) -> String {
    let artifact = record.artifacts.iter().find(|artifact| artifact.name == name);
    let id = &artifact.unwrap_or_else(|| panic!("{name} of {:?}", record.artifacts)).id;
    String::from_utf8(fakes.0.lock().unwrap().artifacts[id].clone()).unwrap()
}

#[tokio::test]
async fn a_harness_gets_what_it_needs_and_its_files_become_artifacts() {
    let fakes = Fakes::default();
    let script = r#"env > "$AGENTENV_OUTPUT_DIR/env.txt"; mkdir "$AGENTENV_OUTPUT_DIR/shots"
        echo 1 > "$AGENTENV_OUTPUT_DIR/shots/1.png"; echo hello; echo oops >&2; pwd"#;
    let home = tempfile::tempdir().unwrap();
    let steps = shell("agent", script, "env = { MODEL = \"none\" }\ngoal = \"another\"");
    let record = run_in(&fakes, home.path(), &steps).await;
    assert_eq!(record.outcome, Some(Outcome::Passed), "{:?}", record.reason);
    let names: Vec<&str> = record.artifacts.iter().map(|artifact| artifact.name.as_str()).collect();
    assert_eq!(names, ["step-2-stderr.log", "step-2-stdout.log", "step-2/env.txt", "step-2/shots/1.png"]);
    let out = artifact(&fakes, &record, "step-2-stdout.log");
    assert_eq!(out, format!("hello\n{}\n", fs::canonicalize(home.path()).unwrap().display()));
    let env = artifact(&fakes, &record, "step-2/env.txt");
    let value = |name: &str| env.lines().find_map(|line| line.strip_prefix(&format!("{name}="))).map(str::to_owned);
    assert_eq!(value("AGENTENV_GOAL").as_deref(), Some("another"));
    assert_eq!(value("MODEL").as_deref(), Some("none"));
    assert_eq!(value("AGENTENV_RUN").as_deref(), Some(record.run.as_str()));
    let deploy: Value = serde_json::from_str(&value("AGENTENV_DEPLOY").unwrap()).unwrap();
    assert_eq!(deploy["browsers"][0]["cdp_url"], "http://127.0.0.1:1/agent/t0ken/browser");
    let deadline: jiff::Timestamp = value("AGENTENV_DEADLINE").unwrap().parse().unwrap();
    assert!(deadline > jiff::Timestamp::now());
    let heard =
        fakes.0.lock().unwrap().events.iter().any(
            |event| matches!(event, Event::Output { step: 1, stream: Stream::Stderr, line, .. } if line == "oops"),
        );
    assert!(heard);
    assert!(
        !home.path().join("runs").join(record.run.as_str()).join("output").exists(),
        "stored files are not kept twice"
    );
}

#[tokio::test]
async fn a_harness_that_fails_is_an_agent_error_unless_its_deploy_is_broken() {
    let fakes = Fakes::default();
    let failing = shell("agent", "echo because >&2; exit 3", "");
    let record = run(&fakes, &failing).await;
    assert_eq!(record.outcome, Some(Outcome::AgentError));
    assert_eq!(record.steps[1].message.as_deref(), Some("the harness ended with exit code 3"));
    assert_eq!(record.steps[1].log, ["because"]);

    let fakes = Fakes::default().with(|world| world.state = Some(DeployState::Failed));
    let record = run(&fakes, &failing).await;
    assert_eq!(record.outcome, Some(Outcome::InfrastructureError));
    assert!(record.reason.unwrap().contains("the deploy is failed"));

    let record = run(&Fakes::default(), &shell("agent", "kill -9 $$", "")).await;
    assert_eq!(record.steps[1].message.as_deref(), Some("the harness was ended by signal 9"));

    let missing = format!("{DEPLOY}[[step]]\nkind = \"agent\"\ncommand = [\"no-such-program\"]\n");
    let record = run(&Fakes::default(), &missing).await;
    assert_eq!(record.outcome, Some(Outcome::AgentError));
    assert!(record.reason.unwrap().contains("no-such-program"));
}

#[tokio::test]
async fn a_check_command_passes_with_zero_and_fails_otherwise() {
    assert_eq!(run(&Fakes::default(), &shell("check", "exit 0", "")).await.outcome, Some(Outcome::Passed));
    let record = run(&Fakes::default(), &shell("check", "echo no mug >&2; exit 1", "")).await;
    assert_eq!(record.outcome, Some(Outcome::Failed));
    assert_eq!(record.steps[1].log, ["no mug"]);
}

#[tokio::test]
async fn row_73_a_harness_that_hangs_is_ended_at_its_time_and_what_it_wrote_is_kept() {
    let fakes = Fakes::default();
    let script = r#"echo half > "$AGENTENV_OUTPUT_DIR/half.txt"; echo began; sleep 600 & wait"#;
    let record = run(&fakes, &shell("agent", script, "timeout_s = 0.5")).await;
    assert_eq!(record.outcome, Some(Outcome::TimedOut));
    assert_eq!(artifact(&fakes, &record, "step-2/half.txt"), "half\n");
    assert_eq!(artifact(&fakes, &record, "step-2-stdout.log"), "began\n");
}

#[tokio::test]
async fn a_request_to_stop_ends_the_harness_with_its_children() {
    let fakes = Fakes::default();
    let home = tempfile::tempdir().unwrap();
    let steps = shell("agent", "trap 'echo bye; exit 0' TERM; echo began; sleep 600 & wait", "");
    let task = planned_in(&fakes, home.path(), &steps).await;
    let (sender, stop) = stop();
    let began = fakes.clone();
    let runner = fakes.runner(home.path());
    let ask = async {
        loop {
            let heard = |event: &Event| matches!(event, Event::Output { line, .. } if line == "began");
            if began.0.lock().unwrap().events.iter().any(heard) {
                break sender.ask("SIGINT");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let (record, ()) = tokio::join!(runner.run(task, &stop), ask);
    let record = record.unwrap();
    assert_eq!((record.outcome, record.interrupted.as_deref()), (Some(Outcome::InfrastructureError), Some("SIGINT")));
    assert_eq!(artifact(&fakes, &record, "step-2-stdout.log"), "began\nbye\n");
}

#[tokio::test]
async fn row_72_a_file_that_is_not_stored_is_named_and_the_others_are() {
    let script = r#"for n in 1 2 3; do echo $n > "$AGENTENV_OUTPUT_DIR/$n.txt"; done"#;
    // create, save, deploy, save, save, then the two logs and the three files, each followed by a save.
    for (fault, number) in [(Fault::Fail, 11), (Fault::Fail, 9)] {
        let fakes = Fakes::default().fault(number, fault);
        let home = tempfile::tempdir().unwrap();
        let record = run_in(&fakes, home.path(), &shell("agent", script, "")).await;
        assert_eq!(fakes.0.lock().unwrap().calls[number], "put_file");
        assert_eq!(record.outcome, Some(Outcome::Passed), "{:?}", record.reason);
        assert_eq!(record.artifacts.len(), 4);
        let warning = &record.steps[1].warnings[0];
        let path = warning.split(" is not stored").next().unwrap();
        assert!(Path::new(path).exists(), "{warning}");
    }
}

#[tokio::test]
async fn row_55_links_in_the_output_folder_are_not_collected() {
    let fakes = Fakes::default();
    let script = r#"ln -s /etc/passwd "$AGENTENV_OUTPUT_DIR/link"; mkfifo "$AGENTENV_OUTPUT_DIR/fifo""#;
    let record = run(&fakes, &shell("agent", script, "")).await;
    assert_eq!(record.outcome, Some(Outcome::Passed));
    assert_eq!(record.artifacts.len(), 2, "the two logs");
    assert_eq!(record.steps[1].warnings.len(), 2);
}
