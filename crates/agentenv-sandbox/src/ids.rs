//! Writing a user namespace's id maps: exactly one uid and one gid, never 0.

use std::{
    fs,
    os::fd::{AsRawFd as _, BorrowedFd},
    path::PathBuf,
    process::{Command, Stdio},
};

use rustix::{io::Errno, process::Pid};

use crate::{
    failure::Failure,
    kernel::{self, Kernel},
    messages::Report,
    spec::INSIDE_ID,
    uid::{Ids, MapBy},
    wire,
};

/// Where the set-uid helpers of the `uidmap` package are; never by a caller's `PATH`.
const HELPER_DIRS: [&str; 3] = ["/usr/bin", "/bin", "/usr/local/bin"];

/// Maps the ids of the namespace that `pid` is in, and says so on `go`. With helpers, another child does both; it is
/// returned.
pub(crate) fn map(
    kernel: Kernel,
    pid: Pid,
    ids: &Ids,
    socket: BorrowedFd<'_>,
    go: BorrowedFd<'_>,
) -> Result<Option<Pid>, Failure> {
    match ids.by {
        MapBy::Helpers => {
            return match kernel.call("fork", kernel::fork)? {
                Some(helper) => Ok(Some(helper)),
                None => help(pid, ids, socket, go),
            };
        }
        MapBy::Owner => write(kernel, pid, "setgroups", "deny")?,
        MapBy::Root => {}
    }
    write(kernel, pid, "uid_map", &format!("{INSIDE_ID} {} 1", ids.uid))?;
    write(kernel, pid, "gid_map", &format!("{INSIDE_ID} {} 1", ids.gid))?;
    kernel.call("write", || rustix::io::write(go, &[1]))?;
    Ok(None)
}

fn write(kernel: Kernel, pid: Pid, file: &str, text: &str) -> Result<(), Failure> {
    let path = format!("/proc/{}/{file}", pid.as_raw_nonzero());
    kernel.at("write", &path, || fs::write(&path, text).map_err(|error| kernel::errno(&error)))
}

/// The whole life of the child that runs the helpers; the spawner doesn't wait for them.
fn help(pid: Pid, ids: &Ids, socket: BorrowedFd<'_>, go: BorrowedFd<'_>) -> ! {
    let _ = kernel::close_all_but(&[0, 1, 2, socket.as_raw_fd(), go.as_raw_fd()]);
    let _ = kernel::block_signals(&[]);
    for (helper, outside) in [("newuidmap", ids.uid), ("newgidmap", ids.gid)] {
        if let Err(failure) = run(helper, pid, outside) {
            // The broker sees `go` close and ends without a word of its own before the supervisor reads this.
            let _ = wire::send(socket, &Report::Failed(failure), &[]);
            kernel::exit_now(1);
        }
    }
    let _ = rustix::io::write(go, &[1]);
    kernel::exit_now(0)
}

fn run(helper: &str, pid: Pid, outside: u32) -> Result<(), Failure> {
    let path = find(helper).ok_or_else(|| Failure::setup(helper, Errno::NOENT))?;
    let output = Command::new(path)
        .args([pid.as_raw_nonzero().to_string(), INSIDE_ID.to_string(), outside.to_string(), "1".into()])
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::setup(helper, kernel::errno(&error)))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::setup(&format!("{helper} ({})", said.trim()), Errno::PERM))
}

/// Finds a helper.
pub(crate) fn find(helper: &str) -> Option<PathBuf> {
    HELPER_DIRS.iter().map(|folder| PathBuf::from(folder).join(helper)).find(|path| path.is_file())
}
