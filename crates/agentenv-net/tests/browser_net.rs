//! The network of a browser over real sockets: TLS, plain HTTP, the forward port (ATTACKS rows 19 to 35, 91, 96).

mod common;

use std::net::SocketAddr;

use agentenv_net::DenyReason;
use agentenv_protocol::SITE_KEY_HEADER;
use common::*;
use http::{Request, StatusCode, Version};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

type Bytes = bytes::Bytes;

/// A client that trusts the deploy's authority and nothing else.
fn connector(deploy: &Deploy, alpn: &[&str]) -> TlsConnector {
    trusting(CertificateDer::from_pem_slice(deploy.authority.ca_pem().as_bytes()).unwrap(), alpn)
}

async fn tls<T>(deploy: &Deploy, stream: T, sni: &str, alpn: &[&str]) -> std::io::Result<TlsStream<T>>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let name = ServerName::try_from(sni.to_owned()).unwrap();
    within(connector(deploy, alpn).connect(name, stream)).await
}

async fn https_get(deploy: &Deploy, at: SocketAddr, name: &str, request: &str) -> String {
    let stream = TcpStream::connect(at).await.unwrap();
    let mut stream = tls(deploy, stream, name, &["http/1.1"]).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = within(stream.read_to_end(&mut answer)).await;
    String::from_utf8(answer).unwrap()
}

type H2 = http2::SendRequest<Empty<Bytes>>;

async fn h2<T>(stream: T) -> H2
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn h2_get(sender: &mut H2, url: &str, headers: &[(&str, &str)]) -> (StatusCode, String) {
    let mut request = Request::builder().uri(url).version(Version::HTTP_2);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = within(sender.send_request(request.body(Empty::new()).unwrap())).await.unwrap();
    let status = answer.status();
    let body = within(answer.into_body().collect()).await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn net_01_every_name_is_trusted_https_with_http1_and_http2() {
    let deploy = Deploy::new().await;
    let browser = deploy.browser();
    let answer = https_get(&deploy, browser.https_at("shop.test"), "shop.test", &get("/a?b", "shop.test", "")).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("shop"), "{answer}");
    let request = deploy.shop.last();
    for line in [
        "GET /a?b HTTP/1.1\r\n",
        "host: shop.test\r\n",
        "x-forwarded-proto: https\r\n",
        "x-forwarded-host: shop.test\r\n",
    ] {
        assert!(request.contains(line), "{line}: {request}");
    }
    let stream = TcpStream::connect(browser.https_at("tracker.test")).await.unwrap();
    let stream = tls(&deploy, stream, "tracker.test", &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut sender = h2(stream).await;
    let cookies = [("cookie", "a=1"), ("cookie", "b=2")];
    let (status, body) = h2_get(&mut sender, "https://tracker.test/issues/", &cookies).await;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "tracker pages"));
    assert!(deploy.tracker_pages.last().contains("cookie: a=1; b=2\r\n"));
    let answer = raw(browser.http_at("shop.test"), &get("/", "shop.test", "")).await;
    assert!(answer.ends_with("shop") && deploy.shop.last().contains("x-forwarded-proto: http\r\n"));
    // A name under a wildcard has an address once it was asked for.
    let answer = https_get(&deploy, browser.https_at("a.shop.test"), "a.shop.test", &get("/", "a.shop.test", "")).await;
    assert!(answer.ends_with("shop") && deploy.shop.last().contains("host: a.shop.test\r\n"));
    assert!(deploy.denied.entries().is_empty(), "{:?}", deploy.denied.entries());
}

#[tokio::test]
async fn a_leaf_is_for_exactly_one_name_and_each_has_its_own_serial() {
    let deploy = Deploy::new().await;
    let browser = deploy.browser();
    let leaf = async |name: &str| {
        let stream = TcpStream::connect(browser.https_at(name)).await.unwrap();
        let stream = tls(&deploy, stream, name, &[]).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let (shop, again, tracker) = (leaf("shop.test").await, leaf("shop.test").await, leaf("tracker.test").await);
    assert_eq!(shop, again, "minted once");
    let contains = |certificate: &[u8], text: &str| certificate.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(contains(&shop, "shop.test") && !contains(&shop, "tracker.test") && contains(&tracker, "tracker.test"));
    // The serial number follows the version: INTEGER of 16 bytes.
    let serial = |certificate: &[u8]| {
        let at = certificate.windows(5).position(|part| part == [0x02, 0x01, 0x02, 0x02, 0x10]).unwrap() + 5;
        certificate[at..at + 16].to_vec()
    };
    assert_ne!(serial(&shop), serial(&tracker));
}

#[tokio::test]
async fn row_31_no_sni_or_another_one_is_closed_and_logged() {
    let deploy = Deploy::new().await;
    let browser = deploy.browser();
    let at = browser.https_at("shop.test");
    for sni in ["tracker.test", "evil.example", "127.0.0.1", "a.shop.test"] {
        let stream = TcpStream::connect(at).await.unwrap();
        assert!(tls(&deploy, stream, sni, &["h2"]).await.is_err(), "{sni}");
    }
    // Not TLS at all; an address that no name has.
    assert_eq!(raw(at, &get("/", "shop.test", "")).await.matches("HTTP").count(), 0);
    assert_eq!(raw(SocketAddr::from(([127, 18, 9, 9], browser.https)), "x").await, "");
    let (shop, entries) = (host("shop.test"), deploy.denied.entries());
    let other = |name: &str| (name.to_owned(), 443, DenyReason::OtherSni { expected: shop.clone() });
    assert_eq!(entries[..2], [other("tracker.test"), other("evil.example")]);
    assert_eq!(entries[2], ("shop.test".to_owned(), 443, DenyReason::NoSni { expected: shop.clone() }));
    assert_eq!(entries[3], other("a.shop.test"));
    assert_eq!(entries[4], ("shop.test".to_owned(), 443, DenyReason::NoHandshake));
    assert_eq!(entries[5], ("127.18.9.9".to_owned(), 443, DenyReason::UnknownAddress));
    assert!(deploy.shop.requests().is_empty());
}

/// The ClientHello of a real client.
fn client_hello(deploy: &Deploy, sni: &str) -> Vec<u8> {
    let config = connector(deploy, &["h2"]).config().clone();
    let mut client = rustls::ClientConnection::new(config, ServerName::try_from(sni.to_owned()).unwrap()).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    hello
}

/// The same handshake message in records of `size` bytes.
fn in_records(hello: &[u8], size: usize) -> Vec<u8> {
    hello[5..]
        .chunks(size)
        .flat_map(|part| [&[22, 3, 1], &u16::try_from(part.len()).unwrap().to_be_bytes()[..], part].concat())
        .collect()
}

#[tokio::test]
async fn row_31_a_client_hello_split_across_reads_and_records_has_the_same_verdict() {
    let deploy = Deploy::new().await;
    let browser = deploy.browser();
    let at = browser.https_at("shop.test");
    for (sni, granted) in [("shop.test", true), ("evil.example", false)] {
        let hello = client_hello(&deploy, sni);
        for (bytes, step) in
            [(hello.clone(), 1), (hello.clone(), 64), (in_records(&hello, 17), 4096), (in_records(&hello, 5), 3)]
        {
            let mut stream = TcpStream::connect(at).await.unwrap();
            stream.set_nodelay(true).unwrap();
            for piece in bytes.chunks(step) {
                stream.write_all(piece).await.unwrap();
                stream.flush().await.unwrap();
            }
            let mut first = [0; 1];
            let read = within(stream.read(&mut first)).await.unwrap_or(0);
            // 22: a ServerHello follows.
            assert_eq!((read, first[0]) == (1, 22), granted, "{sni} {step}");
        }
    }
    let denied = deploy.denied.hosts();
    assert_eq!(denied, ["evil.example"; 4]);
}

#[tokio::test]
async fn a_client_hello_that_is_too_long_or_too_slow_is_closed() {
    let quick = agentenv_net::Limits { handshake: std::time::Duration::from_millis(100), ..limits() };
    let deploy = Deploy::with(quick, Echo::labelled("shop").await).await;
    let browser = deploy.browser();
    let hello = client_hello(&deploy, "shop.test");
    // Announces 60 KB and sends them.
    let mut long = vec![1, 0, 0xea, 0x60, 3, 3];
    long.extend(vec![0x41; 60_000]);
    let long = in_records(&[&[0; 5][..], &long].concat(), 16_000);
    for bytes in [&long[..], &hello[..hello.len() - 1]] {
        let mut stream = TcpStream::connect(browser.https_at("shop.test")).await.unwrap();
        let _ = stream.write_all(bytes).await;
        let mut rest = Vec::new();
        let _ = within(stream.read_to_end(&mut rest)).await;
        assert!(rest.first() != Some(&22), "no ServerHello");
    }
    assert_eq!(deploy.denied.entries().len(), 2);
    assert!(deploy.denied.entries().iter().all(|(_, _, reason)| *reason == DenyReason::NoHandshake));
}

#[tokio::test]
async fn row_30_row_91_a_host_or_authority_other_than_the_connections_is_421() {
    let deploy = Deploy::new().await;
    let browser = deploy.browser();
    for other in ["tracker.test", "evil.example", "a.shop.test", "shop.test:444", "127.0.0.1"] {
        let answer = https_get(&deploy, browser.https_at("shop.test"), "shop.test", &get("/", other, "")).await;
        assert_eq!(status(&answer), 421, "{other}: {answer}");
        let answer = raw(browser.http_at("shop.test"), &get("/", other, "")).await;
        assert_eq!(status(&answer), 421, "{other}: {answer}");
    }
    let stream = TcpStream::connect(browser.https_at("shop.test")).await.unwrap();
    let mut sender = h2(tls(&deploy, stream, "shop.test", &["h2"]).await.unwrap()).await;
    assert_eq!(h2_get(&mut sender, "https://tracker.test/", &[]).await.0, StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(h2_get(&mut sender, "https://shop.test/", &[("host", "tracker.test")]).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(h2_get(&mut sender, "https://shop.test/", &[]).await.0, StatusCode::OK);
    assert_eq!(deploy.shop.requests().len(), 1);
    assert!(deploy.tracker_pages.requests().is_empty());
    assert_eq!(deploy.denied.entries().len(), 11);
    for spelling in ["SHOP.test", "shop.test.", "shop.test:443"] {
        let answer = https_get(&deploy, browser.https_at("shop.test"), "shop.test", &get("/", spelling, "")).await;
        assert_eq!(status(&answer), 200, "{spelling}");
        assert!(deploy.shop.last().contains("host: shop.test\r\n"));
    }
}

#[tokio::test]
async fn the_forward_port_tunnels_to_https_and_http_and_takes_absolute_urls() {
    let deploy = Deploy::new().await;
    let browser = deploy.browser();
    let (head, stream) = connect(browser.forward, "shop.test:443").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let mut sender = h2(tls(&deploy, stream, "shop.test", &["h2"]).await.unwrap()).await;
    assert_eq!(h2_get(&mut sender, "https://shop.test/", &[]).await, (StatusCode::OK, "shop".to_owned()));
    let (head, mut stream) = connect(browser.forward, "tracker.test:80").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    stream.write_all(get("/", "tracker.test", "").as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.ends_with("tracker pages"), "{answer}");
    let answer =
        raw(browser.forward, &get("http://shop.test/a?b", "shop.test", "Proxy-Authorization: Basic eA==\r\n")).await;
    assert!(answer.ends_with("shop"), "{answer}");
    let request = deploy.shop.last();
    assert!(request.starts_with("GET /a?b HTTP/1.1\r\n") && !request.contains("proxy-"), "row 8: {request}");
    for (request, expected) in [
        (get("/", "shop.test", ""), 400),
        (get("http://shop.test/", "tracker.test", ""), 400),
        (get("https://shop.test/", "shop.test", ""), 400),
        (get("ftp://shop.test/", "shop.test", ""), 400),
        ("CONNECT shop.test:443 HTTP/1.1\r\nHost: tracker.test:443\r\n\r\n".to_owned(), 400),
        ("CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\nContent-Length: 3\r\n\r\nabc".to_owned(), 400),
    ] {
        assert_eq!(status(&raw(browser.forward, &request).await), expected, "{request}");
    }
}

#[tokio::test]
async fn rows_19_to_23_32_33_34_the_forward_port_denies_with_403_naming_host_and_reason() {
    let deploy = Deploy::new().await;
    let browser = deploy.browser();
    for (target, shown) in [
        ("example.com:443", "example.com"),
        ("shop.test.evil:443", "shop.test.evil"),
        ("127.1:443", "127.1"),
        ("2130706433:80", "2130706433"),
        ("0x7f.1:80", "0x7f.1"),
        ("0177.0.0.1:80", "0177.0.0.1"),
        ("0.0.0.0:80", "0.0.0.0"),
        ("[::1]:443", "[::1]"),
        ("[::ffff:127.0.0.1]:443", "[::ffff:127.0.0.1]"),
        ("[64:ff9b::7f00:1]:443", "[64:ff9b::7f00:1]"),
        ("[fd00::1]:443", "[fd00::1]"),
        ("user@shop.test:443", "user@shop.test"),
        ("localhost:443", "localhost"),
        ("a.localhost:80", "a.localhost"),
        ("169.254.169.254:80", "169.254.169.254"),
        ("127.0.0.1:9222", "127.0.0.1"),
        ("shop.test:22", "shop.test"),
        ("shop.test:25", "shop.test"),
        ("shop.test:0", "shop.test"),
        ("EXAMPLE.com.:443", "EXAMPLE.com."),
    ] {
        let before = deploy.denied.entries().len();
        let (head, mut stream) = connect(browser.forward, target).await;
        assert_eq!(status(&head), 403, "{target}");
        let mut body = String::new();
        within(stream.read_to_string(&mut body)).await.unwrap();
        assert!(body.contains(&format!("`{shown}` is denied: ")), "{body}");
        // Row 33: an absolute URL has the same verdict.
        let answer = raw(browser.forward, &get(&format!("http://{target}/"), target, "")).await;
        assert!(matches!(status(&answer), 403 | 400), "{target}: {answer}");
        assert!(deploy.denied.entries().len() > before, "{target} is logged");
    }
    for target in ["[example.com]:443", "host\0.ok:443", "shop.test:99999", "shop.test"] {
        let answer = raw(browser.forward, &format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")).await;
        assert!(answer.is_empty() || matches!(status(&answer), 403 | 400), "{target}: {answer}");
    }
    assert!(deploy.shop.requests().is_empty() && deploy.shop.connections() == 0);
}

#[tokio::test]
async fn row_29_a_tunnel_whose_sni_differs_is_closed() {
    let deploy = Deploy::new().await;
    let browser = deploy.browser();
    let (_, stream) = connect(browser.forward, "shop.test:443").await;
    assert!(tls(&deploy, stream, "tracker.test", &["h2"]).await.is_err());
    let expected = host("shop.test");
    assert_eq!(deploy.denied.entries(), [("tracker.test".to_owned(), 443, DenyReason::OtherSni { expected })]);
    // And row 30 within one that agrees.
    let (_, stream) = connect(browser.forward, "shop.test:443").await;
    let mut sender = h2(tls(&deploy, stream, "shop.test", &["h2"]).await.unwrap()).await;
    assert_eq!(h2_get(&mut sender, "https://tracker.test/", &[]).await.0, StatusCode::MISDIRECTED_REQUEST);
}

#[tokio::test]
async fn row_35_a_connect_within_a_tunnel_has_the_same_verdict() {
    let deploy = Deploy::new().await;
    let browser = deploy.browser();
    for (target, expected) in [("example.com:443", 403), ("127.0.0.1:80", 403), ("tracker.test:443", 400)] {
        let (_, mut stream) = connect(browser.forward, "shop.test:80").await;
        stream.write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes()).await.unwrap();
        assert_eq!(status(&read_head(&mut stream).await), expected, "{target}");
    }
}

#[tokio::test]
async fn row_96_operations_are_without_the_sites_key_whoever_asks() {
    let deploy = Deploy::new().await;
    let browser = deploy.browser();
    let forged = format!("Agentenv-Site-Key: {}\r\n", deploy.key.expose());
    for path in ["/api/data/get", "/api/data/reset", "/api/ready", "/api/session"] {
        https_get(&deploy, browser.https_at("shop.test"), "shop.test", &get(path, "shop.test", &forged)).await;
        raw(browser.http_at("shop.test"), &get(path, "shop.test", &forged)).await;
        raw(browser.forward, &get(&format!("http://shop.test{path}"), "shop.test", &forged)).await;
    }
    assert_eq!(deploy.shop.requests().len(), 12);
    for request in deploy.shop.requests() {
        assert!(
            !request.to_lowercase().contains(SITE_KEY_HEADER) && !request.contains(deploy.key.expose()),
            "{request}"
        );
    }
    // With a frontend: GET /api/session is the server's, everything else its own.
    let tracker = async |method: &str, path: &str| {
        let request = get(path, "tracker.test", &forged).replacen("GET", method, 1);
        https_get(&deploy, browser.https_at("tracker.test"), "tracker.test", &request).await
    };
    assert!(tracker("GET", "/api/session?link=x").await.ends_with("tracker server"));
    for (method, path) in
        [("POST", "/api/session"), ("GET", "/api/session/"), ("GET", "/api/%73ession"), ("POST", "/api/data/get")]
    {
        assert!(tracker(method, path).await.ends_with("tracker pages"), "{method} {path}");
    }
    assert!(!deploy.tracker_server.last().contains(deploy.key.expose()));
}

#[tokio::test]
async fn websockets_pass_through_tls_and_through_tunnels() {
    const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let deploy = Deploy::with(limits(), Echo::new(|_| Reply::Mirror(SWITCH.into())).await).await;
    let browser = deploy.browser();
    let upgrade = "GET /ws HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let direct = TcpStream::connect(browser.https_at("shop.test")).await.unwrap();
    let (_, tunnel) = connect(browser.forward, "shop.test:443").await;
    for stream in [direct, tunnel] {
        let mut stream = tls(&deploy, stream, "shop.test", &["http/1.1"]).await.unwrap();
        stream.write_all(upgrade.as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        stream.write_all(b"ping").await.unwrap();
        let mut back = [0; 4];
        within(stream.read_exact(&mut back)).await.unwrap();
        assert_eq!(&back, b"ping");
    }
}

#[tokio::test]
async fn row_65_idle_tunnels_are_closed() {
    let quick = std::time::Duration::from_millis(100);
    let deploy =
        Deploy::with(agentenv_net::Limits { handshake: quick, head: quick, ..limits() }, Echo::labelled("shop").await)
            .await;
    let browser = deploy.browser();
    for target in ["shop.test:443", "shop.test:80"] {
        let (_, mut stream) = connect(browser.forward, target).await;
        let mut rest = Vec::new();
        let _ = within(stream.read_to_end(&mut rest)).await;
    }
    // HTTP/2, idle after a request.
    let stream = TcpStream::connect(browser.https_at("shop.test")).await.unwrap();
    let mut sender = h2(tls(&deploy, stream, "shop.test", &["h2"]).await.unwrap()).await;
    assert_eq!(h2_get(&mut sender, "https://shop.test/", &[]).await.0, StatusCode::OK);
    within(async {
        while !sender.is_closed() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn row_64_rapid_resets_end_the_connection_and_not_the_listener() {
    let deploy = Deploy::with(limits(), Echo::new(|_| Reply::Silence).await).await;
    let browser = deploy.browser();
    let stream = TcpStream::connect(browser.https_at("shop.test")).await.unwrap();
    let mut sender = h2(tls(&deploy, stream, "shop.test", &["h2"]).await.unwrap()).await;
    within(async {
        for _ in 0..10_000 {
            if sender.ready().await.is_err() {
                break;
            }
            let request = Request::builder().uri("https://shop.test/").body(Empty::<Bytes>::new()).unwrap();
            drop(sender.send_request(request));
        }
    })
    .await;
    let stream = TcpStream::connect(browser.https_at("tracker.test")).await.unwrap();
    let mut sender = h2(tls(&deploy, stream, "tracker.test", &["h2"]).await.unwrap()).await;
    assert_eq!(h2_get(&mut sender, "https://tracker.test/", &[]).await.0, StatusCode::OK);
}

#[tokio::test]
async fn row_65_tunnels_are_bounded() {
    let deploy = Deploy::with(agentenv_net::Limits { tunnels: 2, ..limits() }, Echo::labelled("shop").await).await;
    let browser = deploy.browser();
    let first = connect(browser.forward, "shop.test:443").await;
    let _second = connect(browser.forward, "shop.test:80").await;
    assert_eq!(status(&connect(browser.forward, "shop.test:443").await.0), 503);
    drop(first);
    within(async { while status(&connect(browser.forward, "shop.test:443").await.0) != 200 {} }).await;
}

#[tokio::test]
async fn shutdown_ends_every_listener_and_connection() {
    let deploy = Deploy::new().await;
    let browser = deploy.browser();
    let (https, http, forward) = (browser.https_at("shop.test"), browser.http_at("shop.test"), browser.forward);
    let (_, mut tunnel) = connect(forward, "shop.test:443").await;
    within(browser.handle.shutdown()).await;
    let mut rest = Vec::new();
    let _ = within(tunnel.read_to_end(&mut rest)).await;
    for at in [https, http, forward] {
        assert!(TcpStream::connect(at).await.is_err());
    }
}
