//! What is put.

use agentenv_protocol::ExitCode;
use agentenv_tests::{Bundle, Home, PySite, put_everything, stored};

/// The first test of a run: it stores every site and env of the project, from which the others start.
#[test]
fn what_is_put_twice_is_stored_once() {
    let home = stored();
    let again = put_everything(&home);
    assert!(again.len() >= 4, "shop, tracker, echo and envs: {again:?}");
    for printed in again {
        let stored: serde_json::Value = serde_json::from_str(printed.trim()).expect("put prints JSON");
        assert_eq!(stored["version"], 1, "the same content is the same version: {stored}");
    }
}

#[test]
fn website_check_passes_on_every_site() {
    let home = Home::new();
    for site in ["sites/shop", "sites/tracker", "sites/echo"] {
        let outcome = home.run(&["website", "check", site]);
        assert_eq!(outcome.code, 0, "{site}: {outcome:?}");
    }
}

#[test]
fn website_check_names_the_rule_that_a_site_breaks() {
    let home = Home::empty();
    // Every key opens it.
    let site = PySite::new("alpha").before("KEY = type('Any', (str,), {'__ne__': lambda *_: False})()");
    let bundle = site.bundle();
    let outcome = home.run(&["website", "check", bundle.path()]);
    assert_eq!(outcome.code, ExitCode::Failed as i32, "{outcome:?}");
    assert!(agentenv_tests::text(&outcome).contains("PR-8"), "{outcome:?}");
    home.assert_idle();
}

#[test]
fn row_98_a_link_out_of_the_bundle_is_refused() {
    let home = Home::empty();
    for (link, target) in [("secrets", "/etc/passwd"), ("up", "../../etc"), ("folder", "/root")] {
        let bundle = PySite::new("alpha").bundle();
        std::os::unix::fs::symlink(target, bundle.folder().join(link)).expect("a link");
        home.run(&["website", "put", bundle.path()]).fails(ExitCode::Refused, &[link]);
    }
    assert!(!home.run(&["env", "list"]).ok().contains("alpha"), "nothing was stored");
}

#[test]
fn row_98_a_build_that_writes_elsewhere_changes_nothing_that_is_stored() {
    let home = Home::empty();
    let outside = tempfile_path();
    let build = format!(
        "build = [\"/usr/bin/python3\", \"-c\", \"import os; open('made', 'w').write('inside'); open('{outside}', 'w').write('outside'); \
         os.symlink('/etc/passwd', 'way-out')\"]\n"
    );
    let bundle = PySite::new("alpha").toml(&build).bundle();
    let outcome = home.run(&["website", "put", bundle.path()]);
    // The build's own output has a link out of the tree: as wrong as in the bundle.
    outcome.fails(ExitCode::Refused, &["way-out"]);
    assert!(!bundle.folder().join("made").exists(), "builds run in a scratch copy");

    let build = format!(
        "build = [\"/usr/bin/python3\", \"-c\", \"open('made', 'w').write('inside'); open('{outside}', 'w').write('outside')\"]\n"
    );
    let bundle = PySite::new("alpha").toml(&build).bundle();
    home.put(&bundle);
    assert!(!bundle.folder().join("made").exists(), "builds run in a scratch copy");
    let deploy = home.deploy("alpha");
    let tree = deploy.exec("alpha/server", &["ls", "/site"]).ok();
    assert!(tree.contains("made") && !tree.contains("outside"), "{tree}");
    std::fs::remove_file(outside).expect("put runs trusted programs: the file is there");
}

fn tempfile_path() -> String {
    format!("/tmp/ae-outside-{}", std::process::id())
}

#[test]
fn a_new_website_is_written_put_and_deployed() {
    let home = Home::new();
    let folder = tempfile::tempdir().expect("a folder");
    let outcome = agentenv_tests::run_within(
        std::time::Duration::from_secs(60),
        home.command(["website", "new", "notes"]).current_dir(folder.path()),
        None,
    );
    outcome.ok();
    let bundle = folder.path().join("notes").display().to_string();
    home.run(&["website", "put", &bundle]).ok();
    let deploy = home.deploy("notes");
    assert_eq!(deploy.info.websites[0].name.as_str(), "notes");
}

#[test]
fn an_env_that_runs_refer_to_is_not_removed() {
    let home = Home::empty();
    home.put(&PySite::new("alpha").bundle());
    let deploy = home.deploy("alpha");
    home.run(&["env", "rm", "alpha"]).fails(ExitCode::Refused, &["alpha"]);
    deploy.close();
}

#[test]
fn a_multi_env_pins_what_it_was_put_with() {
    let home = Home::empty();
    home.put(&PySite::new("alpha").bundle());
    home.put(&Bundle::multi("pods", &["alpha"], None));
    home.put(&PySite::new("alpha").before("log('the second version')").bundle());
    let deploy = home.deploy("pods");
    let log = home.run(&["env", "logs", deploy.id(), "alpha/server"]).ok();
    assert!(!log.contains("the second version"), "{log}");
}
