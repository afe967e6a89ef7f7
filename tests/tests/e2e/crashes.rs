//! kill -9 of any process at any step: the next command reconciles (rows 67 to 69, 76). Each compares the machine before and
//! after, so these tests run alone.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use agentenv_tests::{Deploy, Home, PATIENCE, Process, Processes, PySite, Snapshot, eventually};

use crate::desk::{browser_of, desk, pods};

/// Starts a deploy, and stops reading at its Nth line of progress: gives the command and whether it got that far.
fn until_step(home: &Home, env: &str, step: usize) -> (Child, bool) {
    let mut child = home
        .command(["env", "deploy", env])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let reached = (0..step).all(|_| lines.next().is_some_and(|line| line.is_ok()));
    // Goes on reading, so that the command never waits for us.
    std::thread::spawn(move || lines.for_each(drop));
    (child, reached)
}

/// What it is, and whether it can be seen by the deploy's folder and processes.
type Step = (&'static str, fn(&Path, &[Process]) -> bool);

/// What can be seen of a deploy as it comes up, in this order.
const STEPS: [Step; 9] = [
    ("its folder", |_, _| true),
    ("its supervisor", |_, tree| !tree.is_empty()),
    ("its spawner", |_, tree| tree.iter().any(|process| process.arguments().contains("internal-spawner"))),
    ("a broker", |_, tree| tree.len() > 2),
    ("a service's pid 1", |_, tree| tree.len() > 4),
    ("a site's program", |_, tree| tree.iter().any(|process| process.name.starts_with("python"))),
    ("its control token", |folder, _| folder.join("control.token").exists()),
    ("its control socket", |folder, _| folder.join("control.sock").exists()),
    ("its readiness", |folder, _| {
        std::fs::read_to_string(folder.join("deploy.json")).is_ok_and(|record| record.contains("\"ready\""))
    }),
];

/// Kills the supervisor of a deploy at this step, or who starts it where there is none yet; after the next command nothing is
/// left.
#[track_caller]
fn killed_at(home: &Home, env: &str, (step, is_there): Step) {
    let before = Snapshot::take();
    let known = home.deploy_ids();
    let (mut child, _) = until_step(home, env, 0);
    let start = Instant::now();
    // Without a pause between two looks: the next step is a millisecond away.
    loop {
        assert!(start.elapsed() < PATIENCE, "{step} never came");
        let Some(id) = home.deploy_ids().into_iter().find(|id| !known.contains(id)) else { continue };
        let supervisor = home.supervisor();
        let tree = supervisor.as_ref().map(|supervisor| Processes::all().tree(supervisor.pid)).unwrap_or_default();
        if is_there(&home.deploy_folder(&id), &tree) {
            match supervisor {
                Some(supervisor) => supervisor.kill_and_wait(),
                None => child.kill().expect("a child can be killed"),
            }
            break;
        }
    }
    eventually("the command ends", Duration::from_secs(60), || child.try_wait().expect("a child"));
    home.run(&["env", "list"]).ok();
    home.assert_idle();
    before.assert_nothing_left(home);
    let running = home.run(&["env", "status", "--json"]).json();
    assert_eq!(running, serde_json::json!([]), "killed at {step}");
}

#[test]
fn row_67_supervisor_killed_at_every_step_of_a_deploy_without_a_browser() {
    let home = pods(&[PySite::new("alpha"), PySite::new("beta")]);
    for step in STEPS {
        killed_at(&home, "pods", step);
    }
}

#[test]
fn row_67_supervisor_killed_at_three_steps_of_a_deploy_with_a_browser() {
    let home = desk();
    let chromium = |_: &Path, tree: &[Process]| tree.iter().any(|process| process.name.starts_with("chrom"));
    killed_at(&home, "desk", ("a broker", |_, tree| tree.len() > 2));
    killed_at(&home, "desk", ("its Chromium", chromium));
    killed_at(&home, "desk", STEPS[8]);
}

/// Steps are what we thought of; moments are what there is.
#[test]
fn row_67_supervisor_killed_at_any_moment() {
    let home = pods(&[PySite::new("alpha")]);
    let before = Snapshot::take();
    for wait_ms in (0..200).step_by(8) {
        let (mut child, _) = until_step(&home, "pods", 0);
        // Not a wait for anything: the moment of the kill is the test's input.
        std::thread::park_timeout(Duration::from_millis(wait_ms));
        let running = eventually("a supervisor, or the end", PATIENCE, || {
            let ended = child.try_wait().expect("a child").is_some();
            home.supervisor().map(Some).or(ended.then_some(None))
        });
        if let Some(supervisor) = running {
            supervisor.kill_and_wait();
        }
        eventually("the command ends", Duration::from_secs(60), || child.try_wait().expect("a child"));
        home.run(&["env", "list"]).ok();
        home.assert_idle();
    }
    before.assert_nothing_left(&home);
}

#[test]
fn row_67_the_starting_command_killed_the_deploy_ends() {
    let home = pods(&[PySite::new("alpha")]);
    let before = Snapshot::take();
    for step in 0..3 {
        let (mut child, _) = until_step(&home, "pods", step);
        child.kill().expect("a child can be killed");
        child.wait().expect("a child");
        eventually("nobody waits for the deploy any more: it ends, unless it was ready", PATIENCE, || {
            let running = home.run(&["env", "status", "--json"]).json();
            match running[0]["state"].as_str() {
                Some("ready") => drop(home.run(&["env", "close", running[0]["deploy"].as_str()?]).ok()),
                _ => return home.supervisor().is_none().then_some(()),
            }
            None
        });
        home.run(&["env", "list"]).ok();
        home.assert_idle();
        before.assert_nothing_left(&home);
    }
}

#[test]
fn interrupted_by_control_c_a_deploy_leaves_nothing() {
    let home = desk();
    let before = Snapshot::take();
    for step in [1, 3] {
        let (mut child, _) = until_step(&home, "desk", step);
        Process::of(child.id()).expect("it runs").signal(rustix::process::Signal::INT);
        eventually("the command ends", Duration::from_secs(30), || child.try_wait().expect("a child"));
        home.run(&["env", "list"]).ok();
        home.assert_idle();
        before.assert_nothing_left(&home);
    }
}

/// Kills one process of a running deploy; after the next command the deploy is over and nothing is left.
#[track_caller]
fn dies_with(home: &Home, choose: impl Fn(&Deploy<'_>) -> Process) {
    let before = Snapshot::take();
    let deploy = home.deploy("desk");
    let processes = deploy.processes();
    choose(&deploy).kill_and_wait();
    let id = deploy.id().to_owned();
    eventually("the deploy is over", PATIENCE, || {
        // One that is ending may break off its answer.
        let status = home.run(&["env", "status", &id, "--json"]);
        (status.code == 0 && status.json()["state"] == "failed").then_some(())
    });
    deploy.gone(&processes);
    home.assert_idle();
    before.assert_nothing_left(home);
}

#[test]
fn row_69_a_dead_supervisor_ends_the_deploy() {
    dies_with(&desk(), |deploy| deploy.supervisor());
}

#[test]
fn row_69_a_dead_spawner_ends_the_deploy() {
    dies_with(&desk(), |deploy| deploy.spawner());
}

#[test]
fn row_69_a_dead_broker_ends_the_deploy() {
    // Brokers are the spawner's children that are no service's pid 1.
    dies_with(&desk(), |deploy| {
        let pids: Vec<u32> = deploy.status().services.values().filter_map(|service| service.pid).collect();
        let spawner = deploy.spawner().pid;
        let brokers: Vec<Process> = deploy
            .processes()
            .into_iter()
            .filter(|process| process.parent == spawner && !pids.contains(&process.pid))
            .collect();
        brokers.first().cloned().unwrap_or_else(|| panic!("no broker among {:?}", deploy.processes()))
    });
}

#[test]
fn row_69_a_killed_browser_or_service_is_never_shown_as_healthy() {
    let home = desk();
    let before = Snapshot::take();
    let deploy = home.deploy("desk");
    for sandbox in ["alpha/server", browser_of(&deploy)] {
        let old = deploy.service(sandbox);
        old.kill();
        eventually("it is restarted, or said to be failed", PATIENCE, || {
            let json = serde_json::to_value(deploy.status()).expect("JSON");
            let service = &json["services"][sandbox];
            let restarted = service["state"] == "running" && service["restarts"] == 1 && service["pid"] != old.pid;
            let failed = service["state"] == "failed" && json["state"] == "degraded";
            (restarted || failed).then_some(())
        });
    }
    deploy.close();
    before.assert_nothing_left(&home);
}

#[test]
fn row_68_killed_during_teardown_and_reset_the_next_command_finishes() {
    let home = desk();
    let before = Snapshot::take();
    for command in ["close", "reset"] {
        for wait_ms in [0, 5, 30, 150, 400] {
            let deploy = home.deploy("desk");
            let processes = deploy.processes();
            let supervisor = deploy.supervisor();
            let mut child = home
                .command(["env", command, deploy.id()])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the program starts");
            // Not a wait for anything: the moment of the kill is the test's input.
            std::thread::park_timeout(Duration::from_millis(wait_ms));
            supervisor.kill_and_wait();
            eventually("the command ends", Duration::from_secs(60), || child.try_wait().expect("a child"));
            deploy.gone(&processes);
            home.assert_idle();
            before.assert_nothing_left(&home);
        }
    }
}

#[test]
fn row_76_somebody_elses_processes_and_namespaces_are_never_touched() {
    let home = pods(&[PySite::new("alpha")]);
    let deploy = home.deploy("pods");
    let log = deploy.folder().join("deploy.json");
    let spawn = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("starts")
    };
    // A person who reads the deploy's files, one whose arguments look like ours, and namespaces of somebody else.
    let mut others = vec![
        spawn("tail", &["--follow", &log.display().to_string()]),
        spawn("sh", &["-c", &format!("exec sleep 1000 # internal-supervisor {}", deploy.id())]),
        spawn("unshare", &["--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "sleep", "1000"]),
        Command::new("sleep").arg("1000").env("AGENTENV_HOME", home.path()).spawn().expect("starts"),
    ];
    let processes = deploy.processes();
    deploy.supervisor().kill_and_wait();
    deploy.gone(&processes);
    home.run(&["env", "gc"]).ok();
    for other in &mut others {
        assert!(other.try_wait().expect("a child").is_none(), "{other:?} was touched");
        other.kill().expect("a child can be killed");
        other.wait().expect("a child");
    }
}
