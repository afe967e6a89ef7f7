//! A computer's picture, mouse and keyboard through the gateway, and its screen for people.

mod common;

use std::{
    net::{SocketAddr, TcpListener as StdTcpListener},
    sync::{Arc, Mutex},
    time::Duration,
};

use agentenv_net::{Computer, Gateway, Upstream};
use agentenv_protocol::{ComputerAction, ComputerError, ComputerErrorKind, Region};
use common::*;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _, future::BoxFuture};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{self, Message},
};

/// A desktop that keeps what it was asked for.
#[derive(Default)]
struct Fake(Mutex<Vec<String>>);

impl Computer for Fake {
    fn screenshot(&self, region: Option<Region>, scale: Option<f64>) -> BoxFuture<'_, Result<Vec<u8>, ComputerError>> {
        self.0.lock().unwrap().push(format!("{region:?} {scale:?}"));
        async { Ok(b"\x89PNG".to_vec()) }.boxed()
    }

    fn act(&self, action: ComputerAction) -> BoxFuture<'_, Result<[i32; 2], ComputerError>> {
        self.0.lock().unwrap().push(format!("{action:?}"));
        let kind = match action {
            ComputerAction::MouseMove { coordinate: [9999, _] } => ComputerErrorKind::OutOfBounds,
            ComputerAction::Wait { .. } => ComputerErrorKind::Slow,
            ComputerAction::LeftMouseUp {} => ComputerErrorKind::Away,
            _ => return async { Ok([7, 8]) }.boxed(),
        };
        async move { Err(ComputerError { kind, message: "no".to_owned() }) }.boxed()
    }
}

struct World {
    deploy: Deploy,
    desktop: Arc<Fake>,
    gateway: Gateway,
    at: SocketAddr,
}

impl World {
    async fn new() -> Self {
        let (deploy, desktop) = (Deploy::new().await, Arc::new(Fake::default()));
        let listener = StdTcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let gateway =
            Gateway::builder(deploy.control.clone(), deploy.agent.clone(), deploy.sites.clone(), deploy.table.clone())
                .browser(name("browser"))
                .computer(name("desk"), desktop.clone())
                .spawn(listener)
                .unwrap();
        Self { deploy, desktop, gateway, at }
    }

    fn path(&self, computer: &str, rest: &str) -> String {
        format!("/agent/{}/{computer}/{rest}", self.deploy.agent.expose())
    }

    async fn get(&self, path: &str) -> String {
        raw(self.at, &get(path, "localhost", "")).await
    }

    async fn act(&self, query: &str, action: &str) -> (u16, Value) {
        let (path, length) = (self.path("desk", &format!("act{query}")), action.len());
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{action}"
        );
        let answer = raw(self.at, &request).await;
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status(&answer), serde_json::from_str(body).unwrap_or(Value::String(body.to_owned())))
    }
}

#[tokio::test]
async fn actions_and_pictures_reach_the_desktop() {
    let world = World::new().await;
    let done = world.act("", r#"{"action": "left_click", "coordinate": [1, 2]}"#).await;
    assert_eq!(done, (200, json!({"cursor": [7, 8]})));
    let done = world.act("?screenshot=true&scale=0.5", r#"{"action": "key", "text": "ctrl+c"}"#).await;
    assert_eq!(done, (200, json!({"cursor": [7, 8], "screenshot": "iVBORw=="})));
    assert_eq!(world.act("", r#"{"action": "screenshot"}"#).await.1["screenshot"], "iVBORw==");
    let answer = world.get(&world.path("desk", "screenshot?region=1,2,3,4")).await;
    assert!(status(&answer) == 200 && answer.to_ascii_lowercase().contains("content-type: image/png"), "{answer}");
    assert_eq!(
        *world.desktop.0.lock().unwrap(),
        [
            "LeftClick { coordinate: Some([1, 2]), text: None }",
            "Key { text: \"ctrl+c\" }",
            "None Some(0.5)",
            "Screenshot",
            "None None",
            "Some(Region { x: 1, y: 2, width: 3, height: 4 }) None",
        ]
    );
}

#[tokio::test]
async fn what_is_wrong_is_typed_and_reaches_no_desktop() {
    let world = World::new().await;
    for action in [
        "",
        "{}",
        "[]",
        r#"{"action": "explode"}"#,
        r#"{"action": "left_click", "coordinate": [1]}"#,
        r#"{"action": "left_click", "button": 2}"#,
        r#"{"action": "scroll", "scroll_direction": "in", "scroll_amount": 1}"#,
        r#"{"action": "type"}"#,
    ] {
        let (code, error) = world.act("", action).await;
        assert_eq!((code, &error["kind"]), (400, &json!("bad_request")), "{action}: {error}");
    }
    for query in ["?scale=3", "?region=1", "?x=y"] {
        assert_eq!(world.act(query, r#"{"action": "screenshot"}"#).await.0, 400, "{query}");
    }
    assert_eq!(world.act("", &format!("\"{}\"", "x".repeat(300_000))).await.0, 400);
    assert!(world.desktop.0.lock().unwrap().is_empty());
    for (action, code, kind) in [
        (r#"{"action": "mouse_move", "coordinate": [9999, 0]}"#, 400, "out_of_bounds"),
        (r#"{"action": "wait", "duration": 1}"#, 504, "slow"),
        (r#"{"action": "left_mouse_up"}"#, 503, "away"),
    ] {
        assert_eq!(world.act("", action).await, (code, json!({"kind": kind, "message": "no"})));
    }
}

#[tokio::test]
async fn only_the_agent_token_opens_a_computer_and_a_browser_is_none() {
    let world = World::new().await;
    let token = world.deploy.agent.expose().to_owned();
    for rest in ["screenshot", "view/", "vnc", "act"] {
        let wrong = world.path("desk", rest).replace(&token, &"0".repeat(token.len()));
        assert_eq!(status(&world.get(&wrong).await), 401, "{rest}");
        assert_eq!(status(&world.get(&world.path("browser", rest)).await), 404, "{rest} of a browser");
    }
    assert_eq!(status(&world.get(&world.path("desk", "act")).await), 405);
    assert_eq!(status(&world.get(&world.path("desk", "view/../screenshot")).await), 404);
    assert_eq!(status(&world.get(&world.path("desk", "vnc")).await), 400);
    let page = world.get(&world.path("desk", "view/")).await;
    let head = page.to_ascii_lowercase();
    assert!(
        head.contains("referrer-policy: no-referrer") && head.contains("content-security-policy: default-src 'none'")
    );
    assert!(!page.contains(&token), "the page holds the token only in its address");
    assert!(world.get(&world.path("desk", "view/view.js")).await.contains("RFB 003.008"));
}

type Viewer = WebSocketStream<TcpStream>;

impl World {
    /// A VNC server, in the place of the one before.
    async fn vnc_server(&self) -> TcpListener {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        self.deploy.wire.to(Upstream::Vnc { computer: name("desk") }, server.local_addr().unwrap());
        server
    }

    async fn try_view(&self) -> Result<Viewer, tungstenite::Error> {
        let url = self.gateway.url().replace("http", "ws") + &self.path("desk", "vnc");
        let stream = TcpStream::connect(self.at).await.unwrap();
        within(tokio_tungstenite::client_async(url, stream)).await.map(|(viewer, _)| viewer)
    }

    /// A viewer, and the server's end of its connection.
    async fn view(&self, server: &TcpListener) -> (Viewer, TcpStream) {
        let (viewer, accepted) = within(async { tokio::join!(self.try_view(), server.accept()) }).await;
        (viewer.unwrap(), accepted.unwrap().0)
    }
}

/// What a viewer is told when its connection ends.
async fn farewell(viewer: &mut Viewer) -> (u16, String) {
    match within(viewer.next()).await {
        Some(Ok(Message::Close(Some(frame)))) => (frame.code.into(), frame.reason.to_string()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_viewer_gets_the_bytes_of_a_vnc_connection() {
    let world = World::new().await;
    let server = world.vnc_server().await;
    let (mut viewer, mut vnc) = world.view(&server).await;
    vnc.write_all(b"RFB 003.008\n").await.unwrap();
    assert_eq!(within(viewer.next()).await.unwrap().unwrap().into_data().as_ref(), b"RFB 003.008\n");
    viewer.send(Message::Binary(b"\x00\xff".to_vec().into())).await.unwrap();
    let mut bytes = [0; 2];
    within(vnc.read_exact(&mut bytes)).await.unwrap();
    assert_eq!(bytes, [0, 255]);
    drop(vnc);
    assert_eq!(farewell(&mut viewer).await, (1011, "the desktop closed the connection".to_owned()));
    // And where there is none, it says so.
    drop(server);
    match world.try_view().await {
        Err(tungstenite::Error::Http(answer)) => assert_eq!(answer.status(), 502),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_reset_closes_viewers_with_a_reason_and_holds_those_that_come() {
    let world = Arc::new(World::new().await);
    let first = world.vnc_server().await;
    let (mut watching, _vnc) = world.view(&first).await;
    // One that takes nothing keeps nobody waiting.
    let (_lazy, mut flood) = world.view(&first).await;
    let full = tokio::time::timeout(Duration::from_millis(300), async {
        loop {
            flood.write_all(&[7; 1 << 16]).await.unwrap();
        }
    });
    assert!(full.await.is_err());
    let desk = name("desk");
    let (told, hold) = within(async {
        let close = world.gateway.cdp().close_all(&desk, 1012, "the deploy is being reset");
        tokio::join!(farewell(&mut watching), close)
    })
    .await;
    assert_eq!(told, (1012, "the deploy is being reset".to_owned()));
    drop(first);
    let later = world.clone();
    let viewer = tokio::spawn(async move { later.try_view().await });
    let second = world.vnc_server().await;
    let early = tokio::time::timeout(Duration::from_millis(100), second.accept()).await;
    assert!(early.is_err() && !viewer.is_finished(), "it waits for the new desktop");
    drop(hold);
    let (mut vnc, _) = within(second.accept()).await.unwrap();
    let mut viewer = within(viewer).await.unwrap().unwrap();
    vnc.write_all(b"new").await.unwrap();
    assert_eq!(within(viewer.next()).await.unwrap().unwrap().into_data().as_ref(), b"new");
}

#[tokio::test]
async fn a_viewer_is_told_when_the_deploy_closes() {
    let world = World::new().await;
    let server = world.vnc_server().await;
    let (mut viewer, _vnc) = world.view(&server).await;
    let ending = tokio::spawn(world.gateway.shutdown());
    assert_eq!(farewell(&mut viewer).await, (1001, "the deploy is closing".to_owned()));
    within(ending).await.unwrap();
}
