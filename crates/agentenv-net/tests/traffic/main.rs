//! `traffic/v1` over real sockets: what is listed, what is streamed, and what a ring that turns meanwhile does to it.

#[path = "../common/mod.rs"]
mod common;
mod ring;
mod slow;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use agentenv_net::{CaptureMissing, Captures};
use agentenv_protocol::{
    CaptureState, ControlToken, TrafficCaptureListing,
    client::{self, CaptureRange, ClientError, GatewayClient},
};
use common::*;
use ring::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const HOST: &str = "127.0.0.1";
const LIST: &str = "/traffic/v1/captures";

async fn deploy(captures: Arc<dyn Captures>) -> Deploy {
    Deploy::with_captures(limits(), Echo::labelled("shop").await, Some(captures)).await
}

fn bearer(deploy: &Deploy) -> String {
    format!("Authorization: Bearer {}\r\n", deploy.control.expose())
}

fn client_of(deploy: &Deploy) -> GatewayClient {
    GatewayClient::new(&deploy.gateway.url(), deploy.control.clone()).unwrap()
}

fn path(generation: u64) -> String {
    format!("{LIST}/{}", id(generation))
}

/// The value of a field of an answer.
fn field<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    let head = answer.split("\r\n\r\n").next().unwrap_or_default();
    head.lines().find_map(|line| line.split_once(": ").filter(|(key, _)| *key == name).map(|(_, value)| value))
}

/// Sends bytes; everything that comes back, as bytes: head and body.
async fn exchange(deploy: &Deploy, request: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(deploy.at).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    let mut body = Vec::new();
    within(stream.read_to_end(&mut body)).await.unwrap();
    (head, body)
}

#[tokio::test]
async fn pr_04_what_is_captured_is_listed_where_the_card_says_so() {
    let ring = Arc::new(Ring::new(3, 160));
    ring.add_all(25);
    let deploy = deploy(ring.clone()).await;
    let card = client_of(&deploy).card().await.unwrap();
    assert!(client::serves_traffic(&card));
    assert_eq!(client::list_traffic_captures(&client_of(&deploy)).await.unwrap(), ring.list());
    let answer = deploy.raw(&get(LIST, HOST, &bearer(&deploy))).await;
    assert_eq!((status(&answer), field(&answer, "content-type")), (200, Some("application/json")));
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(serde_json::from_str::<TrafficCaptureListing>(body).unwrap(), ring.list());
    let head = deploy.raw(&get(LIST, HOST, &bearer(&deploy)).replacen("GET", "HEAD", 1)).await;
    assert_eq!(field(&head, "content-length"), Some(body.len().to_string().as_str()), "{head}");
    assert!(status(&head) == 200 && head.ends_with("\r\n\r\n"), "{head}");

    let without = Deploy::new().await;
    assert!(!client::serves_traffic(&client_of(&without).card().await.unwrap()));
    assert!(matches!(client_of(&without).list_traffic_captures().await, Err(ClientError::NoTraffic { .. })));
    for path in [LIST.to_owned(), path(1), format!("{LIST}/../x")] {
        assert_eq!(status(&without.raw(&get(&path, HOST, &bearer(&without))).await), 404, "{path}");
        assert_eq!(status(&without.raw(&get(&path, HOST, "")).await), 401, "{path}");
    }
}

#[tokio::test]
async fn gw_02_only_the_control_token_opens_captures_and_nothing_else_is_told() {
    let ring = Arc::new(Ring::new(3, 160));
    ring.add(1);
    let deploy = deploy(ring.clone()).await;
    let token = deploy.control.expose();
    let bad_id = format!("{LIST}/..%2f");
    for path in [LIST, &path(1), &path(99), &bad_id] {
        let mut answers = Vec::new();
        for headers in [
            String::new(),
            "Authorization: Bearer wrong\r\n".to_owned(),
            format!("Authorization: Bearer {}\r\n", deploy.agent.expose()),
            format!("Authorization: Bearer {}\r\n", &token[1..]),
            "Agentenv-Control-Token: wrong\r\nRange: bytes=0-1\r\n".to_owned(),
        ] {
            for method in ["GET", "POST"] {
                let answer = deploy.raw(&get(path, HOST, &headers).replacen("GET", method, 1)).await;
                assert_eq!(status(&answer), 401, "{method} {path} {headers}: {answer}");
                answers.push(answer.lines().filter(|line| !line.starts_with("date")).collect::<String>());
            }
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "{answers:?}");
    }
    let elsewhere = deploy.raw(&get(&format!("{LIST}?token={token}"), HOST, "")).await;
    assert!(status(&elsewhere) == 400 && !elsewhere.contains(token), "{elsewhere}");
    assert_eq!(ring.opened.load(Ordering::Relaxed), 0);
    let by_field = format!("Agentenv-Control-Token: {token}\r\n");
    assert_eq!(status(&deploy.raw(&get(&path(1), HOST, &by_field)).await), 200);
    let wrong = GatewayClient::new(&deploy.gateway.url(), ControlToken::random()).unwrap();
    assert!(matches!(wrong.list_traffic_captures().await, Err(ClientError::Unauthorized { .. })));
    assert!(matches!(wrong.fetch_traffic_capture(&id(1), None).await, Err(ClientError::Unauthorized { .. })));
    for (path, method) in [(LIST, "POST"), (LIST, "DELETE"), (&path(1), "PUT"), (&path(1), "DELETE")] {
        let request = get(path, HOST, &bearer(&deploy)).replacen("GET", method, 1);
        let answer = deploy.raw(&request).await;
        assert_eq!((status(&answer), field(&answer, "allow")), (405, Some("GET, HEAD")), "{method} {path}: {answer}");
    }
}

#[tokio::test]
async fn row_54_a_name_that_is_no_id_is_400_and_nothing_is_opened() {
    let ring = Arc::new(Ring::new(3, 160));
    ring.add(1);
    let deploy = deploy(ring.clone()).await;
    let (long, file) = ("a".repeat(4096), ring.path(1));
    let encoded = file.to_str().unwrap().replace('/', "%2f");
    for name in [
        "",
        "../shop.1.pcap",
        "../../captures/shop.1.pcap",
        "../../../svc/shop/api/ready",
        "../../../website/shop/",
        "..%2fshop.1.pcap",
        "%2e%2e/shop.1.pcap",
        "..",
        ".",
        "./shop.1.pcap",
        "/shop.1.pcap",
        file.to_str().unwrap(),
        &encoded,
        "shop%2f1.pcap",
        "shop/1.pcap",
        "shop.1.pcap/",
        "shop.1.pcap/../shop.1.pcap",
        "shop.1.pcap%00",
        "shop.1.pcap%00.txt",
        "shop.1.pcap;x",
        "shop.01.pcap",
        "shop.0.pcap",
        "shop.+1.pcap",
        "shop%2e1.pcap",
        "Shop.1.pcap",
        "shop.1.pcap.part",
        "shop.99999999999999999999.pcap",
        "1.pcap",
        "ring.json",
        "\\shop.1.pcap",
        &long,
        &format!("{long}.1.pcap"),
        &format!("{}shop.1.pcap", "../".repeat(1365)),
    ] {
        let answer = deploy.raw(&get(&format!("{LIST}/{name}"), HOST, &bearer(&deploy))).await;
        assert_eq!(status(&answer), 400, "{name}: {answer}");
    }
    // What no path may hold is refused before it is one.
    let answer = deploy.raw(&get(&format!("{LIST}/shop.1.pcap\0"), HOST, &bearer(&deploy))).await;
    assert_eq!(status(&answer), 400, "{answer}");
    assert!(deploy.shop.requests().is_empty() && ring.opened.load(Ordering::Relaxed) == 0);
}

#[tokio::test]
async fn pr_04_a_file_is_given_whole_in_parts_and_not_again() {
    let ring = Arc::new(Ring::new(3, 160));
    ring.add_all(12);
    let deploy = deploy(ring.clone()).await;
    let ask = async |generation, headers: &str| {
        exchange(&deploy, &get(&path(generation), HOST, &format!("{}{headers}", bearer(&deploy)))).await
    };
    let (head, body) = ask(1, "").await;
    assert_eq!(body, content(1, 0, 160));
    for (name, value) in [
        ("content-type", "application/vnd.tcpdump.pcap"),
        ("content-length", "160"),
        ("accept-ranges", "bytes"),
        ("etag", "\"1-160\""),
        ("agentenv-capture-state", "complete"),
        ("content-disposition", "attachment; filename=\"shop.1.pcap\""),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(field(&head, name), Some(value), "{name}: {head}");
    }
    for (range, start, end) in
        [("bytes=0-0", 0, 1), ("bytes=16-31", 16, 32), ("bytes=100-", 100, 160), ("bytes=-7", 153, 160)]
    {
        for condition in ["", "If-Range: \"1-160\"\r\n"] {
            let (head, body) = ask(1, &format!("Range: {range}\r\n{condition}")).await;
            assert_eq!((status(&head), body), (206, content(1, start, end)), "{range}: {head}");
            let named = format!("bytes {start}-{}/160", end - 1);
            assert_eq!(field(&head, "content-range"), Some(named.as_str()), "{head}");
        }
    }
    for headers in ["Range: bytes=1-2,4-5\r\n", "Range: bytes=9-2\r\n", "Range: bytes=1-\r\nIf-Range: \"1-144\"\r\n"] {
        let (head, body) = ask(1, headers).await;
        assert_eq!((status(&head), body.len()), (200, 160), "{headers}: {head}");
    }
    let (head, _) = ask(1, "Range: bytes=160-\r\n").await;
    assert_eq!((status(&head), field(&head, "content-range")), (416, Some("bytes */160")), "{head}");
    let (head, body) = ask(1, "If-None-Match: \"x\", \"1-160\"\r\nRange: bytes=0-1\r\n").await;
    assert_eq!((status(&head), body.len(), field(&head, "etag")), (304, 0, Some("\"1-160\"")), "{head}");
    assert_eq!(status(&ask(1, "If-Match: \"1-144\"\r\n").await.0), 412);
    let request = get(&path(1), HOST, &format!("{}Range: bytes=0-1\r\n", bearer(&deploy)));
    let (head, body) = exchange(&deploy, &request.replacen("GET", "HEAD", 1)).await;
    assert_eq!((status(&head), field(&head, "content-length"), body.len()), (200, Some("160"), 0), "{head}");

    assert_eq!(status(&ask(3, "").await.0), 404);

    // One connection takes several, one after the other.
    let first = get(&path(1), HOST, &format!("{}Range: bytes=0-15\r\n", bearer(&deploy)));
    let second = get(&path(1), HOST, &format!("{}Range: bytes=16-31\r\n", bearer(&deploy)));
    let mut stream = TcpStream::connect(deploy.at).await.unwrap();
    let both = format!("{}{second}", first.replace("Connection: close\r\n", ""));
    stream.write_all(both.as_bytes()).await.unwrap();
    let mut bytes = [0; 16];
    read_head(&mut stream).await;
    within(stream.read_exact(&mut bytes)).await.unwrap();
    assert_eq!(bytes[..], content(1, 0, 16));
    let head = read_head(&mut stream).await;
    within(stream.read_exact(&mut bytes)).await.unwrap();
    assert_eq!(bytes[..], content(1, 16, 32), "{head}");

    ring.turn_away(1);
    let (head, body) = ask(1, "").await;
    assert_eq!(status(&head), 410, "{head}");
    assert!(String::from_utf8_lossy(&body).contains("shop.1.pcap"));
    let client = client_of(&deploy);
    assert!(
        matches!(client.fetch_traffic_capture(&id(1), None).await, Err(ClientError::RotatedAway { id: i }) if i == id(1))
    );
    assert!(matches!(client.fetch_traffic_capture(&id(99), None).await, Err(ClientError::NoCapture { .. })));
    let beyond = client.fetch_traffic_capture(&id(2), Some(CaptureRange::from(160))).await;
    assert!(matches!(beyond, Err(ClientError::RangeBeyond { bytes: Some(160), .. })), "{beyond:?}");
}

#[tokio::test]
async fn cap_03_a_growing_file_is_given_to_its_length_when_it_is_asked_for() {
    let ring = Arc::new(Ring::new(3, 1600));
    let deploy = deploy(ring.clone()).await;
    let client = client_of(&deploy);
    let mut empty = client.fetch_traffic_capture(&id(1), None).await.unwrap();
    assert_eq!((empty.length, empty.state, empty.chunk().await.unwrap()), (0, CaptureState::Growing, None));
    ring.add_all(5);
    let mut first = client.fetch_traffic_capture(&id(1), None).await.unwrap();
    let tag = first.etag.clone();
    assert_eq!((first.length, first.state, tag.as_deref()), (80, CaptureState::Growing, Some("\"1-80\"")));
    ring.add_all(5);
    let mut bytes = Vec::new();
    while let Some(chunk) = first.chunk().await.unwrap() {
        bytes.extend(chunk);
    }
    assert_eq!(bytes, content(1, 0, 80));
    // What has come since is the rest; with the tag of the shorter one it is the whole again.
    let mut rest = client.fetch_traffic_capture(&id(1), Some(CaptureRange::from(80))).await.unwrap();
    assert_eq!((rest.offset, rest.length, rest.file_bytes), (80, 80, 160));
    assert_eq!(rest.chunk().await.unwrap().unwrap(), content(1, 80, 160));
    let stale = CaptureRange { etag: tag, ..CaptureRange::from(80) };
    let whole = client.fetch_traffic_capture(&id(1), Some(stale)).await.unwrap();
    assert_eq!((whole.offset, whole.length), (0, 160));
}

/// A ring that turns at full speed under downloads: each is one generation's bytes, from its beginning.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_80_downloads_during_rotation_are_never_mixed() {
    const FILE: usize = 64 * RECORD * 1024;
    let ring = Arc::new(Ring::new(3, FILE));
    let deploy = deploy(ring.clone()).await;
    let done = Arc::new(AtomicBool::new(false));
    let (turning, until) = (ring.clone(), done.clone());
    let writer = thread::spawn(move || {
        let mut generation = 0;
        // Not before it has turned often, however quick the downloads are.
        while !until.load(Ordering::Relaxed) || generation < 30 {
            generation = turning.add(64).0;
            thread::yield_now();
        }
        generation
    });
    let download = async |client: GatewayClient| {
        let (mut whole, mut gone) = (0, 0);
        while whole < 10 {
            for capture in client.list_traffic_captures().await.unwrap().captures {
                let mut download = match client.fetch_traffic_capture(&capture.id, None).await {
                    Ok(download) => download,
                    Err(ClientError::RotatedAway { .. }) => {
                        gone += 1;
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                };
                let mut bytes = Vec::new();
                while let Some(chunk) = download.chunk().await.unwrap() {
                    bytes.extend(chunk);
                }
                assert!(bytes.len() as u64 >= capture.bytes, "shorter than it was listed");
                assert!(bytes == content(capture.generation, 0, bytes.len()), "not the bytes of {}", capture.id);
                whole += 1;
            }
        }
        (whole, gone)
    };
    let downloads = [(); 3].map(|()| download(client_of(&deploy)));
    let downloaded = within(futures_util::future::join_all(downloads)).await;
    done.store(true, Ordering::Relaxed);
    let generations = writer.join().unwrap();
    assert!(generations >= 30 && downloaded.iter().all(|(whole, _)| *whole >= 10), "{generations} {downloaded:?}");
}

#[tokio::test]
async fn row_80_a_file_that_is_removed_while_it_is_read_is_read_to_its_end() {
    const FILE: usize = 1 << 24;
    let ring = Arc::new(Ring::new(2, FILE));
    ring.add_all(FILE / RECORD + 1);
    let deploy = deploy(ring.clone()).await;
    let mut stream = TcpStream::connect(deploy.at).await.unwrap();
    stream.write_all(get(&path(1), HOST, &bearer(&deploy)).as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert_eq!(field(&head, "content-length"), Some(FILE.to_string().as_str()), "{head}");
    // More than the sockets hold is still to come.
    let turned = ring.clone();
    tokio::task::spawn_blocking(move || turned.turn_away(1)).await.unwrap();
    assert_eq!(status(&deploy.raw(&get(&path(1), HOST, &bearer(&deploy))).await), 410);
    let mut body = Vec::new();
    within(stream.read_to_end(&mut body)).await.unwrap();
    assert!(body == content(1, 0, FILE), "{} of {FILE} bytes", body.len());
}

/// Captures that can't be opened, or whose file is shorter than it was said to be.
struct Broken;

impl Captures for Broken {
    fn list(&self) -> TrafficCaptureListing {
        panic!("a capture's own fault")
    }

    fn open(&self, id: &agentenv_protocol::CaptureId) -> Result<agentenv_net::CaptureBytes, CaptureMissing> {
        if id.generation == 1 {
            return Err(CaptureMissing::Failed(std::io::Error::other("/secret/path")));
        }
        let file = tempfile::tempfile().map_err(CaptureMissing::Failed)?;
        file.set_len(1 << 20).map_err(CaptureMissing::Failed)?;
        Ok(agentenv_net::CaptureBytes { file, bytes: 1 << 21, complete: true })
    }
}

#[tokio::test]
async fn what_cant_be_read_is_the_gateways_fault_and_never_looks_whole() {
    let deploy = deploy(Arc::new(Broken)).await;
    for path in [LIST, &path(1)] {
        let answer = deploy.raw(&get(path, HOST, &bearer(&deploy))).await;
        assert!(status(&answer) == 500 && !answer.contains("secret"), "{answer}");
    }
    let mut download = client_of(&deploy).fetch_traffic_capture(&id(2), None).await.unwrap();
    let error = loop {
        match download.chunk().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it looked whole"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ClientError::Incomplete { length: 2_097_152, .. }), "{error:?}");
    assert_eq!(status(&deploy.raw(&get("/website/shop/", HOST, "")).await), 200);
}
