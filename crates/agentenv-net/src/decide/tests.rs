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

/// Names around the table's, in many spellings; addresses; and anything at all.
fn any_host() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "shop.test",
        "github.com",
        "gist.github.com",
        "raw.gist.github.com",
        "a.b.gist.github.com",
        "bücher.example",
        "real.example",
        "a.real.example",
        "other.test",
        "example.com",
        "localhost",
        "127.0.0.1",
        "[::1]",
        "2130706433",
        "0x7f.1",
    ]);
    let spelled = (known.clone(), 0..8u8).prop_map(|(host, how)| match how {
        0 => host.to_uppercase(),
        1 => format!("{host}."),
        2 => format!("x.{host}"),
        3 => format!("x{host}"),
        4 => format!("{host}.evil"),
        5 => format!("{host}:443"),
        6 => format!("user@{host}"),
        _ => host
            .chars()
            .map(|one| if one.is_ascii_lowercase() { char::from_u32(u32::from(one) + 0xfee0).unwrap() } else { one })
            .collect(),
    });
    prop_oneof![2 => known.prop_map(str::to_owned), 4 => spelled, 2 => "[a-z]{1,3}(\\.[a-z]{1,4}){0,3}", 1 => any::<String>()]
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

    /// The rules of NET-3 by themselves, for any text.
    #[test]
    fn a_verdict_follows_from_the_name_alone(host in any_host(), port in prop::sample::select(vec![0u16, 22, 80, 443, 8080])) {
        for table in [office(), office().open()] {
            let verdict = decide(&table, &host, port);
            match (HostName::parse(&host), port) {
                (Err(_), _) | (_, 0 | 22 | 8080) => prop_assert!(matches!(verdict, Verdict::Deny(_)), "{:?}", host),
                (Ok(name), _) => {
                    // However it was written, and at both ports.
                    prop_assert_eq!(&decide(&table, name.as_str(), 523 - port), &verdict);
                    match table.site(&name) {
                        Some(site) => prop_assert_eq!(verdict, Verdict::Site(site.clone())),
                        None => prop_assert!(!matches!(verdict, Verdict::Site(_))),
                    }
                }
            }
        }
    }

    /// More live hosts, or an open network, never change who answers for a synthetic name, and never deny what was allowed.
    #[test]
    fn a_way_out_takes_no_name_from_a_site(host in any_host(), live in prop::sample::select(vec!["*.com", "*.gist.github.com", "gist.github.com", "shop.test", "*.test", "*.example"])) {
        let sites = office();
        let wider = [sites.clone().open(), sites.clone().with_live_hosts([HostPattern::parse(live).unwrap()])];
        for wider in wider {
            match decide(&sites, &host, 443) {
                Verdict::Deny(DenyReason::NotAllowed) => {
                    let verdict = decide(&wider, &host, 443);
                    prop_assert!(matches!(verdict, Verdict::Direct | Verdict::Deny(DenyReason::NotAllowed)), "{:?}", verdict);
                }
                same => prop_assert_eq!(decide(&wider, &host, 443), same),
            }
        }
    }

    /// Only exact names and wildcards' names, by label: never by how a name ends.
    #[test]
    fn a_name_beside_a_live_pattern_is_denied(before in "[a-z]{1,6}", after in "[a-z]{1,6}") {
        let table = SiteTable::default().with_live_hosts(["github.com", "*.githubassets.com"].map(|one| HostPattern::parse(one).unwrap()));
        for host in [format!("{before}github.com"), format!("{before}.github.com"), format!("github.com.{after}"), format!("github.com{after}"),
            format!("{before}githubassets.com"), "githubassets.com".to_owned(), format!("{before}.githubassets.com.{after}")] {
            prop_assert_eq!(decide(&table, &host, 443), Verdict::Deny(DenyReason::NotAllowed), "{}", host);
        }
        prop_assert_eq!(decide(&table, &format!("{before}.{after}.githubassets.com"), 443), Verdict::Direct);
    }

    #[test]
    fn the_order_of_entries_changes_nothing(host in any_host(), seed in any::<u64>()) {
        let mut entries = vec![("*.github.com", "forge"), ("*.gist.github.com", "gists"), ("raw.gist.github.com", "raw"), ("*.com", "rest")];
        let first = table(&entries);
        let turns = usize::try_from(seed % 4).unwrap();
        entries.rotate_left(turns);
        if seed & 4 == 0 { entries.reverse(); }
        prop_assert_eq!(decide(&table(&entries), &host, 443), decide(&first, &host, 443));
    }
}
