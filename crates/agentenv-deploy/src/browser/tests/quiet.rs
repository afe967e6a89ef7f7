//! What the browser does unasked: nothing that reaches a socket.

use serde_json::json;
use tokio::net::UdpSocket;

use super::{
    super::{
        find_chromium,
        flags::{FEATURE_ON, FEATURES_OFF},
    },
    chromium::{LIMIT, Running},
    site::{HOSTS, Internet},
    tabs::evaluate,
    urls,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_browser_never_calls_home() {
    let internet = Internet::start().await;
    let mut running = Running::start(&internet).await;
    // Forms, passwords, errors and new tabs are what calls home are made about.
    for path in ["", "account", "nothing-here", "late", "episode"] {
        let tabs: Vec<String> = HOSTS.iter().map(|host| format!("https://{host}/{path}")).collect();
        running.browser.open_start_tabs(&tabs, LIMIT).await.unwrap();
    }
    running.close().await;
    let strange: Vec<String> =
        internet.log().into_iter().filter(|line| !HOSTS.iter().any(|host| line.contains(host))).collect();
    assert_eq!(strange, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_policy_is_known_to_the_browser() {
    let internet = Internet::start().await;
    let mut running = Running::start(&internet).await;
    running.browser.open_start_tabs(&urls(&["chrome://policy/"]), LIMIT).await.unwrap();
    let client = running.client().await;
    // The page draws its rows after it is loaded.
    let rows = "new Promise(done => {
        const rows = [];
        const walk = root => root.querySelectorAll('*').forEach(element => {
            if (element.localName === 'policy-row') {
                const text = part => element.shadowRoot.querySelector('.policy.row ' + part)?.innerText.trim();
                if (text('.value')) rows.push([text('.name'), text('.messages')]);
            }
            if (element.shadowRoot) walk(element.shadowRoot);
        });
        const look = () => { rows.length = 0; walk(document); rows.length ? done(rows) : setTimeout(look, 20); };
        look();
    })";
    let rows = evaluate(&client, "chrome://policy/", rows).await;
    let rows = rows.as_array().unwrap();
    assert!(rows.len() > 30, "{rows:?}");
    let wrong: Vec<_> = rows.iter().filter(|row| row[1] != "OK" && row[1] != "Deprecated").collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(rows.iter().any(|row| row[0] == "CACertificates"), "{rows:?}");
    running.close().await;
}

#[test]
fn every_feature_is_known_to_the_browser() {
    let mut names = FEATURES_OFF.to_vec();
    names.push(FEATURE_ON);
    let patterns = names.iter().flat_map(|name| ["-e", name]);
    let binary = find_chromium().unwrap();
    let found = std::process::Command::new("grep").args(["-aoF"]).args(patterns).arg(binary).output().unwrap().stdout;
    let found = String::from_utf8(found).unwrap();
    for name in names {
        assert!(found.lines().any(|line| line == name), "{name} is gone");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_41_webrtc_sends_no_udp() {
    let stun = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let port = stun.local_addr().unwrap().port();
    let gather = format!(
        "new Promise(done => {{
            const peer = new RTCPeerConnection({{ iceServers: [{{ urls: 'stun:127.0.0.1:{port}' }}] }});
            peer.onicegatheringstatechange = () => peer.iceGatheringState === 'complete' && done('gathered');
            peer.createDataChannel('x');
            peer.createOffer().then(offer => peer.setLocalDescription(offer));
        }})"
    );
    let internet = Internet::start().await;
    let mut heard = Vec::new();
    for policy_on in [false, true] {
        let mut running = Running::start_with(&internet, |launch| {
            if !policy_on {
                let (_, policy) = &mut launch.etc[0];
                let text = std::str::from_utf8(policy).unwrap().replace("disable_non_proxied_udp", "default");
                *policy = text.into_bytes();
            }
        })
        .await;
        running.browser.open_start_tabs(&urls(&["https://shop.test/"]), LIMIT).await.unwrap();
        let client = running.client().await;
        // Gathering ends when every server answered or nothing can be sent.
        let mut datagram = [0; 1500];
        heard.push(tokio::select! {
            received = stun.recv(&mut datagram) => received.is_ok(),
            gathered = evaluate(&client, "https://shop.test/", &gather) => gathered != json!("gathered"),
        });
        running.close().await;
        while stun.try_recv(&mut datagram).is_ok() {}
    }
    // Without the policy it does: the test can fail.
    assert_eq!(heard, [true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn row_92_a_page_cannot_read_devtools() {
    let internet = Internet::start().await;
    let mut running = Running::start(&internet).await;
    running.browser.open_start_tabs(&urls(&["https://shop.test/", "http://tracker.test/"]), LIMIT).await.unwrap();
    let client = running.client().await;
    let port = running.port;
    let probe = format!(
        "Promise.all([
            fetch('http://127.0.0.1:{port}/json/version').then(r => r.text(), () => 'refused'),
            fetch('http://localhost:{port}/json/version', {{ mode: 'no-cors' }}).then(r => r.type + r.status, () => 'refused'),
            new Promise(done => {{
                const socket = new WebSocket('ws://127.0.0.1:{port}/devtools/browser/x');
                socket.onopen = () => done('open');
                socket.onerror = () => done('refused');
            }}),
        ])"
    );
    for url in ["https://shop.test/", "http://tracker.test/"] {
        let seen = evaluate(&client, url, &probe).await;
        assert_eq!((&seen[0], &seen[2]), (&json!("refused"), &json!("refused")), "{seen}");
        // At most an answer that can't be read: the forward port's own refusal.
        assert!([json!("refused"), json!("opaque0")].contains(&seen[1]), "{seen}");
    }
    // Each attempt came to the forward port, none to DevTools.
    assert!(internet.log().iter().any(|line| line.contains("127.0.0.1") || line.contains("localhost")));
    running.close().await;
}
