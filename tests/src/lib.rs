//! What the end-to-end tests share.
//!
//! A test has a [`Home`], which is empty or starts with every site and env of the project stored. It runs commands of the
//! real program there, and a [`Deploy`] ends, at the latest when it is dropped, by proving that nothing of it is left.
//! A [`Snapshot`] proves the same of the whole machine, for tests that run alone.

mod bundle;
mod deploy;
mod hand;
mod home;
mod http;
mod internet;
mod outcome;
mod pcap;
mod playwright;
mod process;
mod snapshot;
mod store;
mod terminal;
mod wait;

pub use bundle::{Bundle, PySite};
pub use deploy::Deploy;
pub use hand::{Hand, Part, Picture};
pub use home::Home;
pub use http::{Reply, raw_http, read_until};
pub use internet::{Internet, SESSION, TOKEN};
pub use outcome::{Outcome, run_within, text};
pub use pcap::{captures_on_disk, tcpdump};
pub use playwright::{playwright, playwright_at};
pub use process::{Process, Processes, pids, stat};
pub use snapshot::Snapshot;
pub use store::{put_everything, stored};
pub use terminal::{Beside, Inside, Terminal};
pub use wait::{PATIENCE, eventually};

use std::{env, path::PathBuf};

/// The clone that the tests run in. At run time: CI runs tests in another user's clone than the one they were built in.
pub fn clone_root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(package).parent().expect("the tests are a folder of the clone").to_owned()
}

/// The folder of everything that is built.
pub fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| clone_root().join("target"), PathBuf::from)
}

/// The program under test.
pub fn program() -> PathBuf {
    let program = env::var_os("AGENTENV_PROGRAM").map_or_else(|| target().join("debug/agent-env"), PathBuf::from);
    assert!(program.is_file(), "{}: build it first: cargo build --package agent-env", program.display());
    program
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
