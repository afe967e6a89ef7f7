//! TLS for exactly one name.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use rustls::server::Acceptor;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};
use tokio_rustls::{LazyConfigAcceptor, server::TlsStream};

use super::{Net, Origin, wrong_sni};
use crate::{DenyReason, limits::CLIENT_HELLO_BYTES, serve};

/// What a handshake stopped at.
enum Stopped {
    Denied(String, DenyReason),
    Failed(io::Error),
}

impl Net {
    /// TLS, then HTTP/2 or HTTP/1.1, for one name. A handshake for another name, or for none, is closed and logged.
    pub(super) async fn tls<T>(self: Arc<Self>, stream: T, origin: Origin)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = self.config.sites.limits().clone();
        let deadline = Instant::now() + limits.handshake;
        let stream = match tokio::time::timeout_at(deadline, self.handshake(stream, &origin)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(Stopped::Denied(host, reason))) => return self.deny(&host, 443, &reason),
            // After a good ClientHello: the client left, or doesn't trust the authority.
            Ok(Err(Stopped::Failed(error))) => {
                return tracing::debug!(%error, name = %origin.name, "TLS handshake failed");
            }
            Err(_) => return self.deny(origin.name.as_str(), 443, &DenyReason::NoHandshake),
        };
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let (net, life) = (self.clone(), self.life.clone());
        let handle = move |request| net.clone().page(origin.clone(), request);
        if http2 {
            serve::http2(stream, &limits, &life, handle).await;
        } else {
            serve::http1(stream, &limits, &life, handle).await;
        }
    }

    async fn handshake<T>(&self, stream: T, origin: &Origin) -> Result<TlsStream<Hello<T>>, Stopped>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let no_handshake = || Stopped::Denied(origin.name.to_string(), DenyReason::NoHandshake);
        let start = match LazyConfigAcceptor::new(Acceptor::default(), Hello::new(stream)).await {
            Ok(start) => start,
            // Opened and closed again without a byte: browsers do that ahead of need.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(Stopped::Failed(error)),
            Err(_) => return Err(no_handshake()),
        };
        // ECH, real or greased, is an extension like any other: only the outer name counts.
        if let Some((host, reason)) = wrong_sni(start.client_hello().server_name(), &origin.name) {
            return Err(Stopped::Denied(host.to_owned(), reason));
        }
        let config = self
            .config
            .authority
            .server_config(&origin.name)
            .map_err(|error| Stopped::Failed(io::Error::other(error)))?;
        let mut stream = start.into_stream(config).await.map_err(Stopped::Failed)?;
        stream.get_mut().0.left = None;
        Ok(stream)
    }
}

/// Bounds what a client may send before its handshake is done.
pub(super) struct Hello<T> {
    io: T,
    left: Option<usize>,
}

impl<T> Hello<T> {
    fn new(io: T) -> Self {
        Self { io, left: Some(CLIENT_HELLO_BYTES) }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Hello<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        if let Some(left) = &mut self.left {
            *left = left
                .checked_sub(buf.filled().len() - before)
                .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the handshake is too long"))?;
        }
        Poll::Ready(Ok(()))
    }
}

crate::write_through::write_through!(Hello);
