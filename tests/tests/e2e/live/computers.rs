//! Computers beside a real site: by an allowlist, open, and without the deploy's own sites (NET-4, NET-5).

use agentenv_tests::Hand;

use super::*;

/// What no network of a computer leads to.
const PRIVATE: &str = "dst net 10.0.0.0/8 or dst net 192.168.0.0/16 or dst net 172.16.0.0/12 or (udp and not port 53)";

#[test]
fn computers_reach_what_their_networks_say_and_synthetic_names_win() {
    let home = home();
    for (name, network, more) in [
        ("listed", "[\"pypi.org\"]", "start_tabs = [\"https://github.com/\"]\n"),
        ("wide", "\"open\"", ""),
        ("bare", "\"sites\"", "route_sites = false\n"),
    ] {
        let toml = format!("format = 1\nkind = \"computer\"\nname = \"{name}\"\nnetwork = {network}\n{more}");
        home.put(&Bundle::new(&toml));
    }
    home.put(&Bundle::new(
        "format = 1\nkind = \"multi\"\nname = \"office\"\nwebsites = [\"github\", \"gist\"]\n\
         computers = [\"listed\", \"wide\", \"bare\"]\n",
    ));
    let internet = Internet::start();
    let home = internet.home(home);
    let deploy = home.deploy("office");
    let (real, synthetic) = ("Sign in to GitHub", "gist at gist.github.com");
    for (computer, host, shows) in [
        ("listed", "github.com", Some(real)),
        ("listed", "gist.github.com", Some(synthetic)),
        ("listed", "pypi.org", Some("")),
        ("listed", "example.com", None),
        ("listed", "internal.github.com", None),
        ("wide", "github.com", Some(real)),
        ("wide", "gist.github.com", Some(synthetic)),
        ("wide", "example.com", Some("")),
        ("wide", "internal.github.com", None),
        ("bare", "github.com", Some(real)),
        ("bare", "gist.github.com", Some("real gist.github.com")),
        ("bare", "pypi.org", None),
    ] {
        let page = deploy.exec(computer, &["curl", "-sS", "--max-time", "20", &format!("https://{host}/")]);
        match shows {
            Some(text) => {
                let page = page.ok();
                assert!(page.contains(text), "{computer} {host}: {page}");
            }
            None => assert_ne!(page.code, 0, "{computer} {host}: {}", page.stdout),
        }
    }
    let signed = home.run(&["env", "sign-in", deploy.id(), "github=octocat", "--target", "listed", "--json"]).json();
    assert_eq!(
        signed["signed_in"],
        json!([{ "website": "github", "user": "octocat", "browser": "listed", "verified": true }])
    );
    let listed = deploy.info.computers.iter().find(|computer| computer.name.as_str() == "listed").expect("it is there");
    let hand = Hand::new(&listed.cdp_url);
    hand.changing([0, 90, 1200, 600], 50, |hand| hand.key("F5"));
    hand.look(None).keep("computer-live");
    deploy.close();
    let sent = internet.packets(PRIVATE);
    assert!(sent.is_empty(), "{sent:#?}");
    assert_eq!(internet.trapped(), [] as [Value; 0], "connections to addresses that nobody may reach");
}
