//! The client of a gateway's control routes: its card and the captured traffic (PR-4). Of the feature `client`, which brings
//! a runtime and HTTP; nothing else of this crate needs them.
//!
//! ```no_run
//! use agentenv_protocol::{ControlToken, client::{self, GatewayClient}};
//!
//! # async fn collect(token: ControlToken) -> Result<(), Box<dyn std::error::Error>> {
//! let gateway = GatewayClient::new("http://127.0.0.1:40123", token)?;
//! if client::serves_traffic(&gateway.card().await?) {
//!     for capture in client::list_traffic_captures(&gateway).await?.captures {
//!         let mut download = client::fetch_traffic_capture(&gateway, &capture.id, None).await?;
//!         // Ends with an error where fewer bytes came than were announced.
//!         while let Some(bytes) = download.chunk().await? {
//!             // Keep them.
//!         }
//!     }
//! }
//! # Ok(()) }
//! ```

use std::{fmt, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, Uri, header, request};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::{net::TcpStream, task::JoinHandle, time::timeout};

use crate::{AGENT_CARD_PATH, AgentCard, CaptureId, ControlToken, TRAFFIC_CAPTURES_PATH, TrafficCaptureListing};

mod download;
mod error;
#[cfg(test)]
mod tests;

pub use crate::serves_traffic;
pub use download::{CaptureDownload, CaptureRange};
pub use error::ClientError;

/// A card or a listing at most: a thousand files a ring, and tens of rings.
const ANSWER_BYTES: usize = 64 * 1024 * 1024;
/// What is read of an answer that says what is wrong: a sentence.
const REASON_BYTES: usize = 4 * 1024;

/// How long a client waits. The defaults are for a gateway on this machine or near it.
#[derive(Clone, Debug)]
pub struct ClientWaits {
    /// Until a connection is made.
    pub connect: Duration,
    /// Until an answer begins; for a card and a listing, until it is there.
    pub answer: Duration,
    /// Until the next piece of a download comes.
    pub idle: Duration,
}

impl Default for ClientWaits {
    fn default() -> Self {
        // The gateway gives itself a minute to open a file.
        let answer = Duration::from_secs(75);
        Self { connect: Duration::from_secs(5), answer, idle: Duration::from_secs(60) }
    }
}

/// A client of one gateway. Each request has a connection of its own, so that none waits for another.
#[derive(Clone)]
pub struct GatewayClient {
    authority: String,
    token: ControlToken,
    waits: ClientWaits,
}

impl fmt::Debug for GatewayClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatewayClient").field("gateway", &self.authority).finish_non_exhaustive()
    }
}

impl GatewayClient {
    /// Makes a client of the gateway at an `http://HOST:PORT` URL. Nothing is dialled yet.
    ///
    /// # Errors
    /// [`ClientError::Url`].
    pub fn new(gateway_url: &str, token: ControlToken) -> Result<Self, ClientError> {
        let authority = authority(gateway_url).ok_or_else(|| ClientError::Url { url: gateway_url.to_owned() })?;
        Ok(Self { authority, token, waits: ClientWaits::default() })
    }

    /// Changes how long it waits.
    #[must_use]
    pub fn with_waits(mut self, waits: ClientWaits) -> Self {
        self.waits = waits;
        self
    }

    /// GET the gateway's card.
    ///
    /// # Errors
    /// Any [`ClientError`] but those of captures.
    pub async fn card(&self) -> Result<AgentCard, ClientError> {
        self.json(Request::get(AGENT_CARD_PATH)).await
    }

    /// GET what was captured, oldest file first.
    ///
    /// # Errors
    /// [`ClientError::NoTraffic`] where the deploy doesn't capture; any other but those of a single capture.
    pub async fn list_traffic_captures(&self) -> Result<TrafficCaptureListing, ClientError> {
        match self.json(self.authorized(TRAFFIC_CAPTURES_PATH)?).await {
            Err(ClientError::Refused { status: StatusCode::NOT_FOUND, gateway, .. }) => {
                Err(ClientError::NoTraffic { gateway })
            }
            answer => answer,
        }
    }

    /// GET one capture file, or a part of it. A growing one is given to its last whole record at this moment.
    ///
    /// # Errors
    /// [`ClientError::RotatedAway`], [`ClientError::NoCapture`], [`ClientError::RangeBeyond`], or any other.
    pub async fn fetch_traffic_capture(
        &self,
        id: &CaptureId,
        range: Option<CaptureRange>,
    ) -> Result<CaptureDownload, ClientError> {
        let mut request = self.authorized(&format!("{TRAFFIC_CAPTURES_PATH}/{id}"))?;
        if let Some(range) = &range {
            request = range.ask(request);
        }
        let (answer, connection) = timeout(self.waits.answer, self.send(request)).await.map_err(|_| self.slow())??;
        match answer.status() {
            StatusCode::OK | StatusCode::PARTIAL_CONTENT => {}
            StatusCode::GONE => return Err(ClientError::RotatedAway { id: id.clone() }),
            StatusCode::NOT_FOUND => return Err(ClientError::NoCapture { id: id.clone() }),
            StatusCode::RANGE_NOT_SATISFIABLE => return Err(download::beyond(id, answer.headers())),
            _ => return Err(self.refused(answer).await),
        }
        CaptureDownload::begin(id, range.as_ref(), answer, connection, self.waits.idle)
            .map_err(|what| self.garbage(what))
    }

    fn authorized(&self, path: &str) -> Result<request::Builder, ClientError> {
        // A stored token has a line's end.
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.token.expose().trim()));
        let mut bearer = bearer.map_err(|_| ClientError::Token)?;
        bearer.set_sensitive(true);
        Ok(Request::get(path).header(header::AUTHORIZATION, bearer))
    }

    async fn json<T: DeserializeOwned>(&self, request: request::Builder) -> Result<T, ClientError> {
        let asked = async {
            let (answer, _connection) = self.send(request).await?;
            if answer.status() != StatusCode::OK {
                return Err(self.refused(answer).await);
            }
            let body = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
                Ok(error) => self.failed(*error),
                Err(error) => self.garbage(error.to_string()),
            });
            let body = body?.to_bytes();
            serde_json::from_slice(&body).map_err(|error| self.garbage(error.to_string()))
        };
        timeout(self.waits.answer, asked).await.map_err(|_| self.slow())?
    }

    /// Sends a request on a new connection. The caller limits the time.
    async fn send(&self, request: request::Builder) -> Result<(Response<Incoming>, Connection), ClientError> {
        let request = request.header(header::HOST, &self.authority).body(Empty::<Bytes>::new());
        let request = request.map_err(|error| self.garbage(error.to_string()))?;
        let unreachable = |source| ClientError::Unreachable { gateway: self.authority.clone(), source };
        let stream = timeout(self.waits.connect, TcpStream::connect(&self.authority));
        let stream = stream.await.map_err(|elapsed| unreachable(elapsed.into()))?.map_err(unreachable)?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| self.failed(error))?;
        // What goes wrong on it is told by the request or by its body.
        let connection = Connection(tokio::spawn(async move {
            let _ = connection.await;
        }));
        let answer = sender.send_request(request).await.map_err(|error| self.failed(error))?;
        Ok((answer, connection))
    }

    /// What an answer says that gives nothing of what was asked for.
    async fn refused(&self, answer: Response<Incoming>) -> ClientError {
        let (gateway, status) = (self.authority.clone(), answer.status());
        if status == StatusCode::UNAUTHORIZED {
            return ClientError::Unauthorized { gateway };
        }
        let body = timeout(self.waits.idle, Limited::new(answer.into_body(), REASON_BYTES).collect()).await;
        let body = body.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let reason = String::from_utf8_lossy(&body);
        let reason = reason.lines().next().unwrap_or_default().trim().trim_start_matches("agent-env: ").to_owned();
        ClientError::Refused { gateway, status, reason }
    }

    /// What became of a request whose answer is not there, or not all of it.
    fn failed(&self, error: hyper::Error) -> ClientError {
        if error.is_parse() {
            return self.garbage(format!("no HTTP: {error}"));
        }
        ClientError::Closed { gateway: self.authority.clone(), source: error }
    }

    fn slow(&self) -> ClientError {
        ClientError::Slow { gateway: self.authority.clone(), after: self.waits.answer }
    }

    fn garbage(&self, what: String) -> ClientError {
        ClientError::Garbage { gateway: self.authority.clone(), what }
    }
}

/// Lists what the deploy of a gateway has captured, oldest file first.
///
/// # Errors
/// As [`GatewayClient::list_traffic_captures`].
pub async fn list_traffic_captures(gateway: &GatewayClient) -> Result<TrafficCaptureListing, ClientError> {
    gateway.list_traffic_captures().await
}

/// Begins the download of one capture file, or of a part of it.
///
/// # Errors
/// As [`GatewayClient::fetch_traffic_capture`].
pub async fn fetch_traffic_capture(
    gateway: &GatewayClient,
    id: &CaptureId,
    range: Option<CaptureRange>,
) -> Result<CaptureDownload, ClientError> {
    gateway.fetch_traffic_capture(id, range).await
}

/// The task that moves a connection's bytes; it ends with whoever reads them.
#[derive(Debug)]
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// `HOST:PORT` of a gateway's URL.
fn authority(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    let plain = uri.scheme_str() == Some("http") && uri.path() == "/" && uri.query().is_none();
    plain.then(|| format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80)))
}
