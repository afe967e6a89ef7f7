//! Passing one request on to a site, and its answer back.

use std::{net::IpAddr, sync::Arc};

use agentenv_protocol::Name;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;

use super::{Connection, Sites};
use crate::{
    Role, Upstream,
    body::{self, AnswerBody, Body, Progress},
    error::ProxyError,
    headers::{remove_hop_by_hop, remove_ours, set_forwarded},
    hop,
    life::Life,
    limits::RELAY_BYTES,
};

/// Where a request goes, and what is said about where it came from.
pub(crate) struct Onward<'a> {
    pub(crate) website: &'a Name,
    pub(crate) service: Role,
    /// What the site sees as `Host`.
    pub(crate) host: &'a HeaderValue,
    pub(crate) https: bool,
    pub(crate) peer: IpAddr,
    /// The site's key: only on the way from the supervisor and from `/svc/`.
    pub(crate) key: Option<HeaderValue>,
    pub(crate) life: &'a Life,
}

impl Sites {
    /// Passes a request on. Its target is taken as path and query; fields for this connection, and those that only the
    /// gateway may set, are replaced.
    pub(crate) async fn forward(
        self: &Arc<Self>,
        onward: Onward<'_>,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, ProxyError> {
        let upstream = Upstream::Service { website: onward.website.clone(), service: onward.service };
        if request.method() == Method::CONNECT {
            return Err(ProxyError::Method);
        }
        let client = hop::take_upgrade(&mut request)?;
        let progress = Progress::new();
        let request = self.outgoing(&onward, request, client.is_some(), &progress);
        let head = request.method() == Method::HEAD;
        let (mut response, connection) = self.send(&upstream, request, &progress).await?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(client) = client else {
                return Err(ProxyError::Nonsense(upstream, "101 to a request that asked for nothing"));
            };
            return self.switch(&onward, upstream, client, &mut response, &connection);
        }
        Ok(self.answer(&onward, response, head, connection))
    }

    fn outgoing(
        &self,
        onward: &Onward<'_>,
        request: Request<Incoming>,
        websocket: bool,
        progress: &Progress,
    ) -> Request<Body> {
        let (mut parts, body) = request.into_parts();
        parts.uri = hop::origin_form(&parts.uri);
        join_cookies(&mut parts);
        remove_hop_by_hop(&mut parts.headers);
        remove_ours(&mut parts.headers);
        set_forwarded(&mut parts.headers, onward.https, onward.host, onward.peer);
        parts.headers.insert(header::HOST, onward.host.clone());
        if let Some(key) = &onward.key {
            parts.headers.insert(agentenv_protocol::SITE_KEY_HEADER, key.clone());
        }
        hop::onward(parts, body, websocket, progress, self.limits.request_body)
    }

    /// Sends by a pooled connection or a new one. A pooled one that the site closed meanwhile is replaced, if nothing of
    /// the request was sent, or if sending it twice does no harm.
    async fn send(
        &self,
        upstream: &Upstream,
        mut request: Request<Body>,
        progress: &Progress,
    ) -> Result<(Response<Incoming>, Connection), ProxyError> {
        let Upstream::Service { website, service } = upstream else { return Err(ProxyError::NoRoute) };
        let site = self.sites.get(website).ok_or(ProxyError::NoRoute)?;
        let websocket = request.headers().contains_key(header::UPGRADE);
        let repeatable = matches!(*request.method(), Method::GET | Method::HEAD) && request.body().is_end_stream();
        let mut reused = if websocket { None } else { site.reuse(*service) };
        loop {
            let was_reused = reused.is_some();
            let mut connection = match reused.take() {
                Some(connection) => connection,
                None => self.open(site, upstream).await?,
            };
            connection.interim.count(&mut request);
            let again = (was_reused && repeatable).then(|| copy(&request));
            let sent = connection.sender.try_send_request(request);
            let answered = progress.in_time(self.limits.answer, sent).await;
            match answered.ok_or_else(|| ProxyError::Slow(upstream.clone()))? {
                Ok(response) => return Ok((response, connection)),
                Err(mut error) => match error.take_message().or(again) {
                    Some(unsent) if was_reused => request = unsent,
                    _ => return Err(broken(upstream, error.into_error(), progress)),
                },
            }
        }
    }

    fn answer(
        self: &Arc<Self>,
        onward: &Onward<'_>,
        response: Response<Incoming>,
        head: bool,
        connection: Connection,
    ) -> Response<Body> {
        let (parts, body) = hop::back(response, head);
        let (sites, website, service) = (self.clone(), onward.website.clone(), onward.service);
        let body = AnswerBody::new(body, move || {
            if let Some(site) = sites.sites.get(&website) {
                site.keep(service, connection);
            }
        });
        Response::from_parts(parts, body.boxed_unsync())
    }

    /// Joins the two ends of a WebSocket. The site's end falls when the site is cut, and the other with it.
    fn switch(
        &self,
        onward: &Onward<'_>,
        upstream: Upstream,
        client: OnUpgrade,
        response: &mut Response<Incoming>,
        connection: &Connection,
    ) -> Result<Response<Body>, ProxyError> {
        let Some(answer) = hop::switched(response) else {
            return Err(ProxyError::Nonsense(upstream, "101 to another protocol"));
        };
        let site = self.sites.get(onward.website).ok_or(ProxyError::NoRoute)?;
        let (server, mut cuts) = (hyper::upgrade::on(&mut *response), site.cuts.subscribe());
        if *cuts.borrow_and_update() != connection.cut {
            return Err(ProxyError::Nonsense(upstream, "101 on a connection that was cut"));
        }
        let place = connection.place.clone();
        onward.life.spawn(async move {
            let relay = async {
                let (client, server) = (client.await?, server.await?);
                let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
                let both = tokio::io::copy_bidirectional_with_sizes(&mut client, &mut server, RELAY_BYTES, RELAY_BYTES);
                both.await.map_err(|error| tracing::debug!(%error, "WebSocket ended")).ok();
                Ok::<_, hyper::Error>(())
            };
            tokio::select! {
                ended = relay => if let Err(error) = ended { tracing::debug!(%error, %upstream, "upgrade failed") },
                _ = cuts.changed() => {}
            }
            drop(place);
        });
        Ok(answer)
    }
}

/// HTTP/2 may split cookies into several fields; HTTP/1.1 has one.
fn join_cookies(parts: &mut Parts) {
    let cookies: Vec<&[u8]> = parts.headers.get_all(header::COOKIE).into_iter().map(HeaderValue::as_bytes).collect();
    if cookies.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&cookies.join(&b"; "[..]))
    {
        parts.headers.insert(header::COOKIE, joined);
    }
}

/// A request without a body, once more.
fn copy(request: &Request<Body>) -> Request<Body> {
    let mut copy = Request::new(body::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}

fn broken(upstream: &Upstream, error: hyper::Error, progress: &Progress) -> ProxyError {
    match progress.broken() {
        Some(why) => ProxyError::ClientBody(why),
        None => ProxyError::Garbage(upstream.clone(), error),
    }
}
