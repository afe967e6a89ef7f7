//! How a run ends: what steps wrote is stored, what is open is closed, the outcome is recorded.

use std::{collections::BTreeMap, time::Duration};

use agentenv_protocol::DeployId;
use jiff::Timestamp;
use tokio::time::timeout;

use super::{RunError, live::Live};
use crate::{
    collect,
    event::Event,
    outcome::Outcome,
    record::{RunDeployState, RunRecord, RunState, TeardownRecord},
    run_dir::RunLock,
    run_log::NewFile,
};

/// How long teardown waits for one deploy: its processes get TERM, grace and KILL, and the proof that nothing is left.
const CLOSE_DEADLINE: Duration = Duration::from_secs(120);
/// How long one file may take to be stored: 8 GB on a slow disk.
const STORE_DEADLINE: Duration = Duration::from_secs(120);

impl Live<'_> {
    /// Collects the traffic of everything that is open and closes it, the youngest first. A failure is recorded and never
    /// replaces the outcome.
    pub async fn teardown(&mut self) {
        let closed = self.closed_with_captures();
        let open: Vec<DeployId> = self.record.open_deploys().rev().map(|deploy| deploy.deploy.clone()).collect();
        let started_at = Timestamp::now();
        self.record.teardown = Some(TeardownRecord { started_at, ended_at: None, failed: BTreeMap::new() });
        for entry in self.record.deploys.iter_mut().filter(|entry| open.contains(&entry.deploy)) {
            entry.state = RunDeployState::Closing;
        }
        self.save_or_warn().await;
        if !open.is_empty() {
            self.runner.events.send(&Event::TeardownStarted { time: started_at, deploys: open.clone() });
        }
        let mut failed = BTreeMap::new();
        for deploy in &open {
            self.collect_before_close(None, deploy, None).await;
            let closed = match timeout(CLOSE_DEADLINE, self.runner.deploys.close(deploy)).await {
                Ok(closed) => closed.map_err(|error| error.message),
                Err(_) => Err(format!("it was not closed within {} s", CLOSE_DEADLINE.as_secs())),
            };
            let state = if closed.is_ok() { RunDeployState::Closed } else { RunDeployState::CloseFailed };
            if let Some(entry) = self.record.deploys.iter_mut().find(|entry| entry.deploy == *deploy) {
                entry.state = state;
            }
            if let Err(message) = closed {
                self.warn(None, format!("deploy {deploy} could not be closed: {message}"));
                failed.insert(deploy.clone(), message);
            }
            self.save_or_warn().await;
            self.collect_after_close(None, deploy).await;
        }
        for deploy in &closed {
            // Where a step's own collection was cut short.
            self.collect_after_close(None, deploy).await;
        }
        if !open.is_empty() {
            let failed = failed.keys().cloned().collect();
            self.runner.events.send(&Event::TeardownDone { time: Timestamp::now(), failed });
        }
        self.record.teardown = Some(TeardownRecord { started_at, ended_at: Some(Timestamp::now()), failed });
    }

    async fn save_or_warn(&mut self) {
        if let Err(error) = self.save().await {
            self.warn(None, format!("the run's record could not be kept: {error}"));
        }
    }

    /// Says and records a warning, once.
    pub fn warn(&mut self, step: Option<usize>, message: String) {
        let warnings = step.map_or(&self.record.warnings, |step| &self.record.steps[step].warnings);
        if warnings.contains(&message) {
            return;
        }
        self.runner.events.send(&Event::Warning { time: Timestamp::now(), step, message: message.clone() });
        match step {
            Some(step) => self.record.steps[step].warnings.push(message),
            None => self.record.warnings.push(message),
        }
    }

    /// Stores what a step's programs wrote: each file on record before the next one is read. A failure is a warning, and
    /// the file stays where it is.
    pub async fn keep_files(&mut self, index: usize) {
        let number = index + 1;
        for (folder, prefix) in
            [(self.dir.logs(index), format!("step-{number}-")), (self.dir.output(index), format!("step-{number}/"))]
        {
            let found = collect::find(&folder);
            for left_out in found.left_out {
                self.kept = false;
                self.warn(Some(index), left_out);
            }
            for path in found.files {
                let name = format!("{prefix}{}", path.to_string_lossy());
                if self.record.artifacts.iter().any(|artifact| artifact.step == index && artifact.name == name) {
                    continue;
                }
                let media_type = collect::media_type(&path).to_owned();
                let file = NewFile {
                    name,
                    media_type,
                    step: index,
                    folder: folder.clone(),
                    path,
                    sensitive: false,
                    universe: None,
                };
                self.keep_file(index, file).await;
            }
        }
    }

    async fn keep_file(&mut self, index: usize, file: NewFile) {
        let path = file.folder.join(&file.path);
        let stored = match timeout(STORE_DEADLINE, self.runner.log.put_file(&self.record.run, file)).await {
            Ok(stored) => stored.map_err(|error| error.to_string()),
            Err(_) => Err(format!("not stored within {} s", STORE_DEADLINE.as_secs())),
        };
        match stored {
            Ok(artifact) => {
                self.runner.events.artifact_stored(index, &artifact);
                self.record.artifacts.push(artifact);
                self.save_or_warn().await;
            }
            Err(reason) => {
                self.kept = false;
                self.warn(Some(index), format!("{} is not stored: {reason}", path.display()));
            }
        }
    }

    /// Writes the end.
    pub async fn finish(mut self, lock: RunLock) -> Result<RunRecord, RunError> {
        let time = Timestamp::now();
        self.record.ended_at = Some(time);
        self.record.state = RunState::Done;
        self.dir.write_record(&self.record);
        if let Err(source) = self.save().await {
            return Err(RunError::NotRecorded { record: Box::new(self.record), source });
        }
        if self.kept {
            self.dir.remove_files();
        }
        if let Err(error) = lock.end() {
            tracing::debug!(run = %self.record.run, %error, "the lock's file stays");
        }
        let outcome = self.record.outcome.unwrap_or(Outcome::InfrastructureError);
        self.runner.events.send(&Event::RunDone {
            time,
            run: self.record.run.clone(),
            outcome,
            reason: self.record.reason.clone(),
            duration_ms: u64::try_from(time.duration_since(self.record.created_at).as_millis()).unwrap_or(0),
        });
        Ok(self.record)
    }
}
