//! `/traffic/v1/captures`: what was captured, behind the control token (PR-4).

use std::{sync::Arc, time::Duration};

use agentenv_protocol::{AgentCard, CAPTURE_STATE_HEADER, CaptureId, PCAP_MEDIA_TYPE, TRAFFIC_EXTENSION};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, response};
use tokio::sync::Semaphore;

use super::{
    conditions::{self, Answer},
    file_body::FileBody,
};
use crate::{
    CaptureBytes, CaptureMissing, Captures,
    body::{self, Body},
    error::{ProxyError, plain},
    headers::is_read,
    limits::{CAPTURE_CALLS, CAPTURE_DOWNLOADS},
};

/// The captures of a deploy, and how many requests are at them.
pub(super) struct Traffic {
    captures: Arc<dyn Captures>,
    calls: Arc<Semaphore>,
    downloads: Arc<Semaphore>,
    answer: Duration,
}

impl Traffic {
    /// `answer` is how long listing or opening may take.
    pub(super) fn new(captures: Arc<dyn Captures>, answer: Duration) -> Self {
        Self {
            captures,
            calls: Arc::new(Semaphore::new(CAPTURE_CALLS)),
            downloads: Arc::new(Semaphore::new(CAPTURE_DOWNLOADS)),
            answer,
        }
    }

    /// The listing.
    pub(super) async fn list<B>(&self, request: &Request<B>) -> Result<Response<Body>, ProxyError> {
        if !is_read(request.method()) {
            return read_only();
        }
        let listing = self.call(|captures| serde_json::to_vec(&captures.list())).await?;
        let listing = listing.map_err(|error| ProxyError::Captures(error.into()))?;
        let answer = Response::builder()
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CACHE_CONTROL, "no-store")
            .header(header::CONTENT_LENGTH, listing.len());
        Ok(answer.body(if *request.method() == Method::HEAD { body::empty() } else { body::full(listing) })?)
    }

    /// One file, whole or a part of it. `id` is as it stands in the path: it has one spelling, and no other is decoded (row 54).
    pub(super) async fn get<B>(&self, id: &str, request: &Request<B>) -> Result<Response<Body>, ProxyError> {
        if !is_read(request.method()) {
            return read_only();
        }
        let id = CaptureId::parse(id).map_err(|_| ProxyError::BadRequest("this is not the id of a capture"))?;
        let asked = id.clone();
        let capture = match self.call(move |captures| captures.open(&asked)).await? {
            Ok(capture) => capture,
            Err(CaptureMissing::RotatedAway) => return Err(ProxyError::RotatedAway(id)),
            Err(CaptureMissing::Unknown) => return Err(ProxyError::NoCapture(id)),
            Err(CaptureMissing::Failed(error)) => return Err(ProxyError::Captures(error)),
        };
        // A file only grows, and no generation comes twice: the same tag is the same bytes.
        let etag = format!("\"{}-{}\"", id.generation, capture.bytes);
        let what = conditions::answer(request.method(), request.headers(), &etag, capture.bytes);
        self.give(&id, capture, &etag, what, request.method())
    }

    fn give(
        &self,
        id: &CaptureId,
        capture: CaptureBytes,
        etag: &str,
        what: Answer,
        method: &Method,
    ) -> Result<Response<Body>, ProxyError> {
        let (bytes, complete) = (capture.bytes, capture.complete);
        let (status, range) = match what {
            Answer::Whole => (StatusCode::OK, 0..bytes),
            Answer::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
            Answer::NotModified => {
                return Ok(head(StatusCode::NOT_MODIFIED, etag, complete).body(body::empty())?);
            }
            Answer::PreconditionFailed => {
                return Ok(plain(StatusCode::PRECONDITION_FAILED, "the capture is not the one that is meant"));
            }
            Answer::Unsatisfiable => return unsatisfiable(etag, complete, bytes),
        };
        let mut answer = head(status, etag, complete)
            .header(header::CONTENT_TYPE, PCAP_MEDIA_TYPE)
            .header(header::CONTENT_LENGTH, range.end - range.start)
            .header(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{id}\""))
            .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        if status == StatusCode::PARTIAL_CONTENT {
            let range = format!("bytes {}-{}/{bytes}", range.start, range.end - 1);
            answer = answer.header(header::CONTENT_RANGE, range);
        }
        if *method == Method::HEAD {
            return Ok(answer.body(body::empty())?);
        }
        let place =
            self.downloads.clone().try_acquire_owned().map_err(|_| ProxyError::Busy("downloads of captures"))?;
        Ok(answer.body(FileBody::new(capture.file, range, place).boxed())?)
    }

    /// Asks the captures on a thread of its own. A call that hangs keeps its place, so that no more threads follow it.
    async fn call<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn Captures) -> T + Send + 'static,
    ) -> Result<T, ProxyError> {
        let (calls, captures) = (self.calls.clone(), self.captures.clone());
        let asked = async move {
            let place = calls.acquire_owned().await.map_err(std::io::Error::other)?;
            let call = move || {
                let _place = place;
                ask(&*captures)
            };
            tokio::task::spawn_blocking(call).await.map_err(std::io::Error::other)
        };
        match tokio::time::timeout(self.answer, asked).await {
            Ok(answer) => answer.map_err(ProxyError::Captures),
            Err(_) => Err(ProxyError::Captures(std::io::ErrorKind::TimedOut.into())),
        }
    }
}

/// The card of a gateway: it names this API where there is one, and only there.
pub(super) fn on_card(card: &mut AgentCard, captures: bool) {
    let extensions = &mut card.capabilities.extensions;
    extensions.retain(|extension| extension.uri != TRAFFIC_EXTENSION);
    if captures {
        extensions.push(agentenv_protocol::traffic_extension());
    }
}

/// 405, with what is allowed.
fn read_only() -> Result<Response<Body>, ProxyError> {
    let mut response = ProxyError::Method.answer();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    Ok(response)
}

/// What every answer about a capture file begins with.
fn head(status: StatusCode, etag: &str, complete: bool) -> response::Builder {
    Response::builder()
        .status(status)
        .header(header::ETAG, etag)
        .header(header::ACCEPT_RANGES, "bytes")
        .header(CAPTURE_STATE_HEADER, if complete { "complete" } else { "growing" })
        // What sites and agents said to each other is nobody's cache's.
        .header(header::CACHE_CONTROL, "no-store")
}

/// 416, with the length that there is.
fn unsatisfiable(etag: &str, complete: bool, bytes: u64) -> Result<Response<Body>, ProxyError> {
    let mut response = plain(StatusCode::RANGE_NOT_SATISFIABLE, "the capture has no bytes in this range");
    let mut headers: HeaderMap = head(StatusCode::OK, etag, complete).body(())?.into_parts().0.headers;
    headers
        .insert(header::CONTENT_RANGE, HeaderValue::from_str(&format!("bytes */{bytes}")).map_err(http::Error::from)?);
    response.headers_mut().extend(headers);
    Ok(response)
}
