//! From nothing to an open WebSocket: waits for the browser to listen, asks for its endpoint, upgrades.

use std::{future::Future, io, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, StatusCode, client::conn::http1, header::HOST};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout_at},
};
use tokio_tungstenite::{WebSocketStream, client_async_with_config, tungstenite::protocol::WebSocketConfig};

use super::CdpError;

/// A browser listens some 200 ms after its start; asking every 5 ms costs nothing and loses next to nothing.
const DIAL_INTERVAL: Duration = Duration::from_millis(5);
/// `/json/version` is half a kilobyte.
const MAX_VERSION_BYTES: usize = 64 * 1024;
/// A full-page picture in base64 is some megabytes; anything larger is a fault.
const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// What `/json/version` says.
pub(super) struct Version {
    /// Such as `Chrome/156.0.8078.108`.
    pub(super) product: String,
    /// Path of the browser's endpoint.
    path: String,
}

/// Waits until the browser accepts a connection; only a refused one is tried again.
async fn dial_until<F, R>(dial: &F, started: Instant, limit: Duration) -> Result<TcpStream, CdpError>
where
    F: Fn() -> R,
    R: Future<Output = io::Result<TcpStream>>,
{
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    while started.elapsed() < limit {
        match timeout_at(started + limit, dial()).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error,
            Err(_) => break,
        }
        sleep(DIAL_INTERVAL).await;
    }
    Err(CdpError::NotListening { after: limit, last })
}

/// Asks for the browser's endpoint. DevTools refuses a `Host` that is neither an address nor localhost.
async fn ask_version(stream: TcpStream, port: u16, base: &str) -> Result<Version, CdpError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(format!("{base}/json/version"))
        .header(HOST, format!("127.0.0.1:{port}"))
        .body(Empty::<Bytes>::new())
        .map_err(|_| CdpError::BadAddress)?;
    let ask = async {
        let response = sender.send_request(request).await?;
        if response.status() != StatusCode::OK {
            return Err(CdpError::BadAnswer { what: "a status other than 200" });
        }
        Limited::new(response.into_body(), MAX_VERSION_BYTES)
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .map_err(|_| CdpError::BadAnswer { what: "an endless or broken body" })
    };
    // The connection is driven here and dropped with the answer: nothing is left behind.
    let body = tokio::select! {
        answer = ask => answer?,
        ended = connection => {
            ended?;
            return Err(CdpError::Closed);
        }
    };
    parse_version(&body)
}

pub(super) fn parse_version(body: &[u8]) -> Result<Version, CdpError> {
    let version: Value = serde_json::from_slice(body).map_err(|_| CdpError::BadAnswer { what: "not JSON" })?;
    let product = version.get("Browser").and_then(Value::as_str).unwrap_or("unknown").to_owned();
    let path = version
        .get("webSocketDebuggerUrl")
        .and_then(Value::as_str)
        .and_then(|url| url.strip_prefix("ws://"))
        .and_then(|rest| rest.find('/').map(|slash| rest[slash..].to_owned()))
        .ok_or(CdpError::BadAnswer { what: "no WebSocket endpoint" })?;
    Ok(Version { product, path })
}

/// Connects to a browser that may still be starting; `base` goes before DevTools' paths.
pub(super) async fn connect<F, R>(
    dial: F,
    port: u16,
    base: &str,
    limit: Duration,
) -> Result<(Version, WebSocketStream<TcpStream>), CdpError>
where
    F: Fn() -> R,
    R: Future<Output = io::Result<TcpStream>>,
{
    let started = Instant::now();
    let first = dial_until(&dial, started, limit).await?;
    let rest = async {
        let version = ask_version(first, port, base).await?;
        let second = dial_until(&dial, started, limit).await?;
        second.set_nodelay(true).ok();
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let url = format!("ws://127.0.0.1:{port}{}", version.path);
        let (socket, _) = client_async_with_config(url, second, Some(config))
            .await
            .map_err(|error| CdpError::WebSocket(Box::new(error)))?;
        Ok((version, socket))
    };
    timeout_at(started + limit, rest).await.unwrap_or(Err(CdpError::NotAnswering { after: limit }))
}
