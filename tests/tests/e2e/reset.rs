//! A reset in its order (RUN-7): who was connected is told, or cut.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use agentenv_tests::{Deploy, PATIENCE, PySite, eventually, playwright, raw_http, read_until};
use serde_json::{Value, json};

use crate::desk::{browser_of, desk, pods};

/// Long for an answer of this machine, short for a test.
const ANSWER: Duration = Duration::from_secs(20);

fn connect(deploy: &Deploy<'_>) -> TcpStream {
    let address = deploy.info.gateway_url.trim_start_matches("http://").trim_end_matches('/');
    let stream = TcpStream::connect(address).expect("the gateway accepts");
    stream.set_read_timeout(Some(ANSWER)).expect("a time limit can be set");
    stream
}

/// A connection to the DevTools at this URL by the gateway, as a CDP client has one.
#[track_caller]
pub fn cdp_client(deploy: &Deploy<'_>, cdp_url: &str) -> TcpStream {
    let path = cdp_url.splitn(4, '/').nth(3).expect("a path");
    let version = format!("GET /{path}/json/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let version = raw_http(&deploy.info.gateway_url, version.as_bytes());
    let version: Value = serde_json::from_str(version.body()).expect("a version");
    let socket =
        version["webSocketDebuggerUrl"].as_str().expect("a socket's URL").splitn(4, '/').nth(3).expect("a path");
    let mut stream = connect(deploy);
    write!(
        stream,
        "GET /{socket} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .expect("the request can be sent");
    let head = read_until(&mut stream, b"\r\n\r\n").expect("more comes");
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    stream
}

/// Code and reason of the close frame that is the next.
#[track_caller]
fn close_frame(stream: &mut TcpStream) -> (u16, String) {
    let mut head = [0; 2];
    stream.read_exact(&mut head).expect("a frame");
    assert_eq!(head[0], 0x88, "a close frame");
    let mut body = vec![0; usize::from(head[1] & 0x7f)];
    stream.read_exact(&mut body).expect("its body");
    let reason = String::from_utf8(body.split_off(2)).expect("text");
    (u16::from_be_bytes([body[0], body[1]]), reason)
}

/// Checks that the client is told of the reset that ended its connection.
#[track_caller]
pub fn assert_told(client: &mut TcpStream) {
    // 1012 is "service restart".
    assert_eq!(close_frame(client), (1012, "the deploy is being reset".to_owned()));
}

#[test]
fn row_95_cdp_clients_are_told_why_before_the_browser_goes() {
    let home = desk();
    let deploy = home.deploy("desk");
    let cdp_url = &deploy.info.browsers[0].cdp_url;
    let mut client = cdp_client(&deploy, cdp_url);
    home.run(&["env", "reset", deploy.id()]).ok();
    assert_told(&mut client);
    cdp_client(&deploy, cdp_url);
}

#[test]
fn connections_to_sites_are_cut() {
    let stream = r#"
class Site(Site):
    def do_GET(self):
        if self.path != "/stream": return super().do_GET()
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b"of the last episode;")
        threading.Event().wait()
"#;
    let home = pods(&[PySite::new("alpha").before(stream)]);
    let deploy = home.deploy("pods");
    let mut reader = connect(&deploy);
    write!(reader, "GET /website/alpha/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("the request can be sent");
    read_until(&mut reader, b"of the last episode;").expect("more comes");
    home.run(&["env", "reset", deploy.id()]).ok();
    let mut rest = Vec::new();
    if let Err(error) = reader.read_to_end(&mut rest) {
        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "the stream goes on after the reset");
    }
}

#[test]
fn resets_at_once_come_one_after_the_other() {
    let home = desk();
    let deploy = home.deploy("desk");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| home.run(&["env", "reset", deploy.id()]).ok());
        }
    });
    let status = deploy.status();
    assert_eq!(status.resets, 3);
    assert_eq!(json!(status.state), "ready", "{status:?}");
    let browser = deploy.service(browser_of(&deploy));
    let browsers = deploy.processes().into_iter().filter(|process| process.parent == browser.parent);
    let named: Vec<_> = browsers.filter(|process| process.arguments().contains("--remote-debugging-port")).collect();
    assert!(named.len() <= 1, "more than one browser: {named:?}");
    assert_eq!(playwright(&deploy, "page.goto('https://alpha.test/')\nresult(page.title())"), json!("alpha"));
}

#[test]
fn row_69_a_browser_that_died_comes_back_by_a_reset_alone() {
    let home = desk();
    let deploy = home.deploy("desk");
    let browser = browser_of(&deploy);
    deploy.service(browser).kill();
    let seen = eventually("it is said to be failed", PATIENCE, || {
        let status = json!(deploy.status());
        (status["services"][browser]["state"] != "running").then_some(status)
    });
    assert_eq!((&seen["state"], &seen["services"][browser]["state"]), (&json!("degraded"), &json!("failed")), "{seen}");
    assert_eq!(seen["services"][browser]["restarts"], 0, "another one would have nothing of the episode: {seen}");
    home.run(&["env", "reset", deploy.id()]).ok();
    assert_eq!(json!(deploy.status())["state"], "ready");
    assert_eq!(playwright(&deploy, "page.goto('https://alpha.test/')\nresult(page.title())"), json!("alpha"));
}
