use super::*;

use ClaimKind::{Allowlist, LiveAllowHost, LiveDomain, Synthetic};

type Listed<'a> = (&'a str, ClaimKind, &'a str);

fn claims(list: &[Listed<'_>]) -> Vec<Claim> {
    list.iter()
        .map(|(owner, kind, pattern)| Claim {
            owner: Name::parse(owner).unwrap(),
            kind: *kind,
            pattern: HostPattern::parse(pattern).unwrap(),
        })
        .collect()
}

fn patterns(texts: &[&str]) -> Vec<HostPattern> {
    texts.iter().map(|text| HostPattern::parse(text).unwrap()).collect()
}

fn shown(patterns: &[HostPattern]) -> Vec<String> {
    patterns.iter().map(ToString::to_string).collect()
}

#[test]
fn two_of_a_kind_conflict_and_others_do_not() {
    for (list, conflicts) in [
        (vec![("a", Synthetic, "shop.test"), ("b", Synthetic, "SHOP.test.")], 1),
        (vec![("a", Synthetic, "*.shop.test"), ("b", Synthetic, "*.shop.test")], 1),
        (vec![("a", Synthetic, "*.shop.test"), ("b", Synthetic, "a.shop.test")], 0),
        (vec![("a", Synthetic, "*.shop.test"), ("b", Synthetic, "*.b.shop.test")], 0),
        (vec![("a", Synthetic, "shop.test"), ("b", Synthetic, "*.shop.test")], 0),
        (vec![("a", Synthetic, "shop.test"), ("a", Synthetic, "shop.test")], 0),
        // The same env twice, under an alias.
        (vec![("shop", Synthetic, "shop.test"), ("store", Synthetic, "shop.test")], 1),
        (vec![("a", Synthetic, "bücher.test"), ("b", Synthetic, "xn--bcher-kva.test")], 1),
        (vec![("a", Synthetic, "BÜCHER.test"), ("b", Synthetic, "bücher.test.")], 1),
        // A Cyrillic а: another name, however it looks.
        (vec![("a", Synthetic, "аpple.test"), ("b", Synthetic, "apple.test")], 0),
        (vec![("a", LiveDomain, "github.com"), ("b", LiveDomain, "GitHub.com")], 1),
        (vec![("a", LiveDomain, "*.github.com"), ("b", LiveDomain, "gist.github.com")], 0),
        (vec![("hub", LiveDomain, "github.com"), ("again", LiveDomain, "github.com")], 1),
        (vec![("a", LiveAllowHost, "cdn.com"), ("b", LiveAllowHost, "cdn.com")], 0),
        (vec![("a", LiveDomain, "github.com"), ("b", LiveAllowHost, "github.com")], 0),
        (vec![("a", LiveDomain, "github.com"), ("b", Synthetic, "github.com")], 0),
        (vec![("a", LiveAllowHost, "cdn.com"), ("b", Synthetic, "cdn.com")], 0),
        (vec![("a", LiveDomain, "github.com"), ("b", Allowlist, "github.com")], 0),
        (vec![("a", Synthetic, "shop.test"), ("b", Allowlist, "shop.test")], 0),
        (vec![("a", Allowlist, "x.test"), ("b", Allowlist, "x.test")], 0),
        (vec![("a", Synthetic, "x.test"), ("b", Synthetic, "x.test"), ("c", Synthetic, "x.test")], 2),
    ] {
        let claims = claims(&list);
        assert_eq!(check_claims(&claims).len(), conflicts, "{list:?}");
    }
}

/// An office with a bit of everything.
const OFFICE: [Listed<'_>; 14] = [
    ("wide", Synthetic, "*.shop.test"),
    ("narrow", Synthetic, "*.eu.shop.test"),
    ("exact", Synthetic, "pay.eu.shop.test"),
    ("books", Synthetic, "bücher.example"),
    ("gist", Synthetic, "gist.github.com"),
    ("fake-cdn", Synthetic, "*.cdn.github.com"),
    ("fake", Synthetic, "*.io"),
    ("github", LiveDomain, "github.com"),
    ("github", LiveAllowHost, "*.github.com"),
    ("github", LiveAllowHost, "pages.io"),
    ("github", LiveAllowHost, "fonts.com"),
    ("docs", LiveDomain, "docs.github.com"),
    ("docs", LiveAllowHost, "fonts.com"),
    ("desk", Allowlist, "*.org"),
];

#[test]
fn the_winner_of_a_name() {
    let claims = claims(&OFFICE);
    for (host, expected) in [
        ("a.shop.test", Some("wide")),
        ("a.b.shop.test", Some("wide")),
        ("eu.shop.test", Some("wide")),
        ("a.eu.shop.test", Some("narrow")),
        ("pay.eu.shop.test", Some("exact")),
        ("x.pay.eu.shop.test", Some("narrow")),
        // A wildcard is never the name itself.
        ("shop.test", None),
        ("xshop.test", None),
        ("shop.test.evil.com", None),
        ("PAY.EU.shop.TEST.", Some("exact")),
        ("bücher.example", Some("books")),
        ("xn--bcher-kva.example", Some("books")),
        ("BÜCHER.example.", Some("books")),
        ("bucher.example", None),
        ("github.com", Some("github")),
        ("GitHub.com.", Some("github")),
        ("api.github.com", Some("github")),
        ("a.b.github.com", Some("github")),
        // Within the live wildcard: a synthetic name, and another live site's.
        ("gist.github.com", Some("gist")),
        ("x.gist.github.com", Some("github")),
        ("docs.github.com", Some("docs")),
        ("cdn.github.com", Some("github")),
        ("a.cdn.github.com", Some("fake-cdn")),
        // A synthetic wildcard beats a live exact name: rank comes first.
        ("pages.io", Some("fake")),
        ("fonts.com", Some("github")),
        ("github.org", Some("desk")),
        ("org", None),
        ("github.com.evil.net", None),
    ] {
        let won = winner(&claims, &HostName::parse(host).unwrap()).map(|claim| claim.owner.as_str());
        assert_eq!(won, expected, "{host}");
        // Not by the order in which they were written, but among live sites that share a host.
        let backwards: Vec<Claim> = claims.iter().rev().cloned().collect();
        let won = winner(&backwards, &HostName::parse(host).unwrap()).map(|claim| claim.owner.as_str());
        assert_eq!(won, if host == "fonts.com" { Some("docs") } else { expected }, "{host}, backwards");
    }
    let table: Vec<_> = site_table(&claims).iter().map(|entry| entry.pattern.to_string()).collect();
    let expected = [
        "gist.github.com",
        "pay.eu.shop.test",
        "xn--bcher-kva.example",
        "*.cdn.github.com",
        "*.eu.shop.test",
        "*.shop.test",
        "*.io",
    ];
    assert_eq!(table, expected);
}

#[test]
fn live_hosts_are_live_names_that_no_synthetic_site_covers() {
    for (list, hosts, left_off) in [
        (vec![("hub", LiveDomain, "github.com")], vec!["github.com"], vec![]),
        (
            vec![("hub", LiveDomain, "github.com"), ("hub", LiveAllowHost, "*.cdn.com")],
            vec!["github.com", "*.cdn.com"],
            vec![],
        ),
        // Each once, in whatever spelling.
        (vec![("a", LiveAllowHost, "cdn.com"), ("b", LiveAllowHost, "CDN.com.")], vec!["cdn.com"], vec![]),
        (vec![("a", LiveDomain, "x.com"), ("b", LiveDomain, "y.com")], vec!["x.com", "y.com"], vec![]),
        (vec![("shop", Synthetic, "shop.test")], vec![], vec![]),
        (vec![("desk", Allowlist, "x.org")], vec![], vec![]),
        // The same name, exact or not: the synthetic site has it.
        (
            vec![("hub", LiveDomain, "github.com"), ("fake", Synthetic, "GitHub.com.")],
            vec![],
            vec![("github.com", "fake")],
        ),
        (vec![("hub", LiveAllowHost, "*.a.com"), ("fake", Synthetic, "*.a.com")], vec![], vec![("*.a.com", "fake")]),
        (vec![("hub", LiveDomain, "a.b.com"), ("fake", Synthetic, "*.com")], vec![], vec![("a.b.com", "fake")]),
        (
            vec![("hub", LiveAllowHost, "*.a.b.com"), ("fake", Synthetic, "*.b.com")],
            vec![],
            vec![("*.a.b.com", "fake")],
        ),
        (
            vec![("hub", LiveDomain, "bücher.de"), ("fake", Synthetic, "xn--bcher-kva.de")],
            vec![],
            vec![("xn--bcher-kva.de", "fake")],
        ),
        // A wider live name stays, and the synthetic one is routed within it.
        (
            vec![("hub", LiveAllowHost, "*.github.com"), ("gist", Synthetic, "gist.github.com")],
            vec!["*.github.com"],
            vec![],
        ),
        (vec![("hub", LiveAllowHost, "*.com"), ("fake", Synthetic, "*.github.com")], vec!["*.com"], vec![]),
        // The name above a synthetic wildcard is not in it.
        (vec![("hub", LiveDomain, "github.com"), ("fake", Synthetic, "*.github.com")], vec!["github.com"], vec![]),
        // An allowlist covers nothing.
        (vec![("hub", LiveDomain, "github.com"), ("desk", Allowlist, "*.com")], vec!["github.com"], vec![]),
        // Another live site covers nothing either.
        (vec![("a", LiveDomain, "*.x.com"), ("b", LiveDomain, "y.x.com")], vec!["*.x.com", "y.x.com"], vec![]),
        // Two synthetic names: the one that wins the live name is told.
        (
            vec![("hub", LiveDomain, "a.b.com"), ("wide", Synthetic, "*.com"), ("near", Synthetic, "*.b.com")],
            vec![],
            vec![("a.b.com", "near")],
        ),
        // Some of a site's names stay.
        (
            vec![("hub", LiveDomain, "a.com"), ("hub", LiveDomain, "b.com"), ("fake", Synthetic, "b.com")],
            vec!["a.com"],
            vec![("b.com", "fake")],
        ),
    ] {
        let claims = claims(&list);
        let live = live_hosts(&claims);
        assert_eq!(shown(&live.hosts), hosts, "{list:?}");
        let off: Vec<_> =
            live.left_off.iter().map(|(claim, by)| (claim.pattern.to_string(), by.owner.to_string())).collect();
        let expected: Vec<_> = left_off.iter().map(|(pattern, by)| ((*pattern).to_owned(), (*by).to_owned())).collect();
        assert_eq!(off, expected, "{list:?}");
        assert_eq!(live.warnings().len(), left_off.len());
    }
    let claims = claims(&[("hub", LiveDomain, "github.com"), ("fake", Synthetic, "github.com")]);
    assert_eq!(
        live_hosts(&claims).warnings(),
        ["`github.com` of live site `hub` is left off: website `fake` answers it in this deploy"]
    );
}

#[test]
fn a_network_reaches_the_live_hosts_and_its_own_allowlist() {
    let claims = claims(&OFFICE);
    let live = ["github.com", "*.github.com", "fonts.com", "docs.github.com"];
    let and = |more: &[&str]| live.iter().copied().chain(more.iter().copied()).map(str::to_owned).collect::<Vec<_>>();
    for (network, expected) in [
        (NetworkSpec::Sites, Some(and(&[]))),
        (NetworkSpec::Open, None),
        (NetworkSpec::Allowlist(Vec::new()), Some(and(&[]))),
        (NetworkSpec::Allowlist(patterns(&["pypi.org"])), Some(and(&["pypi.org"]))),
        // Already there, a synthetic site's, and wider than one.
        (NetworkSpec::Allowlist(patterns(&["GITHUB.com", "a.shop.test", "*.test"])), Some(and(&["*.test"]))),
    ] {
        let expected_shown = format!("{network:?}");
        match reach(&network, &claims) {
            Reach::Hosts(hosts) => assert_eq!(Some(shown(&hosts)), expected, "{expected_shown}"),
            Reach::Open => assert_eq!(None, expected, "{expected_shown}"),
        }
    }
    assert_eq!(reach(&NetworkSpec::Sites, &[]), Reach::Hosts(Vec::new()));
}

#[test]
fn only_a_live_sites_server_reaches_anything_and_always_the_real_hosts() {
    let (domains, more) = (patterns(&["github.com"]), patterns(&["*.github.com", "github.com"]));
    assert_eq!(shown(&site_reach(true, &domains, &more)), ["github.com", "*.github.com"]);
    assert!(site_reach(false, &domains, &more).is_empty());
}

#[test]
fn start_tabs_may_be_at_websites_names_and_not_on_allowlists() {
    let names = shown(&website_names(&claims(&OFFICE)));
    assert!(names.contains(&"*.github.com".to_owned()) && names.contains(&"fonts.com".to_owned()));
    assert!(!names.contains(&"*.org".to_owned()) && names.len() == OFFICE.len() - 1);
}
