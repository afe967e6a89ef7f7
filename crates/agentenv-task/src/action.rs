//! Steps as values: each `[[step]]` becomes one [`Action`].

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use agentenv_protocol::Name;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{check::Expectation, file::Place};

/// Building nothing, a deploy is done in seconds; several slow sites may each take their `ready_timeout_s`.
const DEPLOY_TIMEOUT: Duration = Duration::from_secs(300);
/// Loading is one request a site; large catalogues take a while.
const LOAD_TIMEOUT: Duration = Duration::from_secs(120);
/// One request a site and one hidden page a browser.
const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(120);
/// What an agent is given to work when the task does not say.
const AGENT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// A cold reset restarts every browser.
const RESET_TIMEOUT: Duration = Duration::from_secs(120);
/// Reads of the sites' data, or a command.
const CHECK_TIMEOUT: Duration = Duration::from_secs(120);
/// Captures are files of 20 MB on the same disk.
const COLLECT_TIMEOUT: Duration = Duration::from_secs(300);
/// Every process gets TERM, its grace, KILL.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(120);

/// The kinds of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Starts a deploy.
    DeployEnv,
    /// Loads data into websites.
    LoadData,
    /// Signs users in, in browsers.
    BrowserSignIn,
    /// Lets the user's harness work.
    Agent,
    /// Resets sites and browsers.
    ResetEnv,
    /// Stores captures as artifacts.
    CollectTrafficCapture,
    /// Compares the sites' data with what is expected.
    Check,
    /// Ends a deploy.
    CloseEnv,
}

impl StepKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [Self; 8] = [
        Self::DeployEnv,
        Self::LoadData,
        Self::BrowserSignIn,
        Self::Agent,
        Self::ResetEnv,
        Self::CollectTrafficCapture,
        Self::Check,
        Self::CloseEnv,
    ];

    /// As task files write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeployEnv => "deploy_env",
            Self::LoadData => "load_data",
            Self::BrowserSignIn => "browser_sign_in",
            Self::Agent => "agent",
            Self::ResetEnv => "reset_env",
            Self::CollectTrafficCapture => "collect_traffic_capture",
            Self::Check => "check",
            Self::CloseEnv => "close_env",
        }
    }

    /// How long it may take when the step has no `timeout_s`.
    pub fn default_timeout(self) -> Duration {
        match self {
            Self::DeployEnv => DEPLOY_TIMEOUT,
            Self::LoadData => LOAD_TIMEOUT,
            Self::BrowserSignIn => SIGN_IN_TIMEOUT,
            Self::Agent => AGENT_TIMEOUT,
            Self::ResetEnv => RESET_TIMEOUT,
            Self::CollectTrafficCapture => COLLECT_TIMEOUT,
            Self::Check => CHECK_TIMEOUT,
            Self::CloseEnv => CLOSE_TIMEOUT,
        }
    }
}

impl std::fmt::Display for StepKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which of the task's deploys a step means: the place of its `deploy_env` among the task's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeployStep(pub usize);

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its own name.
    pub name: Option<String>,
    /// Where it stands in the file.
    pub place: Place,
    /// How long it may take.
    pub timeout: Duration,
    /// What it does.
    pub action: Action,
}

impl Step {
    /// As progress and records call it: its name, else its kind.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.action.kind().as_str())
    }
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Action {
    /// Starts a deploy.
    DeployEnv(DeployEnv),
    /// Loads data.
    LoadData {
        /// Where.
        deploy: DeployStep,
        /// Website to its own JSON.
        data: BTreeMap<Name, Value>,
    },
    /// Signs users in.
    BrowserSignIn {
        /// Where.
        deploy: DeployStep,
        /// Website to user.
        users: BTreeMap<Name, String>,
        /// One browser; every browser without it.
        target: Option<Name>,
    },
    /// Runs the user's harness.
    Agent {
        /// Where.
        deploy: DeployStep,
        /// What to run.
        program: Program,
        /// What the agent is told, instead of the task's goal.
        goal: Option<String>,
    },
    /// Resets.
    ResetEnv {
        /// Which.
        deploy: DeployStep,
    },
    /// Stores captures.
    CollectTrafficCapture {
        /// Whose.
        deploy: DeployStep,
        /// Whether a failure ends the task (CAP-5).
        fail_task_on_error: bool,
    },
    /// Checks.
    Check {
        /// Where.
        deploy: DeployStep,
        /// What is expected.
        check: Check,
    },
    /// Ends a deploy.
    CloseEnv {
        /// Which.
        deploy: DeployStep,
    },
}

impl Action {
    /// Its kind.
    pub fn kind(&self) -> StepKind {
        match self {
            Self::DeployEnv(_) => StepKind::DeployEnv,
            Self::LoadData { .. } => StepKind::LoadData,
            Self::BrowserSignIn { .. } => StepKind::BrowserSignIn,
            Self::Agent { .. } => StepKind::Agent,
            Self::ResetEnv { .. } => StepKind::ResetEnv,
            Self::CollectTrafficCapture { .. } => StepKind::CollectTrafficCapture,
            Self::Check { .. } => StepKind::Check,
            Self::CloseEnv { .. } => StepKind::CloseEnv,
        }
    }

    /// The deploy that it needs; none for the step that makes one.
    pub fn deploy(&self) -> Option<DeployStep> {
        match self {
            Self::DeployEnv(_) => None,
            Self::LoadData { deploy, .. }
            | Self::BrowserSignIn { deploy, .. }
            | Self::Agent { deploy, .. }
            | Self::ResetEnv { deploy }
            | Self::CollectTrafficCapture { deploy, .. }
            | Self::Check { deploy, .. }
            | Self::CloseEnv { deploy } => Some(*deploy),
        }
    }
}

/// A `deploy_env` step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployEnv {
    /// The stored env.
    pub env: Name,
    /// Its version; the latest without one.
    pub version: Option<u64>,
    /// The unique name that the deploy gets.
    pub deploy_name: Option<Name>,
    /// `sandbox`, `compose` or `process`; the default without it.
    pub provider: Option<String>,
    /// Whether its websites' packets are recorded (CAP-1).
    pub capture_traffic: bool,
    /// How many files each website's ring has; the default without it.
    pub capture_files: Option<u32>,
    /// How long each of them gets, in MB of 10^6 bytes; the default without it.
    pub capture_file_mb: Option<u32>,
    /// How long each site may take to be ready; what its env says without it.
    pub ready_timeout: Option<Duration>,
}

/// A host program that a step runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Program and arguments; it runs in the task file's folder.
    pub command: Vec<String>,
    /// Variables that it gets besides.
    pub env: BTreeMap<String, String>,
}

/// What a `check` step checks.
#[derive(Clone, Debug)]
pub enum Check {
    /// The sites' data.
    Data(Vec<Expectation>),
    /// That a program ends with 0.
    Command(Program),
}

/// A task as its file says it: every value good by itself.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name.
    pub name: Name,
    /// What the agent is told.
    pub goal: String,
    /// The file as it was named.
    pub file: PathBuf,
    /// Where its programs run: the file's folder.
    pub folder: PathBuf,
    /// Its steps; never empty.
    pub steps: Vec<Step>,
}

impl Task {
    /// Whether one of its steps resets this deploy.
    pub fn resets(&self, deploy: DeployStep) -> bool {
        let resets = |step: &Step| matches!(step.action, Action::ResetEnv { deploy: of } if of == deploy);
        self.steps.iter().any(resets)
    }
}
