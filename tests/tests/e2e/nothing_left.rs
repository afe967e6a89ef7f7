//! A deploy's whole life leaves the machine as it was. Runs alone.

use agentenv_tests::{Home, PySite, Snapshot, playwright};
use serde_json::json;

use crate::desk::{desk, pods};

#[test]
fn a_deploy_with_a_browser_leaves_the_machine_as_it_was() {
    let home = desk();
    let before = Snapshot::take();
    let deploy = home.deploy("desk");
    assert!(before.differs(), "a running deploy is seen by the snapshot");
    playwright(&deploy, "page.goto('https://alpha.test/')");
    home.run(&["env", "reset", deploy.id()]).ok();
    deploy.close();
    home.assert_idle();
    before.assert_nothing_left(&home);
}

#[test]
fn a_deploy_that_is_closed_while_its_spare_is_made_leaves_the_machine_as_it_was() {
    let home = desk();
    let before = Snapshot::take();
    for resets in [0, 1] {
        let deploy = home.deploy_with("desk", &["--expect-reset"]);
        for _ in 0..resets {
            home.run(&["env", "reset", deploy.id()]).ok();
        }
        deploy.close();
        home.assert_idle();
        before.assert_nothing_left(&home);
    }
}

#[test]
fn a_captured_deploy_leaves_the_machine_as_it_was() {
    let home = pods(&[PySite::new("alpha"), PySite::new("beta")]);
    let before = Snapshot::take();
    for discard in [true, false] {
        let deploy = home.deploy_with("pods", &["--capture-traffic"]);
        let (processes, folder) = (deploy.processes(), deploy.folder());
        assert!(before.differs(), "a running deploy is seen by the snapshot");
        if discard {
            home.run(&["env", "close", deploy.id(), "--discard-captures"]).ok();
            deploy.gone(&processes);
            assert!(!folder.join("captures").exists());
        } else {
            deploy.close();
        }
        home.assert_idle();
        before.assert_nothing_left(&home);
    }
}

#[test]
fn the_office_leaves_the_machine_as_it_was() {
    let home = Home::new();
    let before = Snapshot::take();
    let deploy = home.deploy("office");
    deploy.operation("shop", "data/get", &json!({}));
    deploy.operation("tracker", "data/get", &json!({}));
    deploy.close();
    home.assert_idle();
    before.assert_nothing_left(&home);
}

#[test]
fn row_83_deploys_resets_and_teardowns_accumulate_nothing() {
    let home = desk();
    let before = Snapshot::take();
    for _ in 0..5 {
        let deploy = home.deploy("desk");
        home.run(&["env", "reset", deploy.id()]).ok();
        deploy.close();
    }
    home.assert_idle();
    before.assert_nothing_left(&home);
}
