//! What a browser and a live site's server reach, and what they don't.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{Arc, Mutex},
    thread,
};

use agentenv_tests::{Processes, raw_http, read_until};
use rustix::process::Signal;

use super::*;
use crate::egress::ask_proxy;

/// Asks real sites as programs without a proxy setting do: by name, at the placed sockets.
const DIRECT: &str = r#"
def https(host, sni=None, path="/"):
    with socket.create_connection((host, 443), 10) as s:
        with ssl.create_default_context().wrap_socket(s, server_hostname=sni or host) as tls:
            tls.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while more := tls.recv(65536): answer += more
    return answer.decode().split("\r\n", 1)[0].split(" ", 1)[1] + " " + answer.decode().split("\r\n\r\n", 1)[1][:200]
def tried(work):
    try: return work()
    except (OSError, ssl.SSLError) as error: return "refused: " + str(error)
"#;

fn direct(deploy: &Deploy<'_>, sandbox: &str, body: &str) -> Value {
    deploy.python(sandbox, &program(&format!("{DIRECT}{body}")))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[test]
fn rows_19_to_34_of_a_browser_that_reaches_real_sites() {
    let home = home();
    office(&home, &["github", "gist"], "lookout");
    let internet = Internet::start();
    let home = internet.home(home);
    let deploy = home.deploy("office");
    let answers = ask_proxy(
        &deploy,
        r#"
def tls_through(target, sni):
    with socket.create_connection(PROXY, 5) as s:
        s.settimeout(10)
        s.sendall(f"CONNECT {target}:443 HTTP/1.1\r\nHost: {target}:443\r\n\r\n".encode())
        if b" 200 " not in s.recv(4096): return "no tunnel"
        context = ssl.create_default_context()
        try:
            with context.wrap_socket(s, server_hostname=sni) as tls: return "shook hands"
        except (OSError, ssl.SSLError): return "closed"
show({
    "live": connect(b"github.com:443"),
    "case": connect(b"API.GitHub.com.:443"),
    "internal": connect(b"internal.github.com:443"),
    "internal plain": absolute(b"internal.github.com"),
    "rebinding": [connect(b"rebind.github.com:443")[:12] for _ in range(3)],
    "no such name": connect(b"nobody.github.com:443"),
    "address": connect(b"203.0.113.10:443"),
    "beside": connect(b"xgithub.com:443"),
    "port": connect(b"github.com:22"),
    "not allowed": connect(b"example.com:443"),
    "plain": absolute(b"github.com"),
    "its own": tls_through("github.com", "github.com"),
    "fronted": tls_through("github.com", "example.com"),
})"#,
    );
    for (attempt, begins) in [
        ("live", "HTTP/1.1 200"),
        ("case", "HTTP/1.1 200"),
        ("internal", "HTTP/1.1 403"),
        ("internal plain", "HTTP/1.1 403"),
        ("no such name", "HTTP/1.1 502"),
        ("address", "HTTP/1.1 403"),
        ("beside", "HTTP/1.1 403"),
        ("port", "HTTP/1.1 403"),
        ("not allowed", "HTTP/1.1 403"),
        ("plain", "HTTP/1.1 301"),
        ("its own", "shook hands"),
        ("fronted", "closed"),
    ] {
        assert!(text(&answers[attempt]).starts_with(begins), "{attempt}: {answers:#}");
    }
    assert!(text(&answers["internal"]).contains("not public"), "{answers:#}");
    let rebinding: Vec<&str> = answers["rebinding"].as_array().expect("three").iter().map(text).collect();
    assert_eq!(rebinding[0], "HTTP/1.1 200", "the first answer is public: {answers:#}");

    let answers = direct(
        &deploy,
        browser_of(&deploy),
        r#"show({
    "address": socket.getaddrinfo("api.github.com", 443)[0][4][0],
    "live": tried(lambda: https("api.github.com", path="/user")),
    "synthetic": tried(lambda: https("gist.github.com")),
    "internal": tried(lambda: https("internal.github.com")),
    "fronted": tried(lambda: https("github.com", sni="api.github.com")),
    "not allowed": tried(lambda: https("example.com")),
    "by address": tried(lambda: tcp("203.0.113.10", 443)),
})"#,
    );
    assert!(text(&answers["address"]).starts_with("198.18."), "{answers:#}");
    assert!(text(&answers["live"]).contains("Bad credentials"), "{answers:#}");
    assert!(text(&answers["synthetic"]).contains("gist at gist.github.com"), "{answers:#}");
    for attempt in ["internal", "fronted", "not allowed", "by address"] {
        assert!(text(&answers[attempt]).starts_with("refused"), "{attempt}: {answers:#}");
    }
    let denied = deploy.denied();
    for (host, reason) in [
        ("internal.github.com", "not public"),
        ("example.com", "the TLS handshake named another host than `github.com`"),
        ("203.0.113.10", "an address"),
        ("xgithub.com", "no website"),
    ] {
        let logged = denied.iter().any(|entry| entry.host == host && entry.reason.contains(reason));
        assert!(logged, "{host}: {reason}: {denied:#?}");
    }
    deploy.close();
    assert_only_the_reach(&internet);
}

#[test]
fn a_live_sites_server_reaches_the_real_hosts_and_other_pods_nothing() {
    let home = home();
    office(&home, &["shop", "github", "gist"], "lookout");
    let internet = Internet::start();
    let home = internet.home(home);
    let deploy = home.deploy("office");
    let body = r#"show({
    "own": tried(lambda: https("github.com")),
    "gist": tried(lambda: https("gist.github.com")),
    "shop": tried(lambda: https("shop.test")),
    "not allowed": tried(lambda: https("example.com")),
    "internal": tried(lambda: https("internal.github.com")),
    "by address": tried(lambda: tcp("203.0.113.10", 443)),
    "proxies": sorted(name for name in os.environ if "proxy" in name.lower()),
})"#;
    let server = direct(&deploy, "github/server", body);
    assert!(text(&server["own"]).contains("GitHub"), "{server:#}");
    assert!(text(&server["gist"]).contains("real gist.github.com"), "for it those names are the real ones: {server:#}");
    for attempt in ["shop", "not allowed", "internal", "by address"] {
        assert!(text(&server[attempt]).starts_with("refused"), "{attempt}: {server:#}");
    }
    assert_eq!(server["proxies"].as_array().map(Vec::len), Some(6), "{server:#}");
    let logged = deploy.denied();
    for host in ["shop.test", "example.com", "internal.github.com"] {
        let by_server = |entry: &agentenv_protocol::control::DeniedEntry| {
            entry.host == host && entry.sandbox.as_str() == "github/server"
        };
        assert!(logged.iter().any(by_server), "{host}: {logged:#?}");
    }
    let other = direct(&deploy, "gist/server", body);
    for attempt in ["own", "gist", "shop", "not allowed", "internal", "by address"] {
        assert!(text(&other[attempt]).starts_with("refused"), "{attempt}: {other:#}");
    }
    assert_eq!(other["proxies"], json!([]), "{other:#}");
    let root = deploy.exec("github/server", &["curl", "-sS", "https://github.com/"]).ok();
    assert!(root.contains("Sign in to GitHub"), "{root}");
    deploy.close();
    assert_only_the_reach(&internet);
}

#[test]
fn row_91_a_browser_without_a_proxy_meets_the_synthetic_site_within_the_real_ones_names() {
    let home = home();
    office(&home, &["github", "gist"], "lookout");
    let internet = Internet::start();
    let home = internet.home(home).with("AGENTENV_TEST_BROWSER_NO_PROXY", "1");
    let deploy = home.deploy("office");
    assert!(deploy.processes().iter().any(|process| process.arguments().contains("--no-proxy-server")));
    let seen = playwright(
        &deploy,
        r#"
seen = []
for host in ("github.com", "gist.github.com", "www.github.com", "gist.github.com", "example.com"):
    page = context.new_page()
    try:
        page.goto(f"https://{host}/")
        seen.append(page.inner_text("h1"))
    except Error as error: seen.append("refused" if "ERR_NAME_NOT_RESOLVED" in str(error) else str(error))
result(seen)"#,
    );
    let (real, synthetic) = ("Sign in to GitHub", "gist at gist.github.com");
    assert_eq!(seen, json!([real, synthetic, real, synthetic, "refused"]));
    assert!(internet.requests_to("gist.github.com").is_empty(), "the real one was never asked");
    deploy.close();
    assert_only_the_reach(&internet);
}

#[test]
fn a_deploy_whose_sites_are_all_live_has_its_gateway_and_its_forward_port() {
    let home = home();
    office(&home, &["github"], "lookout");
    let internet = Internet::start();
    let home = internet.home(home);
    let deploy = home.deploy("office");
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        raw_http(&deploy.info.gateway_url, request.as_bytes()).status
    };
    assert_eq!(
        (get("/.well-known/agent-card.json"), get("/svc/github/api/ready"), get("/website/github/")),
        (200, 401, 404)
    );
    let data = deploy.operation("github", "data/get", &json!({}));
    assert_eq!(data, json!({ "data": { "loaded": [] } }));
    assert_eq!(who(&deploy), "Sign in to GitHub");
    internet.set_mode("captcha");
    for arguments in [
        &["env", "sign-in", deploy.id(), "github=octocat"][..],
        &["env", "data", deploy.id(), "github", "--selector", r#""octocat/Hello-World""#],
    ] {
        home.run(arguments).fails(ExitCode::Failed, &["github", "a page for people instead of data"]);
    }
    let shown = home.run(&["env", "show", "office"]).ok();
    for line in ["github.com", "*.githubassets.com"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    deploy.close();
    assert_only_the_reach(&internet);
}

#[test]
fn a_browser_has_what_its_network_says() {
    let home = home();
    for (name, network) in [("listed", "[\"pypi.org\"]"), ("free", "\"open\"")] {
        home.put(&Bundle::new(&format!("format = 1\nkind = \"browser\"\nname = \"{name}\"\nnetwork = {network}\n")));
    }
    home.put(&Bundle::new(
        "format = 1\nkind = \"multi\"\nname = \"office\"\nwebsites = [\"gist\", \"github\"]\nbrowsers = [\"lookout\", \"listed\", \"free\"]\n",
    ));
    let internet = Internet::start();
    let home = internet.home(home);
    let deploy = home.deploy("office");
    let body = r#"show({host: tried(lambda: https(host)) for host in
        ("github.com", "gist.github.com", "pypi.org", "example.com", "internal.github.com")})"#;
    for (browser, reached) in [
        ("lookout", [true, true, false, false, false]),
        ("listed", [true, true, true, false, false]),
        ("free", [true, true, true, true, false]),
    ] {
        let answers = direct(&deploy, browser, body);
        let hosts = ["github.com", "gist.github.com", "pypi.org", "example.com", "internal.github.com"];
        let found = hosts.map(|host| !text(&answers[host]).starts_with("refused"));
        assert_eq!(found, reached, "{browser}: {answers:#}");
        assert!(text(&answers["gist.github.com"]).contains("gist at"), "{browser}: {answers:#}");
    }
    deploy.close();
    assert_eq!(internet.trapped(), [] as [Value; 0]);
}

/// The probe's own names are nobody's: a site that allows them lets its pod and every browser out to them.
#[test]
fn a_deploy_whose_live_hosts_let_something_out_is_refused() {
    let home = home();
    home.put(&PySite::new("leaky").at(&["leaky.test"]).live(&["*.agent-env-probe.invalid"]).bundle());
    office(&home, &["gist", "leaky"], "lookout");
    let internet = Internet::start();
    let home = internet.home(home);
    home.run(&["env", "deploy", "leaky"]).fails(
        ExitCode::Infrastructure,
        &["leaky/server", "is not sealed", "the name name.agent-env-probe.invalid resolves", "the forward port took"],
    );
    home.run(&["env", "deploy", "office"]).fails(ExitCode::Infrastructure, &["is not sealed"]);
    home.assert_idle();
}

/// A cable that somebody puts into a browser's namespace, to the internet of the test: a real way out.
#[test]
fn a_browser_with_a_cable_to_the_real_network_is_refused() {
    let home = home();
    let waits = "import signal\nREADY = (503, 'waiting')\ndef go(*_):\n    global READY\n    READY = (200, '')\nsignal.signal(signal.SIGUSR1, go)\n";
    home.put(&PySite::new("slow").before(waits).bundle());
    office(&home, &["slow"], "lookout");
    let internet = Internet::start();
    let home = internet.home(home);
    let deploying = thread::scope(|scope| {
        let deploying = scope.spawn(|| home.run(&["env", "deploy", "office"]));
        let found = |mark: &str| {
            let within = |process: &agentenv_tests::Process| process.arguments().contains(mark);
            let all = Processes::all();
            let mine = all.of_home(home.path(), &agentenv_tests::program());
            let tree: Vec<_> = mine.iter().flat_map(|process| all.tree(process.pid)).collect();
            tree.into_iter().find(within)
        };
        let site = eventually("the site runs", PATIENCE, || found("-u site.py"));
        let browser = eventually("the browser runs", PATIENCE, || found("--remote-debugging-port"));
        let ip = |arguments: &[&str]| {
            run_within(Duration::from_secs(20), Command::new("ip").args(arguments), None).ok();
        };
        let inside = |arguments: &[&str]| {
            let pid = browser.pid.to_string();
            let mut command = Command::new("nsenter");
            command.args(["--net", "--target", &pid, "ip"]).args(arguments);
            run_within(Duration::from_secs(20), &mut command, None).ok();
        };
        ip(&["link", "add", "cable", "type", "veth", "peer", "name", "plug"]);
        ip(&["link", "set", "plug", "netns", &browser.pid.to_string()]);
        ip(&["addr", "add", "192.0.2.1/24", "dev", "cable"]);
        ip(&["link", "set", "cable", "up"]);
        inside(&["addr", "add", "192.0.2.2/24", "dev", "plug"]);
        inside(&["link", "set", "plug", "up"]);
        inside(&["route", "add", "default", "via", "192.0.2.1"]);
        site.signal(Signal::USR1);
        deploying.join().expect("the command was run")
    });
    deploying.fails(ExitCode::Infrastructure, &["lookout", "is not sealed", "a datagram to 203.0.113.1:53 was sent"]);
    home.assert_idle();
    drop(internet);
}

/// A proxy that takes CONNECT and resolves names itself, as a company's does; keeps what it was asked.
fn company_proxy() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heads = Arc::clone(&asked);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let heads = Arc::clone(&heads);
            thread::spawn(move || proxied(client, &heads));
        }
    });
    (address, asked)
}

fn proxied(mut client: TcpStream, heads: &Mutex<Vec<String>>) -> Option<()> {
    let head = read_until(&mut client, b"\r\n\r\n").ok()?;
    let address = if head.starts_with("CONNECT api.github.com:443") { "203.0.113.13:443" } else { "203.0.113.10:443" };
    heads.lock().expect("no test panics with it").push(head);
    let mut real = TcpStream::connect(address).ok()?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let (mut from, mut to) = (client.try_clone().ok()?, real.try_clone().ok()?);
    thread::spawn(move || std::io::copy(&mut from, &mut to));
    std::io::copy(&mut real, &mut client).ok()?;
    Some(())
}

#[test]
fn row_58_an_upstream_proxy_is_gone_through_and_its_password_is_nowhere() {
    const PASSWORD: &str = "canary-8c1f0b77";
    let home = home();
    office(&home, &["github"], "lookout");
    let internet = Internet::start();
    let (proxy, asked) = company_proxy();
    let home = internet.home(home).with("AGENTENV_UPSTREAM_PROXY", &format!("http://ada:{PASSWORD}@{proxy}"));
    let deploy = home.deploy("office");
    assert_eq!(who(&deploy), "Sign in to GitHub");
    let heads = asked.lock().expect("the proxy has not panicked").clone();
    assert!(heads.iter().any(|head| head.starts_with("CONNECT api.github.com:443")), "{heads:?}");
    assert!(
        heads
            .iter()
            .all(|head| head.contains("roxy-authorization: Basic ") || head.contains("roxy-Authorization: Basic ")),
        "{heads:?}"
    );
    assert!(internet.names_asked().is_empty(), "the proxy resolves: {:?}", internet.names_asked());
    for process in deploy.processes() {
        let environment = process.environment().unwrap_or_default();
        assert!(!process.arguments().contains(PASSWORD) && !environment.contains(PASSWORD), "{process:?}");
    }
    assert!(!serde_json::to_string(&deploy.info).expect("JSON").contains(PASSWORD));
    let (id, folder) = (deploy.id().to_owned(), deploy.folder());
    deploy.close();
    let grep = run_within(Duration::from_secs(30), Command::new("grep").args(["-rl", PASSWORD]).arg(home.path()), None);
    assert_eq!(grep.stdout, "", "{id} in {}", folder.display());
    assert_only_the_reach(&internet);
}
