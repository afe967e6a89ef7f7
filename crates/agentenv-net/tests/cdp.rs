//! CDP through the gateway: URLs, relaying, closing with a reason, holding while a browser restarts (BR-1, RUN-7).

mod common;

use std::sync::Arc;

use common::*;
use futures_util::{SinkExt, StreamExt};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{oneshot, watch},
    task::JoinHandle,
};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{self, Message, protocol::WebSocketConfig},
};

/// A browser that speaks as much DevTools as is needed: the listing with its id, and WebSockets that echo.
struct Browser {
    heads: Arc<watch::Sender<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Browser {
    async fn start(deploy: &Deploy, id: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        deploy.wire.to(devtools("browser"), listener.local_addr().unwrap());
        let heads = Arc::new(watch::Sender::new(Vec::new()));
        let seen = heads.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(connection(stream, id, seen.clone()));
            }
        });
        Self { heads, task }
    }

    /// Dies: the port refuses, connections are reset.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    fn heads(&self) -> Vec<String> {
        self.heads.borrow().clone()
    }
}

async fn connection(mut stream: TcpStream, id: &'static str, seen: Arc<watch::Sender<Vec<String>>>) {
    let mut head = [0; 4096];
    let length = stream.peek(&mut head).await.unwrap();
    let text = String::from_utf8_lossy(&head[..length]).into_owned();
    seen.send_modify(|heads| heads.push(text.clone()));
    if text.to_lowercase().contains("upgrade: websocket") {
        let known = text.contains(&format!("/devtools/browser/{id} ")) || text.contains("/devtools/page/1 ");
        if !known {
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await;
            return;
        }
        let Ok(mut socket) = tokio_tungstenite::accept_async_with_config(stream, Some(big())).await else { return };
        while let Some(Ok(message)) = socket.next().await {
            let echoed = match message {
                message @ (Message::Text(_) | Message::Binary(_)) => socket.send(message).await,
                _ => Ok(()),
            };
            if echoed.is_err() {
                return;
            }
        }
        return;
    }
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.unwrap());
    }
    let body = if text.contains("/json/version") {
        format!(r#"{{"Browser": "Chrome/156", "webSocketDebuggerUrl": "ws://127.0.0.1:9222/devtools/browser/{id}"}}"#)
    } else {
        r#"[{"id": "1", "webSocketDebuggerUrl": "ws://127.0.0.1:9222/devtools/page/1", "devtoolsFrontendUrl": "/devtools/inspector.html?ws=127.0.0.1:9222/devtools/page/1"}]"#.to_owned()
    };
    let answer =
        format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let _ = stream.write_all(answer.as_bytes()).await;
}

fn big() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(None).max_frame_size(None)
}

async fn try_connect(deploy: &Deploy, path: &str) -> Result<WebSocketStream<TcpStream>, tungstenite::Error> {
    let stream = TcpStream::connect(deploy.at).await.unwrap();
    let url = format!("ws://{}{path}", deploy.at);
    within(client_async_with_config(url, stream, Some(big()))).await.map(|(socket, _)| socket)
}

fn refused(result: Result<WebSocketStream<TcpStream>, tungstenite::Error>) -> u16 {
    match result {
        Err(tungstenite::Error::Http(answer)) => answer.status().as_u16(),
        other => panic!("{other:?}"),
    }
}

fn path(deploy: &Deploy, rest: &str) -> String {
    format!("/agent/{}/browser{rest}", deploy.agent.expose())
}

async fn echo(socket: &mut WebSocketStream<TcpStream>, text: &str) {
    socket.send(Message::text(text)).await.unwrap();
    assert_eq!(within(socket.next()).await.unwrap().unwrap(), Message::text(text));
}

/// What a client is told when its connection ends.
async fn farewell(socket: &mut WebSocketStream<TcpStream>) -> (u16, String) {
    match within(socket.next()).await {
        Some(Ok(Message::Close(Some(frame)))) => (frame.code.into(), frame.reason.to_string()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn br_01_listings_name_this_gateway_and_every_form_of_url_connects() {
    let deploy = Deploy::new().await;
    let browser = Browser::start(&deploy, "first").await;
    let here = format!("ws://{}{}", deploy.at, path(&deploy, ""));
    // Playwright asks with a slash at the end.
    for rest in ["/json/version", "/json/version/"] {
        let answer = deploy.raw(&get(&path(&deploy, rest), &deploy.at.to_string(), "Origin: http://x\r\n")).await;
        assert!(answer.contains(&format!("{here}/devtools/browser/first")), "{answer}");
    }
    let answer = deploy.raw(&get(&path(&deploy, "/json/list"), "gateway.example:8080", "")).await;
    assert!(answer.contains(&format!("ws://gateway.example:8080{}", path(&deploy, "/devtools/page/1"))), "{answer}");
    for rest in ["", "/", "/devtools/browser/first", "/devtools/browser/of-an-earlier-one", "/devtools/page/1"] {
        let mut socket = try_connect(&deploy, &path(&deploy, rest)).await.unwrap();
        echo(&mut socket, "{\"id\":1}").await;
        socket.close(None).await.unwrap();
    }
    assert_eq!(refused(try_connect(&deploy, &path(&deploy, "/devtools/page/unknown")).await), 404);
    for head in browser.heads() {
        let lower = head.to_lowercase();
        assert!(lower.contains("host: 127.0.0.1:9222\r\n") && !lower.contains("origin"), "{head}");
        assert!(!head.contains(deploy.agent.expose()), "{head}");
    }
}

#[tokio::test]
async fn agent_routes_need_the_agent_token_and_lead_to_devtools_only() {
    let deploy = Deploy::new().await;
    let browser = Browser::start(&deploy, "first").await;
    for token in ["wrong", deploy.control.expose(), &deploy.agent.expose()[1..]] {
        let answer = deploy.raw(&get(&format!("/agent/{token}/browser/json/version"), HOST, "")).await;
        // The control token in a path is refused as such.
        assert!(matches!(status(&answer), 401 | 400), "{answer}");
        assert!(matches!(refused(try_connect(&deploy, &format!("/agent/{token}/browser")).await), 401 | 400));
    }
    let own = |rest: &str| path(&deploy, rest);
    for (target, expected) in [
        (own("/other"), 404),
        (own(""), 404),
        (own("/json/../../x"), 404),
        (format!("/agent/{}/nobody/json/version", deploy.agent.expose()), 404),
    ] {
        assert_eq!(status(&deploy.raw(&get(&target, HOST, "")).await), expected, "{target}");
    }
    let post = get(&own("/json/new"), HOST, "").replacen("GET", "POST", 1);
    assert_eq!(status(&deploy.raw(&post).await), 405);
    assert!(browser.heads().is_empty());
}

const HOST: &str = "127.0.0.1";

#[tokio::test]
async fn messages_as_large_as_screenshots_pass_both_ways() {
    let deploy = Deploy::new().await;
    let _browser = Browser::start(&deploy, "first").await;
    let socket = try_connect(&deploy, &path(&deploy, "")).await.unwrap();
    let message = Message::text("x".repeat(40 * 1024 * 1024));
    let (mut write, mut read) = socket.split();
    let (sent, back) = within(async { tokio::join!(write.send(message.clone()), read.next()) }).await;
    sent.unwrap();
    assert!(back.unwrap().unwrap() == message);
    // Many small ones, with nobody reading until all are written: neither way blocks the other.
    for number in 0..1000 {
        write.send(Message::text(number.to_string())).await.unwrap();
    }
    for number in 0..1000 {
        assert_eq!(within(read.next()).await.unwrap().unwrap(), Message::text(number.to_string()));
    }
}

#[tokio::test]
async fn row_95_a_reset_closes_with_a_reason_holds_new_clients_and_the_url_works_again() {
    let deploy = Arc::new(Deploy::new().await);
    let browser = Browser::start(&deploy, "first").await;
    let url = path(&deploy, "");
    let mut clients = vec![
        try_connect(&deploy, &url).await.unwrap(),
        try_connect(&deploy, &path(&deploy, "/devtools/page/1")).await.unwrap(),
    ];
    for client in &mut clients {
        echo(client, "before").await;
    }
    let reset = deploy.clone();
    let (closed, was_closed) = oneshot::channel();
    let reader = tokio::spawn(async move {
        for client in &mut clients {
            assert_eq!(farewell(client).await, (1012, "reset_env".to_owned()));
            assert!(within(client.next()).await.is_none_or(|end| end.is_err()));
        }
        closed.send(()).unwrap();
    });
    let hold = within(reset.gateway.cdp().close_all(&name("browser"), 1012, "reset_env")).await;
    within(was_closed).await.unwrap();
    reader.await.unwrap();
    // The browser is gone; a client that comes now waits.
    browser.kill().await;
    let waiting = deploy.clone();
    let waiting_url = url.clone();
    let client = tokio::spawn(async move { try_connect(&waiting, &waiting_url).await });
    let _second = Browser::start(&deploy, "second").await;
    assert!(!client.is_finished());
    drop(hold);
    let mut client = within(client).await.unwrap().unwrap();
    echo(&mut client, "after").await;
}

#[tokio::test]
async fn a_client_that_comes_before_the_browser_waits_for_it_and_gets_503_in_the_end() {
    let quick = agentenv_net::Limits { browser: std::time::Duration::from_millis(100), ..limits() };
    let deploy = Deploy::with(quick, Echo::labelled("shop").await).await;
    assert_eq!(refused(try_connect(&deploy, &path(&deploy, "")).await), 503);
    assert_eq!(status(&deploy.raw(&get(&path(&deploy, "/json/version"), HOST, "")).await), 503);
    let hold = deploy.gateway.cdp().close_all(&name("browser"), 1012, "reset").await;
    let _browser = Browser::start(&deploy, "first").await;
    assert_eq!(refused(try_connect(&deploy, &path(&deploy, "")).await), 503);
    drop(hold);
    try_connect(&deploy, &path(&deploy, "")).await.unwrap();

    let deploy = Arc::new(Deploy::new().await);
    let patient = deploy.clone();
    let client = tokio::spawn(async move { try_connect(&patient, &path(&patient, "")).await });
    tokio::task::yield_now().await;
    let _browser = Browser::start(&deploy, "late").await;
    within(client).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_is_told_when_the_browser_goes_and_when_the_deploy_closes() {
    let deploy = Deploy::new().await;
    let browser = Browser::start(&deploy, "first").await;
    let mut first = try_connect(&deploy, &path(&deploy, "")).await.unwrap();
    echo(&mut first, "x").await;
    browser.kill().await;
    assert_eq!(farewell(&mut first).await, (1001, "the browser closed the connection".to_owned()));
    let _second = Browser::start(&deploy, "second").await;
    let mut second = try_connect(&deploy, &path(&deploy, "")).await.unwrap();
    echo(&mut second, "x").await;
    let ending = tokio::spawn(deploy.gateway.shutdown());
    assert_eq!(farewell(&mut second).await, (1001, "the deploy is closing".to_owned()));
    within(ending).await.unwrap();
}

#[tokio::test]
async fn a_client_that_reads_nothing_does_not_keep_a_reset_waiting() {
    let deploy = Deploy::new().await;
    let _browser = Browser::start(&deploy, "first").await;
    let mut socket = try_connect(&deploy, &path(&deploy, "")).await.unwrap();
    // Fills every buffer on the way back.
    let flood = tokio::time::timeout(std::time::Duration::from_millis(300), async {
        loop {
            socket.send(Message::text("x".repeat(1 << 20))).await.unwrap();
        }
    });
    assert!(flood.await.is_err());
    drop(within(deploy.gateway.cdp().close_all(&name("browser"), 1012, "reset")).await);
}
