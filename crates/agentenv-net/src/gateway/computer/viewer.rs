//! A person's view: a WebSocket whose binary messages are the bytes of a VNC connection, both ways.

use agentenv_protocol::Name;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use http::{Request, Response};
use hyper::{body::Incoming, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{Role, WebSocketConfig},
    },
};

use crate::{
    Sites, Upstream,
    body::Body,
    cdp::{CdpGate, Session, close_frame, farewell},
    error::ProxyError,
    gateway::agent::switching,
    headers::is_websocket,
    life::Life,
    limits::{RELAY_BYTES, VNC_MESSAGE_BYTES},
};

/// Connects a viewer; one that comes while the computer is being reset waits until it is there again.
pub(super) async fn serve(
    gate: &CdpGate,
    life: &Life,
    sites: &Sites,
    computer: &Name,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    if !is_websocket(&request) {
        return Err(ProxyError::BadRequest("a VNC viewer connects by WebSocket"));
    }
    let upstream = Upstream::Vnc { computer: computer.clone() };
    let (session, server) = gate.view(computer, || sites.connect(&upstream).boxed()).await?;
    let (upgrade, response) = switching(&mut request)?;
    let draining = life.clone();
    life.spawn(async move {
        if let Ok(client) = upgrade.await {
            let config = WebSocketConfig::default().max_message_size(Some(VNC_MESSAGE_BYTES));
            let client = WebSocketStream::from_raw_socket(TokioIo::new(client), Role::Server, Some(config)).await;
            relay(client, server, session, draining.draining()).await;
        }
    });
    Ok(response)
}

/// Relays until one end closes, the computer's connections are to close, or `draining` resolves. The viewer is told why.
async fn relay(
    client: WebSocketStream<TokioIo<Upgraded>>,
    server: TcpStream,
    session: Session,
    draining: impl Future<Output = ()>,
) {
    let (mut to_client, mut from_client) = client.split();
    let (mut from_server, mut to_server) = server.into_split();
    // Until the viewer leaves: what it says after the desktop is gone is for nobody.
    let up = async {
        while let Some(Ok(message)) = from_client.next().await {
            match message {
                // A failure is the end of the other way too, which says so.
                Message::Binary(bytes) => {
                    let _ = to_server.write_all(&bytes).await;
                }
                Message::Close(_) => return,
                _ => {}
            }
        }
    };
    let down = async {
        let mut buffer = vec![0; RELAY_BYTES];
        while let Ok(length @ 1..) = from_server.read(&mut buffer).await {
            if to_client.send(Message::Binary(buffer[..length].to_vec().into())).await.is_err() {
                return;
            }
        }
    };
    let frame = tokio::select! {
        () = up => return,
        () = down => Some(close_frame(1011, "the desktop closed the connection")),
        frame = session.closed() => frame,
        () = draining => Some(close_frame(1001, "the deploy is closing")),
    };
    farewell(&mut to_client, &mut from_client, frame).await;
    drop(session);
}
