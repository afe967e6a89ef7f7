//! Live hosts: connections that go straight to the real site (NET-3).

use std::{io, sync::Arc, time::Duration};

use agentenv_protocol::HostName;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::server::Acceptor;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{Net, Origin, wrong_sni};
use crate::{
    DenyReason,
    body::{AnswerBody, Body, Progress},
    error::ProxyError,
    headers::{remove_hop_by_hop, remove_ours},
    hop,
    limits::CLIENT_HELLO_BYTES,
    real::RealError,
    relay::relay,
};

impl Net {
    /// Connects to the real host of a live name.
    pub(super) async fn dial_real(&self, name: &HostName, port: u16) -> Result<TcpStream, ProxyError> {
        let denied = |reason: DenyReason| {
            self.deny(name.as_str(), port, &reason);
            ProxyError::Denied { host: name.to_string(), reason }
        };
        let Some(real) = &self.config.real else { return Err(denied(DenyReason::DirectUnavailable)) };
        match real.connect(name, port).await {
            Ok(stream) => Ok(stream),
            Err(error @ RealError::NotPublic(_)) => {
                // The address is for the log of this machine; whoever asked learns nothing of its networks.
                tracing::info!(%name, %error, "denied");
                Err(denied(DenyReason::NotPublic))
            }
            Err(error) => Err(ProxyError::Real(name.clone(), error)),
        }
    }

    /// TLS for a live name: its first message must name the host, then all of it goes on as it is.
    pub(super) async fn tls_to_real<T>(self: Arc<Self>, mut stream: T, origin: Origin, real: Option<TcpStream>)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = self.config.sites.limits();
        let name = &origin.name;
        let hello = match tokio::time::timeout(limits.handshake, client_hello(&mut stream)).await {
            Ok(Ok(hello)) => hello,
            // Opened and closed again without a byte: browsers do that ahead of need.
            Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return,
            Ok(Err(_)) | Err(_) => return self.deny(name.as_str(), 443, &DenyReason::NoHandshake),
        };
        if let Some((host, reason)) = wrong_sni(hello.sni.as_deref(), name) {
            return self.deny(host, 443, &reason);
        }
        let passed = async {
            let mut real = match real {
                Some(real) => real,
                None => self.dial_real(name, 443).await.map_err(|error| error.to_string())?,
            };
            real.write_all(&hello.bytes).await.map_err(|error| error.to_string())?;
            relay(stream, real, limits.tunnel_idle).await.map_err(|error| error.to_string())
        };
        if let Err(error) = passed.await {
            tracing::debug!(%name, error, "tunnel to a real host ended");
        }
    }

    /// Passes a plain request on to the real host: its target as path and query, its Host the name.
    pub(super) async fn request_to_real(
        &self,
        origin: &Origin,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, ProxyError> {
        let client = hop::take_upgrade(&mut request)?;
        let (head, progress) = (request.method() == Method::HEAD, Progress::new());
        let limits = self.config.sites.limits();
        let error = |error: RealError| ProxyError::Real(origin.name.clone(), error);
        let nonsense = |what: &str| error(RealError::Connect(io::Error::other(what)));
        let failed = |failed: hyper::Error| match progress.broken() {
            Some(why) => ProxyError::ClientBody(why),
            None => error(RealError::Connect(io::Error::other(failed))),
        };
        let stream = self.dial_real(&origin.name, 80).await?;
        let (mut sender, connection, interim) = hop::handshake(stream).await.map_err(failed)?;
        // Ends by itself when the sender and the answer's body are gone; with the network at the latest.
        self.life.spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "connection to a real host ended");
            }
        });
        let mut request = outgoing(&origin.name, request, client.is_some(), &progress, limits.request_body)?;
        interim.count(&mut request);
        let answered = progress.in_time(limits.answer, sender.send_request(request)).await;
        let mut response = answered.ok_or_else(|| error(RealError::Slow))?.map_err(failed)?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let client = client.ok_or_else(|| nonsense("101 to a request that asked for nothing"))?;
            let answer = hop::switched(&mut response).ok_or_else(|| nonsense("101 to another protocol"))?;
            let (real, idle) = (hyper::upgrade::on(&mut response), limits.tunnel_idle);
            self.life.spawn(async move {
                let (Ok(client), Ok(real)) = (client.await, real.await) else { return };
                let _ = relay(TokioIo::new(client), TokioIo::new(real), idle).await;
            });
            return Ok(answer);
        }
        let (parts, body) = hop::back(response, head);
        // The sender goes with the body's end, and the connection with the sender.
        Ok(Response::from_parts(parts, AnswerBody::new(body, move || drop(sender)).boxed_unsync()))
    }
}

fn outgoing(
    name: &HostName,
    request: Request<Incoming>,
    websocket: bool,
    progress: &Progress,
    wait: Duration,
) -> Result<Request<Body>, ProxyError> {
    let (mut parts, body) = request.into_parts();
    parts.uri = hop::origin_form(&parts.uri);
    remove_hop_by_hop(&mut parts.headers);
    remove_ours(&mut parts.headers);
    parts.headers.insert(header::HOST, HeaderValue::from_str(name.as_str()).map_err(http::Error::from)?);
    Ok(hop::onward(parts, body, websocket, progress, wait))
}

/// The first message of a TLS connection, and what it was read from.
pub(crate) struct ClientHello {
    pub(crate) sni: Option<String>,
    pub(crate) bytes: Vec<u8>,
}

/// Reads a ClientHello, however it is cut into records and reads. ECH, real or greased, is an extension like any other: only
/// the outer name counts.
pub(crate) async fn client_hello<T: AsyncRead + Unpin>(stream: &mut T) -> io::Result<ClientHello> {
    let mut acceptor = Acceptor::default();
    let mut bytes = Vec::with_capacity(2048);
    loop {
        let fed = bytes.len();
        if fed > CLIENT_HELLO_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the handshake is too long"));
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            let kind = if fed == 0 { io::ErrorKind::UnexpectedEof } else { io::ErrorKind::InvalidData };
            return Err(kind.into());
        }
        let mut new = &bytes[fed..];
        while !new.is_empty() {
            acceptor.read_tls(&mut new)?;
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                let sni = accepted.client_hello().server_name().map(str::to_owned);
                return Ok(ClientHello { sni, bytes });
            }
            Err((error, _alert)) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }
}
