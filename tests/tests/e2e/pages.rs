//! What a hostile page in a real Chromium tries.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use agentenv_tests::{Deploy, Home, PySite, playwright};

use crate::{
    desk::{browser_of, desk},
    python::program,
};

/// Asks for each URL from a page; nothing may be readable but the page's own site.
#[track_caller]
pub fn unreadable(deploy: &Deploy<'_>, urls: &[String]) {
    let own = "https://alpha.test/".to_owned();
    let list = serde_json::to_string(&[urls, std::slice::from_ref(&own)].concat()).expect("JSON");
    let answers = playwright(
        deploy,
        &format!(
            r"
page.goto('https://alpha.test/')
result(page.evaluate('''async (urls) => {{
    const seen = {{}};
    for (const url of urls) {{
        try {{
            const answer = await fetch(url, {{credentials: 'include', signal: AbortSignal.timeout(5000)}});
            seen[url] = `${{answer.status}} ${{await answer.text()}}`;
        }} catch (error) {{ seen[url] = 'blocked'; }}
    }}
    return seen;
}}''', {list}))"
        ),
    );
    for (url, answer) in answers.as_object().expect("answers") {
        let readable = answer.as_str().is_some_and(|answer| answer.starts_with("200"));
        assert_eq!(readable, *url == own, "{url}: {answer}");
        assert!(readable || answer == "blocked", "{url}: {answer}");
    }
}

#[test]
fn row_17_a_page_does_not_read_another_site() {
    let home = desk();
    unreadable(&home.deploy("desk"), &["https://beta.test/".to_owned(), "http://beta.test/".to_owned()]);
}

#[test]
fn row_17_cookies_stay_with_their_site() {
    let home = desk();
    let deploy = home.deploy("desk");
    let seen = playwright(
        &deploy,
        r"
page.goto('https://alpha.test/')
page.evaluate('''() => {
    document.cookie = 'mine=1; path=/';
    document.cookie = 'wide=1; path=/; domain=test';
    document.cookie = 'other=1; path=/; domain=beta.test';
}''')
page.goto('https://beta.test/cookie')
theirs = page.inner_text('body')
page.goto('https://alpha.test/cookie')
result({'alpha': page.inner_text('body'), 'beta': theirs})",
    );
    assert!(seen["alpha"].as_str().is_some_and(|text| text.contains("mine=1")), "{seen}");
    assert!(!seen["beta"].as_str().unwrap_or_default().contains("=1"), "{seen}");
}

#[test]
fn row_40_loopback_and_link_local_go_through_the_proxy_and_are_denied() {
    let home = desk();
    loopback_is_denied(&home.deploy("desk"));
}

/// Row 40.
#[track_caller]
pub fn loopback_is_denied(deploy: &Deploy<'_>) {
    let seen = playwright(
        deploy,
        r"
seen = {}
for url in ('http://127.0.0.1:9222/json', 'http://localhost/', 'http://169.254.169.254/latest/', 'http://[::1]/'):
    try:
        response = page.goto(url)
        seen[url] = response.status if response else 'none'
    except Error as error:
        seen[url] = 'blocked'
result(seen)",
    );
    for (url, answer) in seen.as_object().expect("answers") {
        assert!(answer == "blocked" || answer == 403, "{url}: {answer}");
    }
    // Undone, Chromium's implicit bypass would connect by itself, and the proxy would see nothing.
    let denied = deploy.denied();
    for host in ["127.0.0.1", "localhost", "169.254.169.254"] {
        assert!(denied.iter().any(|entry| entry.host == host), "{host} reached the proxy: {denied:?}");
    }
}

#[test]
fn row_41_webrtc_finds_no_way_out() {
    let home = desk();
    webrtc_finds_no_way_out(&home.deploy("desk"));
}

/// Row 41.
#[track_caller]
pub fn webrtc_finds_no_way_out(deploy: &Deploy<'_>) {
    let candidates = playwright(
        deploy,
        r"
page.goto('https://alpha.test/')
result(page.evaluate('''async () => {
    const peer = new RTCPeerConnection({iceServers: [{urls: 'stun:192.0.2.1:3478'}, {urls: 'stun:stun.example.com:19302'}]});
    peer.createDataChannel('x');
    const seen = [];
    peer.onicecandidate = (event) => { if (event.candidate) seen.push(event.candidate.candidate); };
    await peer.setLocalDescription(await peer.createOffer());
    await new Promise((done) => { peer.onicegatheringstatechange = () => peer.iceGatheringState === 'complete' && done(); setTimeout(done, 8000); });
    return seen;
}'''))",
    );
    for candidate in candidates.as_array().expect("candidates") {
        let text = candidate.as_str().unwrap_or_default();
        assert!(!text.contains("typ srflx") && !text.contains("typ relay"), "{text}");
        assert!(!text.to_ascii_lowercase().contains(" udp "), "UDP is off: {text}");
    }
}

/// Where something listens in a sandbox.
const LISTENING: &str = r#"
listening = []
for line in open("/proc/net/tcp").read().splitlines()[1:]:
    fields = line.split()
    if fields[3] == "0A":
        address, port = fields[1].split(":")
        listening.append([socket.inet_ntoa(struct.pack("<I", int(address, 16))), int(port, 16)])
show(listening)"#;

/// URLs of all that listens in a sandbox, and of what is never there.
#[track_caller]
pub fn urls_inside(deploy: &Deploy<'_>, sandbox: &str) -> Vec<String> {
    let ports = deploy.python(sandbox, &program(LISTENING));
    let mut urls: Vec<String> = Vec::new();
    for place in ports.as_array().expect("listening sockets") {
        let (address, port) = (place[0].as_str().unwrap_or_default(), place[1].as_u64().unwrap_or_default());
        let address = if address == "0.0.0.0" { "127.0.0.1" } else { address };
        urls.push(format!("http://{address}:{port}/json/version"));
        urls.push(format!("https://{address}:{port}/"));
    }
    assert!(urls.len() >= 4, "DNS and the forward port listen: {ports}");
    urls.extend(["http://10.0.0.1/", "http://localhost:9222/json", "http://192.168.0.1/"].map(str::to_owned));
    urls
}

#[test]
fn row_92_a_page_reaches_neither_devtools_nor_dns_nor_the_forward_port() {
    let home = desk();
    let deploy = home.deploy("desk");
    unreadable(&deploy, &urls_inside(&deploy, browser_of(&deploy)));
}

/// Answers every page that asks, on loopback in the browser's sandbox, as what listens there would not.
const WELCOMING: &str = r#"
import http.server
class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Access-Control-Allow-Private-Network", "true")
        self.end_headers()
        self.wfile.write(b"welcome")
    do_OPTIONS = do_GET
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 7777), Server)
print("listens", flush=True)
server.serve_forever()"#;

#[test]
fn row_92_no_page_reaches_loopback_without_the_forward_port_either() {
    let home = desk().with("AGENTENV_TEST_BROWSER_NO_PROXY", "1");
    let deploy = home.deploy("desk");
    let mut server = home
        .command(["env", "exec", deploy.id(), browser_of(&deploy), "--", "/usr/bin/python3", "-c", WELCOMING])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("exec starts");
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it says that it listens");
    let own = deploy.exec(browser_of(&deploy), &["curl", "--silent", "--noproxy", "*", "http://127.0.0.1:7777/"]);
    assert_eq!(own.ok(), "welcome", "there is something to reach");
    let seen = playwright(
        &deploy,
        r"
page.goto('https://alpha.test/')
result(page.evaluate('''async () => {
    try { return await (await fetch('http://127.0.0.1:7777/', {signal: AbortSignal.timeout(5000)})).text(); }
    catch (error) { return 'blocked'; }
}'''))",
    );
    assert_eq!(seen, "blocked");
    server.kill().expect("a child can be killed");
    server.wait().expect("a child");
}

#[test]
fn row_96_a_page_never_reaches_the_data_plane() {
    let home = Home::new();
    home.put(&crate::desk::browser_env());
    home.put(&PySite::new("beta").bundle());
    home.put(&agentenv_tests::Bundle::multi("desk", &["shop", "tracker", "beta"], Some("lookout")));
    let deploy = home.deploy("desk");
    let answers = playwright(
        &deploy,
        r"
seen = {}
for home in ('https://shop.test/', 'https://tracker.test/issues/'):
    page.goto(home)
    seen[home] = page.evaluate('''async () => {
        const seen = {};
        const ask = async (method, url, headers) => {
            const options = {method, headers: {'Content-Type': 'application/json', ...headers}};
            if (method !== 'GET') options.body = '{}';
            try { seen[method + ' ' + url + Object.keys(headers)] = (await fetch(url, options)).status; }
            catch (error) { seen[method + ' ' + url] = 'blocked'; }
        };
        for (const operation of ['data/get', 'data/reset', 'data/load', 'session']) await ask('POST', '/api/' + operation, {});
        await ask('GET', '/api/ready', {});
        await ask('GET', '/api/session', {});
        await ask('POST', '//api/data/reset', {});
        await ask('POST', '/api/data/reset', {'Agentenv-Site-Key': 'guess'});
        await ask('POST', '/api/data/reset', {'Agentenv-Site-Key': ''});
        await ask('POST', 'https://beta.test/api/data/reset', {});
        return seen;
    }''')
result(seen)",
    );
    for (home, answers) in answers.as_object().expect("two sites") {
        for (asked, answer) in answers.as_object().expect("answers") {
            let refused =
                answer == 404 || answer == "blocked" || (asked.starts_with("GET /api/session") && answer != 200);
            assert!(refused, "{home}: {asked}: {answer}");
        }
    }
}
