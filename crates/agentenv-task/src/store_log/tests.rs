use std::{fs, path::Path};

use agentenv_protocol::{DeployId, Home, UniverseId};
use jiff::Timestamp;

use super::*;
use crate::{NewCapture, TrafficCaptures, archive::export_run, import_run, parse_task, record::RunState};

fn record() -> RunRecord {
    let text = "format = 1\nname = \"t\"\ngoal = \"g\"\n[[step]]\nkind = \"deploy_env\"\nenv = \"a\"\n";
    let none = |_: &str| Err(io::ErrorKind::NotFound.into());
    let task = parse_task(Path::new("task.toml"), Path::new("/"), text, &none).unwrap();
    RunRecord::new(RunId::random(), &task, Timestamp::now())
}

async fn log(home: &Path) -> StoreLog {
    StoreLog::new(Store::open(&Home::at(home)).await.unwrap())
}

fn file(folder: &Path, name: &str, bytes: &[u8]) -> NewFile {
    fs::write(folder.join(name), bytes).unwrap();
    let name = name.to_owned();
    NewFile {
        media_type: "text/plain".to_owned(),
        step: 0,
        folder: folder.to_owned(),
        path: name.clone().into(),
        name,
        sensitive: false,
        universe: None,
    }
}

#[tokio::test]
async fn records_are_kept_replaced_and_listed() {
    let home = tempfile::tempdir().unwrap();
    let log = log(home.path()).await;
    let mut first = record();
    log.create(&first).await.unwrap();
    assert_eq!(log.create(&first).await, Err(LogError::RunExists(first.run.clone())));
    first.warnings.push("w".to_owned());
    log.update(&first).await.unwrap();
    assert_eq!(log.get(&first.run).await.unwrap(), first);
    let second = record();
    log.create(&second).await.unwrap();
    let listed: Vec<RunId> = log.list(10).await.unwrap().into_iter().map(|record| record.run).collect();
    assert_eq!(listed, [second.run, first.run], "the newest first");
    let unknown = RunId::random();
    assert_eq!(log.get(&unknown).await, Err(LogError::NoRun(unknown)));
}

#[tokio::test]
async fn a_record_of_a_newer_program_is_named_and_left_out_of_lists() {
    let home = tempfile::tempdir().unwrap();
    let log = log(home.path()).await;
    let newer = RunRecord { format: RECORD_FORMAT + 1, ..record() };
    log.create(&newer).await.unwrap();
    assert!(log.list(10).await.unwrap().is_empty());
    let error = log.get(&newer.run).await.unwrap_err();
    assert!(error.to_string().contains("format 2, this program reads up to 1"), "{error}");
}

#[tokio::test]
async fn a_run_goes_to_another_home_and_back_whole() {
    let (here, there, files) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log_here = log(here.path()).await;
    let mut run = record();
    log_here.create(&run).await.unwrap();
    for (name, bytes) in [("a.txt", b"one".as_slice()), ("b.txt", b"".as_slice())] {
        run.artifacts.push(log_here.put_file(&run.run, file(files.path(), name, bytes)).await.unwrap());
    }
    let exported = files.path().join("run.tar");
    assert!(export_run(&log_here, &run.run, &exported).await.is_err(), "it is not over");
    run.state = RunState::Done;
    log_here.update(&run).await.unwrap();
    export_run(&log_here, &run.run, &exported).await.unwrap();

    let log_there = log(there.path()).await;
    let imported = import_run(&log_there, &exported).await.unwrap();
    assert!(imported.imported);
    assert_eq!(log_there.get(&run.run).await.unwrap(), imported);
    let written = files.path().join("written");
    for (artifact, bytes) in imported.artifacts.iter().zip(["one", ""]) {
        log_there.write_artifact(&run.run, artifact, written.clone()).await.unwrap();
        assert_eq!(fs::read_to_string(&written).unwrap(), bytes);
    }
    assert!(import_run(&log_there, &exported).await.is_err(), "it is here already");
    assert!(import_run(&log_here, &exported).await.is_err(), "its own home has it");

    // An import that was cut short is gone on with.
    let mut cut = imported.clone();
    cut.artifacts.truncate(1);
    log_there.update(&cut).await.unwrap();
    assert_eq!(import_run(&log_there, &exported).await.unwrap().artifacts.len(), 2);
}

/// A capture that is an artifact of its universe.
async fn capture(log: &StoreLog, run: &RunId, universe: &UniverseId, generation: u32, bytes: u64) -> ArtifactRecord {
    let file = tempfile::tempfile().unwrap();
    file.set_len(bytes).unwrap();
    let name = format!("traffic/shop/{generation:010}.pcap");
    let path = PathBuf::from("shop.pcap");
    let new = NewCapture { name, universe: universe.clone(), step: 0, file, bytes, path };
    log.put_capture(&Holder::Run(run.clone()), new).await.unwrap()
}

#[tokio::test]
async fn row_72_what_a_universe_has_besides_is_in_the_record_that_is_read() {
    let home = tempfile::tempdir().unwrap();
    let log = log(home.path()).await;
    let mut run = record();
    let (deploy, mut entry) = {
        let deploy = DeployId::random();
        (deploy.clone(), TrafficCaptures::new(deploy))
    };
    run.set_traffic_captures(&deploy, &entry);
    log.create(&run).await.unwrap();
    assert_eq!(log.get(&run.run).await.unwrap(), run, "announced, and not yet made");
    let holder = Holder::Run(run.run.clone());
    log.create_universe(&holder, &entry.universe_id, &serde_json::json!({})).await.unwrap();
    let first = capture(&log, &run.run, &entry.universe_id, 1, 100).await;
    let second = capture(&log, &run.run, &entry.universe_id, 2, 30).await;
    assert!(first.sensitive && first.universe.as_ref() == Some(&entry.universe_id));
    assert_eq!(first.media_type, "application/vnd.tcpdump.pcap");
    // Stored, and its runner died.
    let read = log.get(&run.run).await.unwrap();
    assert_eq!(read.artifacts, [first.clone(), second.clone()]);
    entry = read.traffic_captures(&deploy).unwrap();
    assert_eq!(entry.files.iter().map(|file| file.bytes).collect::<Vec<_>>(), [100, 30]);
    // On record, and then a longer one was stored.
    log.update(&read).await.unwrap();
    let longer = capture(&log, &run.run, &entry.universe_id, 2, 60).await;
    let read = log.get(&run.run).await.unwrap();
    assert_eq!(read.artifacts, [first.clone(), longer.clone()]);
    assert_eq!(log.run_of_deploy(&deploy).await.unwrap(), None, "the record has no such deploy");
    log.remove_artifact(&second.id).await.unwrap();
    log.remove_artifact(&second.id).await.unwrap();
    log.remove_artifact("no id").await.unwrap();
    let universe = log.universe(&entry.universe_id).await.unwrap().unwrap();
    assert_eq!(universe.artifacts.len(), 2);
    assert_eq!(log.universes_of(&holder).await.unwrap(), [entry.universe_id]);
}

#[tokio::test]
async fn a_run_goes_to_another_home_with_its_captures_and_their_universe() {
    let (here, there, files) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log_here = log(here.path()).await;
    let mut run = record();
    let deploy = DeployId::random();
    let entry = TrafficCaptures::new(deploy.clone());
    run.set_traffic_captures(&deploy, &entry);
    run.state = RunState::Done;
    log_here.create(&run).await.unwrap();
    let holder = Holder::Run(run.run.clone());
    log_here.create_universe(&holder, &entry.universe_id, &serde_json::json!({})).await.unwrap();
    capture(&log_here, &run.run, &entry.universe_id, 1, 100).await;
    log_here.update(&log_here.get(&run.run).await.unwrap()).await.unwrap();
    let exported = files.path().join("run.tar");
    export_run(&log_here, &run.run, &exported).await.unwrap();
    let log_there = log(there.path()).await;
    let imported = import_run(&log_there, &exported).await.unwrap();
    assert_eq!(log_there.get(&run.run).await.unwrap(), imported);
    let entry = imported.traffic_captures(&deploy).unwrap();
    assert_eq!((imported.artifacts.len(), entry.files[0].artifact.as_str()), (1, imported.artifacts[0].id.as_str()));
    assert!(imported.artifacts[0].sensitive);
    let universe = log_there.universe(&entry.universe_id).await.unwrap().unwrap();
    assert_eq!(universe.document["files"][0]["artifact"], imported.artifacts[0].id);
    assert_eq!(universe.artifacts, imported.artifacts);
}
