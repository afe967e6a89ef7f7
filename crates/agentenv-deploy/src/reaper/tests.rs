use agentenv_protocol::Name;
use agentenv_sandbox::liveness::DeployLock;

use super::*;
use crate::DeployRecord;

/// A home with one deploy that should be running.
fn home() -> (tempfile::TempDir, Home, DeployDir, DeployRecord) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(folder.path());
    let record = DeployRecord::new(DeployId::random(), None, Name::parse("shop").unwrap(), Vec::new(), false);
    let dir = DeployDir::new(home.deploy(&record.deploy));
    fs::create_dir_all(dir.path()).unwrap();
    dir.save(&record).unwrap();
    (folder, home, dir, record)
}

#[test]
fn row_75_a_deploy_is_dead_when_nobody_holds_either_lock() {
    let (_folder, home, dir, record) = home();
    for lock in [dir.path().join(STARTER_LOCK), dir.lock()] {
        let held = DeployLock::acquire(&lock).unwrap();
        assert_eq!(reap(&home), [], "{} is held", lock.display());
        assert_eq!(dir.load().unwrap().state, DeployState::Starting);
        drop(held);
    }
    for file in [dir.control_socket(), dir.control_token(), dir.ca()] {
        fs::write(file, "").unwrap();
    }
    // Both files are there, and stale.
    assert_eq!(reap(&home), [Reaped { deploy: record.deploy, killed: 0 }]);
    assert_eq!(dir.load().unwrap().state, DeployState::Failed);
    for file in [dir.control_socket(), dir.control_token(), dir.ca()] {
        assert!(!file.exists(), "{}", file.display());
    }
    assert_eq!(reap(&home), [], "once");
}

#[test]
fn a_newer_programs_deploy_is_its_own_to_judge() {
    let (_folder, home, dir, record) = home();
    dir.save(&DeployRecord { format: 99, ..record }).unwrap();
    fs::write(dir.control_socket(), "").unwrap();
    assert_eq!(reap(&home), []);
    assert!(dir.control_socket().exists());
}

#[test]
fn a_folder_that_is_being_made_is_left_alone_and_an_old_one_is_removed() {
    let (_folder, home, _, _) = home();
    let making = |id: DeployId| home.deploys().join(format!("{MAKING_PREFIX}{id}"));
    let (new, old, held) = (making(DeployId::random()), making(DeployId::random()), making(DeployId::random()));
    let long_ago = std::time::SystemTime::now() - MAKING_LIMIT * 2;
    for folder in [&new, &old, &held] {
        fs::create_dir(folder).unwrap();
    }
    let lock = DeployLock::acquire(&held.join(STARTER_LOCK)).unwrap();
    for folder in [&old, &held] {
        fs::File::open(folder).unwrap().set_modified(long_ago).unwrap();
    }
    reap(&home);
    assert_eq!([new.exists(), old.exists(), held.exists()], [true, false, true]);
    drop(lock);
    fs::File::open(&held).unwrap().set_modified(long_ago).unwrap();
    reap(&home);
    assert!(!held.exists());
}

#[test]
fn captured_packets_are_no_garbage_whatever_else_is_left() {
    let (_folder, home, dir, record) = home();
    let ring = dir.captures().join("shop");
    fs::create_dir_all(&ring).unwrap();
    fs::write(ring.join("0000000001.pcap"), "").unwrap();
    let unstored = crate::RecordedCaptures { files: 10, file_bytes: 1, unstored: vec![record.env.clone()] };
    let other = Name::parse("other").unwrap();
    let planned = crate::RecordedCaptures { unstored: vec![record.env.clone(), other], ..unstored.clone() };
    dir.save(&DeployRecord { captures: Some(planned), ..record }).unwrap();
    assert_eq!(reap(&home).len(), 1);
    assert_eq!(dir.load().unwrap().captures, Some(unstored), "those that have files");
    // Nobody can tell any more whose they are; they stay all the same, and are no news.
    fs::remove_file(dir.record()).unwrap();
    assert_eq!(reap(&home), []);
    assert!(ring.join("0000000001.pcap").exists());
    crate::captures::remove(&dir.captures()).unwrap();
    assert_eq!(reap(&home).len(), 1);
    assert!(!dir.path().exists());
}
