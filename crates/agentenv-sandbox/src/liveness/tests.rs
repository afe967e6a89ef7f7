use std::process::{Command, Stdio};

use super::*;

#[test]
fn a_lock_tells_who_has_it_and_survives_probes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    assert_eq!(probe(&path).unwrap(), None);
    let lock = DeployLock::acquire(&path).unwrap();
    let us = std::process::id();
    assert_eq!(probe(&path).unwrap(), Some(us));
    assert!(matches!(DeployLock::acquire(&path), Err(LockError::Held { holder, .. }) if holder == us));
    assert_eq!(last_holder(&path).unwrap().process, ProcessId::current().unwrap());
    // Another process still finds it locked: none of the above closed a descriptor of the file.
    assert!(!others_get_it(&path));
    drop(lock);
    assert!(others_get_it(&path));
    assert_eq!(probe(&path).unwrap(), None);
    assert_eq!(last_holder(&path).unwrap().process.pid, us);
}

/// Asks another program, Python, which is on every machine that builds this.
fn others_get_it(path: &Path) -> bool {
    let script = "import fcntl,sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)";
    let mut python = Command::new("python3");
    python.args(["-c", script]).arg(path).stderr(Stdio::null()).status().unwrap().success()
}

#[test]
fn row_75_a_lock_ends_with_its_process() {
    use std::io::BufRead as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    let script = "import fcntl,sys; f=open(sys.argv[1],'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()";
    let mut python = Command::new("python3");
    let python = python.args(["-c", script]).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = python.spawn().unwrap();
    let mut line = String::new();
    io::BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    // pyenv's python3 is a script that becomes the interpreter, so the pid is the holder's.
    assert_eq!(probe(&path).unwrap(), Some(holder.id()));
    assert!(matches!(DeployLock::acquire(&path), Err(LockError::Held { .. })));
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert_eq!(probe(&path).unwrap(), None);
    assert_eq!(last_holder(&path), None);
    assert!(DeployLock::acquire(&path).is_ok());
}

#[test]
fn torn_records_and_links_are_no_holders() {
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("lock"), folder.path().join("link"));
    drop(DeployLock::acquire(&path).unwrap());
    let whole = std::fs::read(&path).unwrap();
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert_eq!(last_holder(&path), None, "{length}");
    }
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(probe(&link).is_err() && DeployLock::acquire(&link).is_err());
}
