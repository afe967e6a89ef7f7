use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::oneshot,
};

use super::*;
use crate::CaptureState;

/// Something at a port that answers every request with these bytes; then it closes, or keeps the connection and says nothing.
struct Fake {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
    /// Dropped with the fake.
    _open: oneshot::Sender<()>,
}

impl Fake {
    async fn new(answer: impl Into<Vec<u8>>, closes: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (heads, answer) = (Arc::new(Mutex::new(Vec::new())), answer.into());
        let (kept, (open, mut closed)) = (heads.clone(), oneshot::channel());
        tokio::spawn(async move {
            let mut connections = Vec::new();
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    _ = &mut closed => return,
                };
                let mut stream = accepted.unwrap().0;
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                kept.lock().unwrap().push(String::from_utf8(head).unwrap());
                stream.write_all(&answer).await.unwrap();
                if !closes {
                    connections.push(stream);
                }
            }
        });
        Self { url, heads, _open: open }
    }

    fn client(&self) -> GatewayClient {
        let waits =
            ClientWaits { answer: Duration::from_millis(200), idle: Duration::from_millis(200), ..Default::default() };
        GatewayClient::new(&self.url, ControlToken::from_stored("secret\n".to_owned())).unwrap().with_waits(waits)
    }

    fn head(&self) -> String {
        self.heads.lock().unwrap().last().expect("nothing was asked").clone()
    }
}

fn id() -> CaptureId {
    CaptureId::parse("shop.3.pcap").unwrap()
}

fn file(status: &str, fields: &str, body: &str) -> String {
    let kind = "Content-Type: application/vnd.tcpdump.pcap\r\nETag: \"3-10\"\r\nAgentenv-Capture-State: growing\r\n";
    format!("HTTP/1.1 {status}\r\n{kind}{fields}\r\n{body}")
}

#[tokio::test]
async fn a_download_gives_the_bytes_that_were_announced() {
    let fake = Fake::new(file("200 OK", "Content-Length: 10\r\n", "0123456789"), true).await;
    let download = fetch_traffic_capture(&fake.client(), &id(), None).await.unwrap();
    assert_eq!((download.length, download.offset, download.file_bytes), (10, 0, 10));
    assert_eq!((download.etag.as_deref(), download.state), (Some("\"3-10\""), CaptureState::Growing));
    let chunks: Vec<_> = download.into_stream().map(Result::unwrap).collect().await;
    assert_eq!(chunks.concat(), b"0123456789");
    let head = fake.head().to_lowercase();
    assert!(head.starts_with("get /traffic/v1/captures/shop.3.pcap http/1.1\r\n"), "{head}");
    assert!(head.contains("authorization: bearer secret\r\n") && !head.contains("range"), "{head}");
    assert!(head.contains(&format!("host: {}\r\n", fake.url.trim_start_matches("http://"))), "{head}");
}

#[tokio::test]
async fn a_part_is_asked_for_and_checked() {
    let part = file("206 Partial Content", "Content-Length: 4\r\nContent-Range: bytes 6-9/10\r\n", "6789");
    let fake = Fake::new(part, true).await;
    let range = CaptureRange { etag: Some("\"3-10\"".to_owned()), ..CaptureRange::from(6) };
    let mut download = fake.client().fetch_traffic_capture(&id(), Some(range)).await.unwrap();
    assert_eq!((download.length, download.offset, download.file_bytes), (4, 6, 10));
    assert_eq!(download.chunk().await.unwrap().unwrap(), "6789");
    assert!(download.chunk().await.unwrap().is_none());
    let head = fake.head().to_lowercase();
    assert!(head.contains("range: bytes=6-\r\n") && head.contains("if-range: \"3-10\"\r\n"), "{head}");
    for (range, asked) in [
        (Some(CaptureRange::from(5)), "range: bytes=5-\r\n"),
        (Some(CaptureRange { start: 6, end: Some(8), etag: None }), "range: bytes=6-7\r\n"),
        (None, ""),
    ] {
        let answer = fake.client().fetch_traffic_capture(&id(), range).await;
        assert!(matches!(answer, Err(ClientError::Garbage { .. })), "{asked}: {answer:?}");
        assert!(fake.head().to_lowercase().contains(asked), "{}", fake.head());
    }
    // The tag was another one: the whole file.
    let fake = Fake::new(file("200 OK", "Content-Length: 10\r\n", "0123456789"), true).await;
    let download = fake.client().fetch_traffic_capture(&id(), Some(CaptureRange::from(6))).await.unwrap();
    assert_eq!((download.length, download.offset), (10, 0));
}

#[tokio::test]
async fn a_gateway_that_dies_or_stops_within_a_file_is_told_apart() {
    let half = file("200 OK", "Content-Length: 10\r\n", "01234");
    for closes in [true, false] {
        let fake = Fake::new(half.clone(), closes).await;
        let mut download = fake.client().fetch_traffic_capture(&id(), None).await.unwrap();
        assert_eq!(download.chunk().await.unwrap().unwrap(), "01234");
        let error = download.chunk().await.unwrap_err();
        match &error {
            ClientError::Incomplete { received: 5, length: 10, source: Some(_), .. } if closes => {}
            ClientError::Stalled { received: 5, length: 10, .. } if !closes => {}
            other => panic!("{other:?}"),
        }
        assert!(error.to_string().contains("shop.3.pcap") && error.to_string().contains("5 of 10"), "{error}");
        // It stays so; and as a stream it ends.
        assert_eq!(download.received(), 5);
        assert!(download.chunk().await.is_err());
        let rest: Vec<_> = download.into_stream().collect().await;
        assert!(rest.len() == 1 && rest[0].is_err());
    }
}

#[tokio::test]
async fn every_refusal_has_its_type() {
    let refuse = |status: &str| format!("HTTP/1.1 {status}\r\nContent-Length: 19\r\n\r\nagent-env: it's so\n");
    for (status, matches) in [
        ("401 Unauthorized", (|e| matches!(e, ClientError::Unauthorized { .. })) as fn(&ClientError) -> bool),
        ("404 Not Found", |e| matches!(e, ClientError::NoCapture { .. })),
        ("410 Gone", |e| matches!(e, ClientError::RotatedAway { .. })),
        ("416 Range Not Satisfiable", |e| matches!(e, ClientError::RangeBeyond { bytes: None, .. })),
        ("416 No\r\nContent-Range: bytes */10", |e| matches!(e, ClientError::RangeBeyond { bytes: Some(10), .. })),
        ("503 Busy", |e| matches!(e, ClientError::Refused { reason, .. } if reason == "it's so")),
        ("302 Found\r\nLocation: http://127.0.0.1:1/", |e| matches!(e, ClientError::Refused { .. })),
        ("200 OK\r\nContent-Type: text/html", |e| matches!(e, ClientError::Garbage { .. })),
        ("200 OK\r\nContent-Type: application/vnd.tcpdump.pcap", |e| matches!(e, ClientError::Garbage { .. })),
    ] {
        let fake = Fake::new(refuse(status), true).await;
        let error = fake.client().fetch_traffic_capture(&id(), None).await.unwrap_err();
        assert!(matches(&error), "{status}: {error:?}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let fake = Fake::new(refuse("404 Not Found"), true).await;
    assert!(matches!(list_traffic_captures(&fake.client()).await, Err(ClientError::NoTraffic { .. })));
    let endless = file("200 OK", "Transfer-Encoding: chunked\r\n", "1\r\n0\r\n");
    let fake = Fake::new(endless, false).await;
    let answer = fake.client().fetch_traffic_capture(&id(), None).await;
    assert!(matches!(answer, Err(ClientError::Garbage { .. })), "no length: {answer:?}");
}

#[tokio::test]
async fn a_gateway_that_is_gone_silent_or_another_program_is_told_apart() {
    let fake = Fake::new("SSH-2.0-OpenSSH\r\n", true).await;
    assert!(matches!(fake.client().list_traffic_captures().await, Err(ClientError::Garbage { .. })));
    for cut in ["", "HTTP/1.1 200 O", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{"] {
        let fake = Fake::new(cut, true).await;
        let answer = fake.client().list_traffic_captures().await;
        assert!(matches!(answer, Err(ClientError::Closed { .. })), "{cut}: {answer:?}");
    }
    let fake = Fake::new("", false).await;
    assert!(matches!(fake.client().list_traffic_captures().await, Err(ClientError::Slow { .. })));
    assert!(matches!(fake.client().fetch_traffic_capture(&id(), None).await, Err(ClientError::Slow { .. })));
    let fake = Fake::new("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", true).await;
    assert!(matches!(fake.client().list_traffic_captures().await, Err(ClientError::Garbage { .. })));
    let fake = Fake::new("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", true).await;
    assert!(matches!(fake.client().card().await, Err(ClientError::Garbage { .. })));
    assert!(!fake.head().contains("secret"), "the card needs no token");
    let client = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        GatewayClient::new(&format!("http://{}/", listener.local_addr().unwrap()), ControlToken::random()).unwrap()
    };
    assert!(matches!(client.card().await, Err(ClientError::Unreachable { .. })));
}

#[test]
fn a_url_of_a_gateway() {
    let new = |url: &str| GatewayClient::new(url, ControlToken::random());
    for (url, authority) in [
        ("http://127.0.0.1:4000", "127.0.0.1:4000"),
        ("http://127.0.0.1:4000/", "127.0.0.1:4000"),
        ("http://[::1]:4000", "[::1]:4000"),
        ("http://gateway.example", "gateway.example:80"),
    ] {
        assert_eq!(new(url).unwrap().authority, authority);
    }
    for url in ["", "127.0.0.1:4000", "https://127.0.0.1:4000", "http://u:p@h", "http://h/x", "http://h/?x", "http://"]
    {
        assert!(matches!(new(url), Err(ClientError::Url { .. })), "{url}");
    }
}
