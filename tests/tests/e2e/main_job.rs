//! The main job, on real input: the task that buys in the shop and reports to the tracker. Runs alone.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use agentenv_tests::{Home, Outcome, PATIENCE, Process, Snapshot, clone_root, eventually, run_within, target};
use serde_json::Value;

const TASK: &str = "tasks/buy-and-report.toml";
const LIMIT: Duration = Duration::from_secs(110);

/// The program, with a `python3` that has Playwright for the task's agent.
fn with_playwright(home: &Home, arguments: &[&str]) -> Command {
    let mut command = home.command(arguments.iter().copied());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places =
        std::iter::once(target().join("venv/bin")).chain(std::env::split_paths(&path)).collect::<Vec<PathBuf>>();
    command.env("PATH", std::env::join_paths(places).expect("a path")).env("TMPDIR", home.path());
    command
}

fn run_task(home: &Home) -> Outcome {
    let task = clone_root().join(TASK).display().to_string();
    run_within(LIMIT, &mut with_playwright(home, &["task", "run", &task]), None)
}

fn only_run(home: &Home) -> Option<String> {
    let entries = std::fs::read_dir(home.path().join("runs")).ok()?.flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).find(|name| name.starts_with("r-"))
}

#[test]
fn buy_and_report_passes_and_leaves_nothing() {
    let home = Home::new();
    let before = Snapshot::take();
    let outcome = run_task(&home);
    assert_eq!(outcome.code, 0, "{outcome:?}");
    let run = only_run(&home).expect("a run record");
    assert!(outcome.stdout.contains(&run) || outcome.stderr.contains(&run), "it says where the record is: {outcome:?}");
    let record = home.run(&["run", "show", &run, "--json"]).json();
    assert_eq!(record["outcome"], "passed", "{record:#}");
    let kinds: Vec<&str> =
        record["steps"].as_array().expect("steps").iter().filter_map(|step| step["kind"].as_str()).collect();
    for kind in ["deploy_env", "load_data", "browser_sign_in", "agent", "check", "reset_env", "close_env"] {
        assert!(kinds.contains(&kind), "{kind} among {kinds:?}");
    }
    assert!(home.run(&["run", "show", &run]).ok().contains("passed"), "people can read it too");
    assert_no_control_token(&home, &record);
    home.assert_idle();
    before.assert_nothing_left(&home);
}

/// The agent's environment and the record hold the agent's token at most.
fn assert_no_control_token(home: &Home, record: &Value) {
    for id in home.deploy_ids() {
        assert!(!home.deploy_folder(&id).join("control.token").exists(), "the token of the closed {id} is left");
    }
    assert!(!record.to_string().contains("control.token"), "{record}");
}

/// Starts the task, and waits until its deploy is on record.
fn started(home: &Home) -> (Child, String) {
    let task = clone_root().join(TASK).display().to_string();
    let child = with_playwright(home, &["task", "run", &task])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let run = eventually("the run is on record", PATIENCE, || only_run(home));
    eventually("its deploy is on record", Duration::from_secs(60), || {
        let outcome = home.run(&["run", "show", &run, "--json"]);
        (outcome.code == 0 && outcome.stdout.contains("\"d-")).then_some(())
    });
    (child, run)
}

#[test]
fn interrupted_by_control_c_the_run_closes_what_it_deployed() {
    let home = Home::new();
    let before = Snapshot::take();
    let (mut child, run) = started(&home);
    Process::of(child.id()).expect("it runs").signal(rustix::process::Signal::INT);
    let status = eventually("the run ends", Duration::from_secs(60), || child.try_wait().expect("a child"));
    assert!(!status.success(), "an interrupted run is not a success");
    // No further command was needed.
    home.assert_idle();
    before.assert_nothing_left(&home);
    let record = home.run(&["run", "show", &run, "--json"]).json();
    assert_eq!(record["state"], "done", "{record:#}");
    assert_ne!(record["outcome"], "passed", "{record:#}");
}

#[test]
fn the_record_is_readable_while_the_run_goes_on_and_after_a_kill() {
    let home = Home::new();
    let before = Snapshot::take();
    let (mut child, run) = started(&home);
    child.kill().expect("a child can be killed");
    child.wait().expect("a child");
    home.run(&["env", "list"]).ok();
    eventually("nothing of the killed run is left", Duration::from_secs(30), || {
        home.run(&["env", "list"]).ok();
        (home.run(&["env", "status", "--json"]).json() == serde_json::json!([])).then_some(())
    });
    let record = home.run(&["run", "show", &run, "--json"]).json();
    assert_ne!(record["outcome"], "passed", "{record:#}");
    home.assert_idle();
    before.assert_nothing_left(&home);
}
