//! Both programs together, as a deploy runs them.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command},
    time::{Duration, Instant},
};

use agentenv_sdk::{Value, json};

/// How long a program may take to listen.
const START: Duration = Duration::from_secs(10);

struct Program {
    child: Child,
    port: u16,
}

impl Program {
    fn start(path: &str, data: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(path)
            .env("PORT", port.to_string())
            .env("AGENTENV_DATA_DIR", data)
            .env("AGENTENV_SITE_KEY", "key")
            .spawn()
            .unwrap();
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(start.elapsed() < START, "{path} does not listen");
            std::thread::yield_now();
        }
        Self { child, port }
    }

    /// Sends the bytes and reads to the end.
    fn send(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    fn operate(&self, operation: &str, body: &Value) -> Value {
        let body = body.to_string();
        let request = format!(
            "POST /api/{operation} HTTP/1.1\r\nHost: echo.test\r\nAgentenv-Site-Key: key\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        serde_json::from_slice(body_of(&self.send(request.as_bytes()))).unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn body_of(answer: &[u8]) -> &[u8] {
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    &answer[head + 4..]
}

#[test]
fn what_the_pages_receive_is_said_back_and_listed() {
    let data = tempfile::tempdir().unwrap();
    let server = Program::start(env!("CARGO_BIN_EXE_echo"), data.path());
    let pages = Program::start(env!("CARGO_BIN_EXE_echo-raw"), data.path());
    let sent = b"POST /any%20thing?x HTTP/1.1\r\nHOST: Echo.Test\r\nX-Odd:\xff\tvalue \r\nConnection: close\r\n\
        Content-Length: 4\r\n\r\n\x00\x01\xfe\xff";
    assert_eq!(body_of(&pages.send(sent)), sent);
    let data = server.operate("data/get", &json!({}))["data"].clone();
    let request = &data["requests"][0];
    assert_eq!((&request["target"], &request["bytes"]), (&json!("/any%20thing?x"), &json!(sent.len())));
    assert_eq!(request["hex"], json!(hex::encode(sent)));

    server.operate("data/load", &json!({"data": [1, {"two": 2}]}));
    let none = server.operate("data/get", &json!({"selector": {"contains": "elsewhere"}}));
    assert_eq!(none["data"], json!({"requests": [], "loaded": [1, {"two": 2}]}));
    server.operate("data/reset", &json!({}));
    assert_eq!(server.operate("data/get", &json!({}))["data"], json!({"requests": [], "loaded": []}));
    pages.send(b"GET /again HTTP/1.0\r\n\r\n");
    let data = server.operate("data/get", &json!({}))["data"].clone();
    assert_eq!(data["requests"][0]["target"], "/again", "the frontend writes into the new log");
}

#[test]
fn the_other_paths_do_what_they_say() {
    let data = tempfile::tempdir().unwrap();
    let _server = Program::start(env!("CARGO_BIN_EXE_echo"), data.path());
    let pages = Program::start(env!("CARGO_BIN_EXE_echo-raw"), data.path());
    let get =
        |path: &str| pages.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes());
    for (path, part) in [
        ("/", "<pre id=\"request\">GET / HTTP/1.1"),
        ("/events?count=3&ms=1", "data: 2\n\nid: 3\ndata: 3\n\n"),
        ("/slow?ms=1", "GET /slow"),
        ("/drip?bytes=3&ms=1", "..."),
        ("/redirect?to=%2Fnext&status=307", "HTTP/1.1 307 Redirect\r\n"),
        ("/set-cookie?a=b&raw=c%3Dd%3B+Secure", "Set-Cookie: a=b; Path=/\r\nSet-Cookie: c=d;+Secure\r\n"),
        ("/status?code=503", "HTTP/1.1 503 "),
        ("/api/data/get", "HTTP/1.1 404 "),
        ("/early", "HTTP/1.1 103 Early Hints\r\n"),
        ("/trailers", "0\r\nX-Sum: 5\r\n\r\n"),
        ("/short", "Content-Length: 10\r\n\r\nhello"),
    ] {
        let answer = String::from_utf8(get(path)).unwrap();
        assert!(answer.contains(part), "{path}: {answer}");
    }
    let big = get("/big?bytes=200001");
    let body = body_of(&big);
    assert!(body.len() == 200_001 && body.iter().enumerate().all(|(index, byte)| *byte == (index % 251) as u8));
    assert!(get("/cut").is_empty());
    let sink = pages.send(
        &[&b"POST /sink HTTP/1.1\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n"[..], &[7; 300_000]].concat(),
    );
    assert_eq!(body_of(&sink), b"300000\n");
}
