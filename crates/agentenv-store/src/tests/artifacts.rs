use std::{
    fs,
    io::{self, Write},
    os::unix::{fs::symlink, net::UnixListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use agentenv_protocol::{ArtifactId, DeployId, RunId, UniverseId};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use super::Fixture;
use crate::{Artifact, ArtifactSource, Holder, NewArtifact, StoreError};

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

async fn run(fixture: &Fixture) -> Holder {
    let run = RunId::random();
    fixture.store.create_run(&run, &json!({})).await.unwrap();
    Holder::Run(run)
}

async fn put(fixture: &Fixture, run: &Holder, path: &str) -> Result<Artifact, StoreError> {
    let source = ArtifactSource::Beneath { folder: fixture.path("output"), path: path.into() };
    fixture.store.put_artifact(run, NewArtifact::new(path, "text/plain"), source).await
}

#[tokio::test]
async fn bytes_and_files_are_stored_and_read() {
    let fixture = Fixture::new().await;
    let run = run(&fixture).await;
    fs::create_dir_all(fixture.path("output/inner")).unwrap();
    let large: Vec<u8> = (0..5_000_000_u32).map(|index| (index % 251) as u8).collect();
    fs::write(fixture.path("output/inner/large"), &large).unwrap();
    let from_file = put(&fixture, &run, "inner/large").await.unwrap();
    let from_memory = fixture
        .store
        .put_artifact(&run, NewArtifact::new("copy", "application/octet-stream"), ArtifactSource::Bytes(large.clone()))
        .await
        .unwrap();
    assert_eq!((from_file.size, &from_file.sha256), (5_000_000, &from_memory.sha256));
    let buffer = Buffer::default();
    fixture.store.read_artifact(&from_file.id, buffer.clone()).await.unwrap();
    assert!(*buffer.0.lock().unwrap() == large);
    let listed = fixture.store.list_artifacts(&run).await.unwrap();
    assert_eq!(listed, [from_file, from_memory]);
    // An empty file is a file.
    fs::write(fixture.path("output/empty"), "").unwrap();
    let empty = put(&fixture, &run, "empty").await.unwrap();
    fixture.store.read_artifact(&empty.id, io::sink()).await.unwrap();
    assert_eq!(fixture.store.gc().await.unwrap().blobs, 0);
}

#[tokio::test]
async fn row_55_links_pipes_and_sockets_are_never_followed_and_never_hang() {
    let fixture = Fixture::new().await;
    let run = run(&fixture).await;
    let output = fixture.path("output");
    fs::create_dir(&output).unwrap();
    fs::write(fixture.path("secret"), "canary").unwrap();
    fs::create_dir(fixture.path("outside")).unwrap();
    fs::write(fixture.path("outside/file"), "canary").unwrap();
    symlink("../secret", output.join("link")).unwrap();
    symlink(fixture.path("outside"), output.join("folder")).unwrap();
    symlink("/proc/self/environ", output.join("magic")).unwrap();
    fs::hard_link(fixture.path("secret"), output.join("hard")).unwrap();
    mknodat(CWD, output.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let _listener = UnixListener::bind(output.join("socket")).unwrap();
    fs::create_dir(output.join("plain")).unwrap();
    for (path, reason) in [
        ("link", "a symbolic link is on the way"),
        ("folder/file", "a symbolic link is on the way"),
        ("magic", "a symbolic link is on the way"),
        ("hard", "it is a hard link"),
        ("pipe", "it is not a plain file"),
        ("socket", "it is not a plain file"),
        ("plain", "it is not a plain file"),
        ("../secret", "it is outside its folder"),
        ("/etc/passwd", "it is outside its folder"),
    ] {
        let error = put(&fixture, &run, path).await.unwrap_err();
        assert!(matches!(&error, StoreError::NotAFile { reason: found, .. } if *found == reason), "{path}: {error}");
    }
    assert!(fixture.store.list_artifacts(&run).await.unwrap().is_empty());
    assert!(super::files(&fixture.path("home/store/blobs")).is_empty());
}

#[tokio::test]
async fn row_56_a_file_that_is_swapped_while_it_is_collected_lets_no_outside_byte_in() {
    let fixture = Fixture::new().await;
    let run = run(&fixture).await;
    let output = fixture.path("output");
    fs::create_dir(&output).unwrap();
    fs::write(fixture.path("secret"), "canary").unwrap();
    let swapping = Arc::new(AtomicBool::new(true));
    let swapper = std::thread::spawn({
        let swapping = Arc::clone(&swapping);
        move || {
            while swapping.load(Ordering::Relaxed) {
                fs::write(output.join("new"), "inside").unwrap();
                fs::rename(output.join("new"), output.join("file")).unwrap();
                symlink("../secret", output.join("new")).unwrap();
                fs::rename(output.join("new"), output.join("file")).unwrap();
            }
        }
    });
    let mut collected = 0;
    while collected < 20 {
        collected += u32::from(put(&fixture, &run, "file").await.is_ok());
    }
    swapping.store(false, Ordering::Relaxed);
    swapper.join().unwrap();
    for (path, bytes) in super::files(&fixture.path("home/store/blobs")) {
        assert!(!bytes.windows(6).any(|window| window == b"canary"), "{}", path.display());
    }
}

#[tokio::test]
async fn an_artifact_has_a_run_and_maybe_a_universe() {
    let fixture = Fixture::new().await;
    let nobody = Holder::Run(RunId::random());
    let bytes = || ArtifactSource::Bytes(b"x".to_vec());
    let new = NewArtifact::new("x", "text/plain");
    let error = fixture.store.put_artifact(&nobody, new.clone(), bytes()).await.unwrap_err();
    assert!(matches!(error, StoreError::NoRun(_)), "{error}");
    let universe = UniverseId::random();
    let made = fixture.store.create_universe(&nobody, &universe, &json!({})).await;
    assert!(matches!(made, Err(StoreError::NoRun(_))));
    let run = run(&fixture).await;
    fixture.store.create_universe(&run, &universe, &json!({ "status": "partial" })).await.unwrap();
    // What is on record before it is made may be made again, by its own holder only.
    fixture.store.create_universe(&run, &universe, &json!({ "status": "another" })).await.unwrap();
    let deploy = Holder::Deploy(DeployId::random());
    let taken = fixture.store.create_universe(&deploy, &universe, &json!({})).await;
    assert!(matches!(taken, Err(StoreError::UniverseTaken(_))), "{taken:?}");
    let inside = NewArtifact { universe: Some(universe.clone()), sensitive: true, ..new.clone() };
    let artifact = fixture.store.put_artifact(&run, inside, bytes()).await.unwrap();
    fixture.store.put_artifact(&run, new.clone(), bytes()).await.unwrap();
    fixture.store.update_universe(&universe, &json!({ "status": "complete" })).await.unwrap();
    let found = fixture.store.get_universe(&universe).await.unwrap();
    assert_eq!((found.revision, &found.artifacts, &found.document["status"]), (2, &vec![artifact], &json!("complete")));
    assert_eq!((found.holder, fixture.store.universes_of(&run).await.unwrap()), (run.clone(), vec![universe]));
    // One that was replaced is forgotten, twice if need be.
    for _ in 0..2 {
        fixture.store.remove_artifact(&found.artifacts[0].id).await.unwrap();
    }
    assert_eq!(fixture.store.list_artifacts(&run).await.unwrap().len(), 1);
    let lost = NewArtifact { universe: Some(UniverseId::random()), ..new };
    let error = fixture.store.put_artifact(&run, lost, bytes()).await.unwrap_err();
    assert!(matches!(error, StoreError::NoUniverse(_)), "{error}");
    assert!(matches!(fixture.store.get_artifact(&ArtifactId::random()).await, Err(StoreError::NoArtifact(_))));
}

#[tokio::test]
async fn a_deploy_outside_any_run_has_artifacts_and_universes_too() {
    let fixture = Fixture::new().await;
    let (deploy, universe) = (DeployId::random(), UniverseId::random());
    let holder = Holder::Deploy(deploy.clone());
    fixture.store.create_universe(&holder, &universe, &json!({})).await.unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"whole records, and what is being written").unwrap();
    let source = |bytes| ArtifactSource::File { file: file.try_clone().unwrap(), bytes, path: "shop.1.pcap".into() };
    let new = NewArtifact { universe: Some(universe.clone()), ..NewArtifact::new("x", "text/plain") };
    let artifact = fixture.store.put_artifact(&holder, new.clone(), source(13)).await.unwrap();
    let buffer = Buffer::default();
    fixture.store.read_artifact(&artifact.id, buffer.clone()).await.unwrap();
    assert_eq!(buffer.0.lock().unwrap().as_slice(), b"whole records");
    assert_eq!(
        fixture.store.list_artifacts(&holder).await.unwrap(),
        fixture.store.get_universe(&universe).await.unwrap().artifacts
    );
    // A file that is shorter than it was said to be.
    let error = fixture.store.put_artifact(&holder, new.clone(), source(100)).await.unwrap_err();
    assert!(matches!(&error, StoreError::Changed { path } if path.as_os_str() == "shop.1.pcap"), "{error}");
    let error = fixture.store.put_artifact(&holder, new, source(u64::MAX)).await.unwrap_err();
    assert!(matches!(error, StoreError::TooLong { .. }), "{error}");
    assert_eq!(fixture.store.gc().await.unwrap().blobs, 0);

    let run = RunId::random();
    let document = json!({ "deploys": [{ "deploy": DeployId::random() }, { "deploy": deploy }] });
    assert_eq!(fixture.store.run_of_deploy(&deploy).await.unwrap(), None);
    fixture.store.create_run(&RunId::random(), &json!({ "deploys": [] })).await.unwrap();
    fixture.store.create_run(&run, &document).await.unwrap();
    fixture.store.create_run(&RunId::random(), &json!({})).await.unwrap();
    assert_eq!(fixture.store.run_of_deploy(&deploy).await.unwrap(), Some(run));
}

/// A store that the last program wrote: the schema before holders, with rows.
#[tokio::test]
async fn artifacts_of_an_older_store_are_there_after_the_migration() {
    let folder = tempfile::TempDir::new().unwrap();
    let home = super::home(folder.path());
    fs::create_dir_all(home.store()).unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(home.store().join("db.sqlite"))
        .foreign_keys(true)
        .create_if_missing(true);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let mut first = sqlx::migrate!("./migrations");
    first.migrations = first.migrations.iter().filter(|migration| migration.version == 1).cloned().collect();
    first.run(&pool).await.unwrap();
    let (run, universe) = (RunId::random(), UniverseId::random());
    let digest = "a".repeat(64);
    for statement in [
        format!("insert into runs values ('{run}', 1, 't', 't', '{{}}')"),
        format!("insert into universes values ('{universe}', '{run}', 7, '{{\"status\":\"partial\"}}')"),
        format!(
            "insert into artifacts values ('{}', '{run}', null, 'b', 'm', 1, '{digest}', 0, 't')",
            ArtifactId::random()
        ),
        format!(
            "insert into artifacts values ('{}', '{run}', '{universe}', 'a', 'm', 2, '{digest}', 1, 't')",
            ArtifactId::random()
        ),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(statement)).execute(&pool).await.unwrap();
    }
    pool.close().await;
    let store = crate::Store::open(&home).await.unwrap();
    let holder = Holder::Run(run);
    let artifacts = store.list_artifacts(&holder).await.unwrap();
    let seen: Vec<_> =
        artifacts.iter().map(|artifact| (artifact.name.as_str(), artifact.size, artifact.sensitive)).collect();
    assert_eq!(seen, [("b", 1, false), ("a", 2, true)]);
    let found = store.get_universe(&universe).await.unwrap();
    assert_eq!((found.revision, found.holder, found.artifacts), (7, holder.clone(), artifacts[1..].to_vec()));
    // The rules of the schema still hold.
    let lost = NewArtifact { universe: Some(UniverseId::random()), ..NewArtifact::new("x", "text/plain") };
    let error = store.put_artifact(&holder, lost, ArtifactSource::Bytes(Vec::new())).await.unwrap_err();
    assert!(matches!(error, StoreError::NoUniverse(_)), "{error}");
}
