use secrecy::ExposeSecret as _;

use super::*;
use crate::browser::{BrowserSpec, Viewport, chromium};

const PEM: &str = "-----BEGIN CERTIFICATE-----\nMIIB\nAAA=\n-----END CERTIFICATE-----\n";

fn planned(scale: f64) -> Launch {
    planned_in("en-US", scale)
}

fn planned_in(language: &str, scale: f64) -> Launch {
    let mut spec = BrowserSpec::forward("127.0.0.1:3128".parse().unwrap(), Viewport { width: 1280, height: 800 });
    spec.desktop = Some(scale);
    spec.language = language.to_owned();
    let browser = chromium(Path::new("/usr/lib/chromium/chromium"), &spec, PEM, &[]).unwrap();
    launch(&DesktopSpec { width: 1280, height: 800, scale }, browser, PEM)
}

fn file<'a>(launch: &'a Launch, path: &str) -> &'a str {
    let found = launch.etc.iter().find(|(file, _)| file == path).unwrap_or_else(|| panic!("{path}"));
    std::str::from_utf8(&found.1).unwrap()
}

#[test]
fn the_browser_has_a_window_and_what_a_browser_alone_has() {
    let launch = planned(1.5);
    let script = file(&launch, "agent-env/browser");
    for flag in
        ["--proxy-server=http://127.0.0.1:3128", "--remote-debugging-port=9222", "--force-device-scale-factor=1.5"]
    {
        assert!(script.contains(&format!("'{flag}'")), "{flag}");
    }
    assert!(!script.contains("headless") && !script.contains("sandbox") && !script.contains("about:blank"));
    assert!(file(&launch, "chromium/policies/managed/agent-env.json").contains("MIIBAAA="));
    assert_eq!(file(&launch, "ssl/agent-env.pem"), PEM);
    let session: SessionPlan = serde_json::from_str(file(&launch, "agent-env/desktop.json")).unwrap();
    let expected = SessionPlan { width: 1280, height: 800, dpi: 144, locale: None, unknown_language: None };
    assert_eq!(session, expected);
}

#[test]
fn every_variable_is_set_once() {
    for language in ["en-US", "de-AT", "tlh"] {
        let names: Vec<String> = planned_in(language, 2.0).environment.into_iter().map(|(name, _)| name).collect();
        let once: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(once.len(), names.len(), "{names:?}");
    }
}

#[test]
fn a_cookie_is_handed_over_whole() {
    let cookie = Cookie::random();
    let (name, hex) = cookie.variable();
    assert_eq!(name, COOKIE_VARIABLE);
    assert_eq!(Cookie::parse(hex.expose_secret()).unwrap().bytes(), cookie.bytes());
    assert_ne!(Cookie::random().bytes(), cookie.bytes());
}
