//! CDP connections: relayed message by message, closed with a reason, held while a browser restarts (BR-1, RUN-7). A computer's
//! viewers come through the same door.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use agentenv_protocol::Name;
use bytes::Bytes;
use futures_util::{FutureExt, SinkExt, StreamExt, future::BoxFuture};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::{Semaphore, watch},
    time::Instant,
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        self, Message,
        protocol::{CloseFrame, WebSocketConfig},
    },
};

use crate::{
    Dial, Limits, Upstream,
    error::ProxyError,
    limits::{CDP_CLOSE_WAIT, CDP_CONNECTIONS, CDP_MESSAGE_BYTES, CDP_RETRY, DEVTOOLS_BODY_BYTES, VNC_CONNECTIONS},
    oneshot,
};

/// What DevTools takes as `Host`: an address. It never looks at the port.
pub(crate) const DEVTOOLS_HOST: &str = "127.0.0.1:9222";

/// The CDP connections of a deploy's browsers, and the viewers of its computers.
pub struct CdpGate {
    browsers: BTreeMap<Name, watch::Sender<Door>>,
    dial: Arc<dyn Dial>,
    limits: Limits,
    clients: Places,
    viewers: Places,
}

/// How many connections of one kind there may be.
struct Places {
    /// What they are, for whoever finds them taken.
    of: &'static str,
    free: Arc<Semaphore>,
}

impl Places {
    fn new(of: &'static str, count: usize) -> Self {
        Self { of, free: Arc::new(Semaphore::new(count)) }
    }
}

/// Where a browser's connections stand.
#[derive(Clone, Debug, Default)]
struct Door {
    /// Counts the closings: connections of an earlier number end.
    closings: u64,
    holds: u32,
    open: usize,
    frame: Option<CloseFrame>,
}

/// Keeps new connections of a browser waiting; dropping it lets them through.
#[must_use = "new connections wait only while this is held"]
pub struct Hold(watch::Sender<Door>);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.send_modify(|door| door.holds -= 1);
    }
}

/// A connection's place at the door.
pub(crate) struct Session {
    door: watch::Sender<Door>,
    closings: u64,
    _place: tokio::sync::OwnedSemaphorePermit,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.door.send_modify(|door| door.open -= 1);
    }
}

impl Session {
    /// Resolves when the browser's connections are to close, with what to say.
    pub(crate) async fn closed(&self) -> Option<CloseFrame> {
        let mut door = self.door.subscribe();
        match door.wait_for(|door| door.closings != self.closings).await {
            Ok(door) => door.frame.clone(),
            Err(_) => None,
        }
    }
}

impl CdpGate {
    pub(crate) fn new(browsers: BTreeSet<Name>, dial: Arc<dyn Dial>, limits: Limits) -> Self {
        Self {
            browsers: browsers.into_iter().map(|name| (name, watch::Sender::new(Door::default()))).collect(),
            dial,
            limits,
            clients: Places::new("connections to browsers", CDP_CONNECTIONS),
            viewers: Places::new("viewers", VNC_CONNECTIONS),
        }
    }

    /// Closes every connection of a browser or computer, of CDP clients and of viewers, with a code and a reason (at most 123 bytes
    /// are sent), and waits until they are closed. New connections wait while the returned hold lives: keep it until the browser is there again, at most as
    /// long as [`Limits::browser`], after which they get 503. An unknown browser has no connections.
    pub async fn close_all(&self, browser: &Name, code: u16, reason: &str) -> Hold {
        let Some(door) = self.browsers.get(browser) else {
            return Hold(watch::Sender::new(Door { holds: 1, ..Door::default() }));
        };
        let mut end = reason.len().min(123);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let frame = CloseFrame { code: code.into(), reason: reason[..end].into() };
        door.send_modify(|door| {
            door.closings += 1;
            door.holds += 1;
            door.frame = Some(frame);
        });
        let hold = Hold(door.clone());
        // Twice the closing handshake: one each way.
        let closed = tokio::time::timeout(CDP_CLOSE_WAIT * 2, async {
            let _ = door.subscribe().wait_for(|door| door.open == 0).await;
        });
        if closed.await.is_err() {
            tracing::warn!(%browser, "connections did not close");
        }
        hold
    }

    /// Takes a place for a new connection, once nothing holds the browser's door.
    async fn enter(&self, places: &Places, browser: &Name) -> Result<Session, ProxyError> {
        let door = self.browsers.get(browser).ok_or(ProxyError::NoRoute)?;
        let place = places.free.clone().try_acquire_owned().map_err(|_| ProxyError::Busy(places.of))?;
        let mut watched = door.subscribe();
        let deadline = Instant::now() + self.limits.browser;
        loop {
            match tokio::time::timeout_at(deadline, watched.wait_for(|door| door.holds == 0)).await {
                Ok(Ok(_)) => {}
                _ => return Err(ProxyError::BrowserAway(browser.clone())),
            }
            // Between the look and the entry the door may have been held again.
            let mut closings = None;
            door.send_if_modified(|door| {
                if door.holds == 0 {
                    door.open += 1;
                    closings = Some(door.closings);
                }
                false
            });
            if let Some(closings) = closings {
                return Ok(Session { door: door.clone(), closings, _place: place });
            }
        }
    }

    /// Does `work` with a browser; once more with the next one, if the browser's connections are closed meanwhile.
    async fn with_browser<'a, T>(
        &'a self,
        places: &Places,
        browser: &'a Name,
        work: impl Fn() -> BoxFuture<'a, Result<T, ProxyError>>,
    ) -> Result<(Session, T), ProxyError> {
        loop {
            let session = self.enter(places, browser).await?;
            tokio::select! {
                done = work() => return Ok((session, done?)),
                _ = session.closed() => {}
            }
        }
    }

    /// Asks DevTools over HTTP.
    pub(crate) async fn ask<'a>(
        &'a self,
        browser: &'a Name,
        method: Method,
        target: &'a str,
    ) -> Result<Response<Bytes>, ProxyError> {
        let ask = || self.ask_now(browser, method.clone(), target).boxed();
        let (_, answer) = self.with_browser(&self.clients, browser, ask).await?;
        Ok(answer)
    }

    /// Opens a viewer's connection to a computer.
    pub(crate) async fn view<'a>(
        &'a self,
        computer: &'a Name,
        connect: impl Fn() -> BoxFuture<'a, Result<TcpStream, ProxyError>>,
    ) -> Result<(Session, TcpStream), ProxyError> {
        self.with_browser(&self.viewers, computer, connect).await
    }

    /// Opens a WebSocket to DevTools.
    pub(crate) async fn connect<'a>(
        &'a self,
        browser: &'a Name,
        path: &'a str,
    ) -> Result<(Session, WebSocketStream<TcpStream>), ProxyError> {
        self.with_browser(&self.clients, browser, || self.connect_now(browser, path).boxed()).await
    }

    /// Asks; tries again while the browser isn't there, up to the limit.
    async fn ask_now<'a>(
        &'a self,
        browser: &'a Name,
        method: Method,
        target: &str,
    ) -> Result<Response<Bytes>, ProxyError> {
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, DEVTOOLS_HOST)
            .body(Full::new(Bytes::new()))?;
        self.while_away(browser, || {
            let request = request.clone();
            async move {
                let stream = self.dial(browser).await?;
                oneshot::send(stream, request, DEVTOOLS_BODY_BYTES).await.map_err(io::Error::other)
            }
            .boxed()
        })
        .await
    }

    /// Connects. The browser's own endpoint is looked up each time: its id changes when it restarts.
    async fn connect_now<'a>(
        &'a self,
        browser: &'a Name,
        path: &str,
    ) -> Result<WebSocketStream<TcpStream>, ProxyError> {
        let path = if path == "/" || path.starts_with("/devtools/browser") {
            self.browser_endpoint(browser).await?
        } else {
            path.to_owned()
        };
        let url = format!("ws://{DEVTOOLS_HOST}{path}");
        let connected = self
            .while_away(browser, || {
                let url = url.clone();
                async move {
                    let stream = self.dial(browser).await?;
                    let _ = stream.set_nodelay(true);
                    match tokio_tungstenite::client_async_with_config(url, stream, Some(websocket_config())).await {
                        Ok((socket, _)) => Ok(Ok(socket)),
                        Err(tungstenite::Error::Http(answer)) => Ok(Err(answer.status())),
                        Err(error) => Err(io::Error::other(error)),
                    }
                }
                .boxed()
            })
            .await?;
        connected.map_err(|status| ProxyError::Browser {
            browser: browser.clone(),
            status: if status.is_client_error() { status } else { StatusCode::BAD_GATEWAY },
        })
    }

    async fn browser_endpoint(&self, browser: &Name) -> Result<String, ProxyError> {
        let version = self.ask_now(browser, Method::GET, "/json/version").await?;
        let version: serde_json::Value = serde_json::from_slice(version.body()).unwrap_or_default();
        let url = version["webSocketDebuggerUrl"].as_str().and_then(|url| url.parse::<http::Uri>().ok());
        let upstream = Upstream::DevTools { browser: browser.clone() };
        url.map(|url| url.path().to_owned()).ok_or(ProxyError::Nonsense(upstream, "no webSocketDebuggerUrl"))
    }

    async fn dial(&self, browser: &Name) -> io::Result<TcpStream> {
        let upstream = Upstream::DevTools { browser: browser.clone() };
        match tokio::time::timeout(self.limits.connect, self.dial.dial(&upstream)).await {
            Ok(dialled) => dialled,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Tries until it works or the limit is reached: a browser that restarts refuses connections, or drops them.
    async fn while_away<'a, T: Send>(
        &'a self,
        browser: &Name,
        attempt: impl Fn() -> BoxFuture<'a, io::Result<T>> + Send + Sync,
    ) -> Result<T, ProxyError> {
        let attempts = async {
            loop {
                match attempt().await {
                    Ok(value) => return value,
                    Err(error) => tracing::debug!(%browser, %error, "DevTools is not there"),
                }
                tokio::time::sleep(CDP_RETRY).await;
            }
        };
        tokio::time::timeout(self.limits.browser, attempts).await.map_err(|_| ProxyError::BrowserAway(browser.clone()))
    }
}

pub(crate) fn websocket_config() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(CDP_MESSAGE_BYTES)).max_frame_size(Some(CDP_MESSAGE_BYTES))
}

/// Relays messages both ways until one end closes, the browser's connections are to close, or `draining` resolves. The client
/// is always told why.
pub(crate) async fn relay<C, B>(
    client: WebSocketStream<C>,
    browser: WebSocketStream<B>,
    session: Session,
    draining: impl Future<Output = ()>,
) where
    C: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    let (mut to_client, mut from_client) = client.split();
    let (mut to_browser, mut from_browser) = browser.split();
    let up = pump(&mut from_client, &mut to_browser);
    let down = pump(&mut from_browser, &mut to_client);
    // Each way by itself: an end that reads slowly never keeps the other way from moving.
    let frame = tokio::select! {
        frame = up => {
            // The client left; the browser is told what the client said.
            let _ = tokio::time::timeout(CDP_CLOSE_WAIT, to_browser.send(Message::Close(frame))).await;
            return;
        }
        frame = down => Some(frame.unwrap_or_else(|| close_frame(1001, "the browser closed the connection"))),
        frame = session.closed() => frame,
        () = draining => Some(close_frame(1001, "the deploy is closing")),
    };
    farewell(&mut to_client, &mut from_client, frame).await;
    drop(session);
}

/// Ends a client's connection, and waits a moment for its answer.
pub(crate) async fn farewell<S, R>(to_client: &mut S, from_client: &mut R, frame: Option<CloseFrame>)
where
    S: SinkExt<Message> + Unpin,
    R: StreamExt<Item = Result<Message, tungstenite::Error>> + Unpin,
{
    let goodbye = async {
        // Only fails where the client is gone already.
        let _ = to_client.send(Message::Close(frame)).await;
        while let Some(Ok(message)) = from_client.next().await {
            if message.is_close() {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(CDP_CLOSE_WAIT, goodbye).await;
}

pub(crate) fn close_frame(code: u16, reason: &'static str) -> CloseFrame {
    CloseFrame { code: code.into(), reason: reason.into() }
}

/// Moves messages one way, one at a time, until the source ends; the close frame that it sent, if any.
async fn pump<S, D>(source: &mut S, destination: &mut D) -> Option<CloseFrame>
where
    S: StreamExt<Item = Result<Message, tungstenite::Error>> + Unpin,
    D: SinkExt<Message> + Unpin,
{
    while let Some(Ok(message)) = source.next().await {
        match message {
            Message::Close(frame) => return frame,
            // Each end answers its own peer's pings.
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            message @ (Message::Text(_) | Message::Binary(_)) => {
                if destination.send(message).await.is_err() {
                    return None;
                }
            }
        }
    }
    None
}
