//! Tasks: steps, the runner and the run record.
//!
//! A task file says what an agent is to do and how to see that it did:
//!
//! ```
//! # use std::path::Path;
//! let text = r#"
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
//! data = { shop = { users = [{ username = "ada" }], products = [{ name = "Mug" }] } }
//!
//! [[step]]
//! kind = "browser_sign_in"
//! users = { shop = "ada" }
//!
//! [[step]]
//! name = "buy it"
//! kind = "agent"
//! command = ["python3", "agent.py"]
//! timeout_s = 600
//!
//! [[step]]
//! kind = "check"
//! website = "shop"
//! selector = { orders = { user = "ada" } }
//! pointer = "/orders/0/items/0/name"
//! equals = "Mug"
//! "#;
//! let task = agentenv_task::parse_task(Path::new("task.toml"), Path::new("."), text, &|file| std::fs::read(file))?;
//! assert_eq!(task.steps.len(), 5);
//! # Ok::<(), agentenv_task::Problems>(())
//! ```
//!
//! | step | keys |
//! |---|---|
//! | `deploy_env` | `env` (`office` or `office@3`), `provider`, `ready_timeout_s`, `deploy_name`, `capture_traffic`, `capture_files`, `capture_file_mb` |
//! | `load_data` | `data`: a table by website, each its own data or `{ file = "data.json" }`, relative to the task file |
//! | `browser_sign_in` | `users`: a user by website; `target`: one browser, every one without it |
//! | `agent` | `command`, run in the task file's folder; `env`; `goal`, in place of the task's |
//! | `check` | `[[step.expect]]` tables, or one expectation in the step itself, or `command` |
//! | `reset_env`, `close_env` | |
//! | `collect_traffic_capture` | `fail_task_on_error` |
//!
//! Every step may have `name` and `timeout_s`. Where several deploys are open, `deploy` names the `deploy_env` step that
//! is meant. An expectation has `website`, `selector` (what the site's `data/get` is asked for), `pointer` (a JSON Pointer
//! into the answer) and one of `equals`, `contains`, `matches`, `exists`, `length`, `equals_value_at` and
//! `contains_value_at`; the last two take another `{ website, selector, pointer }`.
//!
//! [`load_task`] reads a task, [`plan`] refuses what cannot work, [`Runner::run`] does it and leaves a [`RunRecord`] that
//! is readable at any moment, also after the runner's death; [`Runner::reap`] then closes what was left. Nothing is run a
//! second time: an agent's work in a site cannot be taken up in the middle, so [`Runner::resume`] goes on with the
//! teardown and the record only.

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
mod traffic;
mod universes;

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
pub use traffic::{
    CaptureError, CaptureLeft, CaptureSource, CollectionStatus, OpenCapture, RescueError, Rescued, StoredCapture,
    TRAFFIC_CAPTURES_KEY, TrafficCaptures, captures_outside, gaps as capture_gaps, open_captures,
};
pub use universes::{NewCapture, StoredUniverse, Universes};
