//! What env.toml may say, and that nothing makes the parser panic.

use agentenv_model::{
    Claim, ClaimKind, EnvFile, EnvRecord, EnvRef, EnvSpec, FileSpec, Flags, MemberTarget, NetworkSpec, SettingValue,
    WebsiteSource, check_claims, parse_env, parse_env_with_flags, site_table, winner,
};
use agentenv_protocol::{HostName, HostPattern};
use proptest::prelude::*;

const SHOP: &str = r#"
format = 1
kind = "website"
name = "shop"
domains = ["Shop.Test.", "*.shop.test"]
secret_settings = ["api_key", "unset"]
ready_timeout_s = 5

[server]
command = ["./bin/shop", "--quiet"]
port = 8000
build = ["cargo", "install", "--path", "."]

[frontend]
static = "dist"
build = ["npm", "run", "build"]

[services.database]
command = ["postgres"]
port = 5432

[settings]
api_key = "env:SHOP_KEY"
currency = "EUR"
rate = 1.5
page_size = 20
debug = false
region = "env:REGION?default=eu"
"#;

fn parsed(text: &str) -> EnvFile {
    parse_env("env.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn a_website_with_everything() {
    insta::assert_debug_snapshot!(parsed(SHOP));
}

#[test]
fn a_record_survives_json() {
    let FileSpec::Website(site) = parsed(SHOP).spec else { panic!() };
    let record = EnvRecord::new(EnvSpec::Website(site));
    let json = serde_json::to_string_pretty(&record).unwrap();
    assert_eq!(serde_json::from_str::<EnvRecord>(&json).unwrap(), record);
    insta::assert_snapshot!(json);
}

#[test]
fn a_synthetic_site_needs_no_domains() {
    let file = parsed("format = 1\nkind = 'website'\nname = 'shop'\nserver = { command = ['x'], port = 1 }");
    let FileSpec::Website(site) = file.spec else { panic!() };
    assert!(site.domains.is_empty() && !site.live && site.ready_timeout_s == 60);
}

#[test]
fn browsers_computers_and_multi_envs() {
    let FileSpec::Browser(browser) = parsed(
        "format = 1\nkind = 'browser'\nname = 'b'\nstart_tabs = ['https://shop.test/']\nnetwork = ['*.test']\n\
         [viewport]\nwidth = 800\nheight = 600",
    )
    .spec
    else {
        panic!()
    };
    assert!(matches!(&browser.network, NetworkSpec::Allowlist(hosts) if hosts.len() == 1));
    assert_eq!((browser.viewport.width, browser.start_tabs.len()), (800, 1));
    let FileSpec::Computer(computer) =
        parsed("format = 1\nkind = 'computer'\nname = 'c'\nnetwork = 'open'\nroute_sites = false").spec
    else {
        panic!()
    };
    assert!(computer.network == NetworkSpec::Open && !computer.route_sites);
    let FileSpec::Multi(multi) = parsed(
        "format = 1\nkind = 'multi'\nname = 'office'\nwebsites = ['shop', { env = 'shop', alias = 'store' }]\n\
         [[browsers]]\npath = 'browser.toml'\n",
    )
    .spec
    else {
        panic!()
    };
    assert_eq!(multi.websites[1].name().unwrap().as_str(), "store");
    assert_eq!(multi.browsers[0].target, MemberTarget::Path("browser.toml".to_owned()));
}

#[test]
fn flags_take_the_place_of_the_file() {
    let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let flags = Flags {
        name: Some("other".to_owned()),
        live: Some(false),
        domains: list(&["other.test"]),
        settings: list(&["page_size=50", "currency=1.0", "pin=\"1234\"", "flag=true", "api_key=env:OTHER", "text=a=b"]),
        ..Flags::default()
    };
    let file = parse_env_with_flags("env.toml", SHOP, &flags).unwrap();
    assert_eq!(file.name.as_str(), "other");
    let FileSpec::Website(site) = file.spec else { panic!() };
    assert_eq!(site.domains.iter().map(ToString::to_string).collect::<Vec<_>>(), ["other.test"]);
    let settings = serde_json::to_value(&site.settings).unwrap();
    for (name, value) in [
        ("page_size", serde_json::json!({ "literal": 50 })),
        ("currency", serde_json::json!({ "literal": 1.0 })),
        ("pin", serde_json::json!({ "literal": "1234" })),
        ("flag", serde_json::json!({ "literal": true })),
        ("text", serde_json::json!({ "literal": "a=b" })),
        ("rate", serde_json::json!({ "literal": 1.5 })),
        ("api_key", serde_json::json!({ "reference": { "env": { "name": "OTHER", "default": null } } })),
    ] {
        assert_eq!(settings[name], value, "{name}");
    }
}

#[test]
fn an_image_needs_no_file() {
    let flags = Flags {
        name: Some("shop".to_owned()),
        image: Some("ghcr.io/acme/shop:1.2@sha256:00".to_owned()),
        domains: vec!["shop.test".to_owned()],
        ..Flags::default()
    };
    let FileSpec::Website(site) = parse_env_with_flags("env.toml", "", &flags).unwrap().spec else { panic!() };
    assert!(matches!(site.source, WebsiteSource::Image(_)));
    let nameless = Flags { name: None, ..flags };
    assert!(parse_env_with_flags("env.toml", "", &nameless).unwrap_err().to_string().contains("`name` is missing"));
}

#[test]
fn references_are_kept_as_they_are() {
    let FileSpec::Website(site) = parsed(SHOP).spec else { panic!() };
    let references = site.settings.values().filter(|value| matches!(value, SettingValue::Reference(_))).count();
    assert_eq!(references, 2);
}

#[test]
fn envs_by_name_and_version() {
    for (text, shown) in [("shop", Some("shop")), ("shop@3", Some("shop@3")), ("shop@03", Some("shop@3"))] {
        assert_eq!(text.parse::<EnvRef>().ok().map(|env| env.to_string()).as_deref(), shown, "{text}");
    }
    for text in ["", "@", "shop@", "shop@0", "shop@-1", "shop@1@2", "Shop", "shop@9999999999999999999", "../shop"] {
        assert!(text.parse::<EnvRef>().is_err(), "{text}");
    }
}

/// Pieces that a file of this kind is made of, so that random files get past the first line.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("format = 1\n".to_owned()),
        Just("kind = \"website\"\n".to_owned()),
        Just("kind = \"multi\"\n".to_owned()),
        Just("kind = \"computer\"\n".to_owned()),
        Just("name = \"shop\"\n".to_owned()),
        Just("[server]\n".to_owned()),
        Just("[[browsers]]\n".to_owned()),
        Just("[services.a]\n".to_owned()),
        Just("[settings]\n".to_owned()),
        "(domains|websites|live|port|command|static|env|path|start_tabs|network|viewport|image|secret_settings) = ",
        "(\\[\"[a-z.*]{0,9}\"\\]|\"[ -~]{0,12}\"|-?[0-9]{1,19}|true|\\{ width = [0-9]{1,5} \\}|inf|\\[\\[\\]\\])\n",
        "[ -~\\n\u{80}-\u{7ff}]{0,20}",
    ]
}

/// Few letters and labels, so that names and patterns meet.
fn host() -> impl Strategy<Value = HostName> {
    "([ab]\\.){0,3}(x|y)".prop_map(|text| HostName::parse(&text).unwrap())
}

fn pattern() -> impl Strategy<Value = HostPattern> {
    (any::<bool>(), host())
        .prop_map(|(below, host)| if below { HostPattern::Below(host) } else { HostPattern::Exact(host) })
}

proptest! {
    #[test]
    fn a_pattern_that_parses_is_written_as_it_is_compared(text in "(\\*\\.)?[a-zA-Z0-9ü.*:@-]{0,20}") {
        if let Ok(pattern) = HostPattern::parse(&text) {
            prop_assert_eq!(HostPattern::parse(&pattern.to_string()).unwrap(), pattern.clone());
            prop_assert_eq!(pattern.to_string().to_lowercase(), pattern.to_string());
        }
    }

    #[test]
    fn a_pattern_that_contains_another_covers_all_that_it_covers(
        a in pattern(),
        b in pattern(),
        host in host(),
    ) {
        if a.contains(&b) && b.covers(&host) {
            prop_assert!(a.covers(&host), "{} {} {}", a, b, host);
        }
        if a.covers(&host) && b.covers(&host) {
            prop_assert!(a.overlaps(&b), "{} {} {}", a, b, host);
        }
    }

    #[test]
    fn the_first_entry_of_the_site_table_that_covers_a_name_is_its_winner(
        patterns in proptest::collection::vec((pattern(), "[a-e]"), 0..8),
        host in host(),
    ) {
        let claims: Vec<Claim> = patterns
            .into_iter()
            .map(|(pattern, owner)| Claim { owner: owner.parse().unwrap(), kind: ClaimKind::Synthetic, pattern })
            .collect();
        prop_assume!(check_claims(&claims).is_empty());
        let table = site_table(&claims);
        let first = table.iter().find(|entry| entry.pattern.covers(&host)).map(|entry| &entry.website);
        prop_assert_eq!(first, winner(&claims, &host).map(|claim| &claim.owner));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,200}") {
        let _ = parse_env("env.toml", &text);
    }

    #[test]
    fn no_likely_file_makes_the_parser_panic(pieces in proptest::collection::vec(piece(), 0..24)) {
        let text = pieces.concat();
        if let Err(problems) = parse_env("env.toml", &text) {
            prop_assert!(!problems.as_slice().is_empty());
        }
    }

    #[test]
    fn no_flag_makes_the_parser_panic(setting in "\\PC{0,40}", domain in "\\PC{0,40}", image in "\\PC{0,40}") {
        let flags = Flags { settings: vec![setting], domains: vec![domain], image: Some(image), ..Flags::default() };
        let _ = parse_env_with_flags("env.toml", "", &flags);
    }

    #[test]
    fn a_start_tab_survives_json(text in "https?://[a-zA-Z.-]{1,30}(:[0-9]{1,5})?(/[ -~]{0,20})?") {
        if let Ok(tab) = agentenv_model::StartTab::parse(&text) {
            let json = serde_json::to_string(&tab).unwrap();
            prop_assert_eq!(serde_json::from_str::<agentenv_model::StartTab>(&json).unwrap(), tab);
        }
    }
}
