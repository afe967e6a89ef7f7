//! `traffic rescue`, and the storing of what a closed deploy outside any run has captured (CAP-7).

use agentenv_deploy::DeployDir;
use agentenv_protocol::{DeployId, ExitCode, Home, RunId, control::ControlError};
use agentenv_store::Store;
use agentenv_task::{RescueError, Rescued, RunError};
use clap::Args;
use serde_json::{Value, json};

use super::captures::Captures;
use crate::{
    commands::{run, task},
    output::Output,
    progress::{self, Activity},
    put::store_error,
};

/// Arguments of `traffic rescue`.
#[derive(Args, Debug)]
pub(crate) struct RescueArgs {
    /// A deploy's id or name
    #[arg(required_unless_present = "run", conflicts_with = "run")]
    deploy: Option<String>,
    /// Every deploy of this run
    #[arg(long)]
    run: Option<RunId>,
}

/// `traffic rescue`
pub(super) async fn rescue(home: &Home, output: Output, args: &RescueArgs) -> Result<(), ControlError> {
    let activity = Activity::start(output, "storing captured traffic");
    let store = Store::open(home).await.map_err(store_error)?;
    let runner = task::runner(home, &store, agentenv_task::Events::nowhere());
    let rescued = match (&args.deploy, &args.run) {
        (Some(text), _) => {
            let deploy = Captures::open(home, text).await?.deploy;
            vec![runner.rescue_deploy(&deploy).await.map_err(|error| rescue_error(&error))?]
        }
        (None, Some(run)) => {
            let rescued = runner.rescue_run(run).await.map_err(|error| rescue_error(&error))?;
            if rescued.is_empty() {
                return Err(ControlError::new(ExitCode::Refused, format!("no deploy of run `{run}` captures traffic"))
                    .hint("set `capture_traffic = true` in its task's deploy_env step"));
            }
            rescued
        }
        (None, None) => Vec::new(),
    };
    activity.finish();
    let entries: Vec<Value> = rescued.iter().map(entry).collect();
    output.result(&entries, || rescued.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    // What was rotated away cannot be had any more, and is said above: everything that is there is stored.
    let left: Vec<String> =
        rescued.iter().filter(|rescued| is_left(rescued)).map(|one| one.deploy.to_string()).collect();
    if left.is_empty() {
        return Ok(());
    }
    Err(ControlError::infrastructure(format!("not all of the traffic of {} is stored", left.join(", ")))
        .hint("what is not stored stays where it is: mend what is in the way and rescue again"))
}

fn is_left(rescued: &Rescued) -> bool {
    let lost_only = rescued.captures.as_ref().is_some_and(|entry| {
        entry.not_stored.is_empty() && entry.reason == rescued.reason && !entry.rotated_away.is_empty()
    });
    rescued.reason.is_some() && !lost_only
}

fn entry(rescued: &Rescued) -> Value {
    let captures = rescued.captures.as_ref();
    json!({
        "deploy": rescued.deploy,
        "run": rescued.run,
        "universe_id": captures.map(|captures| &captures.universe_id),
        "status": captures.map(|captures| captures.status),
        "reason": rescued.reason,
        "stored_now": rescued.stored,
        "files": captures.map(|captures| captures.files.as_slice()).unwrap_or_default(),
        "not_stored": captures.map(|captures| captures.not_stored.as_slice()).unwrap_or_default(),
    })
}

fn line(rescued: &Rescued) -> String {
    let Some(captures) = &rescued.captures else { return format!("{}: nothing was captured", rescued.deploy) };
    let files = captures.files.len();
    let reason = rescued.reason.as_ref().map(|reason| format!("; {reason}")).unwrap_or_default();
    let status = if captures.is_complete() { "all of it is stored" } else { "not all of it is stored" };
    format!(
        "{}: {} files stored now, {files} in all, {} bytes: {status}{reason}",
        rescued.deploy,
        rescued.stored,
        captures.bytes()
    )
}

/// Stores what a deploy that was just closed has captured, where no run does it; returns what became of it, for the result. What
/// goes wrong does not undo the close: it is said, and the files stay on disk.
pub(crate) async fn store_of_closed(home: &Home, output: Output, deploy: &DeployId) -> Value {
    let dir = DeployDir::new(home.deploy(deploy));
    // The record of a deploy that is over names the websites whose captures nobody stored.
    let unstored =
        dir.load().ok().and_then(|record| record.captures).is_some_and(|captures| !captures.unstored.is_empty());
    if !unstored {
        return Value::Null;
    }
    let rescued = async {
        let store = Store::open(home).await.map_err(store_error)?;
        let runner = task::runner(home, &store, agentenv_task::Events::nowhere());
        match runner.rescue_deploy(deploy).await {
            Ok(rescued) => Ok(Some(rescued)),
            // Its run collects what it has.
            Err(RescueError::Run(RunError::Alive(_))) => Ok(None),
            Err(error) => Err(rescue_error(&error)),
        }
    };
    let reason = match rescued.await {
        Ok(None) => return Value::Null,
        Ok(Some(rescued)) if rescued.reason.is_none() => return entry(&rescued),
        Ok(Some(rescued)) => rescued.reason.unwrap_or_default(),
        Err(error) => error.message,
    };
    progress::note(
        output,
        &format!(
            "not all of its traffic is stored: {reason}; the rest stays in {} until `agent-env traffic rescue {deploy}`",
            dir.captures().display()
        ),
    );
    json!({ "status": "partial", "reason": reason })
}

fn rescue_error(error: &RescueError) -> ControlError {
    match error {
        RescueError::Run(error) => run::run_error(error),
        RescueError::Busy(_) => ControlError::new(ExitCode::Refused, error.to_string()).hint("wait until it has ended"),
        RescueError::Deploy(error) => error.clone(),
        RescueError::Folder { .. } => ControlError::infrastructure(error.to_string()),
    }
}
