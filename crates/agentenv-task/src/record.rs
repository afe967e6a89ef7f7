//! The run record (RUN-2): what `run show --json` prints and what the store keeps.

use std::collections::BTreeMap;

use agentenv_protocol::{DeployId, HostPattern, Name, RunId, UniverseId, control::DeployInfo};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    action::{StepKind, Task},
    outcome::{Failure, Outcome},
};

/// The newest format of run records.
pub(crate) const RECORD_FORMAT: u32 = 1;
/// Key of [`Context::metadata`]: the live sites of the run's deploys (LIVE-5).
pub const LIVE_WEBSITES_KEY: &str = "live_websites";

/// Everything that is known about a run. Each change is stored before what it announces happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Format.
    pub format: u32,
    /// Id.
    pub run: RunId,
    /// The task's name.
    pub task: Name,
    /// The task file.
    pub file: String,
    /// What the agent is told.
    pub goal: String,
    /// Where it is in its life.
    pub state: RunState,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Why, where it did not pass: one sentence.
    pub reason: Option<String>,
    /// Why it ended before its steps were over: a signal, or the death of its runner.
    pub interrupted: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was over, teardown included.
    pub ended_at: Option<Timestamp>,
    /// Who runs it.
    pub runner: RunnerRecord,
    /// Its steps, in order.
    pub steps: Vec<StepRecord>,
    /// Its deploys; each is here before it exists.
    pub deploys: Vec<RunDeploy>,
    /// The teardown, once it began.
    pub teardown: Option<TeardownRecord>,
    /// What steps leave for readers.
    pub context: Context,
    /// Stored files.
    pub artifacts: Vec<ArtifactRecord>,
    /// What people should know.
    pub warnings: Vec<String>,
    /// Whether it was imported from a file; then its deploys were never here.
    #[serde(default)]
    pub imported: bool,
}

/// Where a run is in its life. `interrupted` is not stored: it is `running` without a living runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Its runner works, or has died.
    Running,
    /// Its outcome is known, and everything of it was closed or is named in `warnings`.
    Done,
}

/// The process that runs a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerRecord {
    /// Its pid; liveness is told by the lock in the run's folder, never by this.
    pub pid: u32,
    /// The version of this program.
    pub version: String,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its own name.
    pub name: Option<String>,
    /// Its kind.
    pub kind: StepKind,
    /// Where it is.
    pub state: StepState,
    /// How long it may take.
    pub timeout_s: f64,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How long it took, by a clock that nobody sets.
    pub duration_ms: Option<u64>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// What was done, where it passed: one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The last log lines of who is to blame.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// What went wrong without ending the step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What it found or did: a sign-in report, a reset report, the judged expectations.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub result: Value,
}

/// Where a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Not yet begun.
    Pending,
    /// On record before its first effect.
    Running,
    /// Ended.
    Done,
    /// Never begun, because an earlier step did not pass.
    Skipped,
}

/// The run's entry for one deploy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunDeploy {
    /// Id, chosen before the deploy exists.
    pub deploy: DeployId,
    /// The env.
    pub env: Name,
    /// The place of its `deploy_env` step.
    pub step: usize,
    /// Where it is.
    pub state: RunDeployState,
    /// What it runs on.
    pub provider: String,
    /// Whether a live site is part of it (LIVE-5).
    pub live: bool,
    /// The versions that it runs.
    pub versions: Vec<(Name, u64)>,
    /// What it printed when it got ready, the agent token masked.
    pub info: Option<DeployInfo>,
    /// Whether it records its websites' packets (CAP-1).
    #[serde(default)]
    pub captures: bool,
    /// When its captures recorded nothing, and why (CAP-4).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
}

/// Where a run's deploy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunDeployState {
    /// About to exist, or starting.
    Intended,
    /// Ready.
    Ready,
    /// About to be closed, or closing.
    Closing,
    /// Nothing is left of it.
    Closed,
    /// It could not be closed; the reaper tries again.
    CloseFailed,
}

/// A live site of one of the run's deploys, in [`Context::metadata`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LiveWebsite {
    /// The deploy's id.
    pub env_id: DeployId,
    /// The site.
    pub name: Name,
    /// Its names.
    pub domains: Vec<HostPattern>,
    /// Further hosts it may reach.
    pub allow_hosts: Vec<HostPattern>,
    /// Always false: nothing resets a real site.
    pub reproducible: bool,
}

/// What steps leave for readers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Context {
    /// By name.
    pub metadata: Map<String, Value>,
}

/// One stored file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRecord {
    /// Id in the store.
    pub id: String,
    /// Name: a relative path.
    pub name: String,
    /// Media type.
    pub media_type: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 in hexadecimal digits.
    pub sha256: String,
    /// The place of its step; of a capture, the step that made its deploy.
    pub step: usize,
    /// Whether it may hold what people typed: captures do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sensitive: bool,
    /// The artifact universe that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub universe: Option<UniverseId>,
}

/// The end of a run: everything that is still open is closed. It never replaces the outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TeardownRecord {
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// What could not be closed, by deploy, and why.
    pub failed: BTreeMap<DeployId, String>,
}

impl RunRecord {
    /// The record of a run about to begin.
    pub(crate) fn new(run: RunId, task: &Task, now: Timestamp) -> Self {
        let step = |step: &crate::action::Step| StepRecord {
            name: step.name.clone(),
            kind: step.action.kind(),
            state: StepState::Pending,
            timeout_s: step.timeout.as_secs_f64(),
            started_at: None,
            ended_at: None,
            duration_ms: None,
            outcome: None,
            summary: None,
            message: None,
            hint: None,
            log: Vec::new(),
            warnings: Vec::new(),
            result: Value::Null,
        };
        Self {
            format: RECORD_FORMAT,
            run,
            task: task.name.clone(),
            file: std::path::absolute(&task.file).unwrap_or_else(|_| task.file.clone()).display().to_string(),
            goal: task.goal.clone(),
            state: RunState::Running,
            outcome: None,
            reason: None,
            interrupted: None,
            created_at: now,
            ended_at: None,
            runner: RunnerRecord { pid: std::process::id(), version: env!("CARGO_PKG_VERSION").to_owned() },
            steps: task.steps.iter().map(step).collect(),
            deploys: Vec::new(),
            teardown: None,
            context: Context::default(),
            artifacts: Vec::new(),
            warnings: Vec::new(),
            imported: false,
        }
    }

    /// The step that is on record as running, and its place.
    pub fn running_step(&self) -> Option<(usize, &StepRecord)> {
        self.steps.iter().enumerate().find(|(_, step)| step.state == StepState::Running)
    }

    /// The deploys of which something may be left.
    pub fn open_deploys(&self) -> impl DoubleEndedIterator<Item = &RunDeploy> {
        self.deploys.iter().filter(|deploy| deploy.state != RunDeployState::Closed)
    }
}

impl StepRecord {
    /// As progress and tables call it: its name, else its kind.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.kind.as_str())
    }

    /// Writes how it ended.
    pub(crate) fn end(&mut self, now: Timestamp, duration_ms: u64, result: Result<&String, &Failure>) {
        self.state = StepState::Done;
        self.ended_at = Some(now);
        self.duration_ms = Some(duration_ms);
        match result {
            Ok(summary) => {
                self.outcome = Some(Outcome::Passed);
                self.summary = Some(summary.clone()).filter(|summary| !summary.is_empty());
            }
            Err(failure) => {
                self.outcome = Some(failure.outcome);
                self.message = Some(failure.message.clone());
                self.hint = Some(failure.hint.clone()).filter(|hint| !hint.is_empty());
                self.log.clone_from(&failure.log);
            }
        }
    }
}

/// A deploy's JSON as records keep it: the agent token in each `cdp_url` masked.
pub(crate) fn masked(info: &DeployInfo) -> DeployInfo {
    let mut info = info.clone();
    for browser in info.browsers.iter_mut().chain(&mut info.computers) {
        browser.cdp_url = mask_token(&browser.cdp_url);
    }
    info
}

/// The agent tokens in a deploy's JSON.
pub(crate) fn agent_tokens(info: &DeployInfo) -> Vec<String> {
    let urls = info.browsers.iter().chain(&info.computers).map(|browser| browser.cdp_url.as_str());
    let token = |url: &str| Some(url.split_once("/agent/")?.1.split('/').next()?.to_owned());
    urls.filter_map(token).filter(|token| !token.is_empty()).collect()
}

/// `.../agent/TOKEN/BROWSER` with the token left out.
fn mask_token(url: &str) -> String {
    let Some((before, rest)) = url.split_once("/agent/") else { return url.to_owned() };
    match rest.split_once('/') {
        Some((_, browser)) => format!("{before}/agent/***/{browser}"),
        None => format!("{before}/agent/***"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_58_the_agent_token_is_masked_in_records() {
        for (url, expected) in [
            ("http://127.0.0.1:4/agent/s3cret/browser", "http://127.0.0.1:4/agent/***/browser"),
            ("http://127.0.0.1:4/agent/s3cret", "http://127.0.0.1:4/agent/***"),
            ("http://127.0.0.1:4/", "http://127.0.0.1:4/"),
        ] {
            assert_eq!(mask_token(url), expected);
        }
    }
}
