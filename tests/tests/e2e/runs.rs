//! Runs: what a harness is handed, and what the run keeps.

use std::{fs, path::PathBuf};

use agentenv_protocol::ExitCode;
use agentenv_tests::{Bundle, Home, PATIENCE, Processes, PySite, eventually, program};
use serde_json::{Value, json};

use crate::desk::pods;

const CANARY: &str = "canary-of-an-outer-deploy";

/// A task that deploys, does this in a harness, and deploys `alpha` again.
fn task(harness: &str) -> Bundle {
    Bundle::new(&format!(
        "format = 1\nname = \"job\"\ngoal = \"look around\"\n\n[[step]]\nkind = \"deploy_env\"\nenv = \"pods\"\n\n\
         [[step]]\nkind = \"agent\"\ncommand = [\"/bin/sh\", \"-euc\", {harness:?}]\n\n\
         [[step]]\nkind = \"close_env\"\n\n[[step]]\nkind = \"deploy_env\"\nenv = \"alpha\"\n"
    ))
}

struct Run {
    id: String,
    record: Value,
    files: PathBuf,
}

/// Runs it to its end, and writes what it kept into a folder.
#[track_caller]
fn run(home: &Home, harness: &str) -> Run {
    let task = task(harness);
    let file = task.folder().join("env.toml").display().to_string();
    home.run(&["task", "run", &file]).ok();
    let record = home.run(&["run", "show", "latest", "--json"]).json();
    assert_eq!(record["outcome"], "passed", "{record:#}");
    let id = record["run"].as_str().expect("an id").to_owned();
    let files = home.path().join("kept");
    home.run(&["run", "artifacts", &id, "--output", &files.display().to_string()]).ok();
    Run { id, record, files }
}

/// The text of the one kept file of this name.
#[track_caller]
fn kept(run: &Run, name: &str) -> String {
    let mut folders = vec![run.files.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the artifacts are written").flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name().to_string_lossy().contains(name) {
                return fs::read_to_string(entry.path()).expect("text");
            }
        }
    }
    panic!("no {name} below {}", run.files.display());
}

#[test]
fn a_harness_gets_its_deploy_and_neither_control_token_nor_the_callers_own() {
    let home = pods(&[PySite::new("alpha")]).with("AGENTENV_DEPLOY", CANARY).with("AGENTENV_OUTER_KEY", CANARY);
    let look = "env > \"$AGENTENV_OUTPUT_DIR/env.txt\"\n\
                cat \"$AGENTENV_HOME\"/deploys/d-*/control.token > token\n\
                grep --count --fixed-strings --file=token \"$AGENTENV_OUTPUT_DIR/env.txt\" > \"$AGENTENV_OUTPUT_DIR/count.txt\" || true\n\
                stat --format=%a \"$AGENTENV_HOME\"/runs/r-* > \"$AGENTENV_OUTPUT_DIR/mode.txt\"";
    let run = run(&home, look);
    let environment = kept(&run, "env.txt");
    assert!(!environment.contains(CANARY), "{environment}");
    assert!(
        environment.contains("AGENTENV_GOAL=look around") && environment.contains("\"gateway_url\""),
        "{environment}"
    );
    assert_eq!(kept(&run, "count.txt").trim(), "0", "the control token is in {environment}");
    assert_eq!(kept(&run, "mode.txt").trim(), "700");
    assert!(!run.record.to_string().contains(CANARY));
}

#[test]
fn a_run_deploys_what_it_planned_and_keeps_it_from_removal() {
    let home = pods(&[PySite::new("alpha")]);
    let newer = PySite::new("alpha").before("log('the second version')").bundle();
    let run = run(&home, &format!("{} website put {}", program().display(), newer.path()));
    assert_eq!(
        home.run(&["env", "show", "alpha", "--json"]).json()["version"],
        2,
        "the harness has put another version"
    );
    for (index, deploy) in run.record["deploys"].as_array().expect("deploys").iter().enumerate() {
        let id = deploy["deploy"].as_str().expect("an id");
        let record = fs::read_to_string(home.deploy_folder(id).join("deploy.json")).expect("a record");
        let record: Value = serde_json::from_str(&record).expect("JSON");
        let versions = record["versions"].as_array().expect("versions");
        assert!(versions.contains(&json!(["alpha", 1])), "deploy {index}: {record}");
    }
    home.run(&["env", "rm", "alpha@1"]).fails(ExitCode::Refused, &["alpha", &run.id]);
    home.run(&["env", "rm", "pods"]).fails(ExitCode::Refused, &["pods", &run.id]);
    home.run(&["env", "rm", "alpha@2"]).ok();
}

#[test]
fn row_67_a_killed_run_is_ended_by_the_next_command() {
    let home = pods(&[PySite::new("alpha")]);
    let task = task("sleep 4712");
    let file = task.folder().join("env.toml").display().to_string();
    let mut runner = home.start(&["task", "run", &file]);
    let sleeps = || Processes::all().iter().find(|process| process.arguments() == "sleep 4712 ").cloned();
    let sleeper = eventually("the harness runs", PATIENCE, sleeps);
    runner.kill().expect("a child can be killed");
    runner.wait().expect("a child");
    home.run(&["env", "list"]).ok();
    assert!(!sleeper.is_alive(), "the harness of a dead run");
    let record = home.run(&["run", "show", "latest", "--json"]).json();
    assert_eq!(record["outcome"], "infrastructure_error", "{record:#}");
    let deploys = record["deploys"].as_array().expect("deploys");
    assert!(!deploys.is_empty() && deploys.iter().all(|deploy| deploy["state"] == "closed"), "{record:#}");
    home.assert_idle();
}
