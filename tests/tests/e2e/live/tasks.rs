//! Runs that deploy a live site.

use super::*;

/// Runs a task of these steps; gives the command's outcome and the run's record.
#[track_caller]
fn run(home: &Home, steps: &str) -> (i32, Value) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("task.toml");
    let text = format!(
        "format = 1\nname = \"live\"\ngoal = \"Look.\"\n\n[[step]]\nkind = \"deploy_env\"\nenv = \"github\"\n{steps}"
    );
    std::fs::write(&file, text).expect("the task can be written");
    let outcome = home.run(&["task", "run", file.to_str().expect("a plain path")]);
    let runs = home.run(&["run", "list", "--json"]).json();
    let newest = runs[0]["run"].as_str().unwrap_or_else(|| panic!("a run in {runs}: {outcome:?}")).to_owned();
    (outcome.code, home.run(&["run", "show", &newest, "--json"]).json())
}

/// The live mark (LIVE-5), as it was written before the deploy began.
#[track_caller]
fn assert_marked(record: &Value) {
    let deploy = &record["deploys"][0];
    assert_eq!(deploy["live"], true, "{record:#}");
    let expected = json!([{
        "env_id": deploy["deploy"],
        "name": "github",
        "domains": ["github.com"],
        "allow_hosts": ["*.github.com", "*.githubassets.com", "*.githubusercontent.com"],
        "reproducible": false,
    }]);
    assert_eq!(record["context"]["metadata"]["live_websites"], expected, "{record:#}");
}

#[test]
fn a_run_with_a_live_site_is_marked_and_its_outcome_says_who_is_to_blame() {
    let home = home();
    let internet = Internet::start();
    let home = internet.home(home);
    internet.set_mode("captcha");
    let (code, record) = run(&home, "");
    assert_eq!((code, &record["outcome"]), (1, &json!("blocked_by_site")), "{record:#}");
    assert_marked(&record);
    let deploy = record["deploys"][0]["deploy"].as_str().expect("its id");
    let kept: Value = serde_json::from_str(&read(&home.deploy_folder(deploy).join("deploy.json"))).expect("a record");
    assert_eq!((&kept["live"], &kept["error"]["kind"]), (&json!(true), &json!("blocked_by_site")), "{kept:#}");

    internet.set_mode("");
    let steps = "\n[[step]]\nkind = \"load_data\"\ndata = { github = { note = 1 } }\n\n[[step]]\nkind = \"reset_env\"\n\n\
        [[step]]\nkind = \"check\"\n\n[[step.expect]]\nwebsite = \"github\"\nselector = \"octocat/Hello-World\"\n\
        pointer = \"/repository/name\"\nequals = \"Hello-World\"\n\n[[step.expect]]\nwebsite = \"github\"\npointer = \"/loaded\"\n\
        equals = []\n";
    let (code, record) = run(&home, steps);
    assert_eq!((code, &record["outcome"]), (0, &json!("passed")), "{record:#}");
    assert_marked(&record);
    assert_eq!(record["steps"][2]["result"]["not_undone"], json!(["github"]), "{record:#}");
    assert!(
        record["steps"][2]["summary"].as_str().is_some_and(|said| said.contains("on the real github stays")),
        "{record:#}"
    );
    home.assert_idle();
    assert_only_the_reach(&internet);
}
