//! The supervisor's own calls to a site's server (PR-2, PR-8).

use std::{io, sync::Arc, time::Duration};

use agentenv_protocol::{
    AGENT_CARD_PATH, AgentCard, DataGet, DataLoad, DataReply, ErrorBody, HostName, Name, SITE_KEY_HEADER,
    SessionRequest, SessionState, SiteKey, operation,
};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Dial, Limits, Role, Upstream,
    limits::{OPERATION_BODY_BYTES, OPERATION_ERROR_BYTES},
    oneshot::{self, OneshotError},
};

/// Why an operation of a site failed. Every one names the site and the operation.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// Nothing accepts at the server's port.
    #[error("website `{website}` is down: {source}")]
    Down {
        /// Which website.
        website: Name,
        /// What the connection said.
        source: io::Error,
    },
    /// The answer did not come in time.
    #[error("website `{website}` did not answer `{operation}` within {after:?}")]
    Slow {
        /// Which website.
        website: Name,
        /// Path of the operation.
        operation: &'static str,
        /// How long it was given.
        after: Duration,
    },
    /// The site answered with an error of `website/v1`.
    #[error("website `{website}` refused `{operation}` with {status}: {}", body.message)]
    Refused {
        /// Which website.
        website: Name,
        /// Path of the operation.
        operation: &'static str,
        /// Status of the answer.
        status: StatusCode,
        /// What the site said.
        body: ErrorBody,
    },
    /// The answer is not what `website/v1` says.
    #[error("website `{website}` answered garbage to `{operation}`: {what}")]
    Garbage {
        /// Which website.
        website: Name,
        /// Path of the operation.
        operation: &'static str,
        /// What is wrong with it, and how it begins.
        what: String,
    },
    /// What was to be sent can't be: it is no JSON.
    #[error("the request to website `{website}` can't be written: {source}")]
    Unwritable {
        /// Which website.
        website: Name,
        /// Why.
        source: serde_json::Error,
    },
}

/// How much of a garbage answer an error quotes.
const QUOTED_CHARS: usize = 120;

/// Calls the `website/v1` operations of one site's server, with its key.
#[derive(Clone)]
pub struct SiteClient {
    dial: Arc<dyn Dial>,
    website: Name,
    host: String,
    key: SiteKey,
    limits: Limits,
}

impl SiteClient {
    /// Makes a client. Every call has a connection of its own; nothing is dialled yet.
    pub fn new(dial: Arc<dyn Dial>, website: Name, key: SiteKey, limits: Limits) -> Self {
        Self { dial, host: website.to_string(), website, key, limits }
    }

    /// Lets the site see its own name as `Host` instead of its name within the deploy.
    #[must_use]
    pub fn with_host(mut self, host: &HostName) -> Self {
        self.host = host.to_string();
        self
    }

    /// The website.
    pub fn website(&self) -> &Name {
        &self.website
    }

    /// GET the site's card.
    pub async fn card(&self) -> Result<AgentCard, SiteError> {
        self.call(Method::GET, AGENT_CARD_PATH, None).await
    }

    /// Whether the site is ready: an error of status 503 carries the site's reason.
    pub async fn ready(&self) -> Result<(), SiteError> {
        self.send(Method::GET, operation::READY, None).await.map(|_| ())
    }

    /// Adds data, all or nothing.
    pub async fn load(&self, data: Value) -> Result<(), SiteError> {
        let body = self.body(&DataLoad { data })?;
        self.send(Method::POST, operation::DATA_LOAD, Some(body)).await.map(|_| ())
    }

    /// Reads data.
    pub async fn get(&self, selector: Option<Value>) -> Result<Value, SiteError> {
        let body = self.body(&DataGet { selector })?;
        self.call::<DataReply>(Method::POST, operation::DATA_GET, Some(body)).await.map(|reply| reply.data)
    }

    /// Back to the state at deploy.
    pub async fn reset(&self) -> Result<(), SiteError> {
        self.send(Method::POST, operation::DATA_RESET, None).await.map(|_| ())
    }

    /// A user's sign-in state; the site's default user's without one.
    pub async fn session(&self, user: Option<String>) -> Result<SessionState, SiteError> {
        let body = self.body(&SessionRequest { user })?;
        self.call(Method::POST, operation::SESSION, Some(body)).await
    }

    fn body(&self, value: &impl Serialize) -> Result<Bytes, SiteError> {
        serde_json::to_vec(value)
            .map(Bytes::from)
            .map_err(|source| SiteError::Unwritable { website: self.website.clone(), source })
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        operation: &'static str,
        body: Option<Bytes>,
    ) -> Result<T, SiteError> {
        let answer = self.send(method, operation, body).await?;
        serde_json::from_slice(&answer)
            .map_err(|error| self.garbage(operation, &format!("{error}, in `{}`", quoted(&answer))))
    }

    async fn send(&self, method: Method, operation: &'static str, body: Option<Bytes>) -> Result<Bytes, SiteError> {
        let request = self.request(method, operation, body);
        let after = self.limits.answer;
        let answer = tokio::time::timeout(after, self.exchange(operation, request)).await;
        let answer = answer.map_err(|_| SiteError::Slow { website: self.website.clone(), operation, after })??;
        let (status, body) = (answer.status(), answer.into_body());
        if status.is_success() {
            return Ok(body);
        }
        let head = &body[..body.len().min(OPERATION_ERROR_BYTES)];
        match serde_json::from_slice::<ErrorBody>(head) {
            Ok(body) => Err(SiteError::Refused { website: self.website.clone(), operation, status, body }),
            Err(_) => Err(self.garbage(operation, &format!("{status} with `{}`", quoted(head)))),
        }
    }

    fn request(&self, method: Method, operation: &'static str, body: Option<Bytes>) -> Request<Full<Bytes>> {
        let has_body = body.is_some();
        let mut request = Request::new(Full::new(body.unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = http::Uri::from_static(operation);
        let headers = request.headers_mut();
        let text = |value: &str| HeaderValue::from_str(value).expect("keys and names are visible ASCII");
        headers.insert(header::HOST, text(&self.host));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        if has_body {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let mut key = text(self.key.expose());
        key.set_sensitive(true);
        headers.insert(SITE_KEY_HEADER, key);
        request
    }

    async fn exchange(
        &self,
        operation: &'static str,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Bytes>, SiteError> {
        let upstream = Upstream::Service { website: self.website.clone(), service: Role::Server };
        let down = |source| SiteError::Down { website: self.website.clone(), source };
        let stream = match tokio::time::timeout(self.limits.connect, self.dial.dial(&upstream)).await {
            Ok(stream) => stream.map_err(down)?,
            Err(_) => return Err(down(io::ErrorKind::TimedOut.into())),
        };
        match oneshot::send(stream, request, OPERATION_BODY_BYTES).await {
            Ok(answer) => Ok(answer),
            // The server ended between the connection and the answer.
            Err(OneshotError::Http(error)) if error.is_incomplete_message() || error.is_canceled() => {
                Err(down(io::Error::new(io::ErrorKind::ConnectionReset, error)))
            }
            Err(error) => Err(self.garbage(operation, &error.to_string())),
        }
    }

    fn garbage(&self, operation: &'static str, what: &str) -> SiteError {
        SiteError::Garbage { website: self.website.clone(), operation, what: what.to_owned() }
    }
}

/// How an answer begins, on one line.
fn quoted(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(QUOTED_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
