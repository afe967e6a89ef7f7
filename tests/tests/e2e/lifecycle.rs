//! Names, resets, many at once.

use std::time::Duration;

use agentenv_protocol::ExitCode;
use agentenv_tests::{Home, PATIENCE, PySite, eventually, playwright, run_within};
use serde_json::{Value, json};

use crate::{
    desk::{browser_of, desk, pods},
    python::program,
};

#[test]
fn row_74_fifty_deploys_of_one_name_at_once_one_wins() {
    let home = pods(&[PySite::new("alpha")]);
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..50)
            .map(|_| {
                scope.spawn(|| {
                    let mut command = home.command(["env", "deploy", "pods", "--name", "only", "--json"]);
                    run_within(Duration::from_secs(100), &mut command, None)
                })
            })
            .collect();
        tries.into_iter().map(|one| one.join().expect("a try ends")).collect()
    });
    let won: Vec<_> = outcomes.iter().filter(|outcome| outcome.code == 0).collect();
    assert_eq!(won.len(), 1, "{outcomes:#?}");
    for lost in outcomes.iter().filter(|outcome| outcome.code != 0) {
        lost.fails(ExitCode::Refused, &["only"]);
    }
    assert_eq!(home.deploy_ids().len(), 1, "a refused try leaves no folder");
    home.run(&["env", "close", "only"]).ok();
    home.assert_idle();
    // The name is free again.
    home.deploy_with("pods", &["--name", "only"]).close();
}

#[test]
fn deploys_of_one_env_are_unlimited_and_apart() {
    let home = pods(&[PySite::new("alpha")]);
    let (one, two) = (home.deploy("pods"), home.deploy("pods"));
    assert_ne!(one.id(), two.id());
    one.operation("alpha", "data/load", &json!({"data": {"rows": [1]}}));
    assert_eq!(two.operation("alpha", "data/get", &json!({})), json!({"data": {"rows": []}}));
    assert_eq!(one.operation("alpha", "data/get", &json!({})), json!({"data": {"rows": [1]}}));
    one.close();
    assert_eq!(two.operation("alpha", "data/get", &json!({})), json!({"data": {"rows": []}}), "two goes on");
}

#[test]
fn a_forgotten_deploy_closes_itself_when_its_time_is_over() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy_with("pods", &["--ttl", "2"]);
    let (processes, id) = (deploy.processes(), deploy.id().to_owned());
    eventually("the deploy has closed itself", PATIENCE, || {
        let all = home.run(&["env", "status", "--all", "--json"]).json();
        let record = all.as_array()?.iter().find(|record| record["deploy"] == json!(id))?.clone();
        (record["state"] == json!("closed")).then_some(())
    });
    deploy.gone(&processes);
}

/// Row 82: what an episode may leave in a browser.
pub const LEAVE_IN_A_BROWSER: &str = r"
context.add_cookies([{'name': 'episode', 'value': '1', 'url': 'https://alpha.test/'}])
page.goto('https://alpha.test/')
page.evaluate('''async () => {
    localStorage.setItem('episode', '1');
    document.cookie = 'script=1; path=/; max-age=100000';
    await (await caches.open('episode')).put('/kept', new Response('1'));
    await new Promise((done) => { const open = indexedDB.open('episode', 1); open.onsuccess = done; });
}''')";

/// Row 82: what of it is there.
pub const FOUND_IN_A_BROWSER: &str = r"
page.goto('https://alpha.test/')
result(page.evaluate('''async () => ({
    cookies: document.cookie, storage: localStorage.length, caches: await caches.keys(),
    databases: (await indexedDB.databases()).length, history: history.length,
})''') | {'tabs': len(context.pages), 'all': context.cookies()})";

/// Checks that nothing is.
#[track_caller]
pub fn nothing_is_left_in(seen: &Value) {
    assert_eq!(
        (&seen["cookies"], &seen["storage"], &seen["caches"], &seen["databases"], &seen["all"]),
        (&json!(""), &json!(0), &json!([]), &json!(0), &json!([])),
        "{seen}"
    );
}

#[test]
fn row_82_a_reset_leaves_nothing_of_the_last_episode() {
    let home = desk();
    let deploy = home.deploy("desk");
    let browser = browser_of(&deploy).to_owned();
    deploy.operation("alpha", "data/load", &json!({"data": {"rows": ["episode 1"]}}));
    playwright(&deploy, LEAVE_IN_A_BROWSER);
    let leave = r#"
open("/tmp/episode", "w").write("1")
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3): os.dup2(null, number)
    os.execv("/usr/bin/sleep", ["episode-sleep", "1000"])
show("left")"#;
    deploy.python(&browser, &program(leave));
    let processes = deploy.processes();
    let old = deploy.service(&browser);

    let report = home.run(&["env", "reset", deploy.id(), "--json"]).json();
    assert_eq!(report["browsers"][&browser], "cold: no reset was foreseen", "{report}");

    assert!(!old.is_alive(), "the old browser is gone");
    let sleeper = processes.iter().find(|process| process.name == "sleep").expect("the daemon ran");
    assert!(!sleeper.is_alive(), "the daemon of episode 1 is gone");
    assert_eq!(deploy.operation("alpha", "data/get", &json!({})), json!({"data": {"rows": []}}));
    let files = deploy.exec(&browser, &["ls", "-a", "/tmp"]).ok();
    assert!(!files.contains("episode"), "{files}");
    let seen = playwright(&deploy, FOUND_IN_A_BROWSER);
    nothing_is_left_in(&seen);
    assert_eq!(deploy.status().resets, 1);
}

#[test]
fn row_97_a_session_cookie_of_the_last_episode_is_refused_after_a_reset() {
    let home = Home::new();
    home.put(&crate::desk::browser_env());
    home.put(&agentenv_tests::Bundle::multi("desk", &["shop"], Some("lookout")));
    let deploy = home.deploy("desk");
    let data = agentenv_tests::clone_root().join("tasks/data/shop.json").display().to_string();
    home.run(&["env", "load", deploy.id(), "shop", &data]).ok();
    let state = deploy.operation("shop", "session", &json!({"user": "ada"}));
    let cookies = state["cookies"].as_array().expect("cookies").clone();
    let verify = &state["verify"];
    let script = format!(
        r"
context.add_cookies(json.loads({cookies:?}))
page.goto({url:?})
result({contains:?} in page.content())",
        cookies = serde_json::to_string(&cookies).expect("JSON"),
        url = verify["url"].as_str().expect("the shop says how to verify a session"),
        contains = verify["contains"].as_str().expect("a text"),
    );
    assert_eq!(playwright(&deploy, &script), json!(true), "signed in by the cookie");
    home.run(&["env", "reset", deploy.id()]).ok();
    // The same user again: it is the cookie that is refused, not the name.
    home.run(&["env", "load", deploy.id(), "shop", &data]).ok();
    assert_eq!(playwright(&deploy, &script), json!(false), "the same cookie, after the reset");
}

#[test]
fn row_75_a_stale_lock_and_a_reused_pid_are_recovered_from() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy_with("pods", &["--name", "again"]);
    let processes = deploy.processes();
    deploy.supervisor().kill_and_wait();
    // Its files say that it runs: the record, the lock's file, the socket, the name.
    assert!(deploy.folder().join("lock").exists());
    let next = home.deploy_with("pods", &["--name", "again"]);
    deploy.gone(&processes);
    next.close();
    home.assert_idle();
}

#[test]
fn row_77_daemons_and_zombies_are_reaped() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    let body = r#"
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            null = os.open("/dev/null", os.O_RDWR)
            for number in range(3): os.dup2(null, number)
            os.execv("/usr/bin/sleep", ["sleep", "1000"])
        os._exit(0)
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
show("left")"#;
    deploy.python("alpha/server", &program(body));
    eventually("no zombie is left", PATIENCE, || {
        let zombies = program(
            "show([p for p in os.listdir('/proc') if p.isdigit() and ') Z' in open(f'/proc/{p}/stat').read()])",
        );
        (deploy.python("alpha/server", &zombies) == json!([])).then_some(())
    });
    let processes = deploy.processes();
    assert_eq!(processes.iter().filter(|process| process.name == "sleep").count(), 5, "{processes:?}");
    // Closing checks that every one of these is gone.
    deploy.close();
}

#[test]
fn a_service_that_exits_is_restarted_three_times_a_minute_and_then_failed() {
    let home = pods(&[PySite::new("alpha"), PySite::new("beta")]);
    let deploy = home.deploy("pods");
    let mut last = deploy.service("alpha/server");
    for restarts in 1..=3 {
        last.kill();
        last = eventually("the service is restarted", PATIENCE, || {
            let status = deploy.status();
            let (_, service) = status.services.iter().find(|(name, _)| name.as_str() == "alpha/server")?;
            let pid = service.pid.filter(|pid| *pid != last.pid && service.restarts == restarts)?;
            agentenv_tests::Process::of(pid)
        });
    }
    last.kill();
    eventually("the site is failed", PATIENCE, || {
        let json = serde_json::to_value(deploy.status()).expect("JSON");
        (json["state"] == "degraded" && json["services"]["alpha/server"]["state"] == "failed").then_some(())
    });
    let request = b"GET /website/alpha/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let reply = agentenv_tests::raw_http(&deploy.info.gateway_url, request);
    assert_eq!(reply.status, 502, "{}", reply.raw);
    assert!(reply.raw.contains("alpha"), "it names the site: {}", reply.raw);
}

#[test]
fn closing_twice_is_done_and_a_closed_deploy_says_so() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    let id = deploy.id().to_owned();
    deploy.close();
    home.run(&["env", "close", &id]).ok();
    home.run(&["env", "reset", &id]).fails(ExitCode::Refused, &[&id, "closed"]);
    home.run(&["env", "status", "d-000000000000"]).fails(ExitCode::Refused, &["d-000000000000"]);
}
