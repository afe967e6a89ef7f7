//! `cargo xtask demo`: the main job, from nothing to a run record.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use crate::{
    packages,
    run::{self, Failure, say, step},
    venv,
    workspace::Workspace,
};

const TASK: &str = "tasks/buy-and-report.toml";
const SITES: [&str; 2] = ["sites/shop", "sites/tracker"];

/// Installs, builds, stores the sites and envs, runs the task, tells what happened.
pub fn demo(workspace: &Workspace) -> Result<(), Failure> {
    let start = Instant::now();
    packages::install_missing(packages::DEMO)?;
    venv::ensure(workspace)?;
    step("build agent-env", || workspace.build_program())?;
    let demo = Demo { workspace, home: home(workspace) };
    for site in SITES {
        step(&format!("agent-env website put {site}"), || demo.agent_env(&["website", "put", site]))?;
    }
    for env in workspace.envs()? {
        step(&format!("agent-env env put {env}"), || demo.agent_env(&["env", "put", &env]))?;
    }
    step(&format!("agent-env task run {TASK}"), || demo.agent_env(&["task", "run", TASK]))?;
    demo.summary(start)
}

/// `$AGENTENV_HOME`, or a folder beside what is built.
fn home(workspace: &Workspace) -> PathBuf {
    env::var_os("AGENTENV_HOME").map_or_else(|| workspace.target().join("demo"), PathBuf::from)
}

struct Demo<'w> {
    workspace: &'w Workspace,
    home: PathBuf,
}

impl Demo<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(self.workspace.program());
        // The task's agent is a Playwright script: its `python3` is the one that has Playwright.
        let path = env::var_os("PATH").unwrap_or_default();
        let places = std::iter::once(venv::folder(self.workspace).join("bin"))
            .chain(env::split_paths(&path))
            .collect::<Vec<_>>();
        command
            .current_dir(self.workspace.root())
            .env("PATH", env::join_paths(places).unwrap_or(path))
            .env("AGENTENV_HOME", &self.home)
            .env("AGENTENV_CACHE_DIR", self.workspace.site_cache());
        command
    }

    fn agent_env(&self, arguments: &[&str]) -> Result<(), Failure> {
        run::run(self.command().args(arguments))
    }

    fn summary(&self, start: Instant) -> Result<(), Failure> {
        let runs = self.home.join("runs");
        let record = newest(&runs).ok_or_else(|| Failure::Absent(format!("{}: no run record", runs.display())))?;
        let run = record.file_name().unwrap_or_default().to_string_lossy().into_owned();
        step("what happened", || self.agent_env(&["run", "show", &run]))?;
        let program = self.workspace.program();
        say!("\nThe demo took {:.0} s. Its record: {}", start.elapsed().as_secs_f64(), record.display());
        say!("Read it again: AGENTENV_HOME={} {} run show {run}", self.home.display(), program.display());
        Ok(())
    }
}

fn newest(folder: &Path) -> Option<PathBuf> {
    let entries = folder.read_dir().ok()?.flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("r-"))
        .max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok())
        .map(|entry| entry.path())
}
