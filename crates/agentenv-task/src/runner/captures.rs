//! What a run does with the captured traffic of its deploys (CAP-5..7). All of it is best effort: what goes wrong is a warning and
//! on record, and never replaces an outcome, but for a step that asks for it.

use std::time::Duration;

use agentenv_protocol::DeployId;
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until};

use super::live::{Live, stopped};
use crate::{
    action::DeployStep,
    outcome::{Failure, Outcome},
    record::RunDeployState,
    stop::Stop,
    traffic::{Collected, Collection, RunLedger, TrafficCaptures, gaps},
};

/// How long one deploy's captures may take to be stored before it is closed: several rings of 200 MB on a slow disk.
const BEFORE_CLOSE_DEADLINE: Duration = Duration::from_secs(180);
/// How long it may take to store what came until its last service stopped, once it is closed: the same, where nothing was stored
/// before.
const AFTER_CLOSE_DEADLINE: Duration = Duration::from_secs(180);

impl Live<'_> {
    /// The `collect_traffic_capture` step.
    pub(super) async fn collect_step(
        &mut self,
        index: usize,
        (deploy, fail_task_on_error): (DeployStep, bool),
        (limit, deadline): (Duration, Instant),
        stop: &Stop,
    ) -> Result<String, Failure> {
        let id = self.id(deploy)?;
        let cut = async {
            tokio::select! {
                why = stop.asked() => format!("the run was stopped by {why}"),
                () = sleep_until(deadline) => format!("it was not done within {} s", limit.as_secs_f64()),
            }
        };
        let collected = self.collect(Some(index), &id, cut).await;
        let summary = summary(collected.entry.as_ref());
        if let Some(entry) = &collected.entry {
            self.record.steps[index].result = json!({
                "universe_id": entry.universe_id,
                "status": entry.status,
                "reason": collected.reason,
                "files": entry.files.len(),
                "bytes": entry.bytes(),
            });
        }
        match (&collected.reason, stop.is_asked()) {
            (None, _) => Ok(summary),
            (Some(_), Some(why)) => Err(stopped(why)),
            (Some(reason), None) if fail_task_on_error => Err(Failure::new(
                Outcome::InfrastructureError,
                format!("the traffic of {id} is not stored whole: {reason}"),
            )
            .hint(format!("{summary}; `agent-env traffic rescue {id}` stores what is still there"))),
            (Some(reason), None) => {
                self.warn(Some(index), partly(&id, reason));
                Ok(summary)
            }
        }
    }

    /// Collects what the run did not, while the deploy's gateway is there.
    pub(super) async fn collect_before_close(&mut self, step: Option<usize>, deploy: &DeployId, stop: Option<&Stop>) {
        let entry = self.record.deploys.iter().find(|entry| entry.deploy == *deploy);
        // One that never got ready has no gateway; its folder is read afterwards.
        if !entry.is_some_and(|entry| entry.captures && entry.info.is_some()) {
            return;
        }
        if self.record.traffic_captures(deploy).is_some_and(|entry| entry.is_complete()) {
            return;
        }
        let cut = async {
            tokio::select! {
                why = async { match stop { Some(stop) => stop.asked().await, None => std::future::pending().await } } => {
                    format!("the run was stopped by {why}")
                }
                () = sleep(BEFORE_CLOSE_DEADLINE) => too_slow(BEFORE_CLOSE_DEADLINE),
            }
        };
        // What goes wrong here is tried again on the files that stay, and said if it goes wrong there.
        let collected = self.collect(step, deploy, cut).await;
        if let Some(reason) = collected.reason {
            tracing::info!(%deploy, reason, "captures are not whole before the close");
        }
    }

    /// Stores what came until the last service stopped, and removes from disk what is stored whole.
    pub(super) async fn collect_after_close(&mut self, step: Option<usize>, deploy: &DeployId) {
        let Some(entry) = self.record.deploys.iter().find(|entry| entry.deploy == *deploy) else { return };
        if !entry.captures {
            return;
        }
        let cut = async {
            sleep(AFTER_CLOSE_DEADLINE).await;
            too_slow(AFTER_CLOSE_DEADLINE)
        };
        let collected = self.collect(step, deploy, cut).await;
        self.runner.discard(deploy, &collected).await;
        if let Some(reason) = &collected.reason {
            self.warn(step, partly(deploy, reason));
        }
    }

    /// The deploys whose captures may not be stored whole though nobody closes them any more.
    pub(super) fn closed_with_captures(&self) -> Vec<DeployId> {
        let entries = self.record.deploys.iter();
        let closed = entries.filter(|entry| entry.captures && entry.state == RunDeployState::Closed);
        closed.map(|entry| entry.deploy.clone()).collect()
    }

    /// Says once that a ring recorded nothing for a while; the deploy was degraded.
    fn note_gaps(&mut self, step: Option<usize>, deploy: &DeployId, entry: Option<&TrafficCaptures>) {
        let gaps = entry.map(|entry| gaps(&entry.rings)).unwrap_or_default();
        let known = self.record.deploys.iter_mut().find(|entry| entry.deploy == *deploy);
        let before = known.map(|entry| std::mem::replace(&mut entry.degraded, gaps.clone())).unwrap_or_default();
        for gap in gaps.into_iter().filter(|gap| !before.contains(gap)) {
            self.warn(step, gap);
        }
    }

    async fn collect(
        &mut self,
        step: Option<usize>,
        deploy: &DeployId,
        cut: impl Future<Output = String>,
    ) -> Collected {
        let mut cut = std::pin::pin!(cut);
        let source = tokio::select! {
            biased;
            source = self.runner.deploys.captures(deploy) => source.map_err(|error| error.message),
            why = &mut cut => Err(why),
        };
        let ledger = &mut RunLedger {
            record: &mut self.record,
            log: &*self.runner.log,
            events: &self.runner.events,
            deploy,
            during: step,
        };
        let collected = match &source {
            Ok(source) => {
                let collection = Collection { source: &**source, universes: &*self.runner.log, ledger };
                collection.run(cut).await
            }
            Err(reason) => Collection::unreachable(&*self.runner.log, ledger, reason.clone()).await,
        };
        self.note_gaps(step, deploy, collected.entry.as_ref());
        collected
    }
}

fn too_slow(limit: Duration) -> String {
    format!("it was not done within {} s", limit.as_secs())
}

fn partly(deploy: &DeployId, reason: &str) -> String {
    format!(
        "the traffic of {deploy} is not stored whole: {reason}; `agent-env traffic rescue {deploy}` stores what is still there"
    )
}

fn summary(entry: Option<&TrafficCaptures>) -> String {
    let (files, bytes) = entry.map_or((0, 0), |entry| (entry.files.len(), entry.bytes()));
    let files = if files == 1 { "1 file is".to_owned() } else { format!("{files} files are") };
    format!("{files} stored, {bytes} bytes")
}
