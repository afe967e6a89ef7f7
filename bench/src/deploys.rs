//! `bench deploy`: from the command to ready, with and without a browser.

use std::time::Instant;

use agentenv_tests::{Bundle, Home};

use crate::{
    floor,
    numbers::{Numbers, tell},
    say::say,
    sites::{Parts, browser, parts},
};

/// Enough for a median on a machine that does other things too; a minute in all.
const ROUNDS: usize = 7;

/// Measures in turns, so that what disturbs one disturbs the other.
pub fn bench() {
    let home = Home::new();
    home.put(&Bundle::multi("sites-only", &["shop", "tracker"], None));
    let parts = parts(&home);
    say!("two sites (shop, tracker), {ROUNDS} rounds each, in turns: median (range)");
    for (what, env, with_browser) in [
        ("deploy until ready, no browser", "sites-only", false),
        ("deploy until ready, with a browser", "office", true),
    ] {
        let (mut ours, mut least) = (Numbers::new(), Numbers::new());
        for _ in 0..ROUNDS {
            least.add(floor_once(&parts, with_browser));
            let start = Instant::now();
            let deploy = home.deploy(env);
            ours.add(start.elapsed());
            deploy.close();
        }
        tell(what, &ours, &least);
    }
}

fn floor_once(parts: &Parts, with_browser: bool) -> std::time::Duration {
    let folders = parts.folders();
    let mut sandboxes = parts.sandboxes(&folders);
    let profile = crate::sites::open_folder();
    if with_browser {
        sandboxes.push(browser(profile.path()));
    }
    let start = Instant::now();
    let running = floor::start(&sandboxes);
    let took = start.elapsed();
    running.stop();
    took
}
