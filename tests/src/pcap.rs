//! Captured traffic as it is on disk, and as somebody else's program reads it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{Outcome, run_within};

/// A file is small, and on this machine.
const READ_LIMIT: Duration = Duration::from_secs(60);

/// Has tcpdump read a file, with these options and this filter besides.
#[track_caller]
pub fn tcpdump(file: &Path, more: &[&str]) -> Outcome {
    run_within(READ_LIMIT, Command::new("tcpdump").args(["-nn", "-r"]).arg(file).args(more), None)
}

/// The files of one ring in a deploy's folder, oldest first.
pub fn captures_on_disk(deploy: &Path, website: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(deploy.join("captures").join(website)).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "pcap"));
    files.sort();
    files
}
