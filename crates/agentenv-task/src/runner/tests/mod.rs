mod captures;
mod crash;
mod fakes;
mod programs;

use std::{path::Path, time::Duration};

use agentenv_protocol::ExitCode;
use fakes::{Fakes, Fault};
use serde_json::json;

use crate::{
    Event, LIVE_WEBSITES_KEY, LogError, Outcome, PlanError, PlannedTask, RunDeployState, RunError, RunRecord, RunState,
    StepState, parse_task, plan, stop,
};

/// A task of every step that needs no program.
const STEPS: &str = r#"
[[step]]
kind = "deploy_env"
env = "office"
[[step]]
kind = "load_data"
data = { shop = { n = 1 }, tracker = { t = "order 1" } }
[[step]]
kind = "browser_sign_in"
users = { shop = "ada" }
[[step]]
kind = "check"
[[step.expect]]
website = "shop"
pointer = "/n"
equals = 1
[[step.expect]]
website = "tracker"
pointer = "/t"
contains_value_at = { website = "shop", pointer = "/n" }
[[step]]
kind = "reset_env"
[[step]]
kind = "close_env"
"#;

async fn planned(fakes: &Fakes, steps: &str) -> PlannedTask {
    planned_in(fakes, Path::new("/"), steps).await
}

async fn planned_in(fakes: &Fakes, folder: &Path, steps: &str) -> PlannedTask {
    let text = format!("format = 1\nname = \"t\"\ngoal = \"do it\"\n{steps}");
    let none = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    let task = parse_task(Path::new("task.toml"), folder, &text, &none).unwrap_or_else(|problems| panic!("{problems}"));
    plan(task, fakes).await.unwrap()
}

/// Runs the steps in the paused time of the test.
async fn run(fakes: &Fakes, steps: &str) -> RunRecord {
    let home = tempfile::tempdir().unwrap();
    let task = planned(fakes, steps).await;
    let (_sender, stop) = stop();
    let record = fakes.runner(home.path()).run(task, &stop).await.unwrap();
    consistent(&record);
    assert_eq!(fakes.record(), record, "what is returned is what is on record");
    record
}

/// The calls of a whole run.
async fn calls_of(fakes: &Fakes, steps: &str) -> Vec<String> {
    run(fakes, steps).await;
    fakes.0.lock().unwrap().calls.clone()
}

/// Runs until a call hangs, then drops the run: what `kill -9` leaves.
async fn crash(fakes: &Fakes, home: &Path, steps: &str) {
    let task = planned(fakes, steps).await;
    let (_sender, stop) = stop();
    let runner = fakes.runner(home);
    // Shorter than any step's time: the hanging call is where the run ends.
    let ended = tokio::time::timeout(Duration::from_secs(1), runner.run(task, &stop)).await;
    assert!(ended.is_err(), "the call hangs");
}

/// The rules that hold for every record at every moment.
fn consistent(record: &RunRecord) {
    let states: Vec<StepState> = record.steps.iter().map(|step| step.state).collect();
    assert!(states.iter().filter(|state| **state == StepState::Running).count() <= 1, "{states:?}");
    let order = |state: &StepState| match state {
        StepState::Done => 0,
        StepState::Running => 1,
        StepState::Pending | StepState::Skipped => 2,
    };
    assert!(states.iter().map(order).is_sorted(), "{states:?}");
    let passed = |step: &crate::StepRecord| step.outcome == Some(Outcome::Passed);
    let failed = record.steps.iter().filter(|step| step.state == StepState::Done && !passed(step)).count();
    assert!(failed <= 1, "nothing is done after a step that did not pass");
    for step in &record.steps {
        let began = matches!(step.state, StepState::Running | StepState::Done);
        assert_eq!(step.started_at.is_some(), began);
        assert_eq!(step.outcome.is_some(), step.state == StepState::Done);
    }
    assert_eq!(record.ended_at.is_some(), record.state == RunState::Done);
    if record.state == RunState::Done {
        assert!(record.outcome.is_some());
        assert_eq!(record.reason.is_some(), record.outcome != Some(Outcome::Passed), "{:?}", record.reason);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_whose_every_check_holds_has_passed() {
    let fakes = Fakes::default();
    let record = run(&fakes, STEPS).await;
    assert_eq!((record.outcome, record.state), (Some(Outcome::Passed), RunState::Done));
    assert!(record.steps.iter().all(|step| step.outcome == Some(Outcome::Passed)));
    assert_eq!(record.deploys[0].state, RunDeployState::Closed);
    assert_eq!(record.deploys[0].versions, [(fakes::name("office"), 3)]);
    assert_eq!(record.steps[3].result["expectations"][1]["passed"], json!(true));
    let summaries: Vec<&str> = record.steps.iter().filter_map(|step| step.summary.as_deref()).collect();
    let id = &record.deploys[0].deploy;
    let (ready, closed) = (format!("{id} is ready after 12 ms"), format!("{id} is closed"));
    let signed_in = "ada at shop in browser (read back)";
    let reset = "data 1 ms, browsers 20 ms (browser: cold)";
    assert_eq!(summaries, [&ready, "shop, tracker", signed_in, "all 2 expectations hold", reset, &closed]);
    let text = serde_json::to_string(&record).unwrap();
    assert!(!text.contains("t0ken"), "the agent token is not on record");
    let world = fakes.0.lock().unwrap();
    assert!(world.alive.is_empty());
    let kinds: Vec<String> = world
        .events
        .iter()
        .map(|event| serde_json::to_value(event).unwrap()["event"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds[..5], ["run_started", "step_started", "deploy_intended", "progress", "step_done"]);
    assert_eq!(kinds.last().unwrap(), "run_done");
}

#[tokio::test(start_paused = true)]
async fn each_call_that_fails_ends_the_task_with_its_outcome_and_a_teardown() {
    let calls = calls_of(&Fakes::default(), STEPS).await;
    for (number, call) in calls.iter().enumerate() {
        let kind = call.split(' ').next().unwrap();
        if kind == "create" || kind == "update" {
            continue;
        }
        for (fault, outcome) in [
            (Fault::Fail, Outcome::InfrastructureError),
            (Fault::TimeOut, Outcome::TimedOut),
            (Fault::Blocked, Outcome::BlockedBySite),
            (Fault::Hang, Outcome::TimedOut),
            (Fault::HangAfter, Outcome::TimedOut),
        ] {
            let fakes = Fakes::default().fault(number, fault);
            let record = run(&fakes, STEPS).await;
            assert_eq!(record.outcome, Some(outcome), "{call} {fault:?}");
            let failed = record.steps.iter().find(|step| step.outcome == Some(outcome)).unwrap();
            assert!(failed.message.is_some() && record.reason.as_ref().unwrap().contains(failed.label()));
            let skipped = record.steps.iter().filter(|step| step.state == StepState::Skipped).count();
            let done = record.steps.iter().filter(|step| step.state == StepState::Done).count();
            assert_eq!(skipped + done, record.steps.len());
            let world = fakes.0.lock().unwrap();
            assert!(world.alive.is_empty(), "{call} {fault:?}: {:?} is left", world.alive);
            assert_eq!(record.deploys[0].state, RunDeployState::Closed, "{call} {fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn row_70_a_record_that_cannot_be_kept_stops_the_effect_that_it_announces() {
    let calls = calls_of(&Fakes::default(), STEPS).await;
    for (number, call) in calls.iter().enumerate().filter(|(_, call)| *call == "create" || *call == "update") {
        let fakes = Fakes::default().fault(number, Fault::Fail);
        let home = tempfile::tempdir().unwrap();
        let task = planned(&fakes, STEPS).await;
        let (_sender, stop) = stop();
        let result = fakes.runner(home.path()).run(task, &stop).await;
        let world = fakes.0.lock().unwrap();
        assert!(world.alive.is_empty(), "{number} {call}");
        let mut announced = 0;
        for (at, call) in world.calls.iter().enumerate() {
            announced += usize::from(call == "update" && at != number);
            assert!(!call.starts_with("deploy") || announced > 0, "a deploy that no record announced");
        }
        match result {
            Ok(record) => {
                consistent(&record);
                let warned = !record.warnings.is_empty();
                assert!(warned || record.outcome == Some(Outcome::InfrastructureError), "{number}: {record:?}");
            }
            Err(RunError::Log(LogError::Store(_))) => assert_eq!(call, "create"),
            Err(RunError::NotRecorded { record, .. }) => {
                assert_eq!(number, calls.len() - 1);
                assert_eq!(record.outcome, Some(Outcome::Passed));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_check_that_does_not_hold_fails_and_names_every_difference() {
    let fakes = Fakes::default();
    let steps = STEPS.replace("equals = 1", "equals = 2").replace("order 1", "nothing");
    let record = run(&fakes, &steps).await;
    assert_eq!(record.outcome, Some(Outcome::Failed));
    assert_eq!(
        record.reason.as_deref(),
        Some(
            "step 4 check: shop /n: is 1, expected 2; tracker /t: is \"nothing\", expected something that contains 1 (of shop /n)"
        )
    );
    assert_eq!(record.steps[4].state, StepState::Skipped);
    let gets = fakes.0.lock().unwrap().calls.iter().filter(|call| call.starts_with("get")).count();
    assert_eq!(gets, 2, "each site is asked once");
}

#[tokio::test(start_paused = true)]
async fn a_request_to_stop_ends_any_step_and_still_tears_down() {
    let calls = calls_of(&Fakes::default(), STEPS).await;
    for (number, call) in calls.iter().enumerate() {
        if call == "create" || call == "update" {
            continue;
        }
        let fakes = Fakes::default().fault(number, Fault::HangAfter);
        let home = tempfile::tempdir().unwrap();
        let task = planned(&fakes, STEPS).await;
        let (sender, stop) = stop();
        let runner = fakes.runner(home.path());
        let (record, ()) = tokio::join!(runner.run(task, &stop), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            sender.ask("SIGINT");
            sender.ask("SIGTERM");
        });
        let record = record.unwrap();
        consistent(&record);
        assert_eq!(record.outcome, Some(Outcome::InfrastructureError), "{call}");
        assert_eq!(record.interrupted.as_deref(), Some("SIGINT"), "{call}");
        assert!(fakes.0.lock().unwrap().alive.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deploy_that_cannot_be_closed_is_named_and_does_not_replace_the_outcome() {
    let steps = STEPS.split("[[step]]\nkind = \"close_env\"").next().unwrap();
    let calls = calls_of(&Fakes::default(), steps).await;
    let last = calls.iter().position(|call| call.starts_with("close")).unwrap();
    for fault in [Fault::Fail, Fault::Hang] {
        let fakes = Fakes::default().fault(last, fault);
        let record = run(&fakes, steps).await;
        assert_eq!(record.outcome, Some(Outcome::Passed));
        assert_eq!(record.deploys[0].state, RunDeployState::CloseFailed);
        assert!(record.warnings[0].contains(record.deploys[0].deploy.as_str()), "{:?}", record.warnings);
        assert_eq!(record.teardown.unwrap().failed.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn live_5_a_live_site_is_on_record_before_its_deploy_starts() {
    let fakes = Fakes::default().with(|world| {
        world.live = true;
        // create, then the update that announces the deploy, then the deploy.
        world.faults.insert(2, Fault::Hang);
    });
    let home = tempfile::tempdir().unwrap();
    let task = planned(&fakes, STEPS).await;
    let (_sender, stop) = stop();
    let runner = fakes.runner(home.path());
    let running = runner.run(task, &stop);
    assert!(tokio::time::timeout(Duration::from_secs(1), running).await.is_err());
    assert!(fakes.0.lock().unwrap().calls[2].starts_with("deploy"));
    let record = fakes.record();
    assert!(record.deploys[0].live);
    assert_eq!(record.deploys[0].state, RunDeployState::Intended);
    let live = &record.context.metadata[LIVE_WEBSITES_KEY][0];
    assert_eq!(live["env_id"], json!(record.deploys[0].deploy));
    assert_eq!((&live["name"], &live["reproducible"]), (&json!("shop"), &json!(false)));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_asks_for_what_is_not_there_is_refused_before_anything_exists() {
    let fakes = Fakes::default();
    let text = r#"format = 1
name = "t"
goal = "g"
[[step]]
kind = "deploy_env"
env = "unknown"
name = "one"
capture_traffic = true
[[step]]
kind = "deploy_env"
env = "office"
name = "two"
provider = "compose"
[[step]]
kind = "load_data"
deploy = "two"
data = { shpo = {} }
[[step]]
kind = "browser_sign_in"
deploy = "two"
users = { wiki = "ada" }
target = "computer"
[[step]]
kind = "collect_traffic_capture"
deploy = "two"
"#;
    let none = |_: &str| Err(std::io::ErrorKind::NotFound.into());
    let task = parse_task(Path::new("task.toml"), Path::new("/"), text, &none).unwrap();
    let PlanError::Refused(problems) = plan(task, &fakes).await.unwrap_err() else { panic!() };
    insta::assert_snapshot!(problems, @r#"
    task.toml:4:1: there is no env `unknown`; put it first
    task.toml:9:1: the provider `compose` is not there yet: this program has `sandbox`; take it out
    task.toml:14:1: load_data: the env has no website `shpo`; did you mean `shop`?
    task.toml:18:1: browser_sign_in: the env has no website `wiki`; it has `shop` and `tracker`
    task.toml:18:1: browser_sign_in: the env has no browser `computer`; it has `browser`
    task.toml:23:1: collect_traffic_capture: the deploy of `office` records no traffic; give its deploy_env step `capture_traffic = true`
    "#);
    assert!(fakes.0.lock().unwrap().calls.is_empty());
    assert_eq!(Outcome::Passed.exit_code(), ExitCode::Done);
}

#[tokio::test(start_paused = true)]
async fn steps_have_times_by_a_clock_that_nobody_sets() {
    let fakes = Fakes::default().fault(2, Fault::Hang);
    let record = run(&fakes, &STEPS.replace("env = \"office\"", "env = \"office\"\ntimeout_s = 7")).await;
    assert_eq!(record.steps[0].duration_ms, Some(7000));
    assert_eq!(record.steps[0].message.as_deref(), Some("it was not done within 7 s"));
    let done =
        fakes.0.lock().unwrap().events.iter().any(|event| {
            matches!(event, Event::StepDone { step: 0, outcome: Outcome::TimedOut, duration_ms: 7000, .. })
        });
    assert!(done);
}
