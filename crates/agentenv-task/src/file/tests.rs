use std::{collections::BTreeMap, io, path::Path, time::Duration};

use agentenv_protocol::Name;
use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::action::{Action, Check, DeployStep, StepKind};

fn parse(text: &str) -> Result<Task, Problems> {
    let files = |file: &str| match file {
        "shop.json" => Ok(br#"{"products": [1]}"#.to_vec()),
        "broken.json" => Ok(b"{".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    parse_task(Path::new("task.toml"), Path::new("/tasks"), text, &files)
}

fn problems(steps: &str) -> String {
    let text = format!("format = 1\nname = \"t\"\ngoal = \"g\"\n{steps}");
    parse(&text).expect_err("the task is wrong").to_string()
}

const WHOLE: &str = r#"
format = 1
name = "buy-and-report"
goal = """Buy a mug, then report it."""

[[step]]
kind = "deploy_env"
env = "office"
ready_timeout_s = 30
timeout_s = 90.5

[[step]]
kind = "load_data"
[step.data]
shop = { file = "shop.json" }
[step.data.tracker]
users = [{ username = "grace", roles = "User" }]
issues = []

[[step]]
kind = "browser_sign_in"
users = { shop = "ada", tracker = "grace" }
target = "browser"

[[step]]
kind = "agent"
name = "first episode"
command = ["python3", "agent.py"]
env = { MODEL = "none" }

[[step]]
kind = "check"
[[step.expect]]
website = "shop"
pointer = "/orders"
selector = { user = "ada" }
length = 1
[[step.expect]]
website = "tracker"
pointer = "/issues/0/title"
contains_value_at = { website = "shop", pointer = "/orders/0/number" }

[[step]]
kind = "check"
website = "shop"
pointer = "/orders/0/total"
equals = 12.5

[[step]]
kind = "check"
command = ["./check.sh"]

[[step]]
kind = "reset_env"

[[step]]
kind = "close_env"
"#;

#[test]
fn a_whole_task_is_read() {
    let task = parse(WHOLE).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!((task.name.as_str(), task.goal.as_str()), ("buy-and-report", "Buy a mug, then report it."));
    let kinds: Vec<&str> = task.steps.iter().map(|step| step.action.kind().as_str()).collect();
    assert_eq!(
        kinds,
        ["deploy_env", "load_data", "browser_sign_in", "agent", "check", "check", "check", "reset_env", "close_env"]
    );
    assert_eq!(task.steps[0].timeout, Duration::from_millis(90_500));
    assert_eq!(task.steps[3].timeout, StepKind::Agent.default_timeout());
    assert_eq!(task.steps[3].label(), "first episode");
    assert!(task.steps[1..].iter().all(|step| step.action.deploy() == Some(DeployStep(0))));
    let Action::LoadData { data, .. } = &task.steps[1].action else { panic!() };
    assert_eq!(
        serde_json::to_string(data).unwrap(),
        r#"{"shop":{"products":[1]},"tracker":{"users":[{"username":"grace","roles":"User"}],"issues":[]}}"#
    );
    let Action::Agent { program, .. } = &task.steps[3].action else { panic!() };
    assert_eq!(program.env, BTreeMap::from([("MODEL".to_owned(), "none".to_owned())]));
    let Action::Check { check: Check::Data(expectations), .. } = &task.steps[4].action else { panic!() };
    assert_eq!(expectations.len(), 2);
    assert!(expectations[1].test.other().is_some());
}

#[test]
fn every_problem_of_a_file_is_said_at_once() {
    let text = r#"
format = 2
name = "Bad Name"
gaol = "x"

[[step]]
kind = "deploy_envs"

[[step]]
kind = "deploy_env"
env = 7
provider = "docker"
capture_traffic = "yes"
timeout_s = 0

[[step]]
kind = "load_data"
data = { shop = { file = "nowhere.json" }, Tracker = {}, web = { file = "broken.json" }, when = 2026-11-29, inf = inf }

[[step]]
kind = "browser_sign_in"
users = { shop = 1 }

[[step]]
kind = "agent"
command = "python3 agent.py"
timeout = 5
env = { AGENTENV_GOAL = "x" }

[[step]]
kind = "check"
website = "shop"
pointer = "orders"
equals = 1
length = -1

[[step]]
kind = "check"

[[step]]
kind = "check"
website = "shop"
matches = "("
"#;
    assert_snapshot!(parse(text).unwrap_err(), @r#"
    task.toml:1:1: the file has no `goal`; accepted is a string
    task.toml:2:10: the file has format 2, which is newer than this program; accepted is `format = 1`
    task.toml:3:8: `name`: `Bad Name` is not a name: lower-case letters, digits and `-`, a letter first, 63 characters at most
    task.toml:4:1: the file has no key `gaol`; did you mean `goal`?
    task.toml:7:8: there is no step of kind `deploy_envs`; did you mean `deploy_env`?
    task.toml:11:7: `env` is the number 7; accepted is a string
    task.toml:12:12: there is no provider `docker`; accepted are `sandbox`, `compose` and `process`
    task.toml:13:19: `capture_traffic` is the string "yes"; accepted is `true` or `false`
    task.toml:14:13: `timeout_s` is the number 0; accepted is a number of seconds above 0 and up to 604800
    task.toml:18:17: `nowhere.json` cannot be read: entity not found; the path is relative to the task file
    task.toml:18:44: a website: `Tracker` is not a name: lower-case letters, digits and `-`, a letter first, 63 characters at most
    task.toml:18:64: `broken.json` is not JSON: EOF while parsing an object at line 1 column 1
    task.toml:18:97: JSON has no dates: 2026-11-29; write it as a string: "2026-11-29"
    task.toml:18:115: JSON has no number inf; accepted is a finite number
    task.toml:22:18: `users.shop` is the number 1; accepted is a string
    task.toml:26:11: `command` is the string "python3 agent.py"; accepted is an array of strings, the program first, as `["python3", "agent.py"]`
    task.toml:27:1: a step has no key `timeout`; did you mean `timeout_s`?
    task.toml:28:9: `AGENTENV_GOAL` is one of the program's own variables; accepted are names that do not begin with AGENTENV_
    task.toml:30:1: the expectation has several tests: `equals` and `length`; accepted is one of `equals`, `contains`, `equals_value_at`, `contains_value_at`, `matches`, `exists` and `length`
    task.toml:33:11: `pointer`: `orders` is not a JSON Pointer: accepted is nothing, or parts that each begin with `/`, with `~0` for `~` and `~1` for `/`
    task.toml:35:10: `length` is -1; accepted is 0 or more
    task.toml:37:1: a check step checks nothing; accepted is one of `website` with `pointer` and a test, `[[step.expect]]` tables of these, or `command`
    task.toml:43:11: `matches`: `(` is not a pattern: unclosed group
    "#);
}

#[test]
fn a_step_must_say_which_deploy_it_means_where_that_is_not_plain() {
    assert_snapshot!(problems("[[step]]\nkind = \"reset_env\"\n"), @"task.toml:4:1: reset_env has no deploy to work on; put a deploy_env step before it");
    let two = "[[step]]\nkind = \"deploy_env\"\nenv = \"a\"\nname = \"one\"\n[[step]]\nkind = \"deploy_env\"\nenv = \"b\"\nname = \"two\"\n";
    assert_snapshot!(problems(&format!("{two}[[step]]\nkind = \"reset_env\"\n")), @r#"
    task.toml:12:1: reset_env could mean several deploys; say which one: `deploy = "NAME"`, the `name` of its deploy_env step; open here are `one` and `two`
    "#);
    assert_snapshot!(problems(&format!("{two}[[step]]\nkind = \"reset_env\"\ndeploy = \"three\"\n")), @"task.toml:14:10: no deploy `three` is open at this step; open here are `one` and `two`");
    assert_snapshot!(problems(&format!("{two}[[step]]\nkind = \"close_env\"\ndeploy = \"one\"\n[[step]]\nkind = \"reset_env\"\ndeploy = \"one\"\n")), @"task.toml:17:10: no deploy `one` is open at this step; open here are `two`");
    let text = format!(
        "format = 1\nname = \"t\"\ngoal = \"g\"\n{two}[[step]]\nkind = \"close_env\"\ndeploy = \"one\"\n[[step]]\nkind = \"reset_env\"\n"
    );
    assert_eq!(parse(&text).unwrap().steps[3].action.deploy(), Some(DeployStep(1)), "one is left");
}

#[test]
fn what_is_not_toml_or_empty_is_said_with_its_place() {
    assert_snapshot!(parse("format = 1\nname = \n").unwrap_err(), @"task.toml:2:8: string values must be quoted, expected literal string");
    assert_snapshot!(parse("").unwrap_err(), @r#"
    task.toml:1:1: the file has no `format`; accepted is `format = 1`
    task.toml:1:1: the file has no `name`; accepted is a string
    task.toml:1:1: the file has no `goal`; accepted is a string
    task.toml:1:1: the file has no `step`; accepted is at least one `[[step]]`
    "#);
    assert_snapshot!(problems("step = []\n"), @"task.toml:1:1: the file has no `step`; accepted is at least one `[[step]]`");
    assert_snapshot!(problems("step = 3\n"), @"task.toml:4:8: `step` is the number 3; accepted is tables, each written as `[[step]]`");
    assert_snapshot!(problems("[[step]]\nkind = \"deploy_env\"\nenv = \"a\"\nname = \"x\"\n[[step]]\nkind = \"reset_env\"\nname = \"x\"\n"), @"task.toml:10:8: two steps are named `x`; give each its own name");
}

#[test]
fn a_task_file_is_read_with_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("task.toml");
    let data = "[[step]]\nkind = \"deploy_env\"\nenv = \"a\"\n[[step]]\nkind = \"load_data\"\ndata = { shop = { file = \"d/x.json\" } }\n";
    std::fs::write(&path, format!("format = 1\nname = \"t\"\ngoal = \"g\"\n{data}")).unwrap();
    assert!(matches!(load_task(&path), Err(TaskFileError::Problems(_))));
    std::fs::create_dir(folder.path().join("d")).unwrap();
    std::fs::write(folder.path().join("d/x.json"), "[1]").unwrap();
    let task = load_task(&path).unwrap();
    let Action::LoadData { data, .. } = &task.steps[1].action else { panic!() };
    assert_eq!(data[&Name::parse("shop").unwrap()], serde_json::json!([1]));
    assert_eq!(task.folder, folder.path());
    assert!(matches!(load_task(&folder.path().join("none.toml")), Err(TaskFileError::Io { .. })));
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        drop(parse(&text));
    }

    /// Cuts and single changes of a good file: never a panic, and problems lie within the file.
    #[test]
    fn no_edit_of_a_good_file_panics(at in 0..WHOLE.len(), with in "[\\PC\n]{0,3}", cut in 0..40_usize) {
        let end = (at + cut).min(WHOLE.len());
        let text = format!("{}{with}{}", &WHOLE[..at], &WHOLE[end..]);
        if let Err(problems) = parse(&text) {
            let lines = text.matches('\n').count() + 1;
            prop_assert!(problems.list().iter().all(|problem| problem.line <= lines && problem.column >= 1));
        }
    }
}
