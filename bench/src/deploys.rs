//! `bench deploy`: from the command to ready, and from close to nothing left, with and without a browser.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    time::{Duration, Instant},
};

use agentenv_tests::Home;

use crate::{
    floor,
    numbers::{Numbers, tell},
    office::{OFFICE, Parts, SITES, home, timed},
    say::say,
};

/// Enough for a median on a machine that does other things too; a minute in all.
const ROUNDS: usize = 9;

/// Measures in turns, so that what disturbs one disturbs the other.
pub fn bench() {
    let home = home();
    let parts = Parts::of(&home);
    say!("two sites (shop, tracker), {ROUNDS} rounds each, in turns: median (range)");
    for (what, env, with_browser) in [("no browser", SITES, false), ("with a browser, two start tabs", OFFICE, true)] {
        let [mut up, mut up_floor, mut down, mut down_floor, mut asked] = [const { Numbers::new() }; 5];
        for _ in 0..ROUNDS {
            let (start, stop) = floor_once(&parts, with_browser);
            up_floor.add(start);
            down_floor.add(stop);
            let (start, stop) = deploy_once(&home, env);
            up.add(start);
            down.add(stop);
            asked.add(closed_by_request(&home, env));
        }
        tell(&format!("deploy until ready, {what}"), &up, &up_floor);
        tell(&format!("teardown by the command, {what}"), &down, &down_floor);
        tell(&format!("teardown by a request, {what}"), &asked, &down_floor);
    }
}

fn floor_once(parts: &Parts, with_browser: bool) -> (Duration, Duration) {
    let pods = parts.pods(with_browser);
    let began = Instant::now();
    let running = floor::start(&pods);
    let start = began.elapsed();
    let began = Instant::now();
    running.stop();
    (start, began.elapsed())
}

fn deploy_once(home: &Home, env: &str) -> (Duration, Duration) {
    let (info, start) = timed(home, &["env", "deploy", env, "--json"]);
    let id = info["deploy"].as_str().unwrap_or_else(|| panic!("no deploy in {info}"));
    let (_, stop) = timed(home, &["env", "close", id]);
    (start, stop)
}

/// How long a close takes from the request at the control socket until its answer, without the start of a command: by then every
/// process of the deploy but its supervisor is gone.
fn closed_by_request(home: &Home, env: &str) -> Duration {
    let deploy = home.deploy(env);
    let (processes, supervisor) = (deploy.processes(), deploy.supervisor());
    let mut control = UnixStream::connect(deploy.folder().join("control.sock")).expect("the control socket");
    let body = "{}";
    let head = "POST /close HTTP/1.1\r\nHost: control\r\nContent-Type: application/json\r\nConnection: close\r\n";
    let began = Instant::now();
    write!(control, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).expect("the request can be sent");
    let mut answer = String::new();
    control.read_to_string(&mut answer).expect("an answer");
    let took = began.elapsed();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let left = processes.iter().filter(|process| process.pid != supervisor.pid && process.is_alive()).count();
    assert_eq!(left, 0, "processes are left");
    deploy.gone(&processes);
    took
}
