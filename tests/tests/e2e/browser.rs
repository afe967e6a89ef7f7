//! What a page sees: real Chromium, driven over CDP.

use agentenv_protocol::ExitCode;
use agentenv_tests::{Home, PySite, playwright};
use serde_json::json;

use crate::{
    desk::{browser_of, desk, desk_of},
    python::program,
};

#[test]
fn sites_answer_at_their_own_names_on_the_standard_ports_with_certificate_checks_on() {
    let home = desk();
    let deploy = home.deploy("desk");
    let seen = playwright(
        &deploy,
        r"
seen = {}
for url in ('https://alpha.test/', 'https://beta.test/', 'http://alpha.test/'):
    response = page.goto(url)
    security = response.security_details() or {}
    seen[url] = [response.status, page.inner_text('h1'), page.url, security.get('protocol', 'none')[:3]]
result(seen)",
    );
    for (url, site, protocol) in [
        ("https://alpha.test/", "alpha", "TLS"),
        ("https://beta.test/", "beta", "TLS"),
        ("http://alpha.test/", "alpha", "non"),
    ] {
        let [status, heading, at, security] = [0, 1, 2, 3].map(|index| &seen[url][index]);
        assert_eq!((status, heading), (&json!(200), &json!(format!("{site} at {site}.test"))), "{seen}");
        assert_eq!((at, security), (&json!(url), &json!(protocol)), "{seen}");
    }
}

#[test]
fn certificate_checks_are_on() {
    // A name that the deploy's authority never signed: Chromium must refuse what curl with no bundle refuses too.
    let home = desk();
    let deploy = home.deploy("desk");
    let curl = |more: &[&str]| {
        let mut command = vec!["curl", "--silent", "--show-error", "--max-time", "10", "--noproxy", "*"];
        command.extend(more);
        deploy.exec(browser_of(&deploy), &command)
    };
    curl(&["https://alpha.test/"]).ok();
    let empty = curl(&["--cacert", "/etc/hostname", "https://alpha.test/"]);
    assert_ne!(empty.code, 0, "with no authority nothing is trusted: {empty:?}");
    let pinned = curl(&["--resolve", "wrong.test:443:198.18.0.1", "https://wrong.test/"]);
    assert_ne!(pinned.code, 0, "a name that isn't the address's: {pinned:?}");
    let processes = deploy.processes();
    for process in processes {
        let arguments = process.arguments();
        for switch in ["--ignore-certificate-errors", "--allow-insecure", "--no-sandbox", "--disable-web-security"] {
            assert!(!arguments.contains(switch), "{switch} in {arguments}");
        }
    }
}

#[test]
fn chromium_refuses_a_certificate_of_another_authority() {
    let home = desk();
    let deploy = home.deploy("desk");
    let answer = deploy.python(
        browser_of(&deploy),
        &program(
            r#"
import subprocess, threading
subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "/tmp/key.pem", "-out", "/tmp/cert.pem"],
               env={**os.environ, "OPENSSL_CONF": "/dev/null"}, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tmp/cert.pem", "/tmp/key.pem")
listener = socket.create_server(("127.0.0.1", 8443))
def serve():
    while True:
        try:
            with context.wrap_socket(listener.accept()[0], server_side=True) as tls:
                tls.recv(4096)
                tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nanother's CA")
        except OSError: pass
threading.Thread(target=serve, daemon=True).start()
def open_page(url):
    return subprocess.run(["/usr/lib/chromium/chromium", "--headless=new", "--no-proxy-server", "--user-data-dir=/tmp/checks",
        "--no-first-run", "--disable-gpu", "--enable-logging=stderr", "--dump-dom", url], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True).stdout
show({"other": open_page("https://127.0.0.1:8443/"), "ours": open_page("https://alpha.test/")})"#,
        ),
    );
    let page = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
    assert!(page("ours").contains("alpha at alpha.test"), "{answer}");
    assert!(!page("other").contains("another's CA"), "{answer}");
    // ERR_CERT_AUTHORITY_INVALID, as Chromium logs it.
    assert!(page("other").contains("net_error -202"), "{answer}");
}

#[test]
fn http2_and_http1_for_programs_without_a_proxy() {
    let home = desk();
    let deploy = home.deploy("desk");
    for (flag, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let command = [
            "curl",
            "--silent",
            "--show-error",
            "--noproxy",
            "*",
            flag,
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_version} %{response_code} %{ssl_verify_result}",
            "https://alpha.test/",
        ];
        assert_eq!(deploy.exec(browser_of(&deploy), &command).ok(), format!("{version} 200 0"));
    }
    let plain = ["curl", "--silent", "--show-error", "--noproxy", "*", "http://alpha.test/"];
    assert!(deploy.exec(browser_of(&deploy), &plain).ok().contains("alpha at alpha.test"));
}

#[test]
fn http2_in_the_browser() {
    let home = desk();
    let deploy = home.deploy("desk");
    let protocol = playwright(
        &deploy,
        "page.goto('https://alpha.test/')\nresult(page.evaluate(\"performance.getEntriesByType('navigation')[0].nextHopProtocol\"))",
    );
    assert_eq!(protocol, json!("h2"));
}

#[test]
fn websockets_and_server_sent_events_in_the_browser() {
    let home = Home::new();
    home.put(&crate::desk::browser_env());
    home.put(&agentenv_tests::Bundle::multi("echo-desk", &["echo"], Some("lookout")));
    let deploy = home.deploy("echo-desk");
    let answer = playwright(
        &deploy,
        r"
page.goto('https://echo.test/')
result(page.evaluate('''async () => {
    const socket = new WebSocket('wss://echo.test/ws');
    const echoed = await new Promise((done, failed) => {
        socket.onopen = () => socket.send('over the socket');
        socket.onmessage = (event) => done(event.data);
        socket.onerror = () => failed(new Error('the socket failed'));
    });
    const binary = await new Promise((done) => {
        socket.binaryType = 'arraybuffer';
        socket.onmessage = (event) => done(event.data.byteLength);
        socket.send(new Uint8Array(70000));
    });
    const events = new EventSource('/events');
    const seen = [];
    await new Promise((done, failed) => {
        events.onmessage = (event) => { seen.push(event.data); if (seen.length === 3) done(); };
        events.onerror = () => failed(new Error('the events failed'));
    });
    events.close();
    return {echoed, binary, seen: seen.length};
}'''))",
    );
    assert_eq!(answer, json!({"echoed": "over the socket", "binary": 70000, "seen": 3}));
}

#[test]
fn the_browser_believes_that_it_is_online_with_time_zone_language_and_fonts() {
    let home = desk();
    let deploy = home.deploy("desk");
    let seen = playwright(
        &deploy,
        r"
page.goto('https://alpha.test/')
result(page.evaluate('''() => {
    const width = (font, text) => {
        const context = document.createElement('canvas').getContext('2d');
        context.font = '40px ' + font;
        return context.measureText(text).width;
    };
    return {
        online: navigator.onLine, language: navigator.language, zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
        emoji: width('sans-serif', '\\u{1F600}'), chinese: width('sans-serif', '\u6c34'), latin: width('sans-serif', 'W'),
    };
}'''))",
    );
    assert_eq!(seen["online"], json!(true), "{seen}");
    assert!(seen["language"].as_str().is_some_and(|language| !language.is_empty()), "{seen}");
    assert!(seen["zone"].as_str().is_some_and(|zone| !zone.is_empty()), "{seen}");
    for glyph in ["emoji", "chinese", "latin"] {
        assert!(seen[glyph].as_f64().unwrap_or_default() > 10.0, "{glyph}: {seen}");
    }
}

#[test]
fn start_tabs_are_open_and_loaded_when_the_deploy_says_ready() {
    let home = desk_of(&[PySite::new("alpha"), PySite::new("beta")]);
    home.put(&agentenv_tests::Bundle::new(
        "format = 1\nkind = \"browser\"\nname = \"tabs\"\nstart_tabs = [\"https://alpha.test/\", \"https://beta.test/\"]\n",
    ));
    home.put(&agentenv_tests::Bundle::multi("desk", &["alpha", "beta"], Some("tabs")));
    let deploy = home.deploy("desk");
    let titles = playwright(
        &deploy,
        "page.close()\nresult(sorted([tab.url, tab.title(), tab.evaluate('document.readyState')] for tab in context.pages))",
    );
    assert_eq!(
        titles,
        json!([["https://alpha.test/", "alpha", "complete"], ["https://beta.test/", "beta", "complete"]])
    );
}

#[test]
fn a_cdp_client_learns_that_the_browser_was_reset() {
    let home = desk();
    let deploy = home.deploy("desk");
    let program = agentenv_tests::program();
    let seen = playwright(
        &deploy,
        &format!(
            r"
import subprocess, threading
gone = threading.Event()
browser.on('disconnected', lambda *_: gone.set())
page.goto('https://alpha.test/')
context.add_cookies([{{'name': 'old', 'value': '1', 'url': 'https://alpha.test/'}}])
reset = subprocess.run([{program:?}, 'env', 'reset', {id:?}], env={{**os.environ, 'AGENTENV_HOME': {home:?}}}, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
try: page.title()
except Error: pass
again = playwright.chromium.connect_over_cdp(os.environ['CDP_URL'])
fresh = again.contexts[0].new_page()
fresh.goto('https://alpha.test/cookie')
result({{'reset': reset.returncode, 'said': reset.stdout, 'gone': not browser.is_connected(), 'cookies': fresh.inner_text('body')}})",
            id = deploy.id(),
            home = home.path(),
        ),
    );
    assert_eq!((&seen["reset"], &seen["gone"]), (&json!(0), &json!(true)), "{seen}");
    assert!(!seen["cookies"].as_str().unwrap_or_default().contains("old"), "the same URL, a new browser: {seen}");
}

#[test]
fn a_site_signs_nobody_in_at_another() {
    let session = r#"
class Site(Site):
    def do_POST(self):
        if self.path != "/api/session": return super().do_POST()
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        cookie = {"name": "user", "value": "chosen by alpha", "domain": "beta.test", "path": "/", "expires": -1,
                  "httpOnly": True, "secure": False, "sameSite": "Lax"}
        self.answer(200, {"cookies": [cookie], "origins": []})
"#;
    let home = desk_of(&[PySite::new("alpha").before(session), PySite::new("beta")]);
    let deploy = home.deploy("desk");
    let refused = home.run(&["env", "sign-in", deploy.id(), "alpha=ada"]);
    refused.fails(ExitCode::Infrastructure, &["alpha", "beta.test"]);
    assert_eq!(playwright(&deploy, "result(context.cookies())"), json!([]));
}
