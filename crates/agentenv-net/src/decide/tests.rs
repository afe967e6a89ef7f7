use proptest::prelude::*;

use super::*;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn table(entries: &[(&str, &str)]) -> SiteTable {
    SiteTable::new(entries.iter().map(|(pattern, website)| SiteTableEntry {
        pattern: HostPattern::parse(pattern).unwrap(),
        website: name(website),
    }))
}

fn office() -> SiteTable {
    table(&[
        ("*.github.com", "forge"),
        ("*.gist.github.com", "gists"),
        ("shop.test", "shop"),
        ("raw.gist.github.com", "raw"),
        ("xn--bcher-kva.example", "books"),
    ])
    .with_live_hosts(["*.real.example", "*.test"].map(|pattern| HostPattern::parse(pattern).unwrap()))
}

fn assert_denied(reason: &DenyReason, hosts: &[&str]) {
    for host in hosts {
        for port in [80, 443] {
            assert_eq!(decide(&office(), host, port), Verdict::Deny(reason.clone()), "{host}");
        }
    }
}

#[test]
fn a_synthetic_name_wins_exact_before_wildcard_longer_before_shorter() {
    for (host, verdict) in [
        ("shop.test", Verdict::Site(name("shop"))),
        ("a.github.com", Verdict::Site(name("forge"))),
        ("a.b.github.com", Verdict::Site(name("forge"))),
        ("gist.github.com", Verdict::Site(name("forge"))),
        ("a.gist.github.com", Verdict::Site(name("gists"))),
        ("raw.gist.github.com", Verdict::Site(name("raw"))),
        ("other.test", Verdict::Direct),
        ("a.real.example", Verdict::Direct),
        ("real.example", Verdict::Deny(DenyReason::NotAllowed)),
    ] {
        assert_eq!(decide(&office(), host, 443), verdict, "{host}");
    }
}

#[test]
fn row_19_a_name_that_no_website_has() {
    assert_denied(&DenyReason::NotAllowed, &["example.com", "evil.example", "testing"]);
}

#[test]
fn row_20_addresses_in_any_spelling() {
    assert_denied(
        &DenyReason::Address,
        &["127.1", "2130706433", "0x7f.1", "0177.0.0.1", "0.0.0.0", "8.8.8.8", "１２７.0.0.1", "shop.test.0x7"],
    );
}

#[test]
fn row_21_ipv6_addresses_in_any_spelling() {
    assert_denied(
        &DenyReason::Address,
        &["[::1]", "::1", "::ffff:127.0.0.1", "[::ffff:127.0.0.1]", "64:ff9b::7f00:1", "[fd00::1]", "fe80::1%eth0"],
    );
}

#[test]
fn row_22_a_trailing_dot_and_case_change_nothing() {
    for host in ["shop.test", "shop.test.", "SHOP.Test", "SHOP.TEST."] {
        assert_eq!(decide(&office(), host, 443), Verdict::Site(name("shop")), "{host}");
    }
    assert_denied(&DenyReason::NotAllowed, &["example.com.", "EXAMPLE.com"]);
}

#[test]
fn row_23_what_is_no_name_or_only_begins_like_one() {
    assert_denied(
        &DenyReason::BadName,
        &[
            "[example.com]",
            "[shop.test]",
            "user@shop.test",
            "shop.test\0.ok",
            "host\0.ok",
            "",
            ".",
            "shop.test:443",
            "*",
        ],
    );
    assert_denied(&DenyReason::NotAllowed, &["shop.test.evil", "xshop.test.evil"]);
    assert_denied(&DenyReason::Localhost, &["localhost", "LocalHost.", "shop.localhost"]);
}

#[test]
fn row_24_a_wildcard_does_not_match_its_own_suffix() {
    assert_denied(&DenyReason::NotAllowed, &["github.com", "xgithub.com", "github.com.evil"]);
}

#[test]
fn row_25_names_are_compared_as_a_labels() {
    for host in ["bücher.example", "BÜCHER.example", "xn--bcher-kva.example"] {
        assert_eq!(decide(&office(), host, 80), Verdict::Site(name("books")), "{host}");
    }
    // A Cyrillic "о" and a full-width "ｓ": the first is another name, the second is the same one.
    assert_denied(&DenyReason::NotAllowed, &["sh\u{43e}p.example"]);
    assert_eq!(decide(&office(), "ｓhop.test", 80), Verdict::Site(name("shop")));
}

#[test]
fn row_32_ports_other_than_80_and_443() {
    for port in [0, 22, 25, 81, 8080, 65535] {
        assert_eq!(decide(&office(), "shop.test", port), Verdict::Deny(DenyReason::Port(port)));
        assert_eq!(decide(&office(), "a.real.example", port), Verdict::Deny(DenyReason::Port(port)));
    }
}

#[test]
fn row_34_the_machine_and_its_metadata_service() {
    assert_denied(&DenyReason::Address, &["169.254.169.254", "127.0.0.53", "198.18.0.1"]);
}

proptest! {
    #[test]
    fn what_goes_to_a_site_is_covered_by_one_of_its_patterns(host in "\\PC{0,40}", port in any::<u16>()) {
        if let Verdict::Site(_) = decide(&office(), &host, port) {
            let parsed = HostName::parse(&host).unwrap();
            prop_assert!(port == 80 || port == 443);
            prop_assert!(office().site(&parsed).is_some());
        }
    }

    #[test]
    fn an_ipv4_address_is_never_allowed(bits in any::<u32>(), port in prop::sample::select(vec![80u16, 443])) {
        let open = SiteTable::new([]).with_live_hosts([HostPattern::parse("*.com").unwrap()]);
        let address = std::net::Ipv4Addr::from(bits);
        for text in [address.to_string(), bits.to_string(), format!("{bits:#x}"), format!("::ffff:{address}"), format!("{address}.")] {
            prop_assert_eq!(decide(&open, &text, port), Verdict::Deny(DenyReason::Address));
        }
    }

    #[test]
    fn case_and_a_trailing_dot_never_change_a_verdict(host in "[a-z]{1,5}(\\.[a-z]{1,5}){0,3}(\\.github\\.com|\\.test)?") {
        let verdict = decide(&office(), &host, 443);
        prop_assert_eq!(&decide(&office(), &host.to_uppercase(), 443), &verdict);
        prop_assert_eq!(&decide(&office(), &format!("{host}."), 443), &verdict);
    }

    #[test]
    fn a_synthetic_name_wins_over_every_live_pattern(label in "[a-z]{1,8}") {
        let sites = table(&[("*.github.com", "forge")])
            .with_live_hosts([HostPattern::parse(&format!("{label}.github.com")).unwrap()]);
        prop_assert_eq!(decide(&sites, &format!("{label}.github.com"), 443), Verdict::Site(name("forge")));
    }
}
