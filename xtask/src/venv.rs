//! The Python environment: Playwright for the demo's agent and the tests' scripts, `mcp` for a test of the MCP server.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    run::{self, Failure, step},
    workspace::Workspace,
};

/// Debian's own: another one on `PATH` may be a shim that only its owner can run.
const PYTHON: &str = "/usr/bin/python3";
const REQUIREMENTS: &str = include_str!("../requirements.txt");

/// Where it is.
pub fn folder(workspace: &Workspace) -> PathBuf {
    workspace.target().join("venv")
}

/// Makes it, or makes it anew where the requirements have changed.
pub fn ensure(workspace: &Workspace) -> Result<(), Failure> {
    let folder = folder(workspace);
    // Written last, so that one that was interrupted is made anew.
    let made = folder.join("requirements.txt");
    if fs::read_to_string(&made).is_ok_and(|text| text == REQUIREMENTS) {
        return Ok(());
    }
    step("install Playwright and what tests need from PyPI", || {
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| file(&folder, error))?;
        }
        let wanted = workspace.root().join("xtask/requirements.txt");
        run::run(Command::new(PYTHON).args(["-m", "venv"]).arg(&folder))?;
        run::run(
            Command::new(folder.join("bin/python"))
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
                .arg(wanted),
        )?;
        fs::write(&made, REQUIREMENTS).map_err(|error| file(&made, error))
    })
}

fn file(path: &Path, error: std::io::Error) -> Failure {
    Failure::File(path.display().to_string(), error)
}
