use std::{fs, path::PathBuf, process::Command};

use agentenv_protocol::{ExitCode, RunId};
use serde_json::json;

use super::{Fixture, env, files, home, name, with_tree};
use crate::{ArtifactSource, Holder, NewArtifact, Store, StoreError};

#[tokio::test]
async fn row_81_a_stored_tree_torn_anywhere_is_named_and_put_again() {
    let fixture = Fixture::new().await;
    let site = fixture.site("site");
    let tree = fixture.store.put_tree(&site).await.unwrap();
    let blob = fixture.path("home/store/blobs/trees").join(tree.as_str());
    let whole = fs::read(&blob).unwrap();
    for cut in (0..whole.len()).step_by(97) {
        fs::write(&blob, &whole[..cut]).unwrap();
        let error = fixture.store.checkout_tree(&tree).await.unwrap_err();
        assert!(matches!(&error, StoreError::Damaged { path } if *path == blob), "{cut}: {error}");
        assert_eq!((error.exit(), error.hint().as_str()), (ExitCode::Infrastructure, "put the env again"));
    }
    assert!(files(&fixture.path("home/cache")).is_empty());
    assert_eq!(fixture.store.put_tree(&site).await.unwrap(), tree);
    assert!(fixture.store.checkout_tree(&tree).await.is_ok());
}

#[tokio::test]
async fn a_flipped_bit_is_found() {
    let fixture = Fixture::new().await;
    let run = RunId::random();
    fixture.store.create_run(&run, &json!({})).await.unwrap();
    let bytes = ArtifactSource::Bytes(b"true".to_vec());
    let artifact = fixture
        .store
        .put_artifact(&Holder::Run(run.clone()), NewArtifact::new("x", "text/plain"), bytes)
        .await
        .unwrap();
    fs::write(fixture.path("home/store/blobs/artifacts").join(artifact.sha256.as_str()), b"tsue").unwrap();
    let error = fixture.store.read_artifact(&artifact.id, std::io::sink()).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

/// The database as a `kill -9` at any point leaves it: its file as it was at the last checkpoint, and a log cut anywhere.
#[tokio::test]
async fn row_81_a_log_torn_anywhere_opens_with_whole_records() {
    let fixture = Fixture::new().await;
    let run = RunId::random();
    fixture.store.create_run(&run, &json!({ "step": 1 })).await.unwrap();
    for step in 2..=6 {
        fixture.store.update_run(&run, &json!({ "step": step })).await.unwrap();
    }
    let database = fixture.path("home/store/db.sqlite");
    let log = fs::read(database.with_extension("sqlite-wal")).unwrap();
    let base = fs::read(&database).unwrap();
    assert!(log.len() > 10_000, "what was written last is in the log: {}", log.len());
    let mut steps = Vec::new();
    for cut in (0..=log.len()).step_by(log.len() / 60).chain([log.len()]) {
        let copy = tempfile::TempDir::new().unwrap();
        let home = home(copy.path());
        fs::create_dir_all(home.store()).unwrap();
        fs::write(home.store().join("db.sqlite"), &base).unwrap();
        fs::write(home.store().join("db.sqlite-wal"), &log[..cut]).unwrap();
        let store = Store::open(&home).await.unwrap();
        let step = match store.get_run(&run).await {
            Ok(row) => {
                assert_eq!(row.document["step"], json!(row.revision));
                row.revision
            }
            Err(StoreError::NoRun(_)) => 0,
            Err(error) => panic!("{cut}: {error}"),
        };
        steps.push(step);
        store.put_env(&env("shop", 1)).await.unwrap();
    }
    assert!(steps.is_sorted() && steps.last() == Some(&6), "{steps:?}");
}

#[tokio::test]
async fn a_file_that_is_no_database_is_named() {
    let folder = tempfile::TempDir::new().unwrap();
    let home = home(folder.path());
    fs::create_dir_all(home.store()).unwrap();
    fs::write(home.store().join("db.sqlite"), "this is no database, whatever its name says").unwrap();
    let error = Store::open(&home).await.unwrap_err();
    assert!(matches!(&error, StoreError::Database { path, .. } if path.ends_with("db.sqlite")), "{error}");
    assert_eq!(error.exit(), ExitCode::Infrastructure);
}

#[tokio::test]
async fn a_database_of_a_newer_program_is_refused() {
    let fixture = Fixture::new().await;
    sqlx::query(
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time) values (999, 'x', 1, x'00', 0)",
    )
    .execute(&fixture.store.pool)
    .await
    .unwrap();
    let error = Store::open(&home(fixture.folder.path())).await.unwrap_err();
    assert!(matches!(error, StoreError::Schema { .. }), "{error}");
    assert_eq!((error.exit(), error.hint().is_empty()), (ExitCode::Refused, false));
}

/// Set where this test runs itself again, on a disk of two megabytes.
const SMALL_DISK: &str = "AGENTENV_TEST_SMALL_DISK";

/// Rows 70 and "a full disk" of the main job: every kind of write on a disk that fills up.
#[test]
fn row_70_a_full_disk_is_a_clean_error_that_names_the_path_and_stores_nothing() {
    if let Some(disk) = std::env::var_os(SMALL_DISK) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return runtime.block_on(on_a_full_disk(PathBuf::from(disk)));
    }
    let disk = tempfile::TempDir::new().unwrap();
    let script = "mount -t tmpfs -o size=2m,mode=0700 none \"$1\" && shift && exec \"$@\"";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(disk.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "tests::damage::row_70_a_full_disk_is_a_clean_error_that_names_the_path_and_stores_nothing"])
        .arg("--nocapture")
        .env(SMALL_DISK, disk.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

async fn on_a_full_disk(disk: PathBuf) {
    let outside = Fixture::new().await;
    let home = home(&disk);
    let store = Store::open(&home).await.unwrap();
    let run = RunId::random();
    store.create_run(&run, &json!({ "step": 1 })).await.unwrap();
    let full = |error: StoreError| {
        assert!(matches!(&error, StoreError::Full { path } if path.starts_with(&disk)), "{error:?}");
        assert_eq!(error.exit(), ExitCode::Infrastructure);
    };
    // An artifact and a tree that do not fit, and leave nothing.
    let large = || ArtifactSource::Bytes(vec![7; 4_000_000]);
    full(
        store.put_artifact(&Holder::Run(run.clone()), NewArtifact::new("x", "text/plain"), large()).await.unwrap_err(),
    );
    let site = outside.site("site");
    fs::write(site.join("large"), vec![7; 4_000_000]).unwrap();
    full(store.put_tree(&site).await.unwrap_err());
    assert!(files(&home.store().join("blobs")).is_empty());
    assert!(store.list_artifacts(&Holder::Run(run.clone())).await.unwrap().is_empty());
    // A tree that fits as it is stored, but not unpacked beside it.
    fs::write(site.join("large"), vec![7; 1_000_000]).unwrap();
    let tree = store.put_tree(&site).await.unwrap();
    store.put_env(&with_tree(env("shop", 1), &tree)).await.unwrap();
    full(store.checkout_tree(&tree).await.unwrap_err());
    assert!(files(&home.cache().join("trees")).is_empty());
    // Records, until there is no room for one more.
    let filler = fill(&disk);
    let error = loop {
        match store.update_run(&run, &json!({ "text": "x".repeat(20_000) })).await {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    full(error);
    let before = store.get_run(&run).await.unwrap();
    // With room again everything goes on, from the last whole record.
    fs::remove_file(filler).unwrap();
    assert_eq!(store.update_run(&run, &json!({ "step": 3 })).await.unwrap(), before.revision + 1);
    assert_eq!(store.get_env(&name("shop"), None).await.unwrap().version, 1);
}

/// Takes what room there is, but for a little.
fn fill(disk: &std::path::Path) -> PathBuf {
    use std::io::Write as _;
    let path = disk.join("filler");
    let mut file = fs::File::create(&path).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    let size = file.metadata().unwrap().len();
    file.set_len(size.saturating_sub(200_000)).unwrap();
    path
}

/// Set where this test runs itself again, in a process whose limit it may lower.
const FEW_DESCRIPTORS: &str = "AGENTENV_TEST_FEW_DESCRIPTORS";

#[test]
fn row_70_a_process_that_is_out_of_descriptors_gets_clean_errors_and_spoils_nothing() {
    if std::env::var_os(FEW_DESCRIPTORS).is_some() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        return runtime.block_on(with_few_descriptors());
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "tests::damage::row_70_a_process_that_is_out_of_descriptors_gets_clean_errors_and_spoils_nothing",
        ])
        .arg("--nocapture")
        .env(FEW_DESCRIPTORS, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

async fn with_few_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::Nofile);
    let limit = |current| setrlimit(Resource::Nofile, Rlimit { current, ..before }).unwrap();
    let mut failures = 0;
    let mut successes = 0;
    for descriptors in 6..48 {
        let fixture = Fixture::new().await;
        let site = fixture.site("site");
        limit(Some(descriptors));
        let tried = all_kinds_of_writes(&fixture, &site).await;
        limit(before.current);
        match tried {
            Ok(()) => successes += 1,
            Err(error) => {
                assert_eq!(error.exit(), ExitCode::Infrastructure, "{descriptors}: {error}");
                failures += 1;
            }
        }
        // With descriptors again, the same store goes on.
        all_kinds_of_writes(&fixture, &site).await.unwrap_or_else(|error| panic!("{descriptors}: {error}"));
    }
    assert!(failures > 0 && successes > 0, "{failures} {successes}");
}

async fn all_kinds_of_writes(fixture: &Fixture, site: &std::path::Path) -> Result<(), StoreError> {
    let other = Store::open(&home(fixture.folder.path())).await?;
    let tree = other.put_tree(site).await?;
    other.put_env(&with_tree(env("shop", 1), &tree)).await?;
    other.checkout_tree(&tree).await?;
    let run = RunId::random();
    other.create_run(&run, &json!({})).await?;
    let source = ArtifactSource::Beneath { folder: site.to_owned(), path: "pages/index.html".into() };
    let artifact = other.put_artifact(&Holder::Run(run.clone()), NewArtifact::new("x", "text/html"), source).await?;
    other.read_artifact(&artifact.id, std::io::sink()).await?;
    other.gc().await?;
    other.close().await;
    Ok(())
}
