//! A state directory of a test's own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use agentenv_protocol::control::DeployInfo;
use tempfile::TempDir;

use crate::{Bundle, Deploy, Outcome, Process, Processes, program, run_within, store};

/// No command of the tests takes longer on two busy cores.
const LIMIT: Duration = Duration::from_secs(100);

/// A state directory that goes with the test, and the program run in it.
pub struct Home {
    folder: TempDir,
    variables: Vec<(String, String)>,
}

impl Home {
    /// An empty one.
    pub fn empty() -> Self {
        // Short: the path of a UNIX socket has 107 bytes at most.
        let folder = tempfile::Builder::new().prefix("ae-").tempdir().expect("a temporary folder");
        Self { folder, variables: Vec::new() }
    }

    /// One that has every site and env of the project stored.
    pub fn new() -> Self {
        let home = Self::empty();
        store::copy(home.path());
        home
    }

    /// Sets a variable for the commands.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Unsets a variable for the commands.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.variables.retain(|(set, _)| set != name);
        self
    }

    /// Its folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The program with these arguments, working in this home.
    pub fn command<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = store::command(self.path());
        command.args(arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the program with these arguments.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Outcome {
        run_within(LIMIT, &mut self.command(arguments.iter().copied()), None)
    }

    /// Starts the program and leaves it running.
    pub fn start(&self, arguments: &[&str]) -> Child {
        self.command(arguments.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts")
    }

    /// Stores a bundle of the test's own.
    #[track_caller]
    pub fn put(&self, bundle: &Bundle) {
        let kind = if bundle.is_website() { "website" } else { "env" };
        self.run(&[kind, "put", bundle.path()]).ok();
    }

    /// Stores a secret.
    #[track_caller]
    pub fn set_secret(&self, path: &str, value: &str) -> Outcome {
        run_within(LIMIT, &mut self.command(["secret", "set", path]), Some(value.as_bytes()))
    }

    /// The supervisor of one of its deploys, if there is one.
    pub fn supervisor(&self) -> Option<Process> {
        Processes::all().supervisors(&self.deploys()).next().cloned()
    }

    /// Deploys a stored env, with more arguments where a test has some.
    #[track_caller]
    pub fn deploy_with(&self, env: &str, more: &[&str]) -> Deploy<'_> {
        let mut arguments = vec!["env", "deploy", env, "--json"];
        arguments.extend(more);
        let json = self.run(&arguments).json();
        let info: DeployInfo = serde_json::from_value(json).expect("the deploy's JSON has its shape");
        Deploy::of(self, info)
    }

    /// Deploys a stored env.
    #[track_caller]
    pub fn deploy(&self, env: &str) -> Deploy<'_> {
        self.deploy_with(env, &[])
    }

    /// The folder of the deploys.
    pub fn deploys(&self) -> PathBuf {
        self.path().join("deploys")
    }

    /// The folder of one deploy.
    pub fn deploy_folder(&self, id: &str) -> PathBuf {
        self.deploys().join(id)
    }

    /// The ids of all deploys that have a folder.
    pub fn deploy_ids(&self) -> Vec<String> {
        let entries = fs::read_dir(self.deploys()).into_iter().flatten().flatten();
        let mut ids: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        ids.retain(|name| name.starts_with("d-"));
        ids.sort();
        ids
    }

    /// Checks that no process works for this home, and nothing is mounted in it.
    #[track_caller]
    pub fn assert_idle(&self) {
        crate::eventually("every process of this home is gone", crate::PATIENCE, || {
            Processes::all().of_home(self.path(), &program()).is_empty().then_some(())
        });
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("mountinfo is readable");
        let folder = self.path().display().to_string();
        assert!(!mounts.contains(&folder), "something is mounted in {folder}");
    }
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}
