//! Accepting, and serving HTTP on what was accepted.

use std::{
    future::Future,
    io,
    net::TcpListener as StdTcpListener,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode, header};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore},
};
use tracing::{Instrument, Span};

use crate::{
    Limits,
    body::Body,
    guard::{Guard, UpgradeGate},
    life::{Life, LifeExecutor},
    limits::{
        ACCEPT_BACKOFF, HEAD_BYTES, HEAD_FIELDS, HTTP1_BUFFER_BYTES, HTTP2_PENDING_RESETS, HTTP2_STREAMS,
        LISTENER_CONNECTIONS,
    },
    stall::Stall,
};

/// Hands every accepted connection to `on`, within the span, until the drain signal.
pub(crate) fn accept<F, C>(listener: StdTcpListener, life: &Life, span: Span, on: F) -> io::Result<()>
where
    F: Fn(TcpStream) -> C + Send + 'static,
    C: Future<Output = ()> + Send + 'static,
{
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let tasks = life.clone();
    let accepting = async move {
        let places = Arc::new(Semaphore::new(LISTENER_CONNECTIONS));
        let mut backoff = ACCEPT_BACKOFF.0;
        loop {
            let next = async {
                let place = places.clone().acquire_owned().await;
                (place, listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                () = tasks.draining() => return,
                next = next => next,
            };
            match accepted {
                Ok((stream, _)) => {
                    backoff = ACCEPT_BACKOFF.0;
                    // Answers are written whole; waiting for more only adds time.
                    let _ = stream.set_nodelay(true);
                    let connection = on(stream);
                    // In the span of this loop.
                    tasks.spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                // The client was gone before we looked.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "accept failed, backing off");
                    tokio::time::sleep(backoff).await;
                    backoff = (backoff * 2).min(ACCEPT_BACKOFF.1);
                }
            }
        }
    };
    life.spawn(accepting.instrument(span));
    Ok(())
}

/// Serves HTTP/1.1 until the client closes, a limit is reached or the drain signal comes.
pub(crate) async fn http1<T, F, R>(io: T, limits: &Limits, life: &Life, handle: F)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>) -> R + Send + Sync + 'static,
    R: Future<Output = Response<Body>> + Send + 'static,
{
    let gate = UpgradeGate::default();
    let io = TokioIo::new(Guard::new(Stall::new(io, limits.write, gate.clone()), gate.clone()));
    let service = service_fn(move |request: Request<Incoming>| {
        let gate = gate.clone();
        let connect = request.method() == Method::CONNECT;
        // Wider than what counts as a WebSocket: everything after which the guard expects no HTTP.
        let upgrade = request.headers().contains_key(header::UPGRADE);
        let response = handle(request);
        async move {
            let mut response = response.await;
            let granted =
                response.status() == StatusCode::SWITCHING_PROTOCOLS || connect && response.status().is_success();
            if granted {
                gate.open();
            } else if connect || upgrade {
                response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
            }
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_header_size(HEAD_BYTES)
        .max_headers(HEAD_FIELDS)
        .max_buf_size(HTTP1_BUFFER_BYTES)
        .serve_connection(io, service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = life.draining() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// Serves HTTP/2 until the client closes, nothing happens for the idle time or the drain signal comes.
pub(crate) async fn http2<T, F, R>(io: T, limits: &Limits, life: &Life, handle: F)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Fn(Request<Incoming>) -> R + Send + Sync + 'static,
    R: Future<Output = Response<Body>> + Send + 'static,
{
    let busy = Arc::new(Busy::default());
    let counted = busy.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let under_way = counted.enter();
        let response = handle(request);
        async move {
            let (parts, body) = response.await.into_parts();
            Ok::<_, std::convert::Infallible>(Response::from_parts(parts, Counted { body, _under_way: under_way }))
        }
    });
    let connection = http2::Builder::new(LifeExecutor(life.clone()))
        .timer(TokioTimer::new())
        .max_concurrent_streams(HTTP2_STREAMS)
        .max_pending_accept_reset_streams(HTTP2_PENDING_RESETS)
        .max_header_list_size(HEAD_BYTES as u32)
        .keep_alive_interval(limits.head)
        .keep_alive_timeout(limits.handshake)
        .serve_connection(TokioIo::new(Stall::new(io, limits.write, UpgradeGate::default())), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = async { tokio::select! { () = life.draining() => {}, () = busy.idle_for(limits.head) => {} } } => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

/// How many requests of a connection are under way.
#[derive(Default)]
struct Busy {
    requests: AtomicUsize,
    changed: Notify,
}

struct UnderWay(Arc<Busy>);

impl Busy {
    fn enter(self: &Arc<Self>) -> UnderWay {
        self.requests.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
        UnderWay(self.clone())
    }

    /// Resolves when nothing was under way for so long.
    async fn idle_for(&self, time: Duration) {
        loop {
            if tokio::time::timeout(time, self.changed.notified()).await.is_err()
                && self.requests.load(Ordering::Acquire) == 0
            {
                return;
            }
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_one();
    }
}

/// A body that keeps its request counted.
struct Counted {
    body: Body,
    _under_way: UnderWay,
}

impl http_body::Body for Counted {
    type Data = bytes::Bytes;
    type Error = crate::body::BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}
