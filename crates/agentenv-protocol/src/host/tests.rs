use proptest::prelude::*;

use super::*;

#[test]
fn names_are_compared_as_lower_case_a_labels() {
    for (text, name) in [
        ("shop.test", "shop.test"),
        ("SHOP.Test.", "shop.test"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("ｓhop.test", "shop.test"),
        ("a_b.test", "a_b.test"),
    ] {
        assert_eq!(HostName::parse(text).map(String::from), Ok(name.to_owned()), "{text}");
    }
}

#[test]
fn addresses_ports_and_the_machine_itself_are_no_names() {
    for text in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "0.0.0.0",
        "[::1]",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "fe80::1%eth0",
        "１２７.0.0.1",
        "shop.test.0x1",
    ] {
        assert!(matches!(HostName::parse(text), Err(HostError::Address(_))), "{text}: {:?}", HostName::parse(text));
    }
    for text in ["localhost", "LOCALHOST.", "a.localhost"] {
        assert!(matches!(HostName::parse(text), Err(HostError::Localhost(_))), "{text}");
    }
    for text in [
        "shop.test:443",
        "[example.com]",
        "user@host",
        "host\0.ok",
        "a..b",
        "-a.test",
        "a b",
        "",
        ".",
        "*",
        "*.*.x",
        "a.*.x",
        "*x.y",
    ] {
        assert!(HostPattern::parse(text).is_err(), "{text}");
    }
}

#[test]
fn a_wildcard_covers_every_depth_below_and_never_the_name_itself() {
    let below = HostPattern::parse("*.github.com").unwrap();
    for (text, covered) in [
        ("github.com", false),
        ("a.github.com", true),
        ("a.b.github.com", true),
        ("xgithub.com", false),
        ("github.com.evil", false),
    ] {
        assert_eq!(below.covers(&HostName::parse(text).unwrap()), covered, "{text}");
    }
    let exact = HostPattern::parse("a.github.com").unwrap();
    let longer = HostPattern::parse("*.a.github.com").unwrap();
    assert_eq!(exact.precedence(&below), Ordering::Greater);
    assert_eq!(longer.precedence(&below), Ordering::Greater);
    assert!(below.contains(&longer) && !longer.contains(&below) && below.overlaps(&exact));
}

/// Texts of every kind: names, what looks like names, patterns, addresses, and anything at all.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => "[a-zA-Z0-9_-]{1,6}(\\.[a-zA-Z0-9_-]{1,6}){0,3}\\.?",
        2 => "(\\*\\.)?[a-z]{1,3}(\\.[a-z]{1,3}){0,2}",
        1 => "[\\[\\]@:%/\\\\.*x0-9a-f]{0,20}",
        1 => "\\PC{0,12}(\\.\\PC{0,6}){0,2}",
        1 => any::<String>(),
        1 => any::<std::net::Ipv6Addr>().prop_map(|address| address.to_string()),
    ]
}

/// Short names over few letters, so that patterns often cover them.
fn name() -> impl Strategy<Value = String> {
    "[ab](\\.[ab]){0,4}"
}

fn pattern() -> impl Strategy<Value = HostPattern> {
    "(\\*\\.)?[ab](\\.[ab]){0,3}".prop_map(|text| HostPattern::parse(&text).unwrap())
}

proptest! {
    #[test]
    fn a_name_is_lower_case_a_labels_and_reads_as_itself(text in any_text()) {
        if let Ok(name) = HostName::parse(&text) {
            let shown = name.as_str();
            prop_assert!((1..=253).contains(&shown.len()));
            for label in shown.split('.') {
                prop_assert!((1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-'));
                prop_assert!(label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_'), "{}", shown);
            }
            prop_assert!(shown.parse::<IpAddr>().is_err() && shown != "localhost" && !shown.ends_with(".localhost"));
            prop_assert_eq!(HostName::parse(shown), Ok(name.clone()), "what is shown reads as itself");
            prop_assert_eq!(serde_json::from_str::<HostName>(&serde_json::to_string(&name).unwrap()).unwrap(), name);
        }
    }

    #[test]
    fn a_pattern_reads_as_itself_and_is_a_name_or_a_wildcard_of_one(text in any_text()) {
        match HostPattern::parse(&text) {
            Ok(pattern) => {
                prop_assert_eq!(HostPattern::parse(&pattern.to_string()), Ok(pattern.clone()));
                match pattern {
                    HostPattern::Exact(name) => prop_assert_eq!(HostName::parse(&text), Ok(name)),
                    HostPattern::Below(suffix) => prop_assert_eq!(HostName::parse(&text[2..]), Ok(suffix)),
                }
            }
            Err(_) => prop_assert!(HostName::parse(&text).is_err(), "what is a name is a pattern too"),
        }
    }

    #[test]
    fn case_and_one_trailing_dot_are_ignored(text in any_text()) {
        let parsed = HostName::parse(&text).ok();
        if text.is_ascii() {
            prop_assert_eq!(&HostName::parse(&text.to_ascii_uppercase()).ok(), &parsed);
            prop_assert_eq!(&HostName::parse(&text.to_ascii_lowercase()).ok(), &parsed);
        }
        if !text.ends_with('.') {
            prop_assert_eq!(&HostName::parse(&format!("{text}.")).ok(), &parsed);
            let twice = format!("{text}..");
            prop_assert!(HostName::parse(&twice).is_err());
        }
    }

    #[test]
    fn what_holds_a_part_of_a_url_is_never_a_name(text in any_text(), with in prop::sample::select(vec!["@", "/", "\\", "?", "#", "%", "[", "]", " ", "\0", ":443", "*"])) {
        for text in [format!("{with}{text}"), format!("{text}{with}"), format!("a{with}{text}.com"), format!("a.com{with}")] {
            prop_assert!(HostName::parse(&text).is_err(), "{:?}", text);
        }
    }

    #[test]
    fn a_wildcard_covers_what_has_its_labels_last_and_more_before(suffix in name(), name in name()) {
        let (wanted, labels): (Vec<_>, Vec<_>) = (suffix.split('.').collect(), name.split('.').collect());
        let below = labels.len() > wanted.len() && labels.ends_with(&wanted);
        let parsed = HostName::parse(&name).unwrap();
        prop_assert_eq!(HostPattern::parse(&format!("*.{suffix}")).unwrap().covers(&parsed), below);
        prop_assert_eq!(HostPattern::parse(&suffix).unwrap().covers(&parsed), suffix == name);
    }

    #[test]
    fn patterns_contain_overlap_and_precede_as_the_names_say(a in pattern(), b in pattern(), name in name()) {
        let name = HostName::parse(&name).unwrap();
        let (in_a, in_b) = (a.covers(&name), b.covers(&name));
        prop_assert!(!(a.contains(&b) && in_b) || in_a, "a contains b");
        prop_assert!(!(in_a && in_b) || a.overlaps(&b), "a name in both");
        prop_assert_eq!(a.overlaps(&b), b.overlaps(&a));
        prop_assert_eq!(a.precedence(&b), b.precedence(&a).reverse());
        prop_assert_eq!(a.contains(&b) && b.contains(&a), a == b);
        // Of two that cover a name, the narrower wins, and no two different ones are equal.
        if in_a && in_b && a != b {
            prop_assert_ne!(a.precedence(&b), Ordering::Equal);
            prop_assert_eq!(a.precedence(&b) == Ordering::Greater, b.contains(&a));
        }
    }
}
