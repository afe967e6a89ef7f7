//! `bench reset`: data and browser, against the floor.

use std::time::{Duration, Instant};

use agentenv_tests::{Deploy, Home, raw_http};
use serde_json::{Value, json};

use crate::{
    floor,
    numbers::{Numbers, tell, tell_alone},
    office::{BROWSER, OFFICE, Parts, SITES, home, timed},
    say::say,
};

/// Enough for a median; a minute in all.
const ROUNDS: usize = 9;
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

fn browser(home: &Home, parts: &Parts) {
    let deploy = home.deploy(OFFICE);
    let mut running = floor::start(&[vec![parts.browser.clone()]]);
    let [mut ours, mut least, mut all] = [const { Numbers::new() }; 3];
    let mut kind = String::new();
    for _ in 0..ROUNDS {
        let began = Instant::now();
        running.start_again(&parts.browser);
        least.add(began.elapsed());
        let report = reset(home, &deploy);
        ours.add_ms(ms(&report, "browser_ms"));
        all.add_ms(ms(&report, "total_ms"));
        report["browsers"][BROWSER].as_str().unwrap_or("unknown").clone_into(&mut kind);
    }
    running.stop();
    deploy.close();
    tell(&format!("browser, {kind}, start tabs loaded"), &ours, &least);
    tell_alone("all of a reset with a browser", &all);
}

fn reset(home: &Home, deploy: &Deploy<'_>) -> Value {
    timed(home, &["env", "reset", deploy.id(), "--json"]).0
}

fn ms(report: &Value, key: &str) -> f64 {
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
