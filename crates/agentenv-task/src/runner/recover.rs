//! Runs whose runner died: what they left is closed and their record is ended. Nothing is run again: an agent's work in
//! a site cannot be taken up in the middle, so an interrupted run ends as `infrastructure_error`, or as it would have
//! ended where only its teardown was cut short.

use std::{collections::BTreeMap, fs};

use agentenv_protocol::{Home, RunId};
use jiff::Timestamp;

use super::{Live, RunError, Runner};
use crate::{
    outcome::{Failure, Outcome},
    record::{RunRecord, RunState, StepState},
    run_dir::RunDir,
    run_log::LogError,
    strays,
};

/// What became of an interrupted run.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// The record, ended.
    pub record: RunRecord,
    /// Whether there was something to do: not where the run was over.
    pub changed: bool,
}

impl Runner {
    /// Ends a run whose runner died: its programs are killed, what they wrote is stored, its deploys are closed, its
    /// outcome is recorded. A run that is over is left as it is, but for what could not be closed or stored.
    pub async fn resume(&self, run: &RunId) -> Result<Recovered, RunError> {
        let record = self.log.get(run).await?;
        let dir = self.run_dir(run);
        if record.imported || is_over(&record, &dir) && !dir.is_abandoned() {
            return Ok(Recovered { record, changed: false });
        }
        let folder = |source| RunError::Folder { path: dir.path().to_owned(), source };
        dir.create().map_err(folder)?;
        let lock = dir.lock().map_err(folder)?.ok_or_else(|| RunError::Alive(run.clone()))?;
        // Read again under the lock: somebody else may have ended it meanwhile.
        let record = self.log.get(run).await?;
        if is_over(&record, &dir) {
            lock.end().map_err(folder)?;
            return Ok(Recovered { record, changed: false });
        }
        let mut live = Live { runner: self, task: None, dir, record, infos: BTreeMap::new(), kept: true };
        if live.record.state == RunState::Running {
            mark(&mut live.record, Timestamp::now());
            strays::kill(run);
        }
        for step in 0..live.record.steps.len() {
            live.keep_files(step).await;
        }
        live.teardown().await;
        Ok(Recovered { record: live.finish(lock).await?, changed: true })
    }

    /// Forgets a run that died before it was on record: nothing of it exists but its folder.
    fn forget(&self, run: &RunId) -> Result<(), RunError> {
        let dir = self.run_dir(run);
        let folder = |source| RunError::Folder { path: dir.path().to_owned(), source };
        let Some(_lock) = dir.lock().map_err(folder)? else { return Ok(()) };
        fs::remove_dir_all(dir.path()).map_err(folder)
    }

    /// Ends every run of this home whose runner died, found by the folders alone. Returns what became of each; one that
    /// cannot be ended is left for the next time.
    pub async fn reap(&self) -> Vec<Result<Recovered, (RunId, RunError)>> {
        let mut done = Vec::new();
        for run in abandoned_runs(&self.home) {
            match self.resume(&run).await {
                Ok(recovered) => done.push(Ok(recovered)),
                // Its runner is new, or another reaper works on it.
                Err(RunError::Alive(_)) => {}
                Err(RunError::Log(LogError::NoRun(_))) => {
                    if let Err(error) = self.forget(&run) {
                        done.push(Err((run, error)));
                    }
                }
                Err(error) => done.push(Err((run, error))),
            }
        }
        done
    }
}

/// The runs of a home that have a lock file and no living runner. Reads the folders alone, so it may be asked often.
pub fn abandoned_runs(home: &Home) -> Vec<RunId> {
    let Ok(folders) = fs::read_dir(home.runs()) else { return Vec::new() };
    let runs = folders.flatten().filter_map(|entry| RunId::parse(entry.file_name().to_str()?).ok());
    let mut abandoned: Vec<RunId> = runs.filter(|run| RunDir::new(home.run(run)).is_abandoned()).collect();
    abandoned.sort();
    abandoned
}

fn is_over(record: &RunRecord, dir: &RunDir) -> bool {
    record.state == RunState::Done && record.open_deploys().next().is_none() && !dir.has_files()
}

/// Writes into the record how a run ended whose runner is dead.
fn mark(record: &mut RunRecord, now: Timestamp) {
    if record.outcome.is_some() {
        // Its end was on record: only its teardown, or an earlier recovery, was cut short.
        record.interrupted.get_or_insert_with(|| "the runner ended during its teardown".to_owned());
        return;
    }
    let running = record.running_step().map(|(index, step)| (index, step.label().to_owned()));
    let first_failed =
        record.steps.iter().position(|step| step.outcome.is_some_and(|outcome| outcome != Outcome::Passed));
    let all_passed = record.steps.iter().all(|step| step.outcome == Some(Outcome::Passed));
    let place = match &running {
        Some((index, label)) => format!("during step {} {label}", index + 1),
        None if all_passed || first_failed.is_some() => "during its teardown".to_owned(),
        None if record.steps.iter().all(|step| step.state == StepState::Pending) => "before its first step".to_owned(),
        None => "between two steps".to_owned(),
    };
    let message = format!("the runner ended {place}");
    if let Some((index, _)) = running {
        let failure = Failure::new(Outcome::InfrastructureError, message.clone());
        let step = &mut record.steps[index];
        let since = step.started_at.map_or(0, |started| now.duration_since(started).as_millis());
        step.end(now, u64::try_from(since).unwrap_or(0), Err(&failure));
    }
    for step in record.steps.iter_mut().filter(|step| step.state == StepState::Pending) {
        step.state = StepState::Skipped;
    }
    if let Some(failed) = first_failed {
        let step = &record.steps[failed];
        record.outcome = step.outcome;
        record.reason =
            Some(format!("step {} {}: {}", failed + 1, step.label(), step.message.as_deref().unwrap_or_default()));
    } else if all_passed {
        record.outcome = Some(Outcome::Passed);
    } else {
        record.outcome = Some(Outcome::InfrastructureError);
        record.reason = Some(message.clone());
    }
    record.interrupted = Some(message);
}
