//! What passing on does at every hop, to a site and to a real host.

use std::time::Duration;

use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header, request, response};
use http_body::Body as HttpBody;
use http_body_util::BodyExt as _;
use hyper::{
    body::Incoming,
    client::conn::http1::{self, Connection, SendRequest},
    upgrade::OnUpgrade,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::{
    body::{self, Body, Progress, RequestBody},
    error::ProxyError,
    headers::{is_websocket, list, remove_hop_by_hop, set_websocket},
    interim::{Interim, Limited},
    limits::{HEAD_BYTES, HEAD_FIELDS},
};

/// HTTP/1.1 on a connection to whoever answers, with limits on its heads and on interim answers.
pub(crate) async fn handshake<B>(
    stream: TcpStream,
) -> hyper::Result<(SendRequest<B>, Connection<TokioIo<Limited<TcpStream>>, B>, Interim)>
where
    B: HttpBody + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let interim = Interim::default();
    let (sender, connection) = http1::Builder::new()
        .max_header_size(HEAD_BYTES)
        .max_headers(HEAD_FIELDS)
        .handshake(TokioIo::new(interim.limit(stream)))
        .await?;
    Ok((sender, connection, interim))
}

/// The client's end of a request that asks to become a WebSocket. Taken before the request is passed on: afterwards it is gone.
pub(crate) fn take_upgrade(request: &mut Request<Incoming>) -> Result<Option<OnUpgrade>, ProxyError> {
    let websocket = is_websocket(request);
    if websocket && !request.body().is_end_stream() {
        return Err(ProxyError::BadRequest("a WebSocket request has no body"));
    }
    Ok(websocket.then(|| hyper::upgrade::on(request)))
}

/// A request's target as path and query.
pub(crate) fn origin_form(uri: &Uri) -> Uri {
    uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from)
}

/// A request on its way to whoever answers it. hyper writes what it sends: the length of the body as it was framed, or chunks.
pub(crate) fn onward(
    mut parts: request::Parts,
    body: Incoming,
    websocket: bool,
    progress: &Progress,
    wait: Duration,
) -> Request<Body> {
    parts.version = Version::HTTP_11;
    if websocket {
        set_websocket(&mut parts.headers);
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    if body.is_end_stream() && !matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS) {
        parts.headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    parts.extensions.clear();
    let body = if body.is_end_stream() {
        body::empty()
    } else {
        RequestBody::new(body, progress.clone(), wait).boxed_unsync()
    };
    Request::from_parts(parts, body)
}

/// An answer on its way back, to a HEAD or another request, without what was for the connection that it came by.
pub(crate) fn back(response: Response<Incoming>, head: bool) -> (response::Parts, Incoming) {
    let (mut parts, body) = response.into_parts();
    remove_hop_by_hop(&mut parts.headers);
    // Another protocol at another place: there is none.
    parts.headers.remove(header::ALT_SVC);
    // hyper writes the length of the body as it was framed: whoever said two of them must not reach a client's next answer. Of an
    // answer to HEAD, the length is what was said.
    if !head {
        parts.headers.remove(header::CONTENT_LENGTH);
    }
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    (parts, body)
}

/// The answer that makes a client's request a WebSocket, of the one that it was answered with. `None` where that one makes it something
/// else.
pub(crate) fn switched(response: &mut Response<Incoming>) -> Option<Response<Body>> {
    if !list(response.headers(), header::UPGRADE).any(|protocol| protocol == "websocket") {
        return None;
    }
    let mut answer = Response::new(body::empty());
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *answer.headers_mut() = std::mem::take(response.headers_mut());
    remove_hop_by_hop(answer.headers_mut());
    set_websocket(answer.headers_mut());
    Some(answer)
}
