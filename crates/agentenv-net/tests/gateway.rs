//! The gateway over real sockets: tokens, framing, routes (ATTACKS rows 1 to 18).

mod common;

use agentenv_net::Role;
use agentenv_protocol::SITE_KEY_HEADER;
use common::*;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::watch,
};

const HOST: &str = "127.0.0.1";

fn assert_no_token(deploy: &Deploy) {
    for echo in [&deploy.shop, &deploy.tracker_server, &deploy.tracker_pages] {
        for request in echo.requests() {
            assert!(!request.contains(deploy.control.expose()), "{request}");
            assert!(!request.to_ascii_lowercase().contains("agentenv-control-token"), "{request}");
        }
    }
}

#[tokio::test]
async fn row_01_the_control_token_opens_svc_and_reaches_no_site() {
    let deploy = Deploy::new().await;
    let token = deploy.control.expose();
    for headers in [
        format!("Authorization: Bearer {token}\r\n"),
        format!("Agentenv-Control-Token: {token}\r\nAuthorization: Basic c2l0ZTpvd24=\r\n"),
    ] {
        let answer = deploy.raw(&get("/svc/shop/api/ready?x=1", HOST, &headers)).await;
        assert_eq!(status(&answer), 200, "{answer}");
        let request = deploy.shop.last();
        assert!(request.starts_with("GET /api/ready?x=1 HTTP/1.1\r\n"), "{request}");
        assert!(request.contains(&format!("{SITE_KEY_HEADER}: {}\r\n", deploy.key.expose())), "{request}");
        assert!(request.contains("host: shop.test\r\n"), "{request}");
        // GW-3: what isn't the token is the site's own.
        assert_eq!(request.contains("authorization: Basic c2l0ZTpvd24="), headers.contains("Basic"), "{request}");
    }
    let answer = deploy.raw(&get("/website/shop/", HOST, &format!("Authorization: Bearer {token}\r\n"))).await;
    assert_eq!(status(&answer), 200);
    let answer = deploy.raw(&get("/website/shop/", HOST, "Authorization: Bearer mine\r\n")).await;
    assert_eq!(status(&answer), 200);
    assert!(deploy.shop.last().contains("authorization: Bearer mine\r\n"));
    assert_no_token(&deploy);
}

#[tokio::test]
async fn a_missing_or_wrong_token_is_401_and_nothing_else() {
    let deploy = Deploy::new().await;
    let token = deploy.control.expose();
    for headers in [
        String::new(),
        "Authorization: Bearer wrong\r\n".to_owned(),
        format!("Authorization: Bearer {}\r\n", &token[1..]),
        format!("Authorization: Bearer {}\r\n", deploy.agent.expose()),
        format!("Authorization: {token}x\r\n").replace(token, "nothing"),
        "Agentenv-Control-Token: wrong\r\n".to_owned(),
        "Agentenv-Control-Token:\r\n".to_owned(),
    ] {
        for path in ["/svc/shop/api/ready", "/svc/nobody/api/ready"] {
            assert_eq!(status(&deploy.raw(&get(path, HOST, &headers)).await), 401, "{headers}");
        }
    }
    let right = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(status(&deploy.raw(&get("/svc/nobody/api/ready", HOST, &right)).await), 404);
    assert_eq!(status(&deploy.raw(&get("/traffic/v1/captures", HOST, &right)).await), 404);
    assert!(deploy.shop.requests().is_empty());
}

#[tokio::test]
async fn row_02_spellings_of_the_authorization_header() {
    let deploy = Deploy::new().await;
    let token = deploy.control.expose();
    for (headers, expected) in [
        (format!("aUTHORIZATION: bEARER {token}\r\n"), 200),
        (format!("Authorization: Bearer {token}\r\nAuthorization: Bearer {token}\r\n"), 400),
        (format!("Authorization: Basic eA==\r\nAuthorization: Bearer {token}\r\n"), 400),
        (format!("Authorization:\r\n Bearer {token}\r\n"), 400),
        (format!("X: y\r\n\tAuthorization: Bearer {token}\r\n"), 400),
        (format!(": Bearer {token}\r\n"), 400),
        (format!("Authorization : Bearer {token}\r\n"), 400),
        (format!("Authorization\r\n: Bearer {token}\r\n"), 400),
        (format!("X: y\nAuthorization: Bearer {token}\r\n"), 400),
    ] {
        let answer = deploy.raw(&get("/svc/shop/api/ready", HOST, &headers)).await;
        assert_eq!(status(&answer), expected, "{headers}: {answer}");
        assert!(!answer.contains(token));
    }
    assert_no_token(&deploy);
}

#[tokio::test]
async fn row_03_fields_that_connection_names() {
    let deploy = Deploy::new().await;
    let headers = format!(
        "Connection: authorization, x-forwarded-for, agentenv-site-key, host, x-mine\r\nX-Forwarded-For: 9.9.9.9\r\nX-Mine: 1\r\n\
         Agentenv-Control-Token: {}\r\nAuthorization: Basic c2l0ZTpvd24=\r\n",
        deploy.control.expose()
    );
    let answer = deploy.raw(&get("/svc/shop/api/ready", HOST, &headers)).await;
    assert_eq!(status(&answer), 200, "{answer}");
    let request = deploy.shop.last();
    for present in ["x-forwarded-for: 127.0.0.1\r\n", "host: shop.test\r\n", SITE_KEY_HEADER] {
        assert!(request.contains(present), "{present}: {request}");
    }
    for absent in ["x-mine", "authorization", "9.9.9.9", "connection"] {
        assert!(!request.contains(absent), "{absent}: {request}");
    }
}

#[tokio::test]
async fn row_04_the_token_in_cookie_query_path_or_another_header_is_refused() {
    let deploy = Deploy::new().await;
    let token = deploy.control.expose();
    let encoded = token.bytes().map(|b| format!("%{b:02X}")).collect::<String>();
    let authorized = format!("Authorization: Bearer {token}\r\n");
    for (path, headers) in [
        (format!("/website/shop/?t={token}"), String::new()),
        (format!("/website/shop/?t={encoded}"), String::new()),
        (format!("/website/shop/{token}"), String::new()),
        (format!("/svc/shop/api/ready?token={token}"), authorized.clone()),
        ("/website/shop/".to_owned(), format!("Cookie: a=b; t={token}\r\n")),
        ("/website/shop/".to_owned(), format!("Referer: http://x/{token}\r\n")),
        ("/website/shop/".to_owned(), format!("X-Any: {token}\r\n")),
        ("/website/shop/".to_owned(), format!("Proxy-Authorization: Bearer {token}\r\n")),
        ("/svc/shop/api/ready".to_owned(), format!("{authorized}Cookie: t={token}\r\n")),
    ] {
        let answer = deploy.raw(&get(&path, HOST, &headers)).await;
        assert_eq!(status(&answer), 400, "{path} {headers}");
        assert!(!answer.contains(token), "{answer}");
    }
    assert!(deploy.shop.requests().is_empty());
}

#[tokio::test]
async fn row_05_row_06_redirects_are_never_followed_and_the_token_is_in_none() {
    let shop = Echo::new(|request| {
        let reflected = request.replace("\r\n", " ");
        Reply::Bytes(
            format!(
                "HTTP/1.1 302 Found\r\nLocation: https://evil.example/?{}\r\nX-Reflected: {reflected}\r\nContent-Length: {}\r\n\r\n{request}",
                reflected.replace(' ', "+"),
                request.len()
            )
            .into_bytes(),
        )
    })
    .await;
    let deploy = Deploy::with(limits(), shop).await;
    let token = deploy.control.expose();
    for path in ["/svc/shop/api/ready", "/website/shop/"] {
        let answer = deploy.raw(&get(path, HOST, &format!("Authorization: Bearer {token}\r\n"))).await;
        assert_eq!(status(&answer), 302, "{answer}");
        assert!(answer.contains("location: https://evil.example/?GET+/"), "{answer}");
        assert!(!answer.contains(token), "{answer}");
    }
    assert_eq!(deploy.shop.requests().len(), 2);
}

#[tokio::test]
async fn row_08_row_09_proxy_credentials_and_forged_forwarding_are_replaced() {
    let deploy = Deploy::new().await;
    let forged = "Proxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\nX-Forwarded-For: 1.2.3.4\r\n\
        X-Forwarded-Host: evil.example\r\nX-Forwarded-Proto: gopher\r\nX-Forwarded-Port: 1\r\nForwarded: for=1.2.3.4\r\n\
        X_Forwarded_For: 1.2.3.4\r\nX-Real-IP: 1.2.3.4\r\nAgentenv-Site-Key: forged\r\nTE: trailers\r\n";
    assert_eq!(status(&deploy.raw(&get("/website/shop/a?b", HOST, forged)).await), 200);
    let request = deploy.shop.last();
    let mut lines: Vec<_> = request.trim_end().split("\r\n").collect();
    lines[1..].sort_unstable();
    assert_eq!(
        lines,
        [
            "GET /a?b HTTP/1.1",
            "host: shop.test",
            "x-forwarded-for: 127.0.0.1",
            "x-forwarded-host: shop.test",
            "x-forwarded-proto: https",
        ]
    );
}

#[tokio::test]
async fn row_10_trailers_are_dropped() {
    let deploy = Deploy::new().await;
    let request = format!(
        "POST /website/shop/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\nX-T: {}\r\nAuthorization: Bearer x\r\n\r\n",
        deploy.control.expose()
    );
    assert_eq!(status(&deploy.raw(&request).await), 200);
    let request = deploy.shop.last();
    assert!(request.ends_with("\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), "{request}");
    assert_no_token(&deploy);
}

#[tokio::test]
async fn row_11_row_12_requests_framed_two_ways_are_400_and_close() {
    let deploy = Deploy::new().await;
    let smuggled = "GET /website/shop/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (fields, body) in [
        ("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nX"),
        ("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "5c\r\nGPOST / HTTP/1.1\r\n"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: x, chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: \x0bchunked\r\n", "0\r\n\r\n"),
        ("Content-Length: +3\r\n", "abc"),
        ("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
        ("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"),
        ("Content-Length:\r\nContent-Length: 3\r\n", "abc"),
        ("Content-Length: 3, 4\r\n", "abc"),
        ("X: y\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "5;ext=1\r\nhello\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "10000000000000000\r\nhello\r\n"),
        ("Transfer-Encoding: chunked\r\n", "5\nhello\n0\n\n"),
        ("Transfer-Encoding: chunked\r\n", "-5\r\nhello\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "5\r\nhelloX0\r\n\r\n"),
    ] {
        let request = format!("POST /website/shop/first HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{body}{smuggled}");
        let answer = deploy.raw(&request).await;
        assert_eq!(status(&answer), 400, "{fields}{body}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer}");
    }
    for request in deploy.shop.requests() {
        assert!(!request.contains("smuggled"), "{request}");
    }
}

#[tokio::test]
async fn pipelined_requests_that_are_framed_well_are_answered_in_order() {
    let deploy = Deploy::new().await;
    let post = "POST /website/shop/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello";
    let chunked =
        "POST /website/shop/2 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let answer = deploy.raw(&format!("{post}{chunked}{}", get("/website/shop/3", HOST, ""))).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3, "{answer}");
    let paths: Vec<_> =
        deploy.shop.requests().iter().map(|request| request[..request.find(" HTTP").unwrap()].to_owned()).collect();
    assert_eq!(paths, ["POST /1", "POST /2", "GET /3"]);
    assert_eq!(deploy.shop.connections(), 1, "the connection to the site is kept");
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n";
const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";

fn websocket(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}{headers}\r\n")
}

#[tokio::test]
async fn row_07_websockets_pass_without_the_token_and_control_routes_still_need_it() {
    let deploy = Deploy::with(limits(), Echo::new(|_| Reply::Mirror(SWITCH.into())).await).await;
    let authorized = format!("Authorization: Bearer {}\r\n", deploy.control.expose());
    assert_eq!(status(&deploy.raw(&websocket("/svc/shop/ws", "")).await), 401);
    for path in ["/svc/shop/ws", "/website/shop/ws"] {
        let mut stream = TcpStream::connect(deploy.at).await.unwrap();
        stream.write_all(websocket(path, &authorized).as_bytes()).await.unwrap();
        let head = read_head(&mut stream).await;
        assert!(head.starts_with("HTTP/1.1 101"), "{head}");
        assert!(
            head.to_lowercase().contains("upgrade: websocket") && head.contains("sec-websocket-accept: x"),
            "{head}"
        );
        stream.write_all(b"ping").await.unwrap();
        let mut back = [0; 4];
        within(stream.read_exact(&mut back)).await.unwrap();
        assert_eq!(&back, b"ping");
    }
    assert!(deploy.shop.last().contains("sec-websocket-key: x3JJHMbDL1EzLkh9GBhXDw=="));
    assert_no_token(&deploy);
}

#[tokio::test]
async fn row_13_bytes_behind_an_upgrade_are_never_passed_on_before_101() {
    let (go, gone) = watch::channel(false);
    let shop = Echo::new(move |_| Reply::Later(Vec::new(), gone.clone(), SWITCH.into())).await;
    let deploy = Deploy::with(limits(), shop).await;
    // In one piece with the head.
    let answer = deploy.raw(&format!("{}early", websocket("/website/shop/ws", ""))).await;
    assert_eq!(status(&answer), 400);
    // After it, before the site has said yes.
    let mut stream = TcpStream::connect(deploy.at).await.unwrap();
    stream.write_all(websocket("/website/shop/ws", "").as_bytes()).await.unwrap();
    deploy.shop.has_requests(1).await;
    stream.write_all(b"early").await.unwrap();
    let mut rest = Vec::new();
    let _ = within(stream.read_to_end(&mut rest)).await;
    assert_eq!(rest, b"", "closed, unanswered");
    go.send(true).unwrap();
    deploy.shop.all_closed().await;
    assert!(deploy.shop.requests().iter().all(|request| !request.contains("early")));
    // An upgrade with a body has none to give.
    let answer = deploy.raw(&format!("{}abc", websocket("/website/shop/ws", "Content-Length: 3\r\n"))).await;
    assert_eq!(status(&answer), 400);
}

#[tokio::test]
async fn a_refused_upgrade_closes_the_connection() {
    let deploy = Deploy::new().await;
    let answer = deploy.raw(&websocket("/website/shop/ws", "")).await;
    assert_eq!(status(&answer), 200);
    assert!(answer.contains("connection: close"), "{answer}");
}

#[tokio::test]
async fn row_14_http2_on_the_plain_listener_is_refused() {
    let deploy = Deploy::new().await;
    let answer = deploy.raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(answer.is_empty() || status(&answer) == 400, "{answer}");
    let h2c = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n";
    let answer = deploy.raw(&format!("GET /website/shop/ HTTP/1.1\r\nHost: localhost\r\n{h2c}\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "answered in HTTP/1.1: {answer}");
    let request = deploy.shop.last();
    assert!(!request.to_lowercase().contains("h2c") && !request.to_lowercase().contains("http2-settings"), "{request}");
}

#[tokio::test]
async fn row_15_absolute_form_that_differs_from_host_and_two_hosts() {
    let deploy = Deploy::new().await;
    let at = deploy.at;
    for (request, expected) in [
        (get(&format!("http://{at}/website/shop/"), &at.to_string(), ""), 200),
        (get("http://other/website/shop/", &at.to_string(), ""), 400),
        (get("/website/shop/", "a", "Host: b\r\n"), 400),
        (get("/website/shop/", "a", "Host: a\r\n"), 400),
        ("GET /website/shop/ HTTP/1.1\r\nConnection: close\r\n\r\n".to_owned(), 400),
        ("GET /website/shop/ HTTP/1.0\r\n\r\n".to_owned(), 400),
        (format!("CONNECT {at} HTTP/1.1\r\nHost: {at}\r\n\r\n"), 405),
    ] {
        assert_eq!(status(&deploy.raw(&request).await), expected, "{request}");
    }
}

/// A page of somebody else's whose name leads to 127.0.0.1 reads no site's pages; with a token a name in between may.
#[tokio::test]
async fn row_15_a_host_that_is_not_the_gateways_gets_no_page() {
    let deploy = Deploy::new().await;
    let (port, authorized) = (deploy.at.port(), format!("Authorization: Bearer {}\r\n", deploy.control.expose()));
    for host in ["evil.example".to_owned(), format!("evil.example:{port}"), "shop.test".to_owned(), "127.1".to_owned()]
    {
        for path in ["/website/shop/", "/website/shop", "/website/nobody/", "/.well-known/agent-card.json"] {
            for target in [path.to_owned(), format!("http://{host}{path}")] {
                let answer = deploy.raw(&get(&target, &host, &authorized)).await;
                assert!(status(&answer) == 421 && answer.contains("localhost"), "{host} {target}: {answer}");
            }
        }
        let websocket = websocket("/website/shop/ws", "").replace("Host: localhost", &format!("Host: {host}"));
        assert_eq!(status(&deploy.raw(&websocket).await), 421, "{host}");
    }
    assert!(deploy.shop.requests().is_empty());
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        assert_eq!(status(&deploy.raw(&get("/website/shop/", &host, "")).await), 200, "{host}");
    }
    assert_eq!(status(&deploy.raw(&get("/svc/shop/api/ready", "gateway.example", &authorized)).await), 200);
}

#[tokio::test]
async fn row_16_paths_into_another_sites_route_are_404() {
    let deploy = Deploy::new().await;
    let authorized = format!("Authorization: Bearer {}\r\n", deploy.control.expose());
    for path in [
        "/website/shop/../tracker/",
        "/website/shop/%2e%2e/tracker/",
        "/website/shop/..%2ftracker/",
        "/website/shop/%2e%2e%2ftracker/",
        "/website/shop/..;/tracker/",
        "/website/shop//tracker/",
        "//website/shop/",
        "/website/shop%2f..%2ftracker/",
        "/website/shop;/",
        "/website/shop%00/",
        "/website/shop/%00",
        "/website/shop/..\\tracker/",
        "/svc/shop/../tracker/api/ready",
        "/svc/shop/%2e%2e/tracker/api/ready",
        "/svc/shop//api/ready",
        "/website/live/",
        "/website/live",
        "/website/nobody/",
        "/",
    ] {
        let answer = deploy.raw(&get(path, HOST, &authorized)).await;
        assert_eq!(status(&answer), 404, "{path}: {answer}");
    }
    for echo in [&deploy.shop, &deploy.tracker_server, &deploy.tracker_pages] {
        assert!(echo.requests().is_empty());
    }
}

#[tokio::test]
async fn routes_lead_where_they_say() {
    let deploy = Deploy::new().await;
    let card = deploy.raw(&get("/.well-known/agent-card.json", HOST, "")).await;
    assert!(card.contains(&format!("\"url\":\"http://{}/\"", deploy.at)), "{card}");
    assert!(deploy.raw(&get("/website/tracker/issues/", HOST, "")).await.ends_with("tracker pages"));
    assert!(deploy.tracker_pages.last().contains("host: tracker.test\r\n"));
    // PR-3: the page route of sign-in is the server's; PR-8: without a key. Nothing else under `/api/` is.
    assert!(deploy.raw(&get("/website/tracker/api/session?link=x", HOST, "")).await.ends_with("tracker server"));
    assert!(!deploy.tracker_server.last().contains(SITE_KEY_HEADER));
    assert!(deploy.raw(&get("/website/tracker/api/data/get", HOST, "")).await.ends_with("tracker pages"));
    let bare = deploy.raw(&get("/website/shop", HOST, "")).await;
    assert!(status(&bare) == 308 && bare.contains("location: /website/shop/\r\n"), "{bare}");
    assert_eq!(deploy.gateway.browse_url(&name("shop")), Some(format!("http://{}/website/shop/", deploy.at)));
    assert_eq!(deploy.gateway.browse_url(&name("live")), None);
}

#[tokio::test]
async fn locations_and_cookies_of_pages_are_rewritten_and_bodies_are_not() {
    let shop = Echo::new(|_| {
        Reply::Bytes(with_headers(
            "Location: https://shop.test/cart\r\nSet-Cookie: a=b; Path=/; Domain=shop.test\r\nSet-Cookie: c=d; HttpOnly\r\n\
             Connection: x-hop\r\nX-Hop: 1\r\nAlt-Svc: h3=\":443\"\r\n",
            "<a href='https://shop.test/'>",
        ))
    })
    .await;
    let deploy = Deploy::with(limits(), shop).await;
    let answer = deploy.raw(&get("/website/shop/", HOST, "")).await;
    for line in [
        "location: /website/shop/cart\r\n",
        "set-cookie: a=b; Path=/website/shop/\r\n",
        "set-cookie: c=d; HttpOnly\r\n",
    ] {
        assert!(answer.contains(line), "{line}: {answer}");
    }
    assert!(answer.ends_with("<a href='https://shop.test/'>"), "{answer}");
    assert!(!answer.contains("x-hop") && !answer.contains("alt-svc"), "{answer}");
}

#[tokio::test]
async fn gw_04_events_stream_and_a_site_that_is_down_or_slow_is_named() {
    let (go, gone) = watch::channel(false);
    let shop = Echo::new(move |request| {
        if request.contains("/events") {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n";
            Reply::Later(head.into(), gone.clone(), b"9\r\ndata: 2\n\n\r\n0\r\n\r\n".to_vec())
        } else if request.contains("/garbage") {
            Reply::Close(b"SSH-2.0-OpenSSH\r\n".to_vec())
        } else {
            Reply::Silence
        }
    })
    .await;
    let quick = agentenv_net::Limits { answer: std::time::Duration::from_millis(150), ..limits() };
    let deploy = Deploy::with(quick, shop).await;
    let mut stream = TcpStream::connect(deploy.at).await.unwrap();
    stream.write_all(get("/website/shop/events", HOST, "").as_bytes()).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(head.contains("text/event-stream"), "{head}");
    let mut first = [0; 14];
    within(stream.read_exact(&mut first)).await.unwrap();
    assert_eq!(&first, b"9\r\ndata: 1\n\n\r\n", "before the second event was sent");
    go.send(true).unwrap();
    let mut rest = Vec::new();
    within(stream.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(rest, b"9\r\ndata: 2\n\n\r\n0\r\n\r\n");

    let slow = deploy.raw(&get("/website/shop/slow", HOST, "")).await;
    assert!(status(&slow) == 504 && slow.contains("shop/server"), "{slow}");
    let garbage = deploy.raw(&get("/website/shop/garbage", HOST, "")).await;
    assert!(status(&garbage) == 502 && garbage.contains("shop/server"), "{garbage}");
    deploy.wire.cut(&service("tracker", Role::Frontend));
    let down = deploy.raw(&get("/website/tracker/", HOST, "")).await;
    assert!(status(&down) == 502 && down.contains("tracker/frontend"), "{down}");
}

#[tokio::test]
async fn row_65_interim_answers_come_to_an_end() {
    let interim = |count: usize| "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n".repeat(count);
    let (_never, gone) = watch::channel(false);
    let shop = Echo::new(move |request| match request.contains("/endless") {
        true => Reply::Later(interim(300).into(), gone.clone(), Vec::new()),
        false => Reply::Bytes([interim(200).into_bytes(), ok("there")].concat()),
    })
    .await;
    let deploy = Deploy::with(limits(), shop).await;
    // Each answer may have some, on one connection too.
    for _ in 0..2 {
        let answer = deploy.raw(&get("/website/shop/", HOST, "")).await;
        assert!(status(&answer) == 200 && answer.ends_with("there"), "{answer}");
    }
    assert_eq!(deploy.shop.connections(), 1);
    let answer = deploy.raw(&get("/website/shop/endless", HOST, "")).await;
    assert!(status(&answer) == 502 && answer.contains("shop/server"), "{answer}");
}

#[tokio::test]
async fn bodies_stream_with_backpressure_both_ways() {
    const SIZE: usize = 8 * 1024 * 1024;
    let shop = Echo::new(|request| {
        let body = request.split_once("\r\n\r\n").unwrap().1;
        assert_eq!(body.len(), SIZE);
        Reply::Bytes(with_headers("", body))
    })
    .await;
    let deploy = Deploy::with(limits(), shop).await;
    let mut stream = TcpStream::connect(deploy.at).await.unwrap();
    let head = format!(
        "POST /website/shop/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {SIZE}\r\n\r\n"
    );
    let (mut read, mut write) = stream.split();
    let send = async {
        write.write_all(head.as_bytes()).await.unwrap();
        write.write_all(&vec![b'x'; SIZE]).await.unwrap();
    };
    let receive = async {
        let mut answer = Vec::new();
        read.read_to_end(&mut answer).await.unwrap();
        answer
    };
    let ((), answer) = within(async { tokio::join!(send, receive) }).await;
    assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() > SIZE);
    assert!(deploy.shop.last().contains(&format!("content-length: {SIZE}\r\n")));
}

#[tokio::test]
async fn a_pooled_connection_that_the_site_closed_is_replaced() {
    let deploy = Deploy::with(limits(), Echo::new(|_| Reply::Close(ok("bye"))).await).await;
    for round in 1..=3 {
        let answer = deploy.raw(&get("/website/shop/", HOST, "")).await;
        assert!(answer.ends_with("bye"), "{round}: {answer}");
    }
}

#[tokio::test]
async fn run_07_cutting_a_site_ends_its_connections_and_new_ones_are_made() {
    let shop = Echo::new(
        |request| {
            if request.contains("/ws") { Reply::Mirror(SWITCH.into()) } else { Reply::Bytes(ok("page")) }
        },
    )
    .await;
    let deploy = Deploy::with(limits(), shop).await;
    assert_eq!(status(&deploy.raw(&get("/website/shop/", HOST, "")).await), 200);
    let mut stream = TcpStream::connect(deploy.at).await.unwrap();
    stream.write_all(websocket("/website/shop/ws", "").as_bytes()).await.unwrap();
    read_head(&mut stream).await;
    deploy.sites.cut(&name("shop"));
    let mut rest = Vec::new();
    let _ = within(stream.read_to_end(&mut rest)).await;
    deploy.shop.all_closed().await;
    assert_eq!(status(&deploy.raw(&get("/website/shop/", HOST, "")).await), 200);
}

#[tokio::test]
async fn an_answer_framed_two_ways_never_reaches_the_clients_next_answer() {
    let shop = Echo::new(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
        Reply::Close(format!("{head}5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nX-Smuggled: 1\r\n\r\n").into_bytes())
    })
    .await;
    let deploy = Deploy::with(limits(), shop).await;
    let first = "GET /website/shop/ HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = deploy.raw(&format!("{first}{}", get("/website/tracker/", HOST, ""))).await;
    assert!(!answer.contains("content-length: 3\r\n") && !answer.to_lowercase().contains("smuggled"), "{answer}");
    assert!(answer.ends_with("tracker pages"), "{answer}");
}

#[tokio::test]
async fn the_length_of_an_answer_to_head_is_the_sites() {
    let shop = Echo::new(|_| Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n".to_vec())).await;
    let deploy = Deploy::with(limits(), shop).await;
    let answer = deploy.raw(&get("/website/shop/", HOST, "").replacen("GET", "HEAD", 1)).await;
    assert!(answer.contains("content-length: 1234\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn row_89_connections_to_one_site_are_bounded_and_no_other_site_waits() {
    let quick = std::time::Duration::from_millis(150);
    let small = agentenv_net::Limits { site_connections: 2, answer: quick, ..limits() };
    let deploy = Deploy::with(small, Echo::new(|_| Reply::Mirror(SWITCH.into())).await).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(deploy.at).await.unwrap();
        stream.write_all(websocket("/website/shop/ws", "").as_bytes()).await.unwrap();
        assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 101"));
        open.push(stream);
    }
    let waits = get("/website/shop/", HOST, "");
    let (third, other) =
        tokio::join!(deploy.raw(&waits), async { deploy.raw(&get("/website/tracker/", HOST, "")).await });
    assert_eq!((status(&third), status(&other)), (504, 200));
    assert_eq!(deploy.shop.connections(), 2);
    drop(open);
    deploy.shop.all_closed().await;
    let mut stream = TcpStream::connect(deploy.at).await.unwrap();
    stream.write_all(websocket("/website/shop/ws", "").as_bytes()).await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 101"));
}

#[tokio::test]
async fn shutdown_lets_a_request_end_and_drops_what_takes_too_long() {
    let (go, gone) = watch::channel(false);
    let shop = Echo::new(move |_| Reply::Later(Vec::new(), gone.clone(), ok("done"))).await;
    let deploy = Deploy::with(agentenv_net::Limits { grace: WAIT, ..limits() }, shop).await;
    let (at, echo) = (deploy.at, deploy.shop.clone());
    let under_way = tokio::spawn(async move { raw(at, &get("/website/shop/", HOST, "")).await });
    let idle = TcpStream::connect(at).await.unwrap();
    echo.has_requests(1).await;
    let ending = tokio::spawn(deploy.gateway.shutdown());
    within(async {
        // Nothing new is taken once the listener is gone.
        while TcpStream::connect(at).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    go.send(true).unwrap();
    assert!(within(under_way).await.unwrap().ends_with("done"));
    within(ending).await.unwrap();
    drop(idle);
}

#[tokio::test]
async fn row_63_slow_heads_and_slow_bodies_are_timed_out() {
    let quick = std::time::Duration::from_millis(100);
    let limits = agentenv_net::Limits { head: quick, request_body: quick, ..limits() };
    let deploy = Deploy::with(limits, Echo::labelled("shop").await).await;
    let mut stream = TcpStream::connect(deploy.at).await.unwrap();
    stream.write_all(b"GET /website/shop/ HTTP/1.1\r\nHost:").await.unwrap();
    let mut answer = Vec::new();
    let _ = within(stream.read_to_end(&mut answer)).await;
    let answer = deploy
        .raw("POST /website/shop/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhe")
        .await;
    assert_eq!(status(&answer), 400, "{answer}");
}

#[tokio::test]
async fn row_64_heads_beyond_the_limits_are_refused() {
    let deploy = Deploy::new().await;
    let big = format!("X-Big: {}\r\n", "a".repeat(1 << 20));
    let many = "X: y\r\n".repeat(100_000);
    for headers in [big, many] {
        let answer = deploy.raw(&get("/website/shop/", HOST, &headers)).await;
        assert!(answer.is_empty() || matches!(status(&answer), 400 | 431), "{answer}");
    }
    assert!(deploy.shop.requests().is_empty());
}
