use agentenv_protocol::RunId;
use serde_json::json;

use super::{Fixture, home};
use crate::{Store, StoreError};

#[tokio::test]
async fn a_run_is_on_record_before_it_begins_and_readable_meanwhile() {
    let fixture = Fixture::new().await;
    let store = &fixture.store;
    let run = RunId::random();
    assert!(matches!(store.update_run(&run, &json!({})).await, Err(StoreError::NoRun(_))));
    assert!(matches!(store.get_run(&run).await, Err(StoreError::NoRun(_))));
    assert_eq!(store.create_run(&run, &json!({ "state": "starting" })).await.unwrap(), 1);
    assert!(matches!(store.create_run(&run, &json!({})).await, Err(StoreError::RunExists(_))));
    let other = Store::open(&home(fixture.folder.path())).await.unwrap();
    for revision in 2..=5_u64 {
        assert_eq!(store.update_run(&run, &json!({ "step": revision })).await.unwrap(), revision);
        let row = other.get_run(&run).await.unwrap();
        assert_eq!((row.revision, &row.document["step"]), (revision, &json!(revision)));
        assert!(row.updated_at >= row.created_at);
    }
}

#[tokio::test]
async fn row_71_runs_are_listed_in_the_order_of_their_creation() {
    let Fixture { store, .. } = &Fixture::new().await;
    let runs: Vec<_> = (0..5).map(|_| RunId::random()).collect();
    for run in &runs {
        store.create_run(run, &json!({})).await.unwrap();
    }
    // A clock that went back an hour.
    sqlx::query("update runs set created_at = '2000-01-01T00:00:00Z' where id = ?1")
        .bind(runs[4].as_str())
        .execute(&store.pool)
        .await
        .unwrap();
    let listed: Vec<_> = store.list_runs(3).await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(listed, [runs[4].clone(), runs[3].clone(), runs[2].clone()]);
}
