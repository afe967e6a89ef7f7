//! `cargo xtask`: everything that people and CI do with this project, by one command each.
//!
//! | command | does |
//! |---|---|
//! | `demo` | installs what is missing, builds, runs the main job |
//! | `test [--suite unit\|e2e\|single-uid] [--archive FILE]` | installs what is missing, runs every test, or one suite |
//! | `site-cargo MANIFEST SUBCOMMAND [ARGUMENT...]` | runs Cargo for a site, with this clone's SDK |
//! | `setup` | only installs what is missing |
//! | `bench deploy\|reset\|computer\|capture\|proxy` | prints ratios against the floor, and against other programs |

mod demo;
mod packages;
mod run;
mod test;
mod venv;
mod workspace;

use std::process::{Command, ExitCode};

use run::{Failure, say};
use workspace::Workspace;

const USAGE: &str = "usage: cargo xtask demo
       cargo xtask test [--suite unit|e2e|single-uid] [--archive FILE]
       cargo xtask setup
       cargo xtask site-cargo MANIFEST SUBCOMMAND [ARGUMENT...]
       cargo xtask bench deploy|reset|computer|capture|proxy";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let Some(workspace) = Workspace::find() else {
        say!("cargo xtask runs inside a clone of the project");
        return ExitCode::from(2);
    };
    let result = match words.as_slice() {
        ["demo"] => demo::demo(&workspace),
        ["setup"] => packages::install_missing(packages::TESTS).and_then(|()| venv::ensure(&workspace)),
        ["test", options @ ..] => match test::Options::parse(options) {
            Some(options) => test::test(&workspace, &options),
            None => return usage(),
        },
        ["site-cargo", manifest, subcommand, arguments @ ..] => {
            run::run(&mut workspace.site_cargo(manifest, subcommand, arguments))
        }
        ["bench", what @ ("deploy" | "reset" | "computer" | "capture" | "proxy")] => bench(&workspace, what),
        _ => return usage(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say!("{failure}");
            failure.exit_code()
        }
    }
}

fn usage() -> ExitCode {
    say!("{USAGE}");
    ExitCode::from(2)
}

/// The benchmarks are a package of their own, so that the other commands don't wait for what it needs to build.
fn bench(workspace: &Workspace, what: &str) -> Result<(), Failure> {
    packages::install_missing(packages::DEMO)?;
    if what == "computer" {
        packages::install_missing(packages::BENCH_COMPUTER)?;
    }
    let mut bench = Command::new("cargo");
    bench.current_dir(workspace.root()).args(["run", "--quiet", "--package", "agentenv-bench", "--", what]);
    // Another build of the program, such as an optimized one, is measured where the caller names it.
    if std::env::var_os("AGENTENV_PROGRAM").is_none() {
        workspace.build_program()?;
        bench.env("AGENTENV_PROGRAM", workspace.program());
    }
    run::run(&mut bench)
}
