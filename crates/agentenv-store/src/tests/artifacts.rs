use std::{
    fs,
    io::{self, Write},
    os::unix::{fs::symlink, net::UnixListener},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use agentenv_protocol::{ArtifactId, RunId, UniverseId};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use super::Fixture;
use crate::{Artifact, ArtifactSource, NewArtifact, StoreError};

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

async fn run(fixture: &Fixture) -> RunId {
    let run = RunId::random();
    fixture.store.create_run(&run, &json!({})).await.unwrap();
    run
}

async fn put(fixture: &Fixture, run: &RunId, path: &str) -> Result<Artifact, StoreError> {
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
    let nobody = RunId::random();
    let bytes = || ArtifactSource::Bytes(b"x".to_vec());
    let new = NewArtifact::new("x", "text/plain");
    let error = fixture.store.put_artifact(&nobody, new.clone(), bytes()).await.unwrap_err();
    assert!(matches!(error, StoreError::NoRun(_)), "{error}");
    assert!(matches!(fixture.store.create_universe(&nobody, &json!({})).await, Err(StoreError::NoRun(_))));
    let run = run(&fixture).await;
    let universe = fixture.store.create_universe(&run, &json!({ "status": "partial" })).await.unwrap();
    let inside = NewArtifact { universe: Some(universe.clone()), sensitive: true, ..new.clone() };
    let artifact = fixture.store.put_artifact(&run, inside, bytes()).await.unwrap();
    fixture.store.put_artifact(&run, new.clone(), bytes()).await.unwrap();
    fixture.store.update_universe(&universe, &json!({ "status": "complete" })).await.unwrap();
    let found = fixture.store.get_universe(&universe).await.unwrap();
    assert_eq!((found.revision, found.artifacts, &found.document["status"]), (2, vec![artifact], &json!("complete")));
    let lost = NewArtifact { universe: Some(UniverseId::random()), ..new };
    let error = fixture.store.put_artifact(&run, lost, bytes()).await.unwrap_err();
    assert!(matches!(error, StoreError::NoUniverse(_)), "{error}");
    assert!(matches!(fixture.store.get_artifact(&ArtifactId::random()).await, Err(StoreError::NoArtifact(_))));
}
