//! Live sites: real ones beside synthetic ones, in an internet of each test's own. Every test asserts that nothing reached what
//! nobody may reach.

use std::{path::Path, time::Duration};

use agentenv_protocol::ExitCode;
use agentenv_tests::{
    Bundle, Deploy, Home, Internet, PATIENCE, PySite, SESSION, TOKEN, eventually, playwright, run_within, tcpdump,
};
use serde_json::{Value, json};

use crate::{
    desk::{browser_env, browser_of},
    python::program,
};

pub mod attacks;
mod computers;
mod outcomes;
mod reach;
mod tasks;

/// Data of the shop: somebody to sign in.
const SHOP: &str = r#"{"users": [{"username": "ada", "password": "correct horse", "name": "Ada Lovelace"}]}"#;
/// What nobody may reach: names that no env has, private addresses, and any datagram but to the name server.
const FORBIDDEN: &str = "dst host 203.0.113.20 or dst host 203.0.113.21 or dst net 10.0.0.0/8 or dst net 192.168.0.0/16 or \
    dst net 172.16.0.0/12 or (udp and not port 53)";

/// A home with every site, `gist` at gist.github.com, the account's secrets, and a browser `lookout` without start tabs.
fn home() -> Home {
    let home = Home::new();
    home.put(&PySite::new("gist").at(&["gist.github.com"]).bundle());
    home.put(&browser_env());
    for (path, value) in [("github/token", TOKEN), ("github/session", SESSION)] {
        home.set_secret(path, value).ok();
    }
    home
}

/// Puts a multi env `office` of these websites and this browser env.
fn office(home: &Home, websites: &[&str], browser: &str) {
    home.put(&Bundle::multi("office", websites, Some(browser)));
}

/// Checks that nothing went where nothing may go.
#[track_caller]
fn assert_only_the_reach(internet: &Internet) {
    let sent = internet.packets(FORBIDDEN);
    assert!(sent.is_empty(), "{sent:#?}");
    assert_eq!(internet.trapped(), [] as [Value; 0], "connections to addresses that nobody may reach");
    let strange: Vec<String> = internet
        .names_asked()
        .into_iter()
        .filter(|name| {
            !["github.com", "githubassets.com", "githubusercontent.com"].iter().any(|own| name.ends_with(own))
        })
        .collect();
    assert_eq!(strange, [] as [String; 0], "names that were asked of the real name server");
}

#[track_caller]
fn hello_world(home: &Home, deploy: &Deploy<'_>) -> Value {
    home.run(&["env", "data", deploy.id(), "github", "--selector", r#"{"repository": "octocat/Hello-World"}"#]).json()
}

/// What a page of github.com says of who is there.
#[track_caller]
fn who(deploy: &Deploy<'_>) -> Value {
    playwright(deploy, "page.goto('https://github.com/')\nresult(page.inner_text('#who'))")
}

#[test]
fn a_real_site_beside_synthetic_ones_is_used_signed_in_reset_and_captured() {
    whole_flow("kind = \"browser\"\n", "browsers");
}

#[test]
fn the_same_on_a_computer_with_an_allowlist() {
    whole_flow("kind = \"computer\"\nnetwork = [\"api.github.com\"]\n", "computers");
}

/// Everything that an agent and its owner do with a live site, at a machine of this kind.
fn whole_flow(machine: &str, members: &str) {
    let home = home();
    let tabs = "start_tabs = [\"https://github.com/\", \"https://shop.test/\"]\n";
    home.put(&Bundle::new(&format!("format = 1\nname = \"desk\"\n{machine}{tabs}")));
    let websites = "websites = [\"shop\", \"github\", \"gist\"]\n";
    let office = format!("format = 1\nkind = \"multi\"\nname = \"office\"\n{websites}{members} = [\"desk\"]\n");
    home.put(&Bundle::new(&office));
    let internet = Internet::start();
    let home = internet.home(home);
    let deploy = home.deploy_with("office", &["--capture-traffic"]);

    assert!(deploy.info.live);
    let live: Vec<_> =
        deploy.info.websites.iter().map(|site| (site.name.as_str(), site.live, site.browse_url.is_some())).collect();
    assert_eq!(live, [("shop", false, true), ("github", true, false), ("gist", false, true)]);
    assert!(
        deploy.info.warnings.iter().any(|warning| warning.contains("`github` is the real site")),
        "{:?}",
        deploy.info
    );

    pages(&deploy);
    let data = hello_world(&home, &deploy);
    assert_eq!(data["repository"]["full_name"], "octocat/Hello-World", "{data}");
    assert_eq!(data["issues"][0]["number"], 7, "{data}");
    signed_in_and_reset(&home, &deploy);
    restarted(&home, &deploy);
    captured(&home, &deploy);

    let asked = internet.requests_to("api.github.com");
    assert!(
        asked.iter().any(|request| request["headers"]["authorization"] == format!("Bearer {TOKEN}")),
        "the account is used"
    );
    assert!(internet.requests_to("gist.github.com").is_empty(), "the synthetic site has that name");
    assert_secrets_are_nowhere(&home, deploy.id());
    deploy.close();
    home.assert_idle();
    assert_only_the_reach(&internet);
}

/// The real pages and their assets; the synthetic site within the real one's names; nothing else.
#[track_caller]
fn pages(deploy: &Deploy<'_>) {
    let seen = playwright(
        deploy,
        r##"
tabs = sorted(tab.title() for tab in context.pages if tab.url.startswith("https"))
page.goto("https://github.com/")
github = [page.title(), page.inner_text("#who"),
    page.evaluate("getComputedStyle(document.getElementById('who')).color"),
    page.evaluate("document.getElementById('face').naturalWidth")]
page.click("text=Gists")
gist = page.inner_text("h1")
refused = []
for url in ("https://example.com/", "https://pypi.org/", "http://example.com/"):
    # A page of its own: an error page is still on its way when the call has failed.
    page = context.new_page()
    try: refused.append(page.goto(url).status)
    except Error as error: refused.append("ERR_TUNNEL" if "ERR_TUNNEL_CONNECTION_FAILED" in str(error) else str(error))
result({"tabs": tabs, "github": github, "gist": gist, "refused": refused})"##,
    );
    assert_eq!(seen["github"], json!(["GitHub", "Sign in to GitHub", "rgb(1, 2, 3)", 1]), "{seen}");
    assert!(
        seen["tabs"].as_array().is_some_and(|tabs| tabs.contains(&json!("GitHub"))),
        "the start tab is open: {seen}"
    );
    assert_eq!(seen["gist"], "gist at gist.github.com", "{seen}");
    assert_eq!(seen["refused"], json!(["ERR_TUNNEL", "ERR_TUNNEL", 403]), "{seen}");
    let denied = deploy.denied();
    for host in ["example.com", "pypi.org"] {
        let logged = denied.iter().any(|entry| entry.host == host && entry.sandbox.as_str() == "desk");
        assert!(logged, "{host} is on the denied log: {denied:?}");
    }
}

/// Both sites signed in, data loaded, all of it gone after a reset, and signed in again.
#[track_caller]
fn signed_in_and_reset(home: &Home, deploy: &Deploy<'_>) {
    let load = |site: &str, data: &str| {
        let mut command = home.command(["env", "load", deploy.id(), site, "-"]);
        run_within(Duration::from_secs(30), &mut command, Some(data.as_bytes())).ok();
    };
    load("shop", SHOP);
    load("github", r#"{"note": "of this episode"}"#);
    let report = home.run(&["env", "sign-in", deploy.id(), "github=octocat", "shop=ada", "--json"]).json();
    let verified =
        report["signed_in"].as_array().expect("who").iter().filter(|entry| entry["verified"] == true).count();
    assert_eq!(verified, 2, "{report}");
    assert_eq!(who(deploy), "Signed in as octocat");
    let account = playwright(deploy, "page.goto('https://shop.test/account')\nresult(page.content())");
    assert!(account.as_str().is_some_and(|page| page.contains("Ada Lovelace")), "{account}");
    let loaded = home.run(&["env", "data", deploy.id(), "github"]).json();
    assert_eq!(loaded, json!({ "loaded": [{ "note": "of this episode" }] }));

    let report = home.run(&["env", "reset", deploy.id(), "--json"]).json();
    assert_eq!(report["not_undone"], json!(["github"]), "{report}");
    assert_eq!(home.run(&["env", "data", deploy.id(), "github"]).json(), json!({ "loaded": [] }));
    assert_eq!(who(deploy), "Sign in to GitHub");
    home.run(&["env", "sign-in", deploy.id(), "github=octocat"]).ok();
    assert_eq!(who(deploy), "Signed in as octocat");
}

/// A live server that was killed is there again, with its way to the real site.
#[track_caller]
fn restarted(home: &Home, deploy: &Deploy<'_>) {
    let server = deploy.service("github/server");
    server.kill();
    eventually("the live server is ready again", PATIENCE, || {
        let arguments = ["env", "data", deploy.id(), "github", "--selector", r#""octocat/Hello-World""#];
        let answer = home.run(&arguments);
        (answer.code == 0 && answer.stdout.contains("Hello-World")).then_some(())
    });
    assert_ne!(deploy.service("github/server").pid, server.pid);
}

/// Every website has its ring, and the live one's shows where it went.
#[track_caller]
fn captured(home: &Home, deploy: &Deploy<'_>) {
    let folder = home.path().join("pcaps");
    home.run(&["traffic", "get", deploy.id(), "--all", "--output", folder.to_str().expect("a plain path")]).ok();
    for (site, shows) in [("shop", "8000"), ("github", "3128")] {
        let files = std::fs::read_dir(&folder).expect("what was fetched").flatten().map(|entry| entry.path());
        let file = files
            .into_iter()
            .find(|path| path.to_string_lossy().contains(&format!("{site}.")))
            .expect("a file of the site");
        let packets = tcpdump(&file, &[&format!("tcp port {shows}")]).ok();
        assert!(packets.lines().count() > 4, "{site}: {packets}");
    }
}

/// The account's secrets are where they were stored, and the real site got them: nowhere else.
#[track_caller]
fn assert_secrets_are_nowhere(home: &Home, deploy: &str) {
    let folder = home.deploy_folder(deploy);
    let all = [folder.join("deploy.json"), folder.join("denied.jsonl")];
    let logs = std::fs::read_dir(folder.join("logs")).expect("logs").flatten().map(|entry| entry.path());
    for path in all.into_iter().chain(logs) {
        let text = read(&path);
        for secret in [TOKEN, SESSION] {
            assert!(!text.contains(secret), "{secret} is in {}", path.display());
        }
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
