use std::time::{Duration, Instant};

use super::*;
use crate::Error;

fn seed(folder: &Path) -> Result<()> {
    fs::create_dir(folder.join("sub"))?;
    fs::write(folder.join("a.txt"), "a")?;
    fs::write(folder.join("sub/b.txt"), "b")?;
    Ok(std::os::unix::fs::symlink("a.txt", folder.join("link"))?)
}

/// Every path below the folder with its content.
fn tree(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::<_, io::Error>::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            out.extend(
                tree(&path).into_iter().map(|(below, text)| (PathBuf::from(entry.file_name()).join(below), text)),
            );
        } else if kind.is_symlink() {
            out.push((entry.file_name().into(), format!("-> {}", fs::read_link(path).unwrap().display())));
        } else {
            out.push((entry.file_name().into(), fs::read_to_string(path).unwrap()));
        }
    }
    out.sort();
    out
}

#[test]
fn a_folder_goes_back_as_often_as_asked() {
    let data = tempfile::tempdir().unwrap();
    let snapshot = Snapshot::prepare(data.path(), "db", seed).unwrap();
    let at_deploy = tree(snapshot.path());
    assert_eq!(at_deploy.len(), 3);
    let modified = fs::metadata(snapshot.path().join("a.txt")).unwrap().modified().unwrap();
    for round in 0..5 {
        fs::write(snapshot.path().join("a.txt"), "changed").unwrap();
        fs::write(snapshot.path().join(format!("new-{round}")), "new").unwrap();
        fs::remove_dir_all(snapshot.path().join("sub")).unwrap();
        snapshot.restore().unwrap();
        assert_eq!(tree(snapshot.path()), at_deploy, "round {round}");
    }
    assert_eq!(fs::metadata(snapshot.path().join("a.txt")).unwrap().modified().unwrap(), modified);
}

#[test]
fn the_state_at_deploy_is_that_of_the_first_ready() {
    let data = tempfile::tempdir().unwrap();
    let snapshot = Snapshot::prepare(data.path(), "db", seed).unwrap();
    // An application beside the server makes its tables while it starts.
    fs::write(snapshot.path().join("tables"), "made").unwrap();
    fs::write(snapshot.path().join("sub/b.txt"), "migrated").unwrap();
    seal(data.path()).unwrap();
    let at_deploy = tree(snapshot.path());
    assert_eq!(at_deploy.len(), 4);
    for round in 0..3 {
        fs::write(snapshot.path().join("loaded"), "row").unwrap();
        fs::remove_file(snapshot.path().join("tables")).unwrap();
        // A later ready, also of a restarted service, takes nothing.
        seal(data.path()).unwrap();
        snapshot.restore().unwrap();
        assert_eq!(tree(snapshot.path()), at_deploy, "round {round}");
    }
    fs::write(snapshot.path().join("loaded"), "row").unwrap();
    drop(snapshot);
    let snapshot = Snapshot::prepare(data.path(), "db", |_| Err(Error::internal("seeded twice"))).unwrap();
    seal(data.path()).unwrap();
    snapshot.restore().unwrap();
    assert_eq!(tree(snapshot.path()), at_deploy);
}

#[test]
fn a_folder_that_nobody_touched_is_not_copied_again() {
    let data = tempfile::tempdir().unwrap();
    let snapshot = Snapshot::prepare(data.path(), "db", seed).unwrap();
    let state = data.path().join(".agentenv/snapshots/db/state");
    assert!(!differs(snapshot.path(), &state).unwrap());
    fs::write(snapshot.path().join("a.txt"), "b").unwrap();
    assert!(differs(snapshot.path(), &state).unwrap(), "of the same length, at another time");
    // Of other data directories nothing is taken.
    seal(Path::new("/nonexistent")).unwrap();
    assert!(!data.path().join(".agentenv/snapshots/db/sealed").exists());
}

#[test]
fn a_restarted_service_keeps_its_folder_and_the_state_at_deploy() {
    let data = tempfile::tempdir().unwrap();
    let at_deploy = {
        let snapshot = Snapshot::prepare(data.path(), "db", seed).unwrap();
        let at_deploy = tree(snapshot.path());
        fs::write(snapshot.path().join("a.txt"), "changed").unwrap();
        at_deploy
    };
    // As if the service had died right after an exchange: `next` is a dirty folder.
    fs::write(data.path().join(".agentenv/snapshots/db/next/dirt"), "dirt").unwrap();
    let snapshot = Snapshot::prepare(data.path(), "db", |_| Err(Error::internal("seeded twice"))).unwrap();
    assert_eq!(fs::read_to_string(snapshot.path().join("a.txt")).unwrap(), "changed");
    snapshot.restore().unwrap();
    assert_eq!(tree(snapshot.path()), at_deploy);
}

#[test]
fn a_seed_that_failed_halfway_starts_over() {
    let data = tempfile::tempdir().unwrap();
    let failed = Snapshot::prepare(data.path(), "db", |folder| {
        fs::write(folder.join("half"), "")?;
        Err(Error::internal("no"))
    });
    assert_eq!(failed.unwrap_err().message(), "no");
    let snapshot = Snapshot::prepare(data.path(), "db", seed).unwrap();
    assert_eq!(tree(snapshot.path()).len(), 3);
}

#[test]
fn a_folder_that_was_removed_comes_back() {
    let data = tempfile::tempdir().unwrap();
    let snapshot = Snapshot::prepare(data.path(), "db", seed).unwrap();
    fs::remove_dir_all(snapshot.path()).unwrap();
    snapshot.restore().unwrap();
    assert_eq!(tree(snapshot.path()).len(), 3);
}

#[test]
fn restoring_takes_as_long_after_little_as_after_much() {
    // In memory, as `/data` of a deploy is.
    let data = tempfile::tempdir_in("/dev/shm").unwrap();
    let snapshot = Snapshot::prepare(data.path(), "db", seed).unwrap();
    let fastest = |files: usize| {
        (0..3)
            .map(|_| {
                for file in 0..files {
                    fs::write(snapshot.path().join(format!("new-{file}")), "x".repeat(100)).unwrap();
                }
                // The background's part is done before the clock starts: an episode lasts longer than a copy.
                snapshot.0.next.lock().unwrap().take().unwrap().join().unwrap().unwrap();
                *snapshot.0.next.lock().unwrap() = thread::Builder::new().spawn(|| Ok(())).ok();
                let start = Instant::now();
                snapshot.restore().unwrap();
                start.elapsed()
            })
            .min()
            .unwrap()
    };
    let (little, much) = (fastest(1), fastest(1000));
    assert!(much < little * 10 + Duration::from_millis(1), "{little:?} after 1 file, {much:?} after 1000");
}
