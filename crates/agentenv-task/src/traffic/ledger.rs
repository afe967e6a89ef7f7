//! Where a collection puts its progress on record.

use agentenv_protocol::DeployId;
use agentenv_store::Holder;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{TRAFFIC_CAPTURES_KEY, TrafficCaptures, entry::Reconciled};
use crate::{
    event::{Event, Events, Work},
    record::{ArtifactRecord, RunRecord},
    run_log::{LogError, RunLog},
};

/// Where a collection puts its progress on record, and who the stored files belong to.
pub(crate) trait Ledger: Send {
    /// Whose the universe and its artifacts are.
    fn holder(&self) -> Holder;

    /// The place of the step that the artifacts are of.
    fn step(&self) -> usize;

    /// What is on record already.
    fn entry(&self) -> Option<TrafficCaptures>;

    /// Says what is going on.
    fn say(&self, what: String);

    /// The deploy.
    fn deploy(&self) -> &DeployId;

    /// A file was stored. Not yet on record.
    fn stored(&mut self, artifact: ArtifactRecord);

    /// A file was replaced by a longer one. Still on record.
    fn replaced(&mut self, artifact: &str);

    /// Puts all of it on record.
    fn save<'a>(&'a mut self, entry: &'a TrafficCaptures) -> Work<'a, Result<(), LogError>>;
}

/// The record of a run.
pub(crate) struct RunLedger<'a> {
    pub record: &'a mut RunRecord,
    pub log: &'a dyn RunLog,
    pub events: &'a Events,
    pub deploy: &'a DeployId,
    /// The step that goes on; none in teardown.
    pub during: Option<usize>,
}

impl RunRecord {
    /// What is on record about a deploy's captures.
    pub fn traffic_captures(&self, deploy: &DeployId) -> Option<TrafficCaptures> {
        let entry = self.context.metadata.get(TRAFFIC_CAPTURES_KEY)?.get(deploy.as_str())?;
        serde_json::from_value(entry.clone()).ok()
    }

    /// What is on record about captures, by deploy.
    pub fn captures(&self) -> Vec<(DeployId, TrafficCaptures)> {
        let entries = self.context.metadata.get(TRAFFIC_CAPTURES_KEY).and_then(Value::as_object);
        let deploys = entries.into_iter().flat_map(Map::keys).filter_map(|deploy| DeployId::parse(deploy).ok());
        deploys.filter_map(|deploy| self.traffic_captures(&deploy).map(|entry| (deploy, entry))).collect()
    }

    pub(crate) fn set_traffic_captures(&mut self, deploy: &DeployId, entry: &TrafficCaptures) {
        let Ok(value) = serde_json::to_value(entry) else { return };
        let entries = self.context.metadata.entry(TRAFFIC_CAPTURES_KEY).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(entries) = entries {
            entries.insert(deploy.to_string(), value);
        }
    }

    /// Takes in what a deploy's universe has, for readers of a record whose runner died in the middle.
    pub(crate) fn reconcile_captures(&mut self, deploy: &DeployId, universe: &[ArtifactRecord]) {
        let Some(mut entry) = self.traffic_captures(deploy) else { return };
        let found = entry.reconcile(universe);
        if found == Reconciled::default() {
            return;
        }
        self.artifacts.retain(|artifact| !found.superseded.contains(&artifact.id));
        let step = self.step_of(deploy);
        self.artifacts.extend(found.new.into_iter().map(|artifact| ArtifactRecord { step, ..artifact }));
        self.set_traffic_captures(deploy, &entry);
    }

    /// Names a stored capture by the id that its artifact got here, where a run was imported.
    pub(crate) fn rename_capture(&mut self, old: &str, new: &str) {
        for (deploy, mut entry) in self.captures() {
            let Some(file) = entry.files.iter_mut().find(|file| file.artifact == old) else { continue };
            new.clone_into(&mut file.artifact);
            self.set_traffic_captures(&deploy, &entry);
        }
    }

    /// The place of the step that made a deploy.
    fn step_of(&self, deploy: &DeployId) -> usize {
        self.deploys.iter().find(|entry| entry.deploy == *deploy).map_or(0, |entry| entry.step)
    }
}

impl Ledger for RunLedger<'_> {
    fn holder(&self) -> Holder {
        Holder::Run(self.record.run.clone())
    }

    fn step(&self) -> usize {
        self.record.step_of(self.deploy)
    }

    fn entry(&self) -> Option<TrafficCaptures> {
        self.record.traffic_captures(self.deploy)
    }

    fn say(&self, message: String) {
        if let Some(step) = self.during {
            self.events.send(&Event::Progress { time: Timestamp::now(), step, message });
        }
    }

    fn deploy(&self) -> &DeployId {
        self.deploy
    }

    fn stored(&mut self, artifact: ArtifactRecord) {
        self.events.artifact_stored(self.during.unwrap_or(artifact.step), &artifact);
        self.record.artifacts.push(artifact);
    }

    fn replaced(&mut self, artifact: &str) {
        self.record.artifacts.retain(|old| old.id != artifact);
    }

    fn save<'a>(&'a mut self, entry: &'a TrafficCaptures) -> Work<'a, Result<(), LogError>> {
        self.record.set_traffic_captures(self.deploy, entry);
        self.log.update(self.record)
    }
}

/// A deploy outside any run: the universe's own document is the record.
pub(crate) struct DeployLedger {
    pub deploy: DeployId,
    pub entry: Option<TrafficCaptures>,
}

impl Ledger for DeployLedger {
    fn holder(&self) -> Holder {
        Holder::Deploy(self.deploy.clone())
    }

    fn step(&self) -> usize {
        0
    }

    fn entry(&self) -> Option<TrafficCaptures> {
        self.entry.clone()
    }

    fn say(&self, what: String) {
        tracing::debug!(deploy = %self.deploy, "{what}");
    }

    fn deploy(&self) -> &DeployId {
        &self.deploy
    }

    fn stored(&mut self, _artifact: ArtifactRecord) {}

    fn replaced(&mut self, _artifact: &str) {}

    fn save<'a>(&'a mut self, entry: &'a TrafficCaptures) -> Work<'a, Result<(), LogError>> {
        self.entry = Some(entry.clone());
        Box::pin(std::future::ready(Ok(())))
    }
}
