//! `cargo xtask test`: every test, or one suite of them.

use std::{path::PathBuf, process::Command};

use crate::{
    packages,
    run::{self, Failure, say, step},
    venv,
    workspace::Workspace,
};

/// The package of the end-to-end tests.
const END_TO_END: &str = "agentenv-tests";
/// What is installed where there is no nextest; newer ones may need a newer compiler.
const NEXTEST: &str = "cargo-nextest@0.9.143";
/// The test that stores the sites and envs from which every end-to-end test starts.
const PREPARE: &str = "test(=store::what_is_put_twice_is_stored_once)";

/// Which tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suite {
    All,
    Unit,
    EndToEnd,
    SingleUid,
}

/// The command line of `test`.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    suite: Suite,
    archive: Option<PathBuf>,
}

impl Options {
    /// Reads it; `None` where it is wrong.
    pub fn parse(mut words: &[&str]) -> Option<Self> {
        let mut options = Self { suite: Suite::All, archive: None };
        while let [name, value, rest @ ..] = words {
            match *name {
                "--suite" => {
                    options.suite = match *value {
                        "unit" => Suite::Unit,
                        "e2e" => Suite::EndToEnd,
                        "single-uid" => Suite::SingleUid,
                        _ => return None,
                    }
                }
                "--archive" => options.archive = Some(value.into()),
                _ => return None,
            }
            words = rest;
        }
        words.is_empty().then_some(options)
    }
}

/// Installs what is missing, builds, and runs the tests.
pub fn test(workspace: &Workspace, options: &Options) -> Result<(), Failure> {
    packages::install_missing(packages::TESTS)?;
    ensure_nextest(workspace)?;
    venv::ensure(workspace)?;
    let tests = Tests { workspace, archive: options.archive.clone(), all: options.suite == Suite::All };
    match options.suite {
        Suite::All => {
            tests.unit()?;
            tests.end_to_end(everything())
        }
        Suite::Unit => tests.unit(),
        Suite::EndToEnd => tests.end_to_end(everything()),
        Suite::SingleUid => tests.end_to_end("single-uid"),
    }
}

/// The profile of every end-to-end test that this user can run.
fn everything() -> &'static str {
    if packages::is_root() {
        return "default";
    }
    say!("    left out: the tests of live sites, which take root to make an internet of their own");
    "user"
}

struct Tests<'w> {
    workspace: &'w Workspace,
    archive: Option<PathBuf>,
    /// Whether every suite is run: then everything is built at once, since cargo builds what several packages need anew for each choice of
    /// packages that wants other features of it.
    all: bool,
}

impl Tests<'_> {
    fn unit(&self) -> Result<(), Failure> {
        if self.all {
            step("build agent-env and every test", || {
                self.cargo(&["build", "--workspace", "--bin", "agent-env", "--tests"])
            })?;
            let units = format!("not package({END_TO_END})");
            step("unit tests", || self.cargo(&["nextest", "run", "--workspace", "--filterset", &units]))?;
        } else {
            let tests = ["nextest", "run", "--workspace", "--exclude", END_TO_END];
            step("build the unit tests", || self.cargo(&[&tests[..], &["--no-run"]].concat()))?;
            step("unit tests", || self.cargo(&tests))?;
        }
        step("documentation's tests", || self.cargo(&["test", "--quiet", "--doc", "--workspace"]))?;
        for site in self.workspace.bundles("sites")? {
            let manifest = site.join("Cargo.toml");
            if manifest.is_file() {
                let name = site.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let manifest = manifest.display().to_string();
                step(&format!("tests of sites/{name}"), || {
                    run::run(&mut self.workspace.site_cargo(&manifest, "test", &[]))
                })?;
            }
        }
        Ok(())
    }

    fn end_to_end(&self, profile: &str) -> Result<(), Failure> {
        if self.archive.is_none() && !self.all {
            step("build agent-env and the end-to-end tests", || {
                self.workspace.build_program()?;
                self.cargo(&["nextest", "run", "--package", END_TO_END, "--no-run"])
            })?;
        }
        step("build and store the sites", || self.nextest("default", Some(PREPARE)))?;
        step("end-to-end tests", || self.nextest(profile, None))
    }

    fn nextest(&self, profile: &str, filter: Option<&str>) -> Result<(), Failure> {
        let mut command = self.command();
        command.args(["nextest", "run", "--profile", profile]);
        match &self.archive {
            Some(archive) => {
                command.arg("--archive-file").arg(archive).arg("--workspace-remap").arg(self.workspace.root())
            }
            None if self.all => command.arg("--workspace"),
            None => command.args(["--package", END_TO_END]),
        };
        let package = format!("package({END_TO_END})");
        command.args(["--filterset", &filter.map_or(package.clone(), |filter| format!("{package} & {filter}"))]);
        run::run(&mut command)
    }

    fn cargo(&self, arguments: &[&str]) -> Result<(), Failure> {
        run::run(self.command().args(arguments))
    }

    fn command(&self) -> Command {
        let mut command = Command::new("cargo");
        command
            .current_dir(self.workspace.root())
            .env("PATH", path_with_tools(self.workspace))
            .env("AGENTENV_CACHE_DIR", self.workspace.site_cache());
        command
    }
}

/// Installs nextest beside what is built, where the machine has none.
fn ensure_nextest(workspace: &Workspace) -> Result<(), Failure> {
    let found = Command::new("cargo")
        .args(["nextest", "--version"])
        .env("PATH", path_with_tools(workspace))
        .output()
        .is_ok_and(|output| output.status.success());
    if found {
        return Ok(());
    }
    say!("    there is no cargo-nextest: it is built once, which takes some minutes");
    step("install cargo-nextest", || {
        run::run(
            Command::new("cargo")
                .args(["install", "--locked", "--debug", "--quiet", NEXTEST, "--root"])
                .arg(workspace.target().join("tools")),
        )
    })
}

fn path_with_tools(workspace: &Workspace) -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([workspace.target().join("tools/bin")]);
    std::env::join_paths(places).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines() {
        let options = |words: &[&str]| Options::parse(words).map(|options| options.suite);
        for (words, suite) in [
            (&[][..], Some(Suite::All)),
            (&["--suite", "unit"], Some(Suite::Unit)),
            (&["--suite", "e2e", "--archive", "x"], Some(Suite::EndToEnd)),
            (&["--suite", "single-uid"], Some(Suite::SingleUid)),
            (&["--suite"], None),
            (&["--suite", "all"], None),
            (&["--fast", "1"], None),
        ] {
            assert_eq!(options(words), suite, "{words:?}");
        }
    }
}
