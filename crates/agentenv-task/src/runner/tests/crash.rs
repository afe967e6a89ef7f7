//! The runner dropped at every point: what `kill -9` leaves. The record must be readable and true, and recovery must
//! leave nothing.

use std::time::Duration;

use super::{
    STEPS, calls_of, consistent, crash,
    fakes::{Fakes, Fault},
    planned,
};
use crate::{Outcome, RunDeployState, RunState, StepState, abandoned_runs, stop};

#[tokio::test(start_paused = true)]
async fn row_67_a_runner_killed_at_every_point_leaves_a_true_record_and_recovery_leaves_nothing() {
    let calls = calls_of(&Fakes::default(), STEPS).await;
    for number in 0..calls.len() {
        for fault in [Fault::Hang, Fault::HangAfter] {
            let fakes = Fakes::default().fault(number, fault);
            let home = tempfile::tempdir().unwrap();
            crash(&fakes, home.path(), STEPS).await;
            let what = format!("{} {fault:?}", calls[number]);
            let runner = fakes.runner(home.path());
            if fakes.0.lock().unwrap().records.is_empty() {
                // Killed before anything was on record: then nothing exists, and the folder means nothing.
                assert!(fakes.0.lock().unwrap().ever.is_empty(), "{what}");
                assert!(runner.reap().await.is_empty());
                assert!(abandoned_runs(&runner.home).is_empty(), "{what}: its folder is gone");
                continue;
            }
            let record = fakes.record();
            consistent(&record);
            for deploy in &fakes.0.lock().unwrap().ever {
                assert!(
                    record.deploys.iter().any(|entry| entry.deploy == *deploy),
                    "{what}: {deploy} was not announced"
                );
            }
            assert!(!runner.is_alive(&record), "{what}");
            let last_save = calls.len() - 1 == number && fault == Fault::HangAfter;
            assert_eq!(record.state == RunState::Done, last_save, "{what}");
            assert_eq!(abandoned_runs(&runner.home), std::slice::from_ref(&record.run), "{what}");

            let recovered = runner.resume(&record.run).await.unwrap();
            assert_eq!(recovered.changed, !last_save, "{what}");
            consistent(&recovered.record);
            assert_eq!(recovered.record, fakes.record());
            assert_eq!(recovered.record.state, RunState::Done);
            assert!(fakes.0.lock().unwrap().alive.is_empty(), "{what}");
            assert!(recovered.record.deploys.iter().all(|entry| entry.state == RunDeployState::Closed), "{what}");
            if let Some((index, step)) = record.running_step() {
                let reason = recovered.record.reason.clone().unwrap();
                assert_eq!(reason, format!("the runner ended during step {} {}", index + 1, step.label()));
                assert_eq!(recovered.record.outcome, Some(Outcome::InfrastructureError));
            }
            assert!(abandoned_runs(&runner.home).is_empty(), "{what}: nobody looks at it again");
            assert!(!runner.resume(&record.run).await.unwrap().changed, "idempotent");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn row_68_recovery_killed_at_every_point_is_taken_up_again() {
    let calls = calls_of(&Fakes::default(), STEPS).await;
    let load = calls.iter().position(|call| call == "load").unwrap();
    let mut later = load + 1;
    loop {
        let fakes = Fakes::default().with(|world| {
            world.faults.insert(load, Fault::HangAfter);
            world.faults.insert(later, Fault::HangAfter);
        });
        let home = tempfile::tempdir().unwrap();
        crash(&fakes, home.path(), STEPS).await;
        let run = fakes.record().run;
        let runner = fakes.runner(home.path());
        // Longer than any limit of recovery: only a hanging save ends here.
        let first = tokio::time::timeout(Duration::from_secs(3600), runner.resume(&run)).await;
        consistent(&fakes.record());
        let reaped = runner.reap().await;
        assert!(reaped.iter().all(Result::is_ok));
        let record = runner.resume(&run).await.unwrap().record;
        consistent(&record);
        assert_eq!((record.state, record.outcome), (RunState::Done, Some(Outcome::InfrastructureError)));
        assert_eq!(record.reason.as_deref(), Some("the runner ended during step 2 load_data"));
        assert_eq!(record.steps[2].state, StepState::Skipped);
        assert!(fakes.0.lock().unwrap().alive.is_empty());
        if first.is_ok() && fakes.0.lock().unwrap().calls.len() <= later {
            assert!(later > load + 3, "recovery has several points");
            break;
        }
        later += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_is_not_touched() {
    let calls = calls_of(&Fakes::default(), STEPS).await;
    let load = calls.iter().position(|call| call == "load").unwrap();
    let fakes = Fakes::default().fault(load, Fault::Hang);
    let home = tempfile::tempdir().unwrap();
    let task = planned(&fakes, STEPS).await;
    let (_sender, stop) = stop();
    let runner = fakes.runner(home.path());
    let running = runner.run(task, &stop);
    tokio::pin!(running);
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut running).await.is_err());
    let record = fakes.record();
    assert!(runner.is_alive(&record));
    assert!(abandoned_runs(&runner.home).is_empty());
    assert!(matches!(runner.resume(&record.run).await, Err(crate::RunError::Alive(_))));
    assert_eq!(fakes.0.lock().unwrap().alive.len(), 1);
    assert_eq!(running.await.unwrap().outcome, Some(Outcome::TimedOut), "it went on");
}

#[tokio::test(start_paused = true)]
async fn a_run_killed_in_its_teardown_keeps_its_outcome() {
    let steps = STEPS.split("[[step]]\nkind = \"close_env\"").next().unwrap();
    let calls = calls_of(&Fakes::default(), steps).await;
    let close = calls.iter().position(|call| call.starts_with("close")).unwrap();
    for (steps, outcome) in
        [(steps.to_owned(), Outcome::Passed), (steps.replace("equals = 1", "equals = 2"), Outcome::Failed)]
    {
        // Where the check fails, reset_env and its two saves are left out.
        let close = if outcome == Outcome::Passed { close } else { close - 3 };
        let fakes = Fakes::default().fault(close, Fault::Hang);
        let home = tempfile::tempdir().unwrap();
        let task = planned(&fakes, &steps).await;
        let (_sender, stop) = stop();
        let runner = fakes.runner(home.path());
        assert!(tokio::time::timeout(Duration::from_secs(1), runner.run(task, &stop)).await.is_err());
        assert!(fakes.0.lock().unwrap().calls[close].starts_with("close"));
        let record = runner.reap().await.pop().unwrap().unwrap().record;
        assert_eq!(record.outcome, Some(outcome));
        assert_eq!(record.interrupted.as_deref(), Some("the runner ended during its teardown"));
        consistent(&record);
    }
}
