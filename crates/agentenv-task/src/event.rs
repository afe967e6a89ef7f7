//! What happens while a run goes on, as one stream (RUN-5): a terminal shows it, `--json` prints one object a line.

use std::sync::Arc;

use agentenv_protocol::{DeployId, RunId, control::ControlError};
use jiff::Timestamp;
use serde::Serialize;

use crate::{action::StepKind, outcome::Outcome, record::ArtifactRecord};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run is on record.
    RunStarted {
        /// When.
        time: Timestamp,
        /// Which.
        run: RunId,
        /// The task's name.
        task: String,
        /// How many steps it has.
        steps: usize,
    },
    /// A step is on record as running.
    StepStarted {
        /// When.
        time: Timestamp,
        /// Its place, from 0.
        step: usize,
        /// Its kind.
        kind: StepKind,
        /// Its name, else its kind.
        label: String,
        /// How long it may take.
        timeout_s: f64,
    },
    /// A deploy of the run is about to exist.
    DeployIntended {
        /// When.
        time: Timestamp,
        /// The step that makes it.
        step: usize,
        /// Its id.
        deploy: DeployId,
        /// The env.
        env: String,
    },
    /// What a step is doing at the moment.
    Progress {
        /// When.
        time: Timestamp,
        /// The step.
        step: usize,
        /// One line.
        message: String,
    },
    /// A line that a harness or a check command wrote.
    Output {
        /// When.
        time: Timestamp,
        /// The step.
        step: usize,
        /// Where it wrote it.
        stream: Stream,
        /// The line, cut where it is long.
        line: String,
    },
    /// A file was stored.
    ArtifactStored {
        /// When.
        time: Timestamp,
        /// The step that it is of.
        step: usize,
        /// Its id.
        id: String,
        /// Its name.
        name: String,
        /// Its size in bytes.
        size: u64,
    },
    /// Something went wrong that does not end the step.
    Warning {
        /// When.
        time: Timestamp,
        /// The step; none for the run.
        step: Option<usize>,
        /// What.
        message: String,
    },
    /// A step ended.
    StepDone {
        /// When.
        time: Timestamp,
        /// The step.
        step: usize,
        /// Its name, else its kind.
        label: String,
        /// How it ended.
        outcome: Outcome,
        /// How long it took.
        duration_ms: u64,
        /// What went wrong, or what was done.
        message: Option<String>,
    },
    /// Everything that is still open is about to be closed.
    TeardownStarted {
        /// When.
        time: Timestamp,
        /// What is open.
        deploys: Vec<DeployId>,
    },
    /// The teardown is over.
    TeardownDone {
        /// When.
        time: Timestamp,
        /// What could not be closed.
        failed: Vec<DeployId>,
    },
    /// The run is over and its record is complete.
    RunDone {
        /// When.
        time: Timestamp,
        /// Which.
        run: RunId,
        /// How it ended.
        outcome: Outcome,
        /// Why, where it did not pass.
        reason: Option<String>,
        /// From its creation to its end.
        duration_ms: u64,
    },
}

/// A stream of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Where events go. Called in order, never concurrently for one run; must not block for long.
#[derive(Clone)]
pub struct Events(Arc<dyn Fn(&Event) + Send + Sync>);

impl Events {
    /// Sends events to a function.
    pub fn to(sink: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    /// Drops events.
    pub fn nowhere() -> Self {
        Self::to(|_| {})
    }

    pub(crate) fn send(&self, event: &Event) {
        (self.0)(event);
    }

    pub(crate) fn artifact_stored(&self, step: usize, artifact: &ArtifactRecord) {
        self.send(&Event::ArtifactStored {
            time: Timestamp::now(),
            step,
            id: artifact.id.clone(),
            name: artifact.name.clone(),
            size: artifact.size,
        });
    }
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Events")
    }
}

/// Says what a step is doing, from inside the operation that a provider carries out.
#[derive(Clone, Debug)]
pub struct StepProgress {
    events: Events,
    step: usize,
}

impl StepProgress {
    pub(crate) fn new(events: Events, step: usize) -> Self {
        Self { events, step }
    }

    /// Says it.
    pub fn say(&self, message: impl Into<String>) {
        self.events.send(&Event::Progress { time: Timestamp::now(), step: self.step, message: message.into() });
    }
}

/// A future of a trait object.
pub type Work<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The answer of an operation on a deploy.
pub type Answer<'a, T> = Work<'a, Result<T, ControlError>>;
