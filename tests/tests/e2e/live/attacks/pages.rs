//! What pages of a live site try in a real Chromium (rows 38, 40, 41, 43, 91 and 92).

use super::*;

/// One deploy for all of it, of a browser or a computer, with the forward port or, as a browser that has none, by the placed sockets.
pub fn attacked(kind: &str, without_proxy: bool) {
    let home = home();
    home.put(&Bundle::new(&format!("format = 1\nkind = \"{kind}\"\nname = \"attacked\"\n")));
    home.put(&Bundle::new(&format!(
        "format = 1\nkind = \"multi\"\nname = \"office\"\nwebsites = [\"github\", \"gist\"]\n{kind}s = [\"attacked\"]\n"
    )));
    let internet = Internet::start();
    let home = internet.home(home);
    let home = if without_proxy { home.with("AGENTENV_TEST_BROWSER_NO_PROXY", "1") } else { home };
    let deploy = home.deploy("office");
    let arguments = |mark: &str| deploy.processes().iter().any(|process| process.arguments().contains(mark));
    assert_eq!(arguments("--no-proxy-server"), without_proxy);
    rows_38_and_91_a_connection_to_a_live_host_is_used_for_no_other(&deploy, &internet);
    rows_40_and_43_redirects_and_links_to_what_is_inside(&deploy, without_proxy);
    row_41_webrtc_sends_nothing(&deploy);
    row_92_a_live_page_probes_what_is_beside_it(&deploy);
    deploy.close();
    assert_nothing_got_out(&internet);
}

/// The real one's certificate covers the synthetic name, and it says that it has HTTP/3 and speaks for it.
#[track_caller]
fn rows_38_and_91_a_connection_to_a_live_host_is_used_for_no_other(deploy: &Deploy<'_>, internet: &Internet) {
    let seen = playwright(
        deploy,
        r#"
seen = []
for host in ("h2.github.com", "gist.github.com", "h2.github.com", "gist.github.com"):
    page.goto(f"https://{host}/")
    protocol = page.evaluate("performance.getEntriesByType('navigation')[0].nextHopProtocol")
    seen.append(f"{protocol}: " + page.inner_text("h1"))
result(seen)"#,
    );
    let (real, synthetic) = ("h2: real over h2", "h2: gist at gist.github.com");
    assert_eq!(seen, json!([real, synthetic, real, synthetic]));
    assert!(internet.requests_to("h2.github.com").len() >= 2, "{:?}", internet.requests());
}

/// Goes to places that are inside, by itself and by a redirect of a live site's.
const REDIRECTS: &str = r#"
from urllib.parse import quote
seen = {}
inside = ("http://internal.github.com/", "https://internal.github.com/", "https://example.com/login", "http://169.254.169.254/latest/",
    "http://127.0.0.1/", "http://[::1]/", "http://10.9.9.9/", "https://203.0.113.10/",
    "http://github.com:8443/")
for target in inside + own:
    for url in (target, "https://portal.github.com/?" + quote(target, safe="")):
        tab = context.new_page()
        try: seen[url] = tab.goto(url).status
        except Error as error: seen[url] = "blocked: " + str(error)[:80]
        tab.close()
result(seen)"#;

#[track_caller]
fn rows_40_and_43_redirects_and_links_to_what_is_inside(deploy: &Deploy<'_>, without_proxy: bool) {
    // Without the proxy, what listens on the sandbox's own loopback answers a tab (row 40 is about the proxy); no page can read it.
    let own = if without_proxy { "()" } else { "('http://127.0.0.1:9222/json', 'http://localhost:3128/')" };
    let seen = playwright(deploy, &format!("own = {own}\n{REDIRECTS}"));
    for (url, answer) in seen.as_object().expect("answers") {
        let blocked = answer == 403 || answer.as_str().is_some_and(|text| text.contains("ERR_"));
        assert!(blocked, "{url}: {answer}: {seen:#}");
    }
}

#[track_caller]
fn row_41_webrtc_sends_nothing(deploy: &Deploy<'_>) {
    let candidates = playwright(
        deploy,
        r"
page.goto('https://github.com/')
result(page.evaluate('''async () => {
    const servers = ['stun:203.0.113.10:3478', 'stun:github.com:3478', 'turn:github.com:443?transport=tcp'];
    const peer = new RTCPeerConnection({iceServers: servers.map((urls) => ({urls, username: 'a', credential: 'b'}))});
    peer.createDataChannel('x');
    const seen = [];
    peer.onicecandidate = (event) => { if (event.candidate) seen.push(event.candidate.candidate); };
    const done = new Promise((done) => { peer.onicegatheringstatechange = () => peer.iceGatheringState === 'complete' && done(); setTimeout(done, 2500); });
    await peer.setLocalDescription(await peer.createOffer());
    await done;
    return seen;
}'''))",
    );
    for candidate in candidates.as_array().expect("candidates") {
        let text = candidate.as_str().unwrap_or_default().to_ascii_lowercase();
        assert!(!text.contains("typ srflx") && !text.contains("typ relay") && !text.contains(" udp "), "{text}");
    }
}

#[track_caller]
fn row_92_a_live_page_probes_what_is_beside_it(deploy: &Deploy<'_>) {
    let seen = playwright(
        deploy,
        r"
seen = {}
probe = '''async () => {
    const places = ['127.0.0.1:9222/json/version', '127.0.0.1:3128/', '127.0.0.53:53/', '127.0.0.1/', 'localhost:9222/json/version',
        '10.0.0.1/', '10.9.9.9/', '192.168.0.1/', '169.254.169.254/latest/', '203.0.113.10:22/', '203.0.113.10/', 'internal.github.com/', '[::1]:9222/'];
    const seen = {};
    const limit = () => new Promise((done) => setTimeout(() => done('blocked: no answer'), 2000));
    const read = async (url) => { try { const r = await fetch(url); return r.status + ' ' + await r.text(); } catch (error) { return 'blocked'; } };
    const socket = (url) => new Promise((done) => {
        try { const s = new WebSocket(url); s.onopen = () => done('open'); s.onerror = () => done('blocked'); } catch (error) { done('blocked'); }
    });
    const all = places.flatMap((place) => [
        ...['http://', 'https://'].map((scheme) => [scheme + place, read(scheme + place)]),
        ...['ws://', 'wss://'].map((scheme) => [scheme + place, socket(scheme + place)]),
    ]);
    await Promise.all(all.map(async ([url, answer]) => { seen[url] = await Promise.race([answer, limit()]); }));
    return seen;
}'''
for origin in ('https://github.com/', 'http://github.com/plain'):
    page.goto(origin)
    seen[page.url] = page.evaluate(probe)
result(seen)",
    );
    for (origin, answers) in seen.as_object().expect("two pages") {
        for (url, answer) in answers.as_object().expect("answers") {
            assert!(answer.as_str().is_some_and(|one| one.starts_with("blocked")), "{origin} reads {url}: {answer}");
        }
        assert!(answers.as_object().is_some_and(|all| all.len() == 52), "{answers}");
    }
}
