//! `bench reset`: data and browser, against the floor.

use std::time::Instant;

use agentenv_tests::{Deploy, Home, raw_http};
use serde_json::json;

use crate::{
    floor,
    numbers::{Numbers, tell, tell_alone},
    say::say,
    sites::{browser, open_folder},
};

/// Enough for a median; a minute in all.
const ROUNDS: usize = 9;

/// The floor of the data is one request to each site by the same way; the floor of the browser is a Chromium that starts in the
/// same namespaces and loads nothing.
pub fn bench() {
    let home = Home::new();
    let deploy = home.deploy("office");
    say!("two sites (shop, tracker) and a browser with two start tabs, {ROUNDS} rounds, in turns: median (range)");
    let [mut data, mut data_floor, mut all, mut cold, mut cold_floor] = [const { Numbers::new() }; 5];
    for round in 0..ROUNDS {
        let issues: Vec<_> = (0..round).map(|n| json!({"title": format!("issue {n}"), "status": "unread"})).collect();
        deploy.operation("tracker", "data/load", &json!({"data": {"users": [], "issues": issues}}));
        data_floor.add(one_request_each(&deploy));
        cold_floor.add(chromium_once());
        let report = home.run(&["env", "reset", deploy.id(), "--json"]).json();
        let ms = |key: &str| report[key].as_f64().unwrap_or_else(|| panic!("{key} in {report}"));
        data.add_ms(ms("data_ms"));
        cold.add_ms(ms("browser_ms"));
        all.add_ms(ms("total_ms"));
    }
    deploy.close();
    tell("data of both sites, in parallel", &data, &data_floor);
    tell("browser, cold, start tabs loaded", &cold, &cold_floor);
    tell_alone("all of a reset", &all);
}

/// The slower of one request to each site.
fn one_request_each(deploy: &Deploy<'_>) -> std::time::Duration {
    let token = deploy.token();
    let ask = |site: &str| {
        let request = format!(
            "GET /svc/{site}/api/ready HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        let start = Instant::now();
        let reply = raw_http(&deploy.info.gateway_url, request.as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.raw);
        start.elapsed()
    };
    ask("shop").max(ask("tracker"))
}

fn chromium_once() -> std::time::Duration {
    let profile = open_folder();
    let start = Instant::now();
    let running = floor::start(&[browser(profile.path())]);
    let took = start.elapsed();
    running.stop();
    took
}
