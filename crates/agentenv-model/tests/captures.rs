//! CAP-1: what captures traffic, and what refuses to, by planning alone.

mod common;

use agentenv_model::{Abilities, CaptureOptions, EnvVersion, PlanInput, Problems, plan};
use agentenv_protocol::ExitCode;

const SHOP: &str = "kind = 'website'\nname = 'shop'\ndomains = ['shop.test']\nserver = { command = ['x'], port = 1 }";
const LIVE: &str =
    "kind = 'website'\nname = 'hub'\nlive = true\ndomains = ['github.com']\nserver = { command = ['x'], port = 1 }";
const DESK: &str = "kind = 'browser'\nname = 'desk'";
const COMPUTER: &str = "kind = 'computer'\nname = 'pc'";

fn stored(text: &str) -> EnvVersion {
    common::stored(text, 1, &members())
}

fn members() -> Vec<EnvVersion> {
    [SHOP, LIVE, DESK, COMPUTER].map(|text| common::stored(text, 1, &[])).into()
}

fn multi(members: &str) -> String {
    format!("kind = 'multi'\nname = 'office'\n{members}")
}

/// A provider that has everything, captures too.
fn able() -> Abilities {
    Abilities { live_sites: true, computers: true, ..Abilities::sandbox() }
}

/// Container mode, as it will be: plain processes without a network namespace.
fn process() -> Abilities {
    Abilities { provider: "process".to_owned(), captures: false, ..able() }
}

fn captured(text: &str, abilities: Abilities, options: CaptureOptions) -> Result<Option<CaptureOptions>, Problems> {
    let input = PlanInput { env: stored(text), members: members(), abilities, capture_traffic: Some(options) };
    plan(&input).map(|plan| plan.captures)
}

#[test]
fn websites_are_captured_alone_live_and_among_others() {
    let options = CaptureOptions::new(Some(3), Some(2));
    assert_eq!(options, CaptureOptions { files: 3, file_bytes: 2_000_000 });
    assert_eq!(CaptureOptions::default(), CaptureOptions { files: 10, file_bytes: 20_000_000 });
    for text in [
        SHOP,
        LIVE,
        &multi("websites = ['shop']"),
        &multi("websites = ['hub', 'shop']\nbrowsers = ['desk']"),
        &multi("websites = ['shop']\nbrowsers = ['desk']\ncomputers = ['pc']"),
    ] {
        assert_eq!(captured(text, able(), options).unwrap(), Some(options), "{text}");
    }
    let input = PlanInput { env: stored(SHOP), members: members(), abilities: process(), capture_traffic: None };
    assert_eq!(plan(&input).unwrap().captures, None, "nobody asked");
}

#[test]
fn what_has_no_website_refuses_and_says_what_it_is_and_why() {
    let hint =
        "only packets of websites are recorded; deploy it without traffic capture, or in a multi env with a website";
    for (text, env, what) in [
        (DESK, "desk", "a browser"),
        (COMPUTER, "pc", "a computer"),
        (&multi("browsers = ['desk']"), "office", "a multi env without a website"),
        (&multi("computers = ['pc']\nbrowsers = ['desk']"), "office", "a multi env without a website"),
    ] {
        let problems = captured(text, able(), CaptureOptions::default()).unwrap_err();
        assert_eq!(problems.exit(), ExitCode::Refused);
        let message = format!("env `{env}`: traffic capture was asked for, and it is {what}: {hint}");
        assert_eq!(problems.to_string(), message, "{text}");
    }
}

#[test]
fn a_provider_that_lacks_the_ability_refuses_by_its_name() {
    let message = "traffic capture was asked for, which the `process` provider does not have: its websites have no network \
                   namespace of their own; deploy it without traffic capture, or with `--provider sandbox`";
    for (text, env) in [(SHOP, "shop"), (LIVE, "hub"), (&multi("websites = ['shop']"), "office")] {
        let problems = captured(text, process(), CaptureOptions::default()).unwrap_err();
        assert_eq!(problems.to_string(), format!("env `{env}`: {message}"), "{text}");
    }
    // Both reasons, where there are two.
    let problems = captured(DESK, process(), CaptureOptions::default()).unwrap_err();
    assert_eq!(problems.as_slice().len(), 2, "{problems}");
}

#[test]
fn limits_are_named_with_what_is_accepted() {
    let with = |files, file_mb| captured(SHOP, able(), CaptureOptions::new(Some(files), Some(file_mb)));
    for (files, file_mb) in [(2, 1), (1000, 1000), (10, 20)] {
        assert!(with(files, file_mb).is_ok(), "{files} x {file_mb} MB");
    }
    for (files, file_mb, message) in [
        (0, 20, "traffic capture was asked for in rings of 0 files; accepted: 2 to 1000 files"),
        (1, 20, "traffic capture was asked for in rings of 1 files; accepted: 2 to 1000 files"),
        (1001, 20, "traffic capture was asked for in rings of 1001 files; accepted: 2 to 1000 files"),
        (10, 0, "traffic capture was asked for in files of 0 bytes; accepted: 1 to 1000 MB"),
        (10, 1001, "traffic capture was asked for in files of 1001000000 bytes; accepted: 1 to 1000 MB"),
    ] {
        let problems = with(files, file_mb).unwrap_err();
        assert_eq!(problems.to_string(), format!("env `shop`: {message}"));
    }
    assert_eq!(with(u32::MAX, u32::MAX).unwrap_err().as_slice().len(), 2);
}
