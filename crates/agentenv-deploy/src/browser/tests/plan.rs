use std::path::Path;

use serde_json::Value;

use super::super::*;

const PEM: &str = "-----BEGIN CERTIFICATE-----\nMIIB\nAAA=\n-----END CERTIFICATE-----\n";

fn plan(proxy: Proxy) -> Launch {
    let spec = BrowserSpec {
        viewport: Viewport { width: 800, height: 600 },
        proxy,
        language: "de-AT".to_owned(),
        time_zone: "Europe/Vienna".to_owned(),
        desktop: None,
    };
    chromium(Path::new("/usr/lib/chromium/chromium"), &spec, PEM, &[("fonts/cache/x".to_owned(), vec![1])]).unwrap()
}

fn forward() -> Launch {
    plan(Proxy::Forward("127.0.0.1:3128".parse().unwrap()))
}

#[test]
fn nothing_weakens_the_browsers_own_sandbox() {
    for launch in [forward(), plan(Proxy::None)] {
        for flag in &launch.command {
            for weak in [
                "sandbox",
                "zygote",
                "single-process",
                "in-process-gpu",
                "disable-web-security",
                "ignore-certificate",
                "allow-insecure",
                "remote-allow-origins",
                "remote-debugging-address",
            ] {
                assert!(!flag.contains(weak), "{flag}");
            }
        }
        assert_eq!(launch.command.last().map(String::as_str), Some("about:blank"));
    }
}

#[test]
fn row_40_the_forward_port_has_no_implicit_bypass() {
    let launch = forward();
    assert!(launch.command.contains(&"--proxy-server=http://127.0.0.1:3128".to_owned()));
    assert!(launch.command.contains(&"--proxy-bypass-list=<-loopback>".to_owned()));
    let launch = plan(Proxy::None);
    assert!(launch.command.contains(&"--no-proxy-server".to_owned()));
    assert!(!launch.command.iter().any(|flag| flag.starts_with("--proxy")));
}

#[test]
fn the_policy_trusts_the_deploys_authority_and_switches_services_off() {
    let launch = forward();
    let (_, policy) = launch.etc.iter().find(|(name, _)| name == "chromium/policies/managed/agent-env.json").unwrap();
    let policy: Value = serde_json::from_slice(policy).unwrap();
    assert_eq!(policy["CACertificates"], serde_json::json!(["MIIBAAA="]));
    for (name, value) in [
        ("QuicAllowed", Value::from(false)),
        ("DnsOverHttpsMode", "off".into()),
        ("WebRtcIPHandling", "disable_non_proxied_udp".into()),
        ("ComponentUpdatesEnabled", false.into()),
        ("SafeBrowsingProtectionLevel", 0.into()),
        ("PasswordManagerEnabled", false.into()),
    ] {
        assert_eq!(policy[name], value, "{name}");
    }
    for bad in ["", "-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\n\"\n-----END CERTIFICATE-----"] {
        let spec = BrowserSpec::forward("127.0.0.1:1".parse().unwrap(), Viewport::default());
        assert!(matches!(chromium(Path::new("x"), &spec, bad, &[]), Err(BrowserError::BadAuthority)), "{bad}");
    }
}

#[test]
fn what_pages_see_of_place_and_language_is_the_specs() {
    let launch = forward();
    let variable = |name: &str| launch.environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    assert_eq!(
        (variable("TZ"), variable("LANGUAGE"), variable("HOME")),
        (Some("Europe/Vienna"), Some("de_AT"), Some(HOME))
    );
    assert!(launch.command.contains(&"--lang=de-AT".to_owned()));
    assert!(launch.etc.iter().any(|(name, _)| name == "fonts/fonts.conf"));
    assert!(launch.etc.iter().any(|(name, bytes)| name == "fonts/cache/x" && bytes == &[1]));
    assert!(launch.etc.iter().all(|(name, _)| !name.starts_with('/')));
}

#[test]
fn errors_name_the_thing_and_say_what_to_do() {
    let name = agentenv_protocol::Name::parse("desk").unwrap();
    let error = BrowserError::StartTab {
        browser: name.clone(),
        tab: "https://shop.test/x".to_owned(),
        host: "shop.test".to_owned(),
        why: Box::new(PageError::Status(503)),
    };
    assert_eq!(
        error.to_string(),
        "browser `desk`: start tab `https://shop.test/x` did not load from `shop.test`: the site answered 503"
    );
    assert!(error.hint().contains("env logs"));
    let error = BrowserError::SignIn {
        browser: name.clone(),
        site: name,
        user: "alice".to_owned(),
        why: Box::new(SignInError::CookieNotKept {
            cookie: "sid".to_owned(),
            domain: "shop.test".to_owned(),
            what: "has none",
        }),
    };
    assert_eq!(
        error.to_string(),
        "browser `desk`: `alice` is not signed in to `desk`: cookie `sid` of `shop.test` was set and the browser has none"
    );
}
