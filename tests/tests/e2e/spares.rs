//! Resets that take a warm spare: where one is foreseen and affordable; else cold, and said so.

use std::fs;

use agentenv_tests::{
    Bundle, Deploy, Hand, Home, PATIENCE, Process, Processes, PySite, clone_root, eventually, playwright,
};
use serde_json::{Value, json};

use crate::{
    desk::{browser_of, desk},
    python::program,
    reset::{assert_told, cdp_client},
};

/// How a reset says that it took a spare.
const SPARE: &str = "spare";

/// Resets, and says how the browser came back.
#[track_caller]
fn reset(home: &Home, deploy: &Deploy<'_>) -> String {
    let report = home.run(&["env", "reset", deploy.id(), "--json"]).json();
    let how = &report["browsers"][browser_of(deploy)];
    how.as_str().unwrap_or_else(|| panic!("it is not said how: {report}")).to_owned()
}

/// The Chromiums of a deploy, without those that they started themselves.
fn chromiums(deploy: &Deploy<'_>) -> Vec<Process> {
    let is_first = |process: &Process| {
        let arguments = process.arguments();
        arguments.contains("--remote-debugging-port") && !arguments.contains("--type=")
    };
    deploy.processes().into_iter().filter(is_first).collect()
}

/// The Chromium that waits for the next reset.
#[track_caller]
fn spare(deploy: &Deploy<'_>) -> Process {
    let current = deploy.service(browser_of(deploy));
    eventually("a spare is there", PATIENCE, || {
        let tree = Processes::all().tree(current.pid);
        chromiums(deploy).into_iter().find(|process| !tree.iter().any(|own| own.pid == process.pid))
    })
}

/// What of an earlier episode is seen by a page and by a program.
fn seen(deploy: &Deploy<'_>) -> Value {
    let page = playwright(
        deploy,
        "page.goto('https://alpha.test/')\nresult([context.cookies(), page.evaluate('localStorage.length'), page.title()])",
    );
    let files = deploy.exec(browser_of(deploy), &["sh", "-c", "ls /tmp /dev/shm | grep episode; true"]).ok();
    json!([page, files.trim()])
}

fn leave_traces(deploy: &Deploy<'_>) {
    let traces = r"
context.add_cookies([{'name': 'episode', 'value': '1', 'url': 'https://alpha.test/'}])
page.goto('https://alpha.test/')
page.evaluate('localStorage.setItem(\'episode\', \'1\')')";
    playwright(deploy, traces);
    let files = "open('/tmp/episode', 'w').write('1'); open('/dev/shm/episode', 'w').write('1'); show('left')";
    deploy.python(browser_of(deploy), &program(files));
}

#[test]
fn row_82_no_episode_sees_another_whichever_spare_it_is_in() {
    let home = desk();
    let deploy = home.deploy_with("desk", &["--expect-reset"]);
    let fresh = json!([[[], 0, "alpha"], ""]);
    for episode in 0..4 {
        assert_eq!(seen(&deploy), fresh, "episode {episode}");
        leave_traces(&deploy);
        assert_ne!(seen(&deploy), fresh, "traces are seen while their episode lasts");
        let old = deploy.service(browser_of(&deploy));
        assert_eq!(reset(&home, &deploy), SPARE, "reset {episode}");
        assert!(!old.is_alive(), "the last episode's browser is gone");
    }
    let processes = deploy.processes();
    deploy.close();
    assert!(!processes.iter().any(Process::is_alive), "spares end with their deploy");
}

#[test]
fn row_95_a_client_of_the_last_episode_is_told_and_the_url_leads_to_the_spare() {
    let home = desk();
    let deploy = home.deploy("desk");
    let cdp_url = &deploy.info.browsers[0].cdp_url;
    let mut client = cdp_client(&deploy, cdp_url);
    assert_eq!(reset(&home, &deploy), "cold: no reset was foreseen");
    assert_told(&mut client);
    let mut client = cdp_client(&deploy, cdp_url);
    assert_eq!(reset(&home, &deploy), SPARE, "whoever reset once is likely to do it again");
    assert_told(&mut client);
    cdp_client(&deploy, cdp_url);
    let denied = deploy
        .python(browser_of(&deploy), &program("show(attempt(lambda: socket.create_connection(('192.0.2.1', 80), 3)))"));
    assert!(!denied.as_str().unwrap_or_default().starts_with("ok"), "{denied}");
}

#[test]
fn row_95_a_spare_that_dies_is_not_taken_and_the_next_reset_has_another() {
    let home = desk();
    let deploy = home.deploy_with("desk", &["--expect-reset"]);
    let browser = deploy.service(browser_of(&deploy));
    spare(&deploy).kill_and_wait();
    let how = reset(&home, &deploy);
    assert!(how.starts_with("cold: its spare "), "{how}");
    assert!(!browser.is_alive(), "never an old profile");
    assert_eq!(json!(deploy.status())["state"], "ready");
    assert_eq!(seen(&deploy)[0][2], "alpha");
    assert_eq!(reset(&home, &deploy), SPARE);
}

#[test]
fn row_95_the_budget_of_spares_holds_and_is_given_back() {
    let home = desk().with("AGENTENV_SPARES", "1");
    let first = home.deploy_with("desk", &["--expect-reset"]);
    spare(&first);
    let second = home.deploy_with("desk", &["--expect-reset"]);
    let used_up = "cold: the budget of 1 spares is used up";
    assert_eq!((reset(&home, &second), reset(&home, &second)), (used_up.to_owned(), used_up.to_owned()));
    assert_eq!(chromiums(&second).len(), 1);
    assert_eq!(reset(&home, &first), SPARE, "who has one keeps it");
    first.close();
    assert_eq!(reset(&home, &second), used_up, "it was looked for before the other one was closed");
    assert_eq!(reset(&home, &second), SPARE);
    second.close();
    for (spares, why) in [("0", "the budget of 0 spares is used up"), ("all", "AGENTENV_SPARES is `all`")] {
        let home = desk().with("AGENTENV_SPARES", spares);
        let deploy = home.deploy_with("desk", &["--expect-reset"]);
        let how = reset(&home, &deploy);
        assert!(how.starts_with("cold: ") && how.contains(why), "{how}");
    }
}

#[test]
fn row_69_a_spares_dead_broker_ends_the_deploy() {
    let home = desk();
    let deploy = home.deploy("desk");
    let children = |deploy: &Deploy<'_>| -> Vec<Process> {
        let spawner = deploy.spawner().pid;
        deploy.processes().into_iter().filter(|process| process.parent == spawner).collect()
    };
    let before: Vec<u32> = children(&deploy).iter().map(|process| process.pid).collect();
    reset(&home, &deploy);
    spare(&deploy);
    let is_its_broker = |process: &Process| process.name == "ae-broker" && !before.contains(&process.pid);
    let brokers: Vec<Process> = children(&deploy).into_iter().filter(is_its_broker).collect();
    let [broker] = &brokers[..] else { panic!("one broker is the spare's: {brokers:?}") };
    let processes = deploy.processes();
    broker.kill_and_wait();
    deploy.gone(&processes);
    home.assert_idle();
}

#[test]
fn a_task_that_resets_has_a_spare_from_the_start_of_the_computer_that_it_signs_in_at() {
    let home = Home::new();
    home.put(&Bundle::new("format = 1\nkind = \"computer\"\nname = \"pc\"\n"));
    home.put(&Bundle::new(
        "format = 1\nkind = \"multi\"\nname = \"work\"\nwebsites = [\"shop\"]\ncomputers = [\"pc\"]\n",
    ));
    let file = home.path().join("task.toml");
    let data = clone_root().join("tasks/data/shop.json");
    let steps = format!(
        "[[step]]\nkind = \"deploy_env\"\nenv = \"work\"\n\
         [[step]]\nkind = \"load_data\"\ndata = {{ shop = {{ file = \"{}\" }} }}\n\
         [[step]]\nkind = \"browser_sign_in\"\nusers = {{ shop = \"ada\" }}\ntarget = \"pc\"\n\
         [[step]]\nkind = \"reset_env\"\n",
        data.display()
    );
    fs::write(&file, format!("format = 1\nname = \"again\"\ngoal = \"none\"\n{steps}")).expect("a file");
    home.run(&["task", "run", &file.display().to_string()]).ok();
    let shown = home.run(&["run", "show", "latest"]).ok();
    assert!(shown.contains("ada at shop in pc") && shown.contains("(pc: spare)"), "{shown}");
}

#[test]
fn row_82_a_computer_is_reset_by_a_spare_that_has_nothing_of_the_last_episode() {
    let home = Home::empty();
    home.put(&PySite::new("alpha").bundle());
    home.put(&Bundle::new("format = 1\nkind = \"computer\"\nname = \"pc\"\nstart_tabs = [\"https://alpha.test/\"]\n"));
    home.put(&Bundle::new(
        "format = 1\nkind = \"multi\"\nname = \"work\"\nwebsites = [\"alpha\"]\ncomputers = [\"pc\"]\n",
    ));
    let deploy = home.deploy_with("work", &["--expect-reset"]);
    let hand = Hand::new(&deploy.info.computers.first().expect("the deploy has a computer").cdp_url);
    // A running Chromium has files of its own, with names by chance.
    let files = || deploy.exec("pc", &["sh", "-c", "(ls -A ~ ~/*; ls /tmp) | grep -v org.chromium"]).ok();
    let fresh = files();
    for _ in 0..2 {
        hand.act(&json!({"action": "mouse_move", "coordinate": [5, 5]}));
        deploy.exec("pc", &["sh", "-c", "echo 1 > ~/episode; echo 1 > /tmp/episode; rm -r ~/Desktop"]).ok();
        let old = deploy.service("pc");
        let report = home.run(&["env", "reset", deploy.id(), "--json"]).json();
        assert_eq!(report["browsers"]["pc"], SPARE, "{report}");
        assert!(!old.is_alive(), "the last episode's desktop is gone");
        // Its own screen: drawn, with the start tab, and the mouse where nobody has moved it.
        assert!(hand.look(None).colours() > 20);
        let position = hand.act(&json!({"action": "cursor_position"}));
        assert_ne!(position["coordinate"], json!([5, 5]), "{position}");
        assert_eq!(files(), fresh);
        assert!(deploy.exec("pc", &["curl", "-sS", "https://alpha.test/"]).ok().contains("alpha"));
    }
}
