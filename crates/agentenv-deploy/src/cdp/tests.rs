//! The client against a scripted server; against a real browser in `browser/tests`.

use std::{io, sync::Arc, time::Duration};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::{
    WebSocketStream, accept_async,
    tungstenite::{Message, protocol::CloseFrame},
};

use super::{Cdp, CdpError, connect::parse_version};

const LIMIT: Duration = Duration::from_secs(10);

/// A server that answers `/json/version` and hands over its WebSocket, both with the given text.
async fn scripted(version: &'static str) -> (u16, tokio::task::JoinHandle<Option<WebSocketStream<TcpStream>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut http, _) = listener.accept().await.unwrap();
        let mut head = [0; 1024];
        let read = http.read(&mut head).await.unwrap();
        let head = String::from_utf8_lossy(&head[..read]).into_owned();
        assert!(head.contains(&format!("127.0.0.1:{port}")), "{head}");
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{version}", version.len());
        http.write_all(answer.as_bytes()).await.unwrap();
        let (socket, _) = listener.accept().await.ok()?;
        accept_async(socket).await.ok()
    });
    (port, server)
}

async fn dial(port: u16) -> io::Result<TcpStream> {
    TcpStream::connect(("127.0.0.1", port)).await
}

/// Reads `/json/version` asked for below a path; answers nothing.
async fn asked_path(base: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = async {
        let (mut http, _) = listener.accept().await.unwrap();
        let mut head = [0; 1024];
        let read = http.read(&mut head).await.unwrap();
        String::from_utf8_lossy(&head[..read]).lines().next().unwrap_or_default().to_owned()
    };
    let (asked, refused) = tokio::join!(asked, Cdp::connect_below(|| dial(port), port, base, LIMIT));
    assert!(refused.is_err());
    asked
}

async fn receive(socket: &mut WebSocketStream<TcpStream>) -> Value {
    let message = socket.next().await.unwrap().unwrap();
    serde_json::from_str(message.to_text().unwrap()).unwrap()
}

async fn send(socket: &mut WebSocketStream<TcpStream>, message: &Value) {
    socket.send(Message::Text(message.to_string().into())).await.unwrap();
}

const VERSION: &str = r#"{"Browser":"Chrome/1","webSocketDebuggerUrl":"ws://127.0.0.1:1/devtools/browser/x"}"#;

#[tokio::test]
async fn calls_and_events_pass_with_fields_that_nobody_knows() {
    let (port, server) = scripted(VERSION).await;
    let cdp = Cdp::connect(|| dial(port), port, LIMIT).await.unwrap();
    let mut socket = server.await.unwrap().unwrap();
    assert_eq!(cdp.product(), "Chrome/1");
    let mut events = cdp.events();
    let serve = async {
        let attach = receive(&mut socket).await;
        assert_eq!(attach["method"], "Target.attachToTarget");
        assert_eq!(attach["params"]["flatten"], true);
        send(&mut socket, &json!({ "method": "New.event", "params": { "x": [1, { "y": null }] }, "surprise": 1 }))
            .await;
        send(&mut socket, &json!({ "id": attach["id"], "result": { "sessionId": "S", "more": {} }, "extra": [] }))
            .await;
        let call = receive(&mut socket).await;
        assert_eq!((&call["sessionId"], &call["method"]), (&json!("S"), &json!("Page.navigate")));
        send(&mut socket, &json!({ "id": 999, "result": {} })).await;
        send(&mut socket, &json!("no object")).await;
        let error = json!({ "code": -32000, "message": "no", "data": "because" });
        send(&mut socket, &json!({ "id": call["id"], "error": error })).await;
    };
    let ask = async {
        let page = cdp.attach("T").await.unwrap();
        assert_eq!((page.id(), page.target()), ("S", "T"));
        page.call("Page.navigate", json!({})).await.unwrap_err()
    };
    let ((), error) = tokio::join!(serve, ask);
    assert!(matches!(&error, CdpError::Refused { code: -32000, message, .. } if message == "no: because"), "{error}");
    let event = events.next().await.unwrap();
    assert_eq!((event.method.as_str(), event.params["x"][0].as_u64()), ("New.event", Some(1)));
}

#[tokio::test]
async fn a_call_without_an_answer_times_out_and_one_cut_off_is_closed() {
    let (port, server) = scripted(VERSION).await;
    let cdp = Cdp::connect(|| dial(port), port, LIMIT).await.unwrap();
    let mut socket = server.await.unwrap().unwrap();
    let attach = async {
        let call = receive(&mut socket).await;
        send(&mut socket, &json!({ "id": call["id"], "result": { "sessionId": "S" } })).await;
    };
    let (page, ()) = tokio::join!(cdp.attach("T"), attach);
    let page = page.unwrap();
    let error = page.call_within("Page.reload", json!({}), Duration::from_millis(20)).await.unwrap_err();
    assert!(matches!(error, CdpError::Timeout { .. }), "{error}");
    let cut = async {
        receive(&mut socket).await;
        receive(&mut socket).await;
        drop(socket);
    };
    let (error, ()) = tokio::join!(page.call("Page.stop", json!({})), cut);
    assert!(matches!(error, Err(CdpError::Closed)), "{error:?}");
    assert!(matches!(cdp.call("Browser.close", json!({})).await, Err(CdpError::Closed)));
    assert!(matches!(cdp.events().next().await, Err(CdpError::Closed)));
}

#[tokio::test]
async fn who_closes_is_heard_and_a_path_goes_before_devtools_own() {
    let (port, server) = scripted(VERSION).await;
    let cdp = Cdp::connect(|| dial(port), port, LIMIT).await.unwrap();
    let mut socket = server.await.unwrap().unwrap();
    assert_eq!(cdp.close_reason(), None);
    let close = async {
        receive(&mut socket).await;
        let frame = CloseFrame { code: 1012.into(), reason: "the deploy is being reset".into() };
        socket.close(Some(frame)).await.unwrap();
        while socket.next().await.is_some() {}
    };
    let (error, ()) = tokio::join!(cdp.call("Target.getTargets", json!({})), close);
    assert!(matches!(error, Err(CdpError::Closed)), "{error:?}");
    assert_eq!(cdp.close_reason(), Some("the deploy is being reset"));

    assert_eq!(asked_path("").await, "GET /json/version HTTP/1.1");
    assert_eq!(asked_path("/agent/t/desk").await, "GET /agent/t/desk/json/version HTTP/1.1");
}

#[tokio::test]
async fn a_reader_that_lags_learns_that_events_are_lost() {
    let (port, server) = scripted(VERSION).await;
    let cdp = Arc::new(Cdp::connect(|| dial(port), port, LIMIT).await.unwrap());
    let mut socket = server.await.unwrap().unwrap();
    let mut lagging = cdp.events();
    let mut reading = cdp.events();
    let flood = async {
        for n in 0..=super::link::EVENT_QUEUE + 1 {
            send(&mut socket, &json!({ "method": "Flood", "params": n })).await;
        }
    };
    let read = async { while reading.next().await.unwrap().params != json!(super::link::EVENT_QUEUE + 1) {} };
    tokio::join!(flood, read);
    assert!(matches!(lagging.next().await, Err(CdpError::EventsLost { .. })));
}

#[tokio::test]
async fn what_is_no_browser_is_told_apart() {
    let limit = Duration::from_millis(60);
    // A port that nobody listens on: bound, so that nobody else takes it.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = Cdp::connect(|| dial(port), port, limit).await.unwrap_err();
    assert!(matches!(error, CdpError::NotListening { .. }), "{error}");

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let error = Cdp::connect(|| dial(port), port, limit).await.unwrap_err();
    assert!(matches!(error, CdpError::NotAnswering { .. }), "{error}");

    let (port, _server) = scripted("<html>").await;
    let error = Cdp::connect(|| dial(port), port, LIMIT).await.unwrap_err();
    assert!(matches!(error, CdpError::BadAnswer { what: "not JSON" }), "{error}");

    for garbage in ["[]", "{}", r#"{"webSocketDebuggerUrl":7}"#, r#"{"webSocketDebuggerUrl":"http://x/y"}"#] {
        assert!(matches!(parse_version(garbage.as_bytes()), Err(CdpError::BadAnswer { .. })), "{garbage}");
    }
}
