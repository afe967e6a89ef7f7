//! A run that goes on: its record, and the loop over its steps.

use std::{collections::BTreeMap, time::Duration};

use agentenv_protocol::{DeployId, control::DeployInfo};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::Runner;
use crate::{
    action::{Action, Check, DeployEnv, DeployStep},
    deploys::PlannedDeploy,
    event::Event,
    outcome::{Failure, Outcome},
    plan::PlannedTask,
    record::{LIVE_WEBSITES_KEY, LiveWebsite, RunDeploy, RunDeployState, RunRecord, StepState},
    run_dir::RunDir,
    run_log::LogError,
    stop::Stop,
};

/// A run that goes on.
pub(super) struct Live<'a> {
    pub runner: &'a Runner,
    /// None where the run's own runner died: then there are no steps to do.
    pub task: Option<&'a PlannedTask>,
    pub dir: RunDir,
    pub record: RunRecord,
    /// What the open deploys printed, agent tokens included; never on record.
    pub infos: BTreeMap<DeployStep, DeployInfo>,
    /// Whether everything in the run's folder is in the store.
    pub kept: bool,
}

impl<'a> Live<'a> {
    pub fn new(runner: &'a Runner, task: &'a PlannedTask, dir: RunDir, record: RunRecord) -> Self {
        Self { runner, task: Some(task), dir, record, infos: BTreeMap::new(), kept: true }
    }

    pub async fn save(&self) -> Result<(), LogError> {
        self.runner.log.update(&self.record).await
    }

    /// Does the steps up to the first that does not pass.
    pub async fn steps(&mut self, stop: &Stop) {
        let Some(task) = self.task else { return };
        for index in 0..task.task.steps.len() {
            if let Err(failure) = self.step(index, task, stop).await {
                self.record.reason =
                    Some(format!("step {} {}: {}", index + 1, self.record.steps[index].label(), failure.message));
                self.record.outcome = Some(failure.outcome);
                self.record.interrupted = stop.is_asked().map(str::to_owned);
                self.skip_pending();
                return;
            }
        }
        self.record.outcome = Some(Outcome::Passed);
    }

    pub fn skip_pending(&mut self) {
        for step in self.record.steps.iter_mut().filter(|step| step.state == StepState::Pending) {
            step.state = StepState::Skipped;
        }
    }

    async fn step(&mut self, index: usize, task: &'a PlannedTask, stop: &Stop) -> Result<String, Failure> {
        let step = &task.task.steps[index];
        let begun = Instant::now();
        let time = Timestamp::now();
        self.record.steps[index].state = StepState::Running;
        self.record.steps[index].started_at = Some(time);
        let intended = self.intend(index, task);
        let mut result = self.save().await.map(|()| String::new()).map_err(|error| unrecorded(&error));
        if result.is_ok() {
            self.runner.events.send(&Event::StepStarted {
                time,
                step: index,
                kind: step.action.kind(),
                label: step.label().to_owned(),
                timeout_s: step.timeout.as_secs_f64(),
            });
            self.announce_deploy(index, intended);
            result = self.bounded(index, task, begun + step.timeout, stop).await;
        } else if intended {
            // It never came to be: the intent is not on record.
            self.record.deploys.pop();
        }
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.record.steps[index].end(Timestamp::now(), duration_ms, result.as_ref());
        if let Err(error) = self.save().await {
            result = result.and(Err(unrecorded(&error)));
        }
        self.runner.events.send(&Event::StepDone {
            time: Timestamp::now(),
            step: index,
            label: step.label().to_owned(),
            outcome: result.as_ref().err().map_or(Outcome::Passed, |failure| failure.outcome),
            duration_ms,
            message: match &result {
                Ok(summary) => Some(summary.clone()).filter(|summary| !summary.is_empty()),
                Err(failure) => Some(failure.message.clone()),
            },
        });
        result
    }

    /// Puts on record what the step is about to bring into being, or to end; returns whether that is a new deploy.
    fn intend(&mut self, index: usize, task: &PlannedTask) -> bool {
        match &task.task.steps[index].action {
            Action::DeployEnv(step) => {
                let plan = task.deploys.get(&DeployStep(index)).cloned().unwrap_or_default();
                self.intend_deploy(index, step, plan);
                true
            }
            Action::CloseEnv { deploy } => {
                if let Some(deploy) = self.deploy_record(*deploy) {
                    deploy.state = RunDeployState::Closing;
                }
                false
            }
            _ => false,
        }
    }

    fn intend_deploy(&mut self, index: usize, step: &DeployEnv, plan: PlannedDeploy) {
        let deploy = DeployId::random();
        let live = !plan.live.is_empty();
        if live {
            let sites = plan.live.into_iter().map(|site| LiveWebsite {
                env_id: deploy.clone(),
                name: site.name,
                domains: site.domains,
                allow_hosts: site.allow_hosts,
                reproducible: false,
            });
            let sites = sites.filter_map(|site| serde_json::to_value(site).ok());
            let entry =
                self.record.context.metadata.entry(LIVE_WEBSITES_KEY).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(entries) = entry {
                entries.extend(sites);
            }
        }
        self.record.deploys.push(RunDeploy {
            deploy,
            env: step.env.clone(),
            step: index,
            state: RunDeployState::Intended,
            provider: plan.provider,
            live,
            versions: plan.versions,
            info: None,
            captures: step.capture_traffic,
            degraded: Vec::new(),
        });
    }

    fn announce_deploy(&self, index: usize, intended: bool) {
        if let Some(entry) = self.record.deploys.last().filter(|_| intended) {
            self.runner.events.send(&Event::DeployIntended {
                time: Timestamp::now(),
                step: index,
                deploy: entry.deploy.clone(),
                env: entry.env.to_string(),
            });
        }
    }

    pub fn deploy_record(&mut self, deploy: DeployStep) -> Option<&mut RunDeploy> {
        self.record.deploys.iter_mut().find(|entry| entry.step == deploy.0)
    }

    /// Does the step within its time. Programs and collections are ended by their own deadline, and what they left is kept;
    /// everything else is simply dropped.
    async fn bounded(
        &mut self,
        index: usize,
        task: &PlannedTask,
        deadline: Instant,
        stop: &Stop,
    ) -> Result<String, Failure> {
        if let Some(why) = stop.is_asked() {
            return Err(stopped(why));
        }
        let step = &task.task.steps[index];
        match step.action {
            Action::Agent { .. }
            | Action::Check { check: Check::Command(_), .. }
            | Action::CollectTrafficCapture { .. } => return self.perform(index, task, deadline, stop).await,
            Action::CloseEnv { deploy } => return self.close_env(index, task, deploy, stop).await,
            _ => {}
        }
        let limit = step.timeout;
        tokio::select! {
            biased;
            why = stop.asked() => Err(stopped(why)),
            result = timeout_at(deadline, self.perform(index, task, deadline, stop)) => {
                result.unwrap_or_else(|_| Err(timed_out(limit)))
            }
        }
    }

    /// Collects, closes, collects the rest. The collections have deadlines of their own: the step's time is for the close.
    async fn close_env(
        &mut self,
        index: usize,
        task: &PlannedTask,
        deploy: DeployStep,
        stop: &Stop,
    ) -> Result<String, Failure> {
        let id = self.id(deploy)?;
        let limit = task.task.steps[index].timeout;
        self.collect_before_close(Some(index), &id, Some(stop)).await;
        let deadline = Instant::now() + limit;
        let closed = tokio::select! {
            biased;
            why = stop.asked() => Err(stopped(why)),
            result = timeout_at(deadline, self.perform(index, task, deadline, stop)) => {
                result.unwrap_or_else(|_| Err(timed_out(limit)))
            }
        };
        if closed.is_ok() {
            self.collect_after_close(Some(index), &id).await;
        }
        closed
    }
}

pub(super) fn stopped(why: &str) -> Failure {
    Failure::new(Outcome::InfrastructureError, format!("the run was stopped by {why}"))
}

pub(super) fn timed_out(limit: Duration) -> Failure {
    Failure::new(Outcome::TimedOut, format!("it was not done within {} s", limit.as_secs_f64()))
        .hint("give the step a longer `timeout_s`")
}

fn unrecorded(error: &LogError) -> Failure {
    Failure::new(Outcome::InfrastructureError, format!("the run's record could not be kept: {error}"))
        .hint("see that the disk is not full, then run the task again")
}
