use std::collections::BTreeSet;

use agentenv_protocol::RunId;
use serde_json::json;

use super::{Fixture, env, home, name};
use crate::{ArtifactSource, Holder, NewArtifact, Store};

/// Writers at once; each has a database connection of its own, as processes do.
const WRITERS: u32 = 8;
/// Transactions of each.
const ROUNDS: u32 = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_writers_lose_nothing() {
    let fixture = Fixture::new().await;
    let run = RunId::random();
    fixture.store.create_run(&run, &json!({})).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (home, run) = (home(fixture.folder.path()), run.clone());
        writers.spawn(async move {
            let store = Store::open(&home).await.unwrap();
            let mut versions = Vec::new();
            for round in 0..ROUNDS {
                store.update_run(&run, &json!({ "writer": writer, "round": round })).await.unwrap();
                versions.push(store.put_env(&env("shop", writer * ROUNDS + round)).await.unwrap().version);
            }
            let bytes = ArtifactSource::Bytes(vec![b'x'; 100_000]);
            store.put_artifact(&Holder::Run(run.clone()), NewArtifact::new("same", "text/plain"), bytes).await.unwrap();
            versions
        });
    }
    let versions: BTreeSet<u64> = writers.join_all().await.into_iter().flatten().collect();
    assert_eq!(versions.into_iter().collect::<Vec<_>>(), (1..=u64::from(WRITERS * ROUNDS)).collect::<Vec<_>>());
    assert_eq!(fixture.store.get_run(&run).await.unwrap().revision, u64::from(WRITERS * ROUNDS) + 1);
    assert_eq!(fixture.store.list_artifacts(&Holder::Run(run.clone())).await.unwrap().len(), WRITERS as usize);
    assert_eq!(super::files(&fixture.path("home/store/blobs")).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_new_home_is_opened_by_many_at_once() {
    let folder = tempfile::TempDir::new().unwrap();
    let mut openers = tokio::task::JoinSet::new();
    for opener in 0..WRITERS {
        let home = home(folder.path());
        openers.spawn(async move {
            let store = Store::open(&home).await.unwrap();
            store.put_env(&env("shop", opener)).await.unwrap();
        });
    }
    openers.join_all().await;
    let store = Store::open(&home(folder.path())).await.unwrap();
    assert_eq!(store.list_envs(Some(&name("shop"))).await.unwrap().len(), WRITERS as usize);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_tree_is_put_and_checked_out_by_many_at_once() {
    let fixture = Fixture::new().await;
    let site = fixture.site("site");
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let (home, site) = (home(fixture.folder.path()), site.clone());
        workers.spawn(async move {
            let store = Store::open(&home).await.unwrap();
            let tree = store.put_tree(&site).await.unwrap();
            let place = store.checkout_tree(&tree).await.unwrap();
            assert_eq!(std::fs::read_to_string(place.join("pages/index.html")).unwrap(), "hello");
            tree
        });
    }
    let trees: BTreeSet<_> = workers.join_all().await.into_iter().collect();
    assert_eq!(trees.len(), 1);
    let left: Vec<_> = std::fs::read_dir(fixture.path("home/cache/trees")).unwrap().collect();
    assert_eq!(left.len(), 1, "no half a tree stays: {left:?}");
}

#[tokio::test]
async fn the_folder_is_closed_to_others() {
    use std::os::unix::fs::MetadataExt as _;
    let fixture = Fixture::new().await;
    for path in ["home", "home/store", "home/store/blobs"] {
        assert_eq!(fixture.path(path).metadata().unwrap().mode() & 0o777, 0o700, "{path}");
    }
}
