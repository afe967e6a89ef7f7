//! Captured traffic in a run (CAP-5..7): what is on record at every point, whatever fails, hangs or dies.

use std::time::Duration;

use agentenv_protocol::{CaptureGap, DeployId};

use super::{
    calls_of, consistent, crash,
    fakes::{Fakes, Fault, bytes, capture_id},
    planned, run,
};
use crate::{
    CollectionStatus, Event, Outcome, RunDeployState, RunError, RunLog, RunRecord, RunState, TrafficCaptures, stop,
};

const STEPS: &str = r#"
[[step]]
kind = "deploy_env"
env = "office"
capture_traffic = true
[[step]]
kind = "collect_traffic_capture"
[[step]]
kind = "close_env"
"#;
const FAILING: &str = r#"
[[step]]
kind = "deploy_env"
env = "office"
capture_traffic = true
[[step]]
kind = "collect_traffic_capture"
fail_task_on_error = true
"#;
/// Nothing but the deploy: the teardown collects.
const NO_STEP: &str = "[[step]]\nkind = \"deploy_env\"\nenv = \"office\"\ncapture_traffic = true\n";
/// Five files, and 250 bytes that come until the last service stopped.
const CAPTURED: [usize; 5] = [1000, 1000, 1000, 1000, 400];
const TAIL: usize = 250;

fn capturing() -> Fakes {
    Fakes::default().with(|world| {
        world.captured = CAPTURED.to_vec();
        world.tail = TAIL;
    })
}

fn entry(record: &RunRecord) -> TrafficCaptures {
    record.traffic_captures(&record.deploys[0].deploy).expect("captures are on record")
}

fn generations(entry: &TrafficCaptures) -> Vec<u64> {
    entry.files.iter().map(|file| file.generation).collect()
}

/// What must be so at every moment, for a record as `run show` reads it: nothing that is stored is out of reach.
fn reachable(fakes: &Fakes, record: &RunRecord) {
    consistent(record);
    let world = fakes.0.lock().unwrap();
    for (id, universe) in &world.universes {
        let deploy = record
            .deploys
            .iter()
            .find(|deploy| record.traffic_captures(&deploy.deploy).is_some_and(|entry| entry.universe_id == *id));
        let entry = record.traffic_captures(&deploy.expect("every universe is on record").deploy).unwrap();
        for artifact in &universe.artifacts {
            let file = entry.files.iter().find(|file| file.name == artifact.name);
            let file = file.unwrap_or_else(|| panic!("{} is not listed: {entry:?}", artifact.name));
            assert!(file.artifact == artifact.id || file.bytes >= artifact.size, "a longer one is listed");
        }
        for file in &entry.files {
            let stored = &world.artifacts[&file.artifact];
            assert_eq!(*stored, bytes(file.generation, stored.len()), "{}", file.name);
            assert_eq!(stored.len() as u64, file.bytes);
            let listed: Vec<_> = record.artifacts.iter().filter(|artifact| artifact.name == file.name).collect();
            assert_eq!(listed.len(), 1, "{} is among the run's artifacts once", file.name);
            assert!(listed[0].id == file.artifact && listed[0].sensitive && listed[0].universe.as_ref() == Some(id));
        }
        assert_eq!(entry.is_complete(), entry.reason.is_none(), "{entry:?}");
        if entry.is_complete() {
            assert!(entry.not_stored.is_empty() && entry.rotated_away.is_empty(), "{entry:?}");
        }
    }
}

/// Everything of the deploy is stored, and nothing of it is on disk any more.
fn all_is_stored(fakes: &Fakes, record: &RunRecord) {
    reachable(fakes, record);
    let entry = entry(record);
    assert_eq!((entry.status, &entry.reason), (CollectionStatus::Complete, &None));
    let sizes: Vec<u64> = entry.files.iter().map(|file| file.bytes).collect();
    assert_eq!(sizes, [1000, 1000, 1000, 1000, 650], "with what came until the last service stopped");
    let world = fakes.0.lock().unwrap();
    assert!(world.rings.is_empty(), "nothing stays on disk");
    assert_eq!(world.universes.len(), 1);
    let universe = &world.universes[&entry.universe_id];
    assert_eq!(universe.artifacts.len(), 5, "what was replaced is forgotten");
    assert_eq!(universe.document["status"], "complete");
    assert_eq!(universe.document["files"].as_array().unwrap().len(), 5);
}

async fn show(fakes: &Fakes) -> RunRecord {
    let run = fakes.record().run;
    fakes.get(&run).await.unwrap()
}

fn deploy_of(fakes: &Fakes) -> DeployId {
    fakes.0.lock().unwrap().ever[0].clone()
}

#[tokio::test(start_paused = true)]
async fn cap_6_each_file_is_on_record_before_the_next_download_begins() {
    let fakes = capturing();
    let record = run(&fakes, STEPS).await;
    assert_eq!(record.outcome, Some(Outcome::Passed), "{:?}", record.reason);
    assert!(record.warnings.is_empty() && record.steps.iter().all(|step| step.warnings.is_empty()));
    all_is_stored(&fakes, &record);
    let calls = fakes.0.lock().unwrap().calls.clone();
    let begin = calls.iter().position(|call| call == "list_captures").unwrap();
    let mut expected = vec!["list_captures".to_owned(), "update".to_owned(), "create_universe".to_owned()];
    for generation in 1..=5 {
        expected.push(format!("open shop.{generation}.pcap"));
        expected.push(format!("put_capture traffic/shop/{generation:010}.pcap"));
        expected.extend(["update_universe", "update"].map(str::to_owned));
    }
    assert_eq!(calls[begin..begin + expected.len()], expected);
    // The close collects nothing again, but for the file that grew: what is collected is not collected again.
    let rest = &calls[begin + expected.len()..];
    let puts: Vec<&String> = rest.iter().filter(|call| call.starts_with("put_capture")).collect();
    assert_eq!(puts, ["put_capture traffic/shop/0000000005.pcap"]);
    let close = rest.iter().position(|call| call.starts_with("close")).unwrap();
    assert!(rest[..close].iter().all(|call| !call.starts_with("list_captures")), "it was complete before the close");
    assert_eq!(record.steps[1].summary.as_deref(), Some("5 files are stored, 4400 bytes"));
    assert_eq!(record.steps[1].result["status"], "complete");
    assert_eq!(entry(&record).env_id, record.deploys[0].deploy);
    assert_eq!(entry(&record).files[4].name, "traffic/shop/0000000005.pcap");
}

#[tokio::test(start_paused = true)]
async fn cap_7_the_teardown_collects_what_the_run_did_not() {
    for steps in [NO_STEP.to_owned(), NO_STEP.to_owned() + "[[step]]\nkind = \"close_env\"\n"] {
        let fakes = capturing();
        let record = run(&fakes, &steps).await;
        assert_eq!((record.outcome, record.warnings.len()), (Some(Outcome::Passed), 0));
        all_is_stored(&fakes, &record);
        let calls = fakes.0.lock().unwrap().calls.clone();
        let close = calls.iter().position(|call| call.starts_with("close")).unwrap();
        assert_eq!(calls[..close].iter().filter(|call| call.starts_with("put_capture")).count(), 5, "before the close");
        assert_eq!(calls[close..].iter().filter(|call| call.starts_with("put_capture")).count(), 1, "and the rest");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_captures_nothing_has_nothing_on_record() {
    let fakes = capturing();
    let record = run(&fakes, &NO_STEP.replace("capture_traffic = true\n", "")).await;
    assert!(record.context.metadata.is_empty() && fakes.0.lock().unwrap().universes.is_empty());
    assert!(fakes.0.lock().unwrap().calls.iter().all(|call| !call.contains("capture")));
    // Nor has one whose deploy never was: it may have captured, and the folder says that it did not.
    let fakes = Fakes::default().fault(2, Fault::Fail);
    let record = run(&fakes, NO_STEP).await;
    assert_eq!(record.outcome, Some(Outcome::InfrastructureError));
    assert!(record.context.metadata.is_empty() && record.warnings.is_empty(), "{:?}", record.warnings);
}

#[tokio::test(start_paused = true)]
async fn row_72_a_runner_killed_at_every_point_leaves_no_stored_file_out_of_reach() {
    for steps in [STEPS, NO_STEP] {
        let calls = calls_of(&capturing(), steps).await;
        // Before the deploy there is nothing of captures.
        for (number, call) in calls.iter().enumerate().skip(3) {
            for fault in [Fault::Hang, Fault::HangAfter] {
                let what = format!("{number} {call} {fault:?}");
                let fakes = capturing().fault(number, fault);
                let home = tempfile::tempdir().unwrap();
                crash(&fakes, home.path(), steps).await;
                let record = show(&fakes).await;
                reachable(&fakes, &record);
                if record.state == RunState::Running
                    && let Some(entry) = record.traffic_captures(&deploy_of(&fakes))
                    && !entry.is_complete()
                {
                    assert!(entry.reason.is_some(), "{what}: it says why");
                }
                let runner = fakes.runner(home.path());
                let recovered = runner.resume(&record.run).await.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert_eq!(recovered.record.deploys[0].state, RunDeployState::Closed, "{what}");
                all_is_stored(&fakes, &recovered.record);
                let before = fakes.0.lock().unwrap().calls.len();
                assert!(!runner.resume(&record.run).await.unwrap().changed, "{what}: twice is harmless");
                let again = runner.rescue_run(&record.run).await.unwrap();
                assert_eq!((again[0].stored, &again[0].reason), (0, &None), "{what}");
                let after = fakes.0.lock().unwrap().calls[before..].to_vec();
                assert!(after.iter().all(|call| call != "update" && !call.starts_with("put")), "{what}: {after:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn row_72_recovery_killed_at_every_point_leaves_no_stored_file_out_of_reach() {
    let calls = calls_of(&capturing(), STEPS).await;
    let put = calls.iter().position(|call| call.contains("0000000003")).unwrap();
    let mut later = put + 1;
    loop {
        let fakes = capturing().fault(put, Fault::HangAfter).fault(later, Fault::HangAfter);
        let home = tempfile::tempdir().unwrap();
        crash(&fakes, home.path(), STEPS).await;
        let record = show(&fakes).await;
        assert_eq!(generations(&entry(&record)), [1, 2, 3], "the third is stored, and not yet on record");
        let runner = fakes.runner(home.path());
        let first = tokio::time::timeout(Duration::from_secs(1), runner.resume(&record.run)).await;
        reachable(&fakes, &show(&fakes).await);
        let record = runner.resume(&record.run).await.unwrap().record;
        all_is_stored(&fakes, &record);
        if first.is_ok() && fakes.0.lock().unwrap().calls.len() <= later {
            assert!(later > put + 15, "recovery has many points");
            break;
        }
        later += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn row_72_each_call_that_fails_once_is_a_warning_and_the_teardown_stores_the_rest() {
    let calls = calls_of(&capturing(), STEPS).await;
    let begin = calls.iter().position(|call| call == "list_captures").unwrap();
    let end = calls.iter().position(|call| call.starts_with("close")).unwrap();
    for (number, call) in calls.iter().enumerate().take(end).skip(begin) {
        for fault in [Fault::Fail, Fault::Hang, Fault::HangAfter] {
            let what = format!("{number} {call} {fault:?}");
            let fakes = capturing().fault(number, fault);
            let home = tempfile::tempdir().unwrap();
            let task = planned(&fakes, &STEPS.replace("_capture\"\n", "_capture\"\ntimeout_s = 30\n")).await;
            let (_sender, stop) = stop();
            let runner = fakes.runner(home.path());
            let record = match tokio::time::timeout(Duration::from_secs(3600), runner.run(task, &stop)).await {
                Ok(record) => record.unwrap_or_else(|error| panic!("{what}: {error}")),
                // The step's own record is waited for without end: nothing may happen that is not on record.
                Err(_) if call == "update" => continue,
                Err(_) => panic!("{what}: it hangs"),
            };
            all_is_stored(&fakes, &record);
            assert_eq!(record.steps.len(), 3);
            if call == "update" && record.outcome != Some(Outcome::Passed) {
                // The step's own record could not be kept.
                assert_eq!(record.outcome, Some(Outcome::InfrastructureError), "{what}");
                continue;
            }
            assert_eq!(record.outcome, Some(Outcome::Passed), "{what}: {:?}", record.reason);
            let last = calls[number + 1..end].iter().all(|call| call == "update");
            assert!(last || record.steps[1].warnings.len() == 1, "{what}: {:?}", record.steps[1].warnings);
        }
    }
}

/// What keeps happening, what is stored all the same, and what the record says.
const BROKEN: [(&str, Fault, &[u64], &str); 6] = [
    ("captures", Fault::Fail, &[], "its record is torn"),
    ("open shop.3.pcap", Fault::Hang, &[1, 2], "it was not done within"),
    ("put_capture traffic/shop/0000000004.pcap", Fault::Fail, &[1, 2, 3], "shop.4.pcap: the disk is full"),
    ("open shop.2.pcap", Fault::Fail, &[1], "shop.2.pcap: the gateway is gone"),
    ("list_captures", Fault::Fail, &[], "the captures cannot be listed: the gateway is gone"),
    ("open shop.1.pcap", Fault::Gone, &[2, 3, 4, 5], "shop.1.pcap was removed before it was stored"),
];

#[tokio::test(start_paused = true)]
async fn row_73_what_fails_for_good_leaves_what_was_stored_and_a_rescue_completes_it() {
    for (call, fault, stored, reason) in BROKEN {
        for (steps, outcome) in
            [(STEPS, Outcome::Passed), (FAILING, Outcome::InfrastructureError), (NO_STEP, Outcome::Passed)]
        {
            let what = format!("{call} {fault:?} {outcome}");
            let fakes = capturing().broken(call, fault);
            let home = tempfile::tempdir().unwrap();
            let task = planned(&fakes, steps).await;
            let (_sender, stop) = stop();
            let runner = fakes.runner(home.path());
            let record = runner.run(task, &stop).await.unwrap();
            assert_eq!(record.outcome, Some(outcome), "{what}: {:?}", record.reason);
            assert_eq!(record.deploys[0].state, RunDeployState::Closed);
            let read = show(&fakes).await;
            reachable(&fakes, &read);
            let entry = entry(&read);
            assert_eq!((entry.status, generations(&entry).as_slice()), (CollectionStatus::Partial, stored), "{what}");
            assert!(entry.reason.as_ref().unwrap().contains(reason), "{what}: {:?}", entry.reason);
            let document = fakes.0.lock().unwrap().universes[&entry.universe_id].document.clone();
            assert_eq!(
                (&document["status"], document["reason"].as_str()),
                (&"partial".into(), entry.reason.as_deref())
            );
            if outcome == Outcome::InfrastructureError {
                let said = record.reason.as_ref().unwrap();
                assert!(said.starts_with("step 2 collect_traffic_capture: the traffic of d-"), "{said}");
                assert!(record.steps[1].hint.as_ref().unwrap().contains("traffic rescue d-"));
            }
            let named = record.steps.iter().flat_map(|step| &step.warnings).chain(&record.warnings);
            assert!(named.clone().any(|warning| warning.contains("traffic rescue")), "{what}");

            fakes.with(|world| world.broken.clear());
            let deploy = record.deploys[0].deploy.clone();
            let rescued = runner.rescue_deploy(&deploy).await.unwrap();
            assert_eq!(rescued.run.as_ref(), Some(&record.run));
            if fault == Fault::Gone {
                // Nothing brings it back.
                assert_eq!(entry.rotated_away, [capture_id(1)]);
                assert_eq!(rescued.captures.unwrap().status, CollectionStatus::Partial);
                assert!(rescued.reason.unwrap().contains(reason));
                continue;
            }
            assert_eq!((rescued.stored, &rescued.reason), (5 - stored.len(), &None), "{what}");
            all_is_stored(&fakes, &show(&fakes).await);
            assert_eq!(runner.rescue_deploy(&deploy).await.unwrap().stored, 0, "twice is harmless");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_kept_stops_the_downloads() {
    let calls = calls_of(&capturing(), STEPS).await;
    let third = calls.iter().position(|call| call == "open shop.3.pcap").unwrap();
    for number in [third - 1, third - 2] {
        let fakes = capturing().fault(number, Fault::Fail);
        let record = run(&fakes, STEPS).await;
        all_is_stored(&fakes, &record);
        let calls = fakes.0.lock().unwrap().calls.clone();
        let next = calls[number..].iter().position(|call| call == "open shop.3.pcap").unwrap();
        let close = calls[number..].iter().position(|call| call.starts_with("close")).unwrap();
        let listed = calls[number..].iter().position(|call| call == "list_captures").unwrap();
        assert!(listed < next && listed < close, "the close step's collection goes on with it");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_on_record_does_not_go_from_disk() {
    let calls = calls_of(&capturing(), NO_STEP).await;
    let discard = calls.iter().position(|call| call == "discard").unwrap();
    let last = calls[..discard].iter().rposition(|call| call == "update").unwrap();
    let fakes = capturing().fault(last, Fault::Fail);
    let home = tempfile::tempdir().unwrap();
    let task = planned(&fakes, NO_STEP).await;
    let (_sender, stop) = stop();
    let runner = fakes.runner(home.path());
    let record = runner.run(task, &stop).await.unwrap();
    assert_eq!(record.outcome, Some(Outcome::Passed));
    assert!(record.warnings[0].contains("could not be put on record"), "{:?}", record.warnings);
    reachable(&fakes, &show(&fakes).await);
    assert_eq!(fakes.0.lock().unwrap().rings[&record.deploys[0].deploy].len(), 5);
    assert_eq!(runner.rescue_run(&record.run).await.unwrap()[0].reason, None);
    all_is_stored(&fakes, &show(&fakes).await);
}

#[tokio::test(start_paused = true)]
async fn an_imported_run_stays_as_it_came() {
    let fakes = capturing().broken("open shop.3.pcap", Fault::Fail);
    let home = tempfile::tempdir().unwrap();
    let task = planned(&fakes, NO_STEP).await;
    let (_sender, stop) = stop();
    let runner = fakes.runner(home.path());
    let run = runner.run(task, &stop).await.unwrap().run;
    fakes.with(|world| {
        world.records.values_mut().for_each(|record| record.imported = true);
        // Nothing of its deploys was ever here.
        world.rings.clear();
        world.broken.clear();
        world.calls.clear();
    });
    let before = show(&fakes).await;
    let rescued = runner.rescue_run(&run).await.unwrap();
    assert!(rescued[0].reason.as_ref().unwrap().contains("shop.3.pcap"));
    assert_eq!(rescued[0].captures, Some(entry(&before)));
    assert_eq!(show(&fakes).await, before);
    assert!(fakes.0.lock().unwrap().calls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_file_that_grew_is_stored_anew_and_the_shorter_one_is_forgotten() {
    let fakes = capturing();
    let steps = STEPS.replace(
        "[[step]]\nkind = \"close_env\"",
        "[[step]]\nkind = \"load_data\"\ndata = { shop = {} }\n[[step]]\nkind = \"collect_traffic_capture\"",
    );
    let task = planned(&fakes, &steps).await;
    let home = tempfile::tempdir().unwrap();
    let (_sender, stop) = stop();
    let grown = fakes.clone();
    let mut runner = fakes.runner(home.path());
    let inner = runner.events.clone();
    runner.events = crate::Events::to(move |event| {
        inner.send(event);
        // Between the two collections a new file begins.
        if matches!(event, Event::StepStarted { step: 2, .. }) {
            let mut world = grown.0.lock().unwrap();
            let deploy = world.ever[0].clone();
            world.grow(&deploy, 100);
            world.rotate(&deploy, 50);
        }
    });
    let record = runner.run(task, &stop).await.unwrap();
    reachable(&fakes, &record);
    let entry = entry(&record);
    let sizes: Vec<u64> = entry.files.iter().map(|file| file.bytes).collect();
    assert_eq!((sizes, entry.is_complete()), (vec![1000, 1000, 1000, 1000, 500, 50 + TAIL as u64], true));
    let world = fakes.0.lock().unwrap();
    let count = |name: &str| world.calls.iter().filter(|call| call.ends_with(name)).count();
    let puts: Vec<usize> =
        (1..=6).map(|generation| count(&format!("put_capture traffic/shop/{generation:010}.pcap"))).collect();
    assert_eq!(puts, [1, 1, 1, 1, 2, 2]);
    assert_eq!(world.universes[&entry.universe_id].artifacts.len(), 6);
    assert_eq!(count("remove_artifact"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_to_stop_ends_the_collection_and_the_teardown_goes_on_with_it() {
    for call in ["open shop.3.pcap", "put_capture traffic/shop/0000000003.pcap", "list_captures"] {
        let number = calls_of(&capturing(), STEPS).await.iter().position(|one| one == call).unwrap();
        let fakes = capturing().fault(number, Fault::HangAfter);
        let home = tempfile::tempdir().unwrap();
        let task = planned(&fakes, STEPS).await;
        let (sender, stop) = stop();
        let runner = fakes.runner(home.path());
        let begun = tokio::time::Instant::now();
        let (record, ()) = tokio::join!(runner.run(task, &stop), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            sender.ask("SIGINT");
        });
        assert!(begun.elapsed() < Duration::from_secs(2), "{call}: at once");
        let record = record.unwrap();
        assert_eq!(record.outcome, Some(Outcome::InfrastructureError));
        assert_eq!(record.interrupted.as_deref(), Some("SIGINT"));
        all_is_stored(&fakes, &record);
    }
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_hangs_does_not_keep_a_close_step_from_closing() {
    let steps = NO_STEP.to_owned() + "[[step]]\nkind = \"close_env\"\ntimeout_s = 5\n";
    let fakes = capturing().broken("list_captures", Fault::Hang);
    let record = run(&fakes, &steps).await;
    assert_eq!(record.outcome, Some(Outcome::Passed), "{:?}", record.reason);
    assert_eq!(record.deploys[0].state, RunDeployState::Closed);
    assert!(record.steps[1].warnings[0].contains("is not stored whole"), "{:?}", record.steps[1].warnings);
    assert!(!entry(&record).is_complete());
}

#[tokio::test(start_paused = true)]
async fn cap_4_the_gaps_of_a_ring_are_on_record_and_said() {
    let gap = CaptureGap {
        from: "2026-01-01T00:00:00.000000Z".to_owned(),
        to: Some("2026-01-01T00:00:02.000000Z".to_owned()),
        reason: "its thread ended".to_owned(),
        next_generation: Some(3),
    };
    let fakes = capturing().with(|world| world.gaps.push(gap.clone()));
    let record = run(&fakes, STEPS).await;
    all_is_stored(&fakes, &record);
    assert_eq!(entry(&record).rings[0].gaps, [gap]);
    let said = "the traffic of shop was not recorded from 2026-01-01T00:00:00.000000Z to 2026-01-01T00:00:02.000000Z: its thread ended";
    assert_eq!(record.steps[1].warnings, [said]);
    assert_eq!(record.deploys[0].degraded, [said], "the deploy was not well");
    assert!(record.steps[2].warnings.is_empty(), "said once");
}

#[tokio::test(start_paused = true)]
async fn a_deploy_outside_any_run_is_rescued_for_itself() {
    let fakes = capturing();
    let home = tempfile::tempdir().unwrap();
    let deploy = DeployId::random();
    std::fs::create_dir_all(home.path().join("deploys").join(deploy.as_str())).unwrap();
    fakes.with(|world| {
        world.capture(&deploy);
        world.broken.insert("put_capture traffic/shop/0000000004.pcap".to_owned(), Fault::Fail);
    });
    let runner = fakes.runner(home.path());
    let rescued = runner.rescue_deploy(&deploy).await.unwrap();
    assert_eq!((rescued.run, rescued.stored), (None, 3));
    assert!(rescued.reason.unwrap().contains("the disk is full"));
    assert_eq!(fakes.0.lock().unwrap().rings[&deploy].len(), 5, "all of it stays until all of it is stored");
    fakes.with(|world| world.broken.clear());
    let rescued = runner.rescue_deploy(&deploy).await.unwrap();
    assert_eq!((rescued.stored, rescued.reason), (2, None));
    let entry = runner.captures_outside(&deploy).await.unwrap().unwrap();
    assert_eq!((Some(&entry), generations(&entry)), (rescued.captures.as_ref(), vec![1, 2, 3, 4, 5]));
    let world = fakes.0.lock().unwrap();
    assert!(world.rings.is_empty() && world.universes.len() == 1);
}

#[tokio::test(start_paused = true)]
async fn two_commands_do_not_store_the_same_captures_at_once() {
    let fakes = capturing();
    let home = tempfile::tempdir().unwrap();
    let deploy = DeployId::random();
    std::fs::create_dir_all(home.path().join("deploys").join(deploy.as_str())).unwrap();
    fakes.with(|world| world.capture(&deploy));
    let runner = fakes.runner(home.path());
    let fakes = fakes.broken("open shop.3.pcap", Fault::Hang);
    let first = runner.rescue_deploy(&deploy);
    tokio::pin!(first);
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut first).await.is_err());
    let second = runner.rescue_deploy(&deploy).await.unwrap_err();
    assert!(matches!(second, crate::RescueError::Busy(_)), "{second}");
    assert_eq!(second.exit(), agentenv_protocol::ExitCode::Refused);
    assert_eq!(fakes.0.lock().unwrap().universes.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_is_not_rescued() {
    let fakes = capturing().broken("open shop.3.pcap", Fault::Hang);
    let home = tempfile::tempdir().unwrap();
    let task = planned(&fakes, STEPS).await;
    let (_sender, stop) = stop();
    let runner = fakes.runner(home.path());
    let running = runner.run(task, &stop);
    tokio::pin!(running);
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut running).await.is_err());
    let deploy = deploy_of(&fakes);
    let refused = runner.rescue_deploy(&deploy).await.unwrap_err();
    assert!(matches!(refused, crate::RescueError::Run(RunError::Alive(_))), "{refused}");
    assert_eq!(refused.exit(), agentenv_protocol::ExitCode::Refused);
}
