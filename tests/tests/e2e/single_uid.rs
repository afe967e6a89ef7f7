//! A user without subordinate ids: every sandbox shares the user's one id, and the deploy says so.

use agentenv_tests::PySite;

use crate::desk::{browser_of, desk, pods};

#[test]
fn a_deploy_works_and_its_record_says_what_is_weaker() {
    let home = desk();
    let deploy = home.deploy("desk");
    let record = std::fs::read_to_string(deploy.folder().join("deploy.json")).expect("the record");
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["single_uid"], true, "{record:#}");
    assert!(!deploy.info.warnings.is_empty(), "the deploy says so: {:?}", deploy.info);
    for sandbox in ["alpha/server", browser_of(&deploy)] {
        let uid = deploy.exec(sandbox, &["id", "-u"]).ok();
        assert_ne!(uid.trim(), "0", "{sandbox}");
    }
    let page = deploy
        .exec(browser_of(&deploy), &["curl", "--silent", "--show-error", "--noproxy", "*", "https://alpha.test/"]);
    assert!(page.ok().contains("alpha at alpha.test"));
}

#[test]
fn doctor_says_what_a_single_uid_means() {
    let home = pods(&[PySite::new("alpha")]);
    let outcome = home.run(&["doctor"]);
    let text = agentenv_tests::text(&outcome);
    assert!(text.contains("newuidmap") || text.contains("subuid") || text.contains("single uid"), "{text}");
}

#[test]
fn the_neighbours_files_and_processes_are_closed_all_the_same() {
    let home = pods(&[PySite::new("alpha"), PySite::new("beta")]);
    let deploy = home.deploy("pods");
    let seen = deploy.exec("beta/server", &["sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ls /data /tmp"]).ok();
    assert!(!seen.contains("alpha"), "{seen}");
    let host = deploy.exec("beta/server", &["ls", &home.path().display().to_string()]);
    assert_ne!(host.code, 0, "{host:?}");
}
