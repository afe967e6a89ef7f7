//! `run list|show|resume|artifacts|export|import`.

mod view;

use std::{
    fs,
    path::{Component, Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use agentenv_protocol::{ExitCode as Exit, Home, RunId, control::ControlError};
use agentenv_store::Store;
use agentenv_task::{
    ArchiveError, ArtifactRecord, LogError, RunError, RunLog, RunRecord, Runner, StoreLog, export_run, import_run,
};
use clap::{Args, Subcommand};
use serde_json::json;

use super::task;
use crate::{
    output::{Output, columns},
    progress,
    put::store_error,
};

/// Means the newest run.
const LATEST: &str = "latest";

/// The commands on runs.
#[derive(Subcommand, Debug)]
pub(crate) enum RunCommand {
    /// List runs, the newest first
    List(ListArgs),
    /// Show a run's record, also while it goes on
    Show(RunArg),
    /// End an interrupted run: close what it left, store what it wrote, record its outcome
    Resume(RunArg),
    /// List a run's artifacts, or write them into a folder
    Artifacts(ArtifactsArgs),
    /// Write a run with its artifacts into one file
    Export(ExportArgs),
    /// Take an exported run into the store
    Import(ImportArgs),
}

/// Arguments of `run list`.
#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    /// How many at most
    #[arg(long, default_value_t = 50)]
    limit: u32,
}

/// Names one run.
#[derive(Args, Debug)]
pub(crate) struct RunArg {
    /// A run's id, or `latest`
    run: String,
}

/// Arguments of `run artifacts`.
#[derive(Args, Debug)]
pub(crate) struct ArtifactsArgs {
    #[command(flatten)]
    run: RunArg,
    /// Write them into this folder
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Arguments of `run export`.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    run: RunArg,
    /// The file, a tar
    file: PathBuf,
}

/// Arguments of `run import`.
#[derive(Args, Debug)]
pub(crate) struct ImportArgs {
    /// An exported run
    file: PathBuf,
}

/// Runs the command.
pub(crate) async fn run(home: &Home, output: Output, command: RunCommand) -> Result<ExitCode, ControlError> {
    let store = Store::open(home).await.map_err(store_error)?;
    let log = StoreLog::new(store.clone());
    let done = match command {
        RunCommand::List(args) => list(home, output, &store, &args).await,
        RunCommand::Show(args) => {
            let record = args.record(&log).await?;
            let alive = runner(home, output, &store).is_alive(&record);
            output.result(&record, || view::show(home, &record, alive))
        }
        RunCommand::Resume(args) => return resume(home, output, &store, &args).await,
        RunCommand::Artifacts(args) => artifacts(output, &log, &args).await,
        RunCommand::Export(args) => {
            let run = args.run.id(&log).await?;
            let record = export_run(&log, &run, &args.file).await.map_err(|error| archive_error(&error))?;
            let count = record.artifacts.len();
            let result = json!({ "run": run, "file": args.file, "artifacts": count });
            output.result(&result, || format!("{run} with {count} artifacts is in {}", args.file.display()))
        }
        RunCommand::Import(args) => {
            let record = import_run(&log, &args.file).await.map_err(|error| archive_error(&error))?;
            let run = &record.run;
            let result = json!({ "run": run, "artifacts": record.artifacts.len() });
            output.result(&result, || format!("{run} is here: `agent-env run show {run}`"))
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn runner(home: &Home, output: Output, store: &Store) -> Runner {
    task::runner(home, store, progress::run_events(output))
}

impl RunArg {
    async fn id(&self, log: &StoreLog) -> Result<RunId, ControlError> {
        if self.run == LATEST {
            let newest = log.list(1).await.map_err(|error| log_error(&error))?.pop();
            return newest.map(|record| record.run).ok_or_else(|| {
                ControlError::new(Exit::Refused, "there is no run yet").hint("`agent-env task run FILE` makes one")
            });
        }
        RunId::parse(&self.run).map_err(|error| {
            ControlError::new(Exit::Usage, error.to_string()).hint("`agent-env run list` shows the runs")
        })
    }

    async fn record(&self, log: &StoreLog) -> Result<RunRecord, ControlError> {
        log.get(&self.id(log).await?).await.map_err(|error| log_error(&error))
    }
}

async fn list(home: &Home, output: Output, store: &Store, args: &ListArgs) -> Result<(), ControlError> {
    let records = StoreLog::new(store.clone()).list(args.limit).await.map_err(|error| log_error(&error))?;
    let runner = runner(home, output, store);
    let entry = |record: &RunRecord| view::Entry::of(record, runner.is_alive(record));
    let entries: Vec<_> = records.iter().map(entry).collect();
    output.result(&entries, || view::list(&entries))
}

async fn resume(home: &Home, output: Output, store: &Store, args: &RunArg) -> Result<ExitCode, ControlError> {
    let run = args.id(&StoreLog::new(store.clone())).await?;
    let recovered = runner(home, output, store).resume(&run).await.map_err(|error| run_error(&error))?;
    let record = recovered.record;
    let shown = || format!("{run} is over, nothing of it is left\n\n{}", view::show(home, &record, false));
    output.result(&json!({ "changed": recovered.changed, "record": record }), shown)?;
    Ok(ExitCode::SUCCESS)
}

async fn artifacts(output: Output, log: &StoreLog, args: &ArtifactsArgs) -> Result<(), ControlError> {
    let record = args.run.record(log).await?;
    let Some(folder) = &args.output else {
        return output.result(&record.artifacts, || view::artifacts(&record.artifacts));
    };
    let failed = |path: &Path, error: std::io::Error| {
        ControlError::new(Exit::Refused, format!("{} cannot be written: {error}", path.display()))
            .hint("choose another --output")
    };
    let mut written = Vec::new();
    for artifact in &record.artifacts {
        let path = folder.join(file_name(artifact));
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        if path.symlink_metadata().is_ok() {
            return Err(failed(&path, std::io::ErrorKind::AlreadyExists.into()));
        }
        log.write_artifact(&record.run, artifact, path.clone()).await.map_err(|error| log_error(&error))?;
        written.push(path);
    }
    output.result(&json!({ "run": record.run, "files": written }), || {
        let rows: Vec<Vec<String>> = written.iter().map(|path| vec![path.display().to_string()]).collect();
        if rows.is_empty() { format!("{} has no artifacts", record.run) } else { columns(&rows) }
    })
}

/// Where an artifact is written: its name where that leads downwards only, its id otherwise.
fn file_name(artifact: &ArtifactRecord) -> PathBuf {
    let name = Path::new(&artifact.name);
    let downwards = name.components().all(|part| matches!(part, Component::Normal(_)));
    if downwards && !artifact.name.is_empty() { name.to_owned() } else { artifact.id.clone().into() }
}

/// Why a record or an artifact could not be kept or read.
pub(crate) fn log_error(error: &LogError) -> ControlError {
    let (exit, hint) = match error {
        LogError::NoRun(_) => (Exit::Refused, "`agent-env run list` shows the runs"),
        LogError::RunExists(_) => (Exit::Refused, "`agent-env run show` shows it"),
        LogError::NoArtifact { .. } => (Exit::Refused, "`agent-env run artifacts` lists them"),
        LogError::Unreadable { .. } => (Exit::Refused, "it may be of a newer agent-env"),
        LogError::Store(_) => (Exit::Infrastructure, "see that the disk is not full"),
    };
    ControlError::new(exit, error.to_string()).hint(hint)
}

fn archive_error(error: &ArchiveError) -> ControlError {
    match error {
        ArchiveError::Log(error) => log_error(error),
        ArchiveError::NotOver(run) => ControlError::new(Exit::Refused, error.to_string())
            .hint(format!("wait for it, or end it with `agent-env run resume {run}` where it was interrupted")),
        ArchiveError::NotARun { .. } => {
            ControlError::new(Exit::Refused, error.to_string()).hint("`agent-env run export` writes such files")
        }
        ArchiveError::Io { source, .. } => {
            let full = matches!(source.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded);
            let exit = if full { Exit::Infrastructure } else { Exit::Refused };
            ControlError::new(exit, error.to_string())
        }
    }
}

/// Why a run could not be begun, ended, or recorded.
pub(crate) fn run_error(error: &RunError) -> ControlError {
    match error {
        RunError::Log(error) => log_error(error),
        RunError::Alive(run) => ControlError::new(Exit::Refused, error.to_string())
            .hint(format!("`agent-env run show {run}` shows where it is")),
        RunError::Folder { .. } | RunError::NotRecorded { .. } => {
            ControlError::infrastructure(error.to_string()).hint("see that the disk is not full")
        }
    }
}

/// Ends runs whose runner died, before any command (RUN-3); says so on standard error. It never fails the command.
pub(crate) async fn reap(home: &Home, output: Output) {
    // A look at the folders: the store is opened only where there is something to do.
    if agentenv_task::abandoned_runs(home).is_empty() {
        return;
    }
    let store = match Store::open(home).await {
        Ok(store) => store,
        Err(error) => return progress::note(output, &format!("interrupted runs cannot be ended yet: {error}")),
    };
    for done in task::runner(home, &store, agentenv_task::Events::nowhere()).reap().await {
        match done {
            Ok(recovered) if recovered.changed => {
                let record = recovered.record;
                let outcome = record.outcome.map(|outcome| outcome.to_string()).unwrap_or_default();
                progress::note(output, &format!("run {} was interrupted; it is ended as {outcome}", record.run));
            }
            Ok(_) => {}
            Err((run, error)) => {
                progress::note(output, &format!("run {run} was interrupted and cannot be ended yet: {error}"));
            }
        }
    }
}

/// The log of a store, as a trait object.
pub(crate) fn log(store: &Store) -> Arc<dyn RunLog> {
    Arc::new(StoreLog::new(store.clone()))
}
