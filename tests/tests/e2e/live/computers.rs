//! Computers beside a real site: by an allowlist, open, and without the deploy's own sites (NET-4, NET-5); and rows of the list of
//! attacks from the terminal of one that has a way out.

use agentenv_tests::{Beside, Hand, Inside, Terminal, playwright_at};

use super::{
    attacks::{
        THROUGH_A_RESET, TOOLS, all_rows_refused, assert_nothing_got_out, closed_to_everybody,
        closed_to_what_is_not_allowed, doors, names, pages,
    },
    *,
};

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

/// The real site's names, by a computer's own list: no live website brings them.
const LISTED: &str = r#"["github.com", "*.github.com", "*.githubassets.com", "*.githubusercontent.com"]"#;

#[test]
fn rows_19_to_39_42_to_44_84_and_85_from_the_terminal_of_an_allowlist_computer() {
    let home = home();
    home.put(&Bundle::new(&format!("format = 1\nkind = \"computer\"\nname = \"listed\"\nnetwork = {LISTED}\n")));
    home.put(&Bundle::new(
        "format = 1\nkind = \"multi\"\nname = \"office\"\nwebsites = [\"gist\"]\ncomputers = [\"listed\"]\n",
    ));
    let internet = Internet::start();
    let home = internet.home(home);
    let deploy = home.deploy("office");
    let terminal = Terminal::open(&deploy, "listed");
    names::row_26_a_name_that_is_rebound_is_dialled_at_the_address_that_was_checked(&terminal);
    names::row_19_a_host_that_is_not_allowed(&terminal);
    names::row_22_case_and_a_trailing_dot(&terminal);
    all_rows_refused(&terminal, &closed_to_what_is_not_allowed());
    // The X server at display 0 is the computer's own.
    all_rows_refused(&terminal, &closed_to_everybody(&deploy, &[]));
    names::rows_27_and_28_are_on_the_denied_log(&terminal);
    names::row_39_a_question_alone_goes_nowhere(&terminal);
    doors::row_44_bad_certificates_and_the_authoritys_key(&terminal);
    names::row_30_fronting_on_minted_connections(&terminal, "gist.github.com", &names::FRONTED);
    names::row_30_fronting_in_a_live_tunnel_stays_at_its_address(&terminal, &internet);
    row_42_a_reset_never_fails_open(&home, &terminal);
    names::row_19_a_host_that_is_not_allowed(&Terminal::open(&deploy, "listed"));
    deploy.close();
    assert_nothing_got_out(&internet);
}

/// Attempts until the reset takes their terminal away. What they got nobody can tell then: the internet tells what arrived.
#[track_caller]
fn row_42_a_reset_never_fails_open(home: &Home, terminal: &Terminal<'_, '_>) {
    let deploy = terminal.deploy();
    let name =
        terminal.put(&program(&format!("{TOOLS}{THROUGH_A_RESET}\nopen('trying', 'w').close()\nwhile True: once()")));
    let python = |process: &agentenv_tests::Process| process.arguments().contains(&name);
    terminal.line(&format!("python3 {name}"));
    terminal.fetch("trying");
    let before = deploy.processes().into_iter().find(python).expect("it tries");
    home.run(&["env", "reset", deploy.id()]).ok();
    assert!(!before.is_alive(), "it tried until its end");
    assert!(!deploy.processes().iter().any(python), "and nobody goes on with it");
}

#[test]
fn rows_40_41_43_91_and_92_in_a_computers_chromium() {
    pages::attacked("computer", false);
}

#[test]
fn rows_38_41_43_91_and_92_in_a_computers_chromium_without_a_proxy() {
    pages::attacked("computer", true);
}

/// Who answers at each name, and who says so: the page and the certificate's issuer.
const WHO: &str = r#"
def who(host):
    try:
        with socket.create_connection((host, 443), 10) as s:
            with ssl.create_default_context().wrap_socket(s, server_hostname=host) as tls:
                issuer = dict(pair[0] for pair in tls.getpeercert()["issuer"])["commonName"]
                tls.sendall(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                answer = b""
                while more := tls.recv(65536): answer += more
        return [answer.decode().split("\r\n\r\n", 1)[1], issuer]
    except OSError as error: return ["refused", str(error)]
show({host: who(host) for host in HOSTS})"#;
/// The same in Chromium, whose checks are on.
const WHO_IN_CHROMIUM: &str = r#"
seen = {}
for host in HOSTS:
    tab = context.new_page()
    try:
        answer = tab.goto(f"https://{host}/")
        seen[host] = [tab.content(), answer.security_details()["issuer"]]
    except Error as error: seen[host] = ["refused", str(error)]
    tab.close()
result(seen)"#;
const HOSTS: [&str; 6] =
    ["github.com", "gist.github.com", "alpha.test", "pypi.org", "example.com", "internal.github.com"];
/// Who signs for real sites.
const REAL_ISSUER: &str = "Root of the test's internet";

/// Checks page and issuer of each host; `None` is refused. A synthetic site's issuer is the deploy's own.
#[track_caller]
fn assert_seen(place: &str, seen: &Value, expected: &[Option<&str>; 6]) {
    for (host, shows) in HOSTS.iter().zip(expected) {
        let (page, issuer) = (seen[host][0].as_str().expect("a page"), seen[host][1].as_str().expect("an issuer"));
        let Some(shows) = shows else {
            assert_eq!(page, "refused", "{place}: {host}");
            continue;
        };
        assert!(page.contains(shows), "{place}: {host}: {issuer}: {page}");
        let real = !["gist at", "alpha at"].contains(shows);
        assert_eq!(issuer == REAL_ISSUER, real, "{place}: {host} is signed for by {issuer}");
    }
}

/// Two computers and two browsers of one deploy: its sites alone, its sites and a list, a list without its sites.
#[test]
fn two_computers_and_two_browsers_have_each_their_own_network() {
    let home = home();
    home.put(&PySite::new("alpha").bundle());
    for (kind, name, more) in [
        ("computer", "inner", ""),
        ("computer", "bare", "network = [\"pypi.org\"]\nroute_sites = false\n"),
        ("browser", "listed", "network = [\"example.com\"]\n"),
    ] {
        home.put(&Bundle::new(&format!("format = 1\nkind = \"{kind}\"\nname = \"{name}\"\n{more}")));
    }
    home.put(&Bundle::new(
        "format = 1\nkind = \"multi\"\nname = \"office\"\nwebsites = [\"github\", \"gist\", \"alpha\"]\n\
         computers = [\"inner\", \"bare\"]\nbrowsers = [\"lookout\", \"listed\"]\n",
    ));
    let internet = Internet::start();
    let home = internet.home(home);
    let deploy = home.deploy("office");
    let (real, gist, alpha) = (Some("Sign in to GitHub"), Some("gist at"), Some("alpha at"));
    let sites = [real, gist, alpha, None, None, None];
    // Those that may reach the least first: what the others may has not been asked for by then.
    for (name, expected, asked) in [
        ("inner", sites, [0, 0]),
        ("lookout", sites, [0, 0]),
        ("bare", [real, Some("real gist.github.com"), None, Some("real pypi.org"), None, None], [2, 0]),
        ("listed", [real, gist, alpha, None, Some("real example.com"), None], [2, 2]),
    ] {
        let computer = deploy.info.computers.iter().find(|computer| computer.name.as_str() == name);
        let place: Box<dyn Inside> = match computer {
            Some(_) => Box::new(Terminal::open(&deploy, name)),
            None => Box::new(Beside::new(&deploy, name)),
        };
        let hosts = format!("HOSTS = {HOSTS:?}\n");
        assert_seen(name, &place.python(&program(&format!("{hosts}{WHO}"))), &expected);
        let browser = deploy.info.browsers.iter().find(|browser| browser.name.as_str() == name);
        let cdp_url = &computer.or(browser).expect("it is one of them").cdp_url;
        let seen = playwright_at(&deploy, cdp_url, &format!("{hosts}{WHO_IN_CHROMIUM}"));
        assert_seen(&format!("Chromium of {name}"), &seen, &expected);
        let requests = ["pypi.org", "example.com"].map(|host| page_requests(&internet, host));
        assert_eq!(requests, asked, "{name}");
        for (host, _) in HOSTS.iter().zip(&expected).filter(|(_, shows)| shows.is_none()) {
            let denied = deploy.denied();
            let logged = denied.iter().any(|entry| entry.host == *host && entry.sandbox.as_str() == name);
            assert!(logged, "{name}: {host} is on the denied log: {denied:#?}");
        }
    }
    deploy.close();
    let sent = internet.packets(PRIVATE);
    assert!(sent.is_empty(), "{sent:#?}");
    assert_eq!(internet.trapped(), [] as [Value; 0], "connections to addresses that nobody may reach");
}

/// How often a host was asked for its page: Chromium asks for icons too.
fn page_requests(internet: &Internet, host: &str) -> usize {
    internet.requests_to(host).iter().filter(|request| request["path"] == "/").count()
}
