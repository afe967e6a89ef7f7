//! Plans with live sites, by a provider that has every ability: who answers, who reaches what, and which start tabs may be.

mod common;
mod office;

use agentenv_model::{Abilities, EnvVersion, Plan, Problems, Reach};
use agentenv_protocol::HostPattern;

fn everything() -> Abilities {
    Abilities {
        provider: "everything".to_owned(),
        images: true,
        captures: true,
        live_sites: true,
        computers: true,
        networks: true,
        secrets: true,
    }
}

fn stored(text: &str) -> EnvVersion {
    common::stored(text, 1, &[])
}

fn website(name: &str, head: &str) -> EnvVersion {
    stored(&format!("kind = 'website'\nname = '{name}'\n{head}\nserver = {{ command = ['x'], port = 1 }}"))
}

fn github() -> EnvVersion {
    website("github", "live = true\ndomains = ['github.com']\nallow_hosts = ['*.github.com', '*.githubassets.com']")
}

fn browser(name: &str, head: &str) -> EnvVersion {
    stored(&format!("kind = 'browser'\nname = '{name}'\n{head}"))
}

fn office(text: &str, members: &[EnvVersion]) -> Result<Plan, Problems> {
    office::office(text, members, everything())
}

fn hosts(patterns: &[HostPattern]) -> Vec<String> {
    patterns.iter().map(ToString::to_string).collect()
}

fn network(plan: &Plan, index: usize) -> Vec<String> {
    match &plan.browsers[index].network {
        Reach::Hosts(patterns) => hosts(patterns),
        Reach::Open => vec!["(open)".to_owned()],
    }
}

#[test]
fn a_live_site_beside_a_synthetic_one_inside_its_wildcard() {
    let members = [
        website("shop", "domains = ['shop.test']"),
        github(),
        website("gist", "domains = ['gist.github.com']"),
        browser(
            "desk",
            "start_tabs = ['https://shop.test/', 'https://github.com/octocat', 'https://a.githubassets.com/x']",
        ),
        browser("wide", "network = ['pypi.org', 'gist.github.com']"),
        browser("free", "network = 'open'"),
    ];
    let plan = office("websites = ['shop', 'github', 'gist']\nbrowsers = ['desk', 'wide', 'free']", &members).unwrap();
    let table: Vec<_> = plan.site_table.iter().map(|entry| format!("{} {}", entry.pattern, entry.website)).collect();
    assert_eq!(table, ["gist.github.com gist", "shop.test shop"], "no live name is in the site table");
    let live = ["github.com", "*.github.com", "*.githubassets.com"];
    assert_eq!(hosts(&plan.live_hosts), live, "the wider live name stays");
    assert!(plan.warnings.is_empty());
    assert_eq!(network(&plan, 0), live);
    assert_eq!(network(&plan, 1), [&live[..], &["pypi.org"]].concat());
    assert_eq!(network(&plan, 2), ["(open)"]);
    let reaches: Vec<_> = plan.websites.iter().map(|site| hosts(&site.reach)).collect();
    assert_eq!(
        reaches,
        [Vec::new(), hosts(&plan.live_hosts), Vec::new()],
        "only the live site's server leaves its pod"
    );
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&json).unwrap(), plan);
}

#[test]
fn a_live_name_that_a_synthetic_site_covers_is_left_off_with_a_warning() {
    let members = [github(), website("fake", "domains = ['GitHub.com.', '*.github.com']"), browser("desk", "")];
    let plan = office("websites = ['github', 'fake']\nbrowsers = ['desk']", &members).unwrap();
    assert_eq!(network(&plan, 0), ["*.githubassets.com"]);
    assert_eq!(
        plan.warnings,
        [
            "`github.com` of live site `github` is left off: website `fake` answers it in this deploy",
            "`*.github.com` of live site `github` is left off: website `fake` answers it in this deploy",
        ]
    );
    // For the live site's own server it is the real one in any case.
    assert_eq!(hosts(&plan.websites[0].reach), ["github.com", "*.github.com", "*.githubassets.com"]);
}

#[test]
fn a_deploy_whose_sites_are_all_live_has_an_empty_table() {
    let plan = office("websites = ['github']\nbrowsers = ['desk']", &[github(), browser("desk", "")]).unwrap();
    assert!(plan.site_table.is_empty() && plan.websites[0].live);
    assert_eq!(network(&plan, 0).len(), 3);
}

#[test]
fn two_live_sites_of_one_domain_are_refused_and_shared_further_hosts_are_not() {
    let docs = |domain: &str| {
        website("docs", &format!("live = true\ndomains = ['{domain}']\nallow_hosts = ['*.githubassets.com']"))
    };
    let text = "websites = ['github', 'docs']";
    assert_eq!(
        office(text, &[github(), docs("GITHUB.com.")]).unwrap_err().to_string(),
        "env.toml:4:23: `github` and `docs` both claim `github.com`; accepted: each name by one website"
    );
    let plan = office(text, &[github(), docs("docs.github.com")]).unwrap();
    assert_eq!(
        hosts(&plan.live_hosts),
        ["github.com", "*.github.com", "*.githubassets.com", "docs.github.com"],
        "each host once"
    );
    // The same live env twice, under an alias.
    let twice = "websites = ['github', { env = 'github', alias = 'again' }]";
    assert!(
        office(twice, &[github()]).unwrap_err().to_string().contains("`github` and `again` both claim `github.com`")
    );
}

#[test]
fn an_allowlist_conflicts_with_nobody_and_claims_no_start_tab() {
    let desk = |network: &str, tab: &str| {
        stored(&format!("kind = 'computer'\nname = 'desk'\nnetwork = {network}\nstart_tabs = ['{tab}']"))
    };
    let text = "websites = ['github']\ncomputers = ['desk']";
    assert!(office(text, &[github(), desk("['github.com', 'pypi.org']", "https://github.com/")]).is_ok());
    assert_eq!(
        office(text, &[github(), desk("['pypi.org']", "https://pypi.org/")]).unwrap_err().to_string(),
        "env.toml:5:14: the start tab `https://pypi.org/` of `desk` is at `pypi.org`, which no website claims; accepted: \
         names of the env's websites"
    );
    // One that routes no sites is exempt.
    let alone = stored("kind = 'computer'\nname = 'desk'\nroute_sites = false\nstart_tabs = ['https://pypi.org/']");
    assert!(office(text, &[github(), alone]).is_ok());
}

#[test]
fn start_tabs_may_be_at_live_domains_and_further_hosts_and_nowhere_else() {
    for (tab, claimed) in [
        ("https://github.com/", true),
        ("https://GITHUB.com:443/x", true),
        ("https://api.github.com/", true),
        ("https://a.b.githubassets.com/", true),
        ("https://githubassets.com/", false),
        ("https://example.com/", false),
        ("https://github.com.evil.net/", false),
    ] {
        let members = [github(), browser("desk", &format!("start_tabs = ['{tab}']\nnetwork = 'open'"))];
        let planned = office("websites = ['github']\nbrowsers = ['desk']", &members);
        assert_eq!(planned.is_ok(), claimed, "{tab}");
        if let Err(problems) = planned {
            let text = problems.to_string();
            assert!(text.contains(tab) && text.contains("which no website claims"), "{text}");
        }
    }
    // A site whose names are its card's is asked at deploy.
    let members = [github(), website("shop", ""), browser("desk", "start_tabs = ['https://example.com/']")];
    assert!(office("websites = ['github', 'shop']\nbrowsers = ['desk']", &members).is_ok());
}
