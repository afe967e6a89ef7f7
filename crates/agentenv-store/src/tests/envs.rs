use agentenv_protocol::{DeployId, RunId};

use super::{Fixture, env, name, with_tree};
use crate::{GcReport, Holder, NewEnv, PutOutcome, StoreError};

#[tokio::test]
async fn versions_count_up_and_the_same_content_is_not_stored_twice() {
    let Fixture { store, .. } = &Fixture::new().await;
    let put = async |content| store.put_env(&env("shop", content)).await.unwrap();
    assert_eq!(put(1).await, PutOutcome { version: 1, stored: true });
    assert_eq!(put(1).await, PutOutcome { version: 1, stored: false });
    assert_eq!(put(2).await, PutOutcome { version: 2, stored: true });
    // An older content put again is what the bare name means from now on.
    assert_eq!(put(1).await, PutOutcome { version: 1, stored: false });
    assert_eq!(store.get_env(&name("shop"), None).await.unwrap().version, 1);
    assert_eq!(store.get_env(&name("shop"), Some(2)).await.unwrap().record["content"], 2);
    assert_eq!(put(3).await, PutOutcome { version: 3, stored: true });
    let all = store.list_envs(Some(&name("shop"))).await.unwrap();
    assert_eq!(
        all.iter().map(|env| (env.version, env.latest)).collect::<Vec<_>>(),
        [(1, false), (2, false), (3, true)]
    );
    store.put_env(&env("bank", 1)).await.unwrap();
    let latest = store.list_envs(None).await.unwrap();
    assert_eq!(latest.iter().map(|env| env.name.as_str()).collect::<Vec<_>>(), ["bank", "shop"]);
}

#[tokio::test]
async fn what_is_missing_is_named_with_what_is_near() {
    let Fixture { store, .. } = &Fixture::new().await;
    store.put_env(&env("shop", 1)).await.unwrap();
    let error = store.get_env(&name("shpo"), None).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no env `shpo`");
    assert!(error.hint().starts_with("did you mean `shop`?"), "{}", error.hint());
    let error = store.get_env(&name("elsewhere"), None).await.unwrap_err();
    assert_eq!(error.hint(), "`agent-env env list` shows what is stored");
    let error = store.get_env(&name("shop"), Some(9)).await.unwrap_err();
    assert_eq!(error.to_string(), "env `shop` has no version 9");
    assert!(matches!(store.remove_env(&name("shop"), Some(9)).await, Err(StoreError::NoVersion { version: 9, .. })));
    assert!(matches!(store.list_envs(Some(&name("x"))).await, Err(StoreError::NoEnv { .. })));
}

#[tokio::test]
async fn a_version_that_something_refers_to_stays() {
    let Fixture { store, .. } = &Fixture::new().await;
    for content in 1..=2 {
        store.put_env(&env("shop", content)).await.unwrap();
    }
    let (shop, run, deploy) = (name("shop"), RunId::random(), DeployId::random());
    store.add_references(&Holder::Run(run.clone()), &[(shop.clone(), 1)]).await.unwrap();
    store.add_references(&Holder::Deploy(deploy.clone()), &[(shop.clone(), 1)]).await.unwrap();
    // Once more changes nothing.
    store.add_references(&Holder::Deploy(deploy.clone()), &[(shop.clone(), 1)]).await.unwrap();
    let error = store.remove_env(&shop, Some(1)).await.unwrap_err();
    assert_eq!(error.to_string(), format!("env `shop` version 1 is used by deploy `{deploy}`, run `{run}`"));
    assert!(store.remove_env(&shop, None).await.is_err(), "not even together with the others");
    assert_eq!(store.list_envs(Some(&shop)).await.unwrap().len(), 2);
    assert_eq!(store.deploys_with_references().await.unwrap(), std::slice::from_ref(&deploy));
    assert_eq!(store.remove_env(&shop, Some(2)).await.unwrap(), 1);
    assert_eq!(store.get_env(&shop, None).await.unwrap().version, 1);
    store.remove_references(&Holder::Deploy(deploy)).await.unwrap();
    store.remove_references(&Holder::Run(run)).await.unwrap();
    assert_eq!(store.remove_env(&shop, None).await.unwrap(), 1);
    assert!(matches!(store.get_env(&shop, None).await, Err(StoreError::NoEnv { near: None, .. })));
    // A number is never used again: a run's record would mean another thing.
    assert_eq!(store.put_env(&env("shop", 9)).await.unwrap().version, 3);
}

#[tokio::test]
async fn references_are_all_or_none() {
    let Fixture { store, .. } = &Fixture::new().await;
    store.put_env(&env("shop", 1)).await.unwrap();
    let holder = Holder::Deploy(DeployId::random());
    let error = store.add_references(&holder, &[(name("shop"), 1), (name("shop"), 2)]).await.unwrap_err();
    assert!(matches!(error, StoreError::NoVersion { version: 2, .. }), "{error}");
    assert!(store.references_to(&name("shop"), 1).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_multi_env_keeps_what_it_pins() {
    let Fixture { store, .. } = &Fixture::new().await;
    store.put_env(&env("shop", 1)).await.unwrap();
    let office = NewEnv { pins: vec![(name("shop"), 1)], ..env("office", 1) };
    store.put_env(&office).await.unwrap();
    assert_eq!(store.references_to(&name("shop"), 1).await.unwrap(), ["env `office@1`"]);
    let error = store.remove_env(&name("shop"), None).await.unwrap_err();
    assert_eq!(error.to_string(), "env `shop` version 1 is used by env `office@1`");
    store.remove_env(&name("office"), Some(1)).await.unwrap();
    store.remove_env(&name("shop"), None).await.unwrap();
    // Pins that are not there store nothing.
    assert!(store.put_env(&office).await.is_err());
    assert!(store.get_env(&name("office"), None).await.is_err());
}

#[tokio::test]
async fn gc_removes_what_no_record_names() {
    let fixture = Fixture::new().await;
    let store = &fixture.store;
    let kept = store.put_tree(&fixture.site("kept")).await.unwrap();
    std::fs::write(fixture.site("dropped").join("more"), "x").unwrap();
    let dropped = store.put_tree(&fixture.path("dropped")).await.unwrap();
    store.put_env(&with_tree(env("kept", 1), &kept)).await.unwrap();
    store.put_env(&with_tree(env("dropped", 1), &dropped)).await.unwrap();
    for tree in [&kept, &dropped] {
        store.checkout_tree(tree).await.unwrap();
    }
    assert_eq!(store.gc().await.unwrap(), GcReport::default());
    store.remove_env(&name("dropped"), None).await.unwrap();
    // What an interrupted checkout and an interrupted upload leave.
    std::fs::create_dir(fixture.path("home/cache/trees/.part-x")).unwrap();
    std::fs::write(fixture.path("home/store/blobs/trees/abc#1"), "x").unwrap();
    let report = store.gc().await.unwrap();
    assert_eq!((report.blobs, report.folders), (1, 3), "{report:?}");
    assert!(store.checkout_tree(&kept).await.unwrap().join("run").exists());
    assert!(matches!(store.checkout_tree(&dropped).await, Err(StoreError::NoTree(_))));
}

#[tokio::test]
async fn gc_leaves_trees_of_a_shared_cache_alone() {
    let fixture = Fixture::new().await;
    let home = super::home(fixture.folder.path()).with_cache(fixture.path("shared"));
    let store = crate::Store::open(&home).await.unwrap();
    let tree = store.put_tree(&fixture.site("site")).await.unwrap();
    let place = store.checkout_tree(&tree).await.unwrap();
    // Nothing here names it, but another home may run it.
    assert_eq!(store.gc().await.unwrap().folders, 0);
    assert!(place.is_dir());
}

#[tokio::test]
async fn gc_waits_for_those_who_are_storing() {
    let fixture = Fixture::new().await;
    let store = fixture.store.clone();
    let hold = store.hold().await.unwrap();
    let tree = store.put_tree(&fixture.site("site")).await.unwrap();
    let mut gc = tokio::spawn({
        let store = store.clone();
        async move { store.gc().await }
    });
    // Far longer than a gc of one file takes: it comes between a file and its record, or not at all.
    let early = tokio::time::timeout(std::time::Duration::from_millis(500), &mut gc).await;
    assert!(early.is_err(), "{early:?}");
    // Others store meanwhile, and gc has to leave their tree to its record.
    store.put_env(&with_tree(env("shop", 1), &tree)).await.unwrap();
    drop(hold);
    assert_eq!(gc.await.unwrap().unwrap().blobs, 0);
    assert!(store.checkout_tree(&tree).await.is_ok());
}
