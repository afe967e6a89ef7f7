//! Tasks: steps, the runner and the run record.
//!
//! A task file says what an agent is to do and how to see that it did:
//!
//! ```toml
//! format = 1
//! name = "buy-a-mug"
//! goal = "Buy one mug at https://shop.test/."
//!
//! [[step]]
//! kind = "deploy_env"
//! env = "office"
//!
//! [[step]]
//! kind = "load_data"
//! data = { shop = { file = "shop.json" } }
//!
//! [[step]]
//! kind = "browser_sign_in"
//! users = { shop = "ada" }
//!
//! [[step]]
//! kind = "agent"
//! command = ["python3", "agent.py"]
//! timeout_s = 600
//!
//! [[step]]
//! kind = "check"
//! website = "shop"
//! pointer = "/orders/0/items/0/name"
//! equals = "Mug"
//! ```
//!
//! [`load_task`] reads it, [`plan`] refuses what cannot work, [`Runner::run`] does it and leaves a [`RunRecord`] that is
//! readable at any moment, also after the runner's death; [`Runner::reap`] then closes what was left.

mod action;
mod archive;
mod check;
mod collect;
mod control_deploys;
mod deploys;
mod event;
mod file;
mod harness;
mod outcome;
mod output;
mod plan;
mod record;
mod run_dir;
mod run_log;
mod runner;
mod stop;
mod store_log;
mod strays;

pub use action::{Action, Check, DeployEnv, DeployStep, Program, Step, StepKind, Task};
pub use archive::{ArchiveError, export_run, import_run};
pub use check::{Expectation, Pointer, PointerError, Test, ValueAt};
pub use control_deploys::{ControlDeploys, MakeDeploys};
pub use deploys::{DeployRequest, Deploys, PlannedDeploy, PlannedLiveWebsite};
pub use event::{Answer, Event, Events, StepProgress, Stream, Work};
pub use file::{Place, Problem, Problems, TaskFileError, load_task, parse_task};
pub use outcome::{Failure, Outcome};
pub use plan::{PlanError, PlannedTask, plan};
pub use record::{
    ArtifactRecord, Context, LIVE_WEBSITES_KEY, LiveWebsite, RunDeploy, RunDeployState, RunRecord, RunState,
    RunnerRecord, StepRecord, StepState, TeardownRecord,
};
pub use run_log::{LogError, NewFile, RunLog};
pub use runner::{Recovered, RunError, Runner, abandoned_runs};
pub use stop::{Stop, StopSender, stop};
pub use store_log::StoreLog;
