//! The runner: one task, step by step, each change on record before it happens.
//!
//! Phases are types: [`crate::Task`] (parsed) -> [`PlannedTask`] (may be run) -> `Live` (being run) -> [`RunRecord`].

mod captures;
mod ending;
mod live;
mod recover;
mod say;
mod steps;
#[cfg(test)]
mod tests;

use std::{io, path::PathBuf, sync::Arc};

use agentenv_protocol::{Home, RunId};
use jiff::Timestamp;

use crate::{
    deploys::Deploys,
    event::{Event, Events},
    plan::PlannedTask,
    record::{RunRecord, RunState},
    run_dir::RunDir,
    run_log::{LogError, RunLog},
    stop::Stop,
};
use live::Live;

pub use recover::{Recovered, abandoned_runs};

/// Runs tasks and tidies up after runs whose runner died.
#[derive(Clone)]
pub struct Runner {
    pub(crate) home: Home,
    pub(crate) deploys: Arc<dyn Deploys>,
    pub(crate) log: Arc<dyn RunLog>,
    pub(crate) events: Events,
}

/// Why a run could not be begun, or its end not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The run's folder cannot be made or locked.
    #[error("{path}: {source}")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// The record cannot be read, or the first one not be kept: nothing exists.
    #[error("{0}")]
    Log(#[from] LogError),
    /// The run is over, everything was closed as far as it could be, and the store took no record of it.
    #[error("the end of run {} could not be recorded: {source}", record.run)]
    NotRecorded {
        /// What should have been recorded.
        record: Box<RunRecord>,
        /// Why not.
        source: LogError,
    },
    /// Somebody else works on the run.
    #[error("run {0} is still going on")]
    Alive(RunId),
}

impl Runner {
    /// Joins what a runner needs.
    pub fn new(home: Home, deploys: Arc<dyn Deploys>, log: Arc<dyn RunLog>, events: Events) -> Self {
        Self { home, deploys, log, events }
    }

    /// Runs the task. Whatever happens in it is in the record that it returns, not an error; everything that it deployed
    /// is closed, also when `stop` asks for an early end.
    pub async fn run(&self, task: PlannedTask, stop: &Stop) -> Result<RunRecord, RunError> {
        self.run_as(RunId::random(), task, stop).await
    }

    pub(crate) async fn run_as(&self, run: RunId, task: PlannedTask, stop: &Stop) -> Result<RunRecord, RunError> {
        let dir = self.run_dir(&run);
        let folder = |source| RunError::Folder { path: dir.path().to_owned(), source };
        dir.create().map_err(folder)?;
        let lock = dir.lock().map_err(folder)?.ok_or_else(|| RunError::Alive(run.clone()))?;
        let record = RunRecord::new(run, task.task(), Timestamp::now());
        self.log.create(&record).await?;
        self.events.send(&Event::RunStarted {
            time: record.created_at,
            run: record.run.clone(),
            task: record.task.to_string(),
            steps: record.steps.len(),
        });
        let mut live = Live::new(self, &task, dir, record);
        live.steps(stop).await;
        live.teardown().await;
        live.finish(lock).await
    }

    /// Whether the run's runner lives. A record that is `running` without one is that of an interrupted run.
    pub fn is_alive(&self, record: &RunRecord) -> bool {
        record.state == RunState::Running && self.run_dir(&record.run).is_alive().unwrap_or(false)
    }

    pub(crate) fn run_dir(&self, run: &RunId) -> RunDir {
        RunDir::new(self.home.run(run))
    }
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("home", &self.home).finish_non_exhaustive()
    }
}
