//! Scripts of an agent: Playwright over CDP, on the host, in a deploy's browser.

use std::{process::Command, time::Duration};

use serde_json::Value;

use crate::{Deploy, run_within, target};

/// A script has some pages to load, not an afternoon.
const LIMIT: Duration = Duration::from_secs(90);

/// What stands around each script: `browser`, `context`, `page`, and `result(value)` for what comes back.
const AROUND: &str = r#"
import json, os, sys
from playwright.sync_api import sync_playwright, Error, TimeoutError as PlaywrightTimeout
answers = []
def result(value):
    answers.append(value)
with sync_playwright() as playwright:
    browser = playwright.chromium.connect_over_cdp(os.environ["CDP_URL"])
    context = browser.contexts[0]
    page = context.new_page()
    page.set_default_timeout(15_000)
    exec(compile(sys.stdin.read(), "script", "exec"))
print(json.dumps(answers[-1] if answers else None))
"#;

/// Runs a script in the deploy's first browser, or else its first computer's; returns what it gave to `result`.
#[track_caller]
pub fn playwright(deploy: &Deploy<'_>, script: &str) -> Value {
    let first = deploy.info.browsers.iter().chain(&deploy.info.computers).next();
    playwright_at(deploy, &first.expect("the deploy has a browser").cdp_url, script)
}

/// Runs a script in the browser at this URL; returns what it gave to `result`.
#[track_caller]
pub fn playwright_at(deploy: &Deploy<'_>, cdp_url: &str, script: &str) -> Value {
    let python = target().join("venv/bin/python");
    assert!(python.is_file(), "{}: run `cargo xtask setup` first", python.display());
    let mut command = Command::new(python);
    command.args(["-c", AROUND]).env("CDP_URL", cdp_url).env_remove("PYTHONPATH");
    // Playwright's driver leaves a folder behind wherever temporary files are.
    command.env("TMPDIR", deploy.home_path());
    let outcome = run_within(LIMIT, &mut command, Some(script.as_bytes()));
    outcome.json()
}
