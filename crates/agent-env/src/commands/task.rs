//! `task run`.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use agentenv_deploy::HostSettings;
use agentenv_protocol::{ExitCode as Exit, Home, control::ControlError};
use agentenv_store::Store;
use agentenv_task::{
    ControlDeploys, Events, Outcome, PlanError, Problems, RunRecord, Runner, Stop, StopSender, TaskFileError,
    load_task, plan, stop,
};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::{host::HostArgs, launch::Launcher, run};
use crate::{
    output::{Output, harmless, print},
    progress::{self, seconds},
    put::store_error,
};

/// Arguments of `task run`.
#[derive(Args, Debug)]
pub(crate) struct TaskRunArgs {
    /// The task file
    file: PathBuf,
    /// Use accounts of live sites that other deploys use already
    #[arg(long)]
    share_account: bool,
    #[command(flatten)]
    host: HostArgs,
}

/// Runs a task. A task that does not pass is a result, not an error: its summary and its exit code say how it ended.
pub(crate) async fn run(home: &Home, output: Output, args: TaskRunArgs) -> Result<ExitCode, ControlError> {
    let task = load_task(&args.file).map_err(|error| file_error(&error))?;
    let launcher = Launcher::new(home.clone(), args.host.settings()?, args.share_account);
    let deploys = ControlDeploys::new(home.clone(), Arc::new(launcher));
    let task = plan(task, &deploys).await.map_err(plan_error)?;
    let store = Store::open(home).await.map_err(store_error)?;
    let runner = Runner::new(home.clone(), Arc::new(deploys), run::log(&store), progress::run_events(output));
    let stop = stop_on_signals(output)?;
    let record = runner.run(task, &stop).await.map_err(|error| run::run_error(&error))?;
    if !output.json {
        print(&harmless(&summary(home, &record)))?;
    }
    Ok(record.outcome.unwrap_or(Outcome::InfrastructureError).exit_code().into())
}

/// The runner of a home, for what was begun: it makes no deploys.
pub(crate) fn runner(home: &Home, store: &Store, events: Events) -> Runner {
    let launcher = Launcher::new(home.clone(), HostSettings::default(), false);
    let deploys = ControlDeploys::new(home.clone(), Arc::new(launcher));
    Runner::new(home.clone(), Arc::new(deploys), run::log(store), events)
}

/// The first signal asks the run to stop, which closes everything; a second one ends this process at once, and the next
/// command closes what is left.
fn stop_on_signals(output: Output) -> Result<Stop, ControlError> {
    let (sender, stop) = stop();
    let kinds =
        [(SignalKind::interrupt(), "SIGINT"), (SignalKind::terminate(), "SIGTERM"), (SignalKind::hangup(), "SIGHUP")];
    let sender = Arc::new(sender);
    for (kind, name) in kinds {
        let mut signals = signal(kind)
            .map_err(|error| ControlError::infrastructure(format!("{name} cannot be listened for: {error}")))?;
        let (sender, heard): (Arc<StopSender>, Stop) = (Arc::clone(&sender), stop.clone());
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if heard.is_asked().is_some() {
                    progress::note(output, "ended at once; the next agent-env command closes what is left");
                    std::process::exit(i32::from(Exit::Infrastructure as u8));
                }
                progress::note(output, &format!("{name}: closing what was made; again to end at once"));
                sender.ask(name);
            }
        });
    }
    Ok(stop)
}

fn summary(home: &Home, record: &RunRecord) -> String {
    let outcome = record.outcome.map_or("unknown", Outcome::as_str);
    let took = record.ended_at.map_or(0, |ended| ended.duration_since(record.created_at).as_millis());
    let done = record.steps.iter().filter(|step| step.outcome == Some(Outcome::Passed)).count();
    let mut lines = vec![format!(
        "{} {outcome}: {done} of {} steps passed in {}",
        record.task,
        record.steps.len(),
        seconds(u64::try_from(took).unwrap_or(0))
    )];
    lines.extend(record.reason.iter().map(|reason| format!("  {reason}")));
    for step in record.steps.iter().filter(|step| step.outcome.is_some_and(|outcome| outcome != Outcome::Passed)) {
        lines.extend(step.hint.iter().map(|hint| format!("  hint: {hint}")));
        lines.extend(step.log.iter().map(|line| format!("  | {line}")));
    }
    lines.extend(record.warnings.iter().map(|warning| format!("  warning: {warning}")));
    let folder = home.run(&record.run);
    lines.push(format!("record: agent-env run show {}  ({})", record.run, folder.join("record.json").display()));
    lines.join("\n")
}

fn file_error(error: &TaskFileError) -> ControlError {
    match error {
        TaskFileError::Problems(problems) => problems_error(problems),
        TaskFileError::Io { .. } => ControlError::new(Exit::Refused, format!("the task file cannot be read: {error}")),
    }
}

fn plan_error(error: PlanError) -> ControlError {
    match error {
        PlanError::Refused(problems) => problems_error(&problems),
        PlanError::Deploys(error) => error,
    }
}

/// One problem as a sentence, several as lines below one.
fn problems_error(problems: &Problems) -> ControlError {
    match problems.list() {
        [problem] => {
            let message = format!("{}:{}:{}: {}", problem.file, problem.line, problem.column, problem.message);
            ControlError::new(Exit::Refused, message).hint(&problem.accepted)
        }
        several => ControlError::new(Exit::Refused, format!("the task has {} problems", several.len()))
            .hint("mend each of these")
            .log(several.iter().map(ToString::to_string).collect()),
    }
}
