//! Everything that can go wrong with a request, and the one place that maps it to a status.

use std::{fmt, io};

use agentenv_protocol::{CaptureId, HostName, Name};
use http::{Response, StatusCode, header};

use crate::{DenyReason, body, body::Body, real::RealError, upstream::Upstream};

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Client,
    Site,
    Gateway,
}

/// Why a request was not answered by what it was for. `Display` is for the log; the client gets [`ProxyError::told`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProxyError {
    #[error("bad request: {0}")]
    BadRequest(&'static str),
    #[error("no such route")]
    NoRoute,
    #[error("the method is not allowed here")]
    Method,
    #[error("no token, or a wrong one")]
    Unauthorized,
    #[error("the control token came where it would reach a site")]
    TokenElsewhere,
    #[error("the host is not `{expected}`, which this connection is for")]
    Misdirected { expected: HostName },
    #[error("the Host is not this gateway's: pages are given to 127.0.0.1, localhost and [::1]")]
    NotThisHost,
    #[error("capture `{0}` was rotated away")]
    RotatedAway(CaptureId),
    #[error("there is no capture `{0}`")]
    NoCapture(CaptureId),
    #[error("the captures can't be read: {0}")]
    Captures(io::Error),
    #[error("`{host}` is denied: {reason}")]
    Denied { host: String, reason: DenyReason },
    #[error("the request's body failed: {0}")]
    ClientBody(String),
    #[error("{0} is down: {1}")]
    Down(Upstream, io::Error),
    #[error("{0} answered no HTTP: {1}")]
    Garbage(Upstream, hyper::Error),
    #[error("{0} answered {1}")]
    Nonsense(Upstream, &'static str),
    #[error("{0} did not answer in time")]
    Slow(Upstream),
    #[error("`{0}` is not reached: {1}")]
    Real(HostName, RealError),
    #[error("browser `{0}` is not there, it may be restarting")]
    BrowserAway(Name),
    #[error("browser `{browser}` answered {status}")]
    Browser { browser: Name, status: StatusCode },
    #[error("too many {0} at a time")]
    Busy(&'static str),
    #[error("an answer could not be made: {0}")]
    Internal(#[from] http::Error),
}

impl ProxyError {
    pub(crate) fn fault(&self) -> Fault {
        match self {
            Self::BadRequest(_)
            | Self::NoRoute
            | Self::Method
            | Self::Unauthorized
            | Self::TokenElsewhere
            | Self::Misdirected { .. }
            | Self::NotThisHost
            | Self::RotatedAway(_)
            | Self::NoCapture(_)
            | Self::Denied { .. }
            | Self::ClientBody(_) => Fault::Client,
            Self::Down(..)
            | Self::Garbage(..)
            | Self::Nonsense(..)
            | Self::Slow(_)
            | Self::Real(..)
            | Self::BrowserAway(_)
            | Self::Browser { .. } => Fault::Site,
            Self::Busy(_) | Self::Captures(_) | Self::Internal(_) => Fault::Gateway,
        }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) | Self::TokenElsewhere | Self::ClientBody(_) => StatusCode::BAD_REQUEST,
            Self::NoRoute | Self::NoCapture(_) => StatusCode::NOT_FOUND,
            Self::RotatedAway(_) => StatusCode::GONE,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Misdirected { .. } | Self::NotThisHost => StatusCode::MISDIRECTED_REQUEST,
            Self::Denied { .. } => StatusCode::FORBIDDEN,
            Self::Down(..) | Self::Garbage(..) | Self::Nonsense(..) => StatusCode::BAD_GATEWAY,
            Self::Slow(_) | Self::Real(_, RealError::Slow) => StatusCode::GATEWAY_TIMEOUT,
            Self::Real(..) => StatusCode::BAD_GATEWAY,
            Self::BrowserAway(_) | Self::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Browser { status, .. } => *status,
            Self::Captures(_) | Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What the client is told: names the site, never an address, a path or an inner error.
    fn told(&self) -> String {
        match self {
            Self::Down(upstream, _) => format!("the site is down: {upstream}"),
            Self::Garbage(upstream, _) | Self::Nonsense(upstream, _) => {
                format!("the site answered what is no HTTP answer: {upstream}")
            }
            // Not the inner error: it may name addresses of this machine's networks.
            Self::Real(name, RealError::Slow) => format!("the real site did not answer in time: {name}"),
            Self::Real(name, RealError::NoAddress) => format!("the real site has no address: {name}"),
            Self::Real(name, _) => format!("the real site can't be reached: {name}"),
            Self::Slow(upstream) => format!("the site did not answer in time: {upstream}"),
            Self::Captures(_) => "the captures can't be read".to_owned(),
            Self::Internal(_) => "the gateway failed".to_owned(),
            Self::ClientBody(_) => "the request's body is broken".to_owned(),
            other => other.to_string(),
        }
    }

    /// Logs the error and answers it.
    pub(crate) fn answer(&self) -> Response<Body> {
        let (status, fault) = (self.status(), self.fault());
        match fault {
            Fault::Client => tracing::debug!(%status, ?fault, error = %self, "request refused"),
            Fault::Site => tracing::info!(%status, ?fault, error = %self, "site failed"),
            Fault::Gateway => tracing::warn!(%status, ?fault, error = %self, "gateway failed"),
        }
        plain(status, &self.told())
    }
}

/// A short answer for people.
pub(crate) fn plain(status: StatusCode, text: &(impl fmt::Display + ?Sized)) -> Response<Body> {
    let mut response = Response::new(body::full(format!("agent-env: {text}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, header::HeaderValue::from_static("nosniff"));
    response
}
