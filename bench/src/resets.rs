//! `bench reset`: data and browser, against the floor.

use std::{
    thread,
    time::{Duration, Instant},
};

use agentenv_tests::{Deploy, Home, raw_http};
use serde_json::{Value, json};

use crate::{
    floor,
    numbers::{Numbers, tell, tell_alone},
    office::{self, BROWSER, OFFICE, Parts, SITES, home, timed},
    say::say,
};

/// Enough for a median; a minute in all.
const ROUNDS: usize = 9;
/// How long a spare may take to be up: three times what it takes on a busy machine.
pub const SPARE_LIMIT: Duration = Duration::from_secs(3);
/// How many rows an episode changed: a reset must not care.
const ROWS: [usize; 2] = [10, 10_000];

/// The floor of the data is one request to the slower of the sites by the same way; the floor of the browser is a Chromium that
/// is killed and started again in the same sandbox, with as many tabs that hold nothing.
pub fn bench() {
    let home = home();
    let parts = Parts::of(&home);
    say!("two sites (shop, tracker), {ROUNDS} rounds each, in turns: median (range)");
    data(&home);
    browser(&home, &parts);
}

fn data(home: &Home) {
    let deploy = home.deploy(SITES);
    // The first reset of a site finds its files outside every cache.
    let _ = reset(home, &deploy);
    let [mut few, mut many, mut floor] = [const { Numbers::new() }; 3];
    for _ in 0..ROUNDS {
        for (rows, numbers) in ROWS.into_iter().zip([&mut few, &mut many]) {
            deploy.operation("shop", "data/load", &products(rows));
            floor.add(one_request_each(&deploy));
            numbers.add_ms(ms(&reset(home, &deploy), "data_ms"));
        }
    }
    deploy.close();
    for (rows, numbers) in ROWS.into_iter().zip([&few, &many]) {
        tell(&format!("data of both sites, {rows} rows were added"), numbers, &floor);
    }
}

/// Cold, and by a spare: with the start tabs and, as the target has it, without their loading.
fn browser(home: &Home, parts: &Parts) {
    let cold_home = office::home().with("AGENTENV_SPARES", "0");
    let (deploy, without) = (home.deploy_with(OFFICE, &["--expect-reset"]), cold_home.deploy(OFFICE));
    let mut running = floor::start(&[vec![parts.browser.clone()]]);
    let [mut warm, mut bare, mut cold, mut least, mut all] = [const { Numbers::new() }; 5];
    for _ in 0..ROUNDS {
        let began = Instant::now();
        running.start_again(&parts.browser);
        least.add(began.elapsed());
        cold.add_ms(ms(&reset_as(&cold_home, &without, BROWSER, "cold"), "browser_ms"));
        // Not a wait for a result: what is measured is a reset that finds its spare up.
        thread::sleep(SPARE_LIMIT);
        let report = reset_as(home, &deploy, BROWSER, "spare");
        warm.add_ms(ms(&report, "browser_ms"));
        bare.add_ms(ms(&report, "browser_ms") - ms(&report, "tabs_ms"));
        all.add_ms(ms(&report, "total_ms"));
    }
    running.stop();
    without.close();
    deploy.close();
    tell("browser, cold, start tabs loaded", &cold, &least);
    tell("browser, by a spare, start tabs loaded", &warm, &least);
    tell("browser, by a spare, without the start tabs", &bare, &least);
    tell_alone("all of a reset by a spare", &all);
}

/// Resets; the machine of this name must come back so.
pub fn reset_as(home: &Home, deploy: &Deploy<'_>, machine: &str, expected: &str) -> Value {
    let report = reset(home, deploy);
    assert!(report["browsers"][machine].as_str().is_some_and(|how| how.starts_with(expected)), "{report}");
    report
}

fn reset(home: &Home, deploy: &Deploy<'_>) -> Value {
    timed(home, &["env", "reset", deploy.id(), "--json"]).0
}

pub fn ms(report: &Value, key: &str) -> f64 {
    report[key].as_f64().unwrap_or_else(|| panic!("{key} in {report}"))
}

fn products(rows: usize) -> Value {
    let product = |row: usize| json!({"slug": format!("row-{row}"), "name": format!("Row {row}"), "category": "mugs", "price_cents": 100});
    json!({"data": {"products": (0..rows).map(product).collect::<Vec<_>>()}})
}

/// The slower of one request to each site.
fn one_request_each(deploy: &Deploy<'_>) -> Duration {
    let token = deploy.token();
    let ask = |site: &str| {
        let request = format!(
            "GET /svc/{site}/api/ready HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        let start = Instant::now();
        let reply = raw_http(&deploy.info.gateway_url, request.as_bytes());
        assert_eq!(reply.status, 200, "{}", reply.raw);
        start.elapsed()
    };
    ask("shop").max(ask("tracker"))
}
