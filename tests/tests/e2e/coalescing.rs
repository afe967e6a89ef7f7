//! Row 91: two names that one wildcard certificate would cover, in a real Chromium without a proxy.

use agentenv_tests::{Deploy, PySite, playwright};

use crate::desk::{browser_of, desk_of};

/// Two sites whose names one wildcard certificate would cover.
pub fn hub_and_gist_sites() -> [PySite; 2] {
    [PySite::new("hub").at(&["*.hub.test"]), PySite::new("gist").at(&["gist.hub.test"])]
}

fn hub_and_gist() -> agentenv_tests::Home {
    desk_of(&hub_and_gist_sites())
}

/// Opens a page in a Chromium of its own inside the browser's sandbox, which uses the placed sockets, and gives the page in
/// which its scripts' navigations end.
#[track_caller]
fn without_a_proxy(deploy: &Deploy<'_>, url: &str) -> String {
    deploy.exec(browser_of(deploy), &chromium_without_a_proxy(url)).ok()
}

/// The command of that Chromium.
pub fn chromium_without_a_proxy(url: &str) -> [&str; 10] {
    [
        // Debian's own `chromium` is a script that reads its settings from the host's /etc.
        "/usr/lib/chromium/chromium",
        "--headless=new",
        "--no-proxy-server",
        "--user-data-dir=/tmp/coalescing",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-gpu",
        "--virtual-time-budget=8000",
        "--dump-dom",
        url,
    ]
}

/// A page to begin at, the one that its script goes to, and what is then seen.
pub const WALKS: [(&str, &str, &str); 3] = [
    ("git.hub.test", "gist.hub.test", "gist at gist.hub.test"),
    ("gist.hub.test", "git.hub.test", "hub at git.hub.test"),
    ("git.hub.test", "api.hub.test", "hub at api.hub.test"),
];

#[test]
fn row_91_http2_coalescing_each_page_is_answered_by_its_own_site() {
    let home = hub_and_gist();
    let deploy = home.deploy("desk");
    for (first, then, site) in WALKS {
        let page = without_a_proxy(&deploy, &format!("https://{first}/go?to=https://{then}/"));
        assert!(page.contains(site), "{first}, then {then}: {page}");
    }
}

#[test]
fn row_91_http2_coalescing_not_through_the_forward_port_either() {
    let home = hub_and_gist();
    let deploy = home.deploy("desk");
    let seen = playwright(
        &deploy,
        r"
seen = []
for host in ('git.hub.test', 'gist.hub.test', 'api.hub.test', 'gist.hub.test'):
    page.goto(f'https://{host}/')
    seen.append(page.inner_text('h1'))
result(seen)",
    );
    let expected = ["hub at git.hub.test", "gist at gist.hub.test", "hub at api.hub.test", "gist at gist.hub.test"];
    assert_eq!(seen, serde_json::json!(expected));
}

/// The deploy's own browser, navigated by an agent, with the forward port left out.
#[test]
fn row_91_http2_coalescing_nor_in_a_deploys_own_browser_without_a_proxy() {
    let home = hub_and_gist().with("AGENTENV_TEST_BROWSER_NO_PROXY", "1");
    own_browser_does_not_coalesce(&home.deploy("desk"));
}

/// Row 91, in the first browser or computer of a deploy.
#[track_caller]
pub fn own_browser_does_not_coalesce(deploy: &Deploy<'_>) {
    let processes = deploy.processes();
    let without = processes.iter().any(|process| process.arguments().contains("--no-proxy-server"));
    assert!(without, "Chromium has no proxy: {processes:?}");
    let seen = playwright(
        deploy,
        r#"
seen = []
for host in ('git.hub.test', 'gist.hub.test', 'api.hub.test', 'gist.hub.test'):
    page.goto(f'https://{host}/')
    protocol = page.evaluate("performance.getEntriesByType('navigation')[0].nextHopProtocol")
    seen.append(f'{protocol}: ' + page.inner_text('h1'))
result(seen)"#,
    );
    let sites = ["hub at git.hub.test", "gist at gist.hub.test", "hub at api.hub.test", "gist at gist.hub.test"];
    assert_eq!(seen, serde_json::json!(sites.map(|site| format!("h2: {site}"))));
}

/// What keeps Chromium from coalescing, each by itself: an address per name, and one name per certificate.
pub const NAMES: &str = r#"
def names(host):
    address = socket.getaddrinfo(host, 443)[0][4][0]
    with socket.create_connection((address, 443), 5) as s:
        with ssl.create_default_context().wrap_socket(s, server_hostname=host) as tls:
            return [address, [name for kind, name in tls.getpeercert()["subjectAltName"]]]
show({host: names(host) for host in ("git.hub.test", "gist.hub.test", "api.hub.test")})"#;

#[test]
fn row_91_every_name_has_its_address_and_its_certificate() {
    let home = hub_and_gist();
    let deploy = home.deploy("desk");
    each_its_own(&deploy.python(browser_of(&deploy), &crate::python::program(NAMES)));
}

/// Checks the answers to it.
#[track_caller]
pub fn each_its_own(answer: &serde_json::Value) {
    let mut addresses = Vec::new();
    for (host, found) in answer.as_object().expect("hosts") {
        assert_eq!(found[1], serde_json::json!([host]), "the certificate is for one name: {answer}");
        addresses.push(found[0].to_string());
    }
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 3, "{answer}");
}
