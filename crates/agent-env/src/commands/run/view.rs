//! Runs as people read them.

use agentenv_protocol::{DeployId, Home, Name, RunId};
use agentenv_task::{ArtifactRecord, Outcome, RunRecord, RunState, StepRecord, StepState, TrafficCaptures};
use jiff::Timestamp;
use serde::Serialize;

use crate::{output::columns, progress::seconds};

/// How times are shown.
const TIME: &str = "%Y-%m-%d %H:%M:%S UTC";

/// One line of `run list`.
#[derive(Debug, Serialize)]
pub(crate) struct Entry {
    run: RunId,
    task: Name,
    /// `running`, `interrupted` or `done`.
    state: &'static str,
    outcome: Option<Outcome>,
    created_at: Timestamp,
    ended_at: Option<Timestamp>,
    steps: usize,
    steps_done: usize,
    imported: bool,
}

impl Entry {
    /// Sums a record up.
    pub(crate) fn of(record: &RunRecord, alive: bool) -> Self {
        Self {
            run: record.run.clone(),
            task: record.task.clone(),
            state: state(record, alive),
            outcome: record.outcome,
            created_at: record.created_at,
            ended_at: record.ended_at,
            steps: record.steps.len(),
            steps_done: record.steps.iter().filter(|step| step.state == StepState::Done).count(),
            imported: record.imported,
        }
    }
}

fn state(record: &RunRecord, alive: bool) -> &'static str {
    match (record.state, alive) {
        (RunState::Done, _) => "done",
        (RunState::Running, true) => "running",
        (RunState::Running, false) => "interrupted",
    }
}

/// The lines of `run list`.
pub(crate) fn list(entries: &[Entry]) -> String {
    if entries.is_empty() {
        return "no run yet; `agent-env task run FILE` makes one".to_owned();
    }
    let head = ["RUN", "TASK", "STATE", "OUTCOME", "STEPS", "BEGAN", "TOOK"].map(str::to_owned).to_vec();
    let row = |entry: &Entry| {
        vec![
            entry.run.to_string(),
            entry.task.to_string(),
            entry.state.to_owned(),
            entry.outcome.map_or("-", Outcome::as_str).to_owned(),
            format!("{}/{}", entry.steps_done, entry.steps),
            entry.created_at.strftime(TIME).to_string(),
            took(entry.created_at, entry.ended_at),
        ]
    };
    columns(&std::iter::once(head).chain(entries.iter().map(row)).collect::<Vec<_>>())
}

fn took(from: Timestamp, to: Option<Timestamp>) -> String {
    let Some(to) = to else { return "-".to_owned() };
    seconds(u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0))
}

/// A whole record.
pub(crate) fn show(home: &Home, record: &RunRecord, alive: bool) -> String {
    let mut parts = vec![head(home, record, alive), steps(record)];
    parts.extend(record.steps.iter().enumerate().filter_map(|(index, step)| trouble(index, step)));
    if !record.deploys.is_empty() {
        let row = |deploy: &agentenv_task::RunDeploy| {
            let state = serde_json::to_value(deploy.state).ok();
            let state = state.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default();
            let live = if deploy.live { "live" } else { "" };
            let degraded = deploy.degraded.join("; ");
            [deploy.deploy.as_str(), deploy.env.as_str(), &deploy.provider, state, live, &degraded]
                .map(str::to_owned)
                .to_vec()
        };
        parts.push(section("deploys", &columns(&record.deploys.iter().map(row).collect::<Vec<_>>())));
    }
    let traffic: Vec<Vec<String>> =
        record.captures().iter().map(|(deploy, captures)| traffic(deploy, captures)).collect();
    if !traffic.is_empty() {
        parts.push(section("traffic", &columns(&traffic)));
    }
    if !record.artifacts.is_empty() {
        parts.push(section("artifacts", &artifacts(&record.artifacts)));
    }
    if !record.warnings.is_empty() {
        parts.push(section("warnings", &record.warnings.join("\n")));
    }
    parts.join("\n\n")
}

fn head(home: &Home, record: &RunRecord, alive: bool) -> String {
    let mut rows = vec![
        ("run", record.run.to_string()),
        ("task", format!("{}  {}", record.task, record.file)),
        ("state", state(record, alive).to_owned()),
    ];
    if record.state == RunState::Running
        && let Some((index, step)) = record.running_step()
    {
        rows.push(("step", format!("{}/{} {}", index + 1, record.steps.len(), step.label())));
    }
    if let Some(outcome) = record.outcome {
        rows.push(("outcome", outcome.to_string()));
    }
    rows.extend(record.reason.clone().map(|reason| ("reason", reason)));
    let stopped = record.interrupted.clone().filter(|why| record.reason.as_ref() != Some(why));
    rows.extend(stopped.map(|why| ("stopped", why)));
    rows.push(("began", record.created_at.strftime(TIME).to_string()));
    if record.ended_at.is_some() {
        rows.push(("took", took(record.created_at, record.ended_at)));
    }
    if record.imported {
        rows.push(("from", "another home, by `run import`".to_owned()));
    } else {
        rows.push(("folder", home.run(&record.run).display().to_string()));
    }
    if record.state == RunState::Running && !alive {
        rows.push(("hint", format!("`agent-env run resume {}` closes what it left", record.run)));
    }
    columns(&rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect::<Vec<_>>())
}

fn steps(record: &RunRecord) -> String {
    let head = ["#", "STEP", "KIND", "STATE", "TOOK", "OUTCOME", "WHAT"].map(str::to_owned).to_vec();
    let row = |(index, step): (usize, &StepRecord)| {
        let state = match step.state {
            StepState::Pending => "pending",
            StepState::Running => "running",
            StepState::Done => "done",
            StepState::Skipped => "skipped",
        };
        vec![
            (index + 1).to_string(),
            step.name.clone().unwrap_or_else(|| "-".to_owned()),
            step.kind.to_string(),
            state.to_owned(),
            step.duration_ms.map_or_else(|| "-".to_owned(), seconds),
            step.outcome.map_or("-", Outcome::as_str).to_owned(),
            step.summary.clone().unwrap_or_default(),
        ]
    };
    columns(&std::iter::once(head).chain(record.steps.iter().enumerate().map(row)).collect::<Vec<_>>())
}

/// What a step's readers should know: why it did not pass, and its warnings.
fn trouble(index: usize, step: &StepRecord) -> Option<String> {
    let mut lines: Vec<String> = step.message.iter().cloned().collect();
    lines.extend(step.hint.as_ref().map(|hint| format!("hint: {hint}")));
    lines.extend(step.log.iter().map(|line| format!("| {line}")));
    lines.extend(step.warnings.iter().map(|warning| format!("warning: {warning}")));
    (!lines.is_empty()).then(|| section(&format!("step {} {}", index + 1, step.label()), &lines.join("\n")))
}

/// What became of a deploy's captures.
fn traffic(deploy: &DeployId, captures: &TrafficCaptures) -> Vec<String> {
    let files = captures.files.len();
    let stored = format!("{files} {}, {}", if files == 1 { "file" } else { "files" }, bytes(captures.bytes()));
    let status = if captures.is_complete() { "complete" } else { "partial" };
    let why = captures.reason.clone().unwrap_or_default();
    vec![deploy.to_string(), captures.universe_id.to_string(), status.to_owned(), stored, why]
}

/// The lines of `run artifacts`.
pub(crate) fn artifacts(artifacts: &[ArtifactRecord]) -> String {
    if artifacts.is_empty() {
        return "no artifacts".to_owned();
    }
    let row = |artifact: &ArtifactRecord| {
        [artifact.id.as_str(), &artifact.name, &artifact.media_type, &bytes(artifact.size)].map(str::to_owned).to_vec()
    };
    columns(&artifacts.iter().map(row).collect::<Vec<_>>())
}

fn bytes(size: u64) -> String {
    match size {
        0..1000 => format!("{size} B"),
        1000..1_000_000 => format!("{}.{} kB", size / 1000, size % 1000 / 100),
        _ => format!("{}.{} MB", size / 1_000_000, size % 1_000_000 / 100_000),
    }
}

fn section(name: &str, text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    format!("{name}\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests;
