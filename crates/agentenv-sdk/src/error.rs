//! The error of a site.

use std::{fmt, io::Write};

use agentenv_protocol::{ErrorBody, ErrorKind};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What a site's methods answer.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a site's method failed: what kind of error, what went wrong, what to do about it.
///
/// Any `std::error::Error` becomes an internal one by `?`. As the answer of a page, an internal error is logged and shown
/// without its text; the others show theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(ErrorBody);

impl Error {
    /// Makes an error.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(ErrorBody { kind, message: message.into(), hint: String::new() })
    }

    /// The request is wrong.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::BadRequest, message)
    }

    /// There is no such thing: a user, what a selector names.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Not ready yet.
    pub fn not_ready(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotReady, message)
    }

    /// The real site asked for a human.
    pub fn blocked_by_site(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::BlockedBySite, message)
    }

    /// The site failed.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Adds what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = hint.into();
        self
    }

    /// What kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What went wrong.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// As `website/v1` answers it.
    pub fn body(&self) -> &ErrorBody {
        &self.0
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self.kind() {
            ErrorKind::BadRequest => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::NotReady => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::BlockedBySite => StatusCode::CONFLICT,
            ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())?;
        if self.0.hint.is_empty() { Ok(()) } else { write!(f, " ({})", self.0.hint) }
    }
}

impl<E: std::error::Error> From<E> for Error {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            // Many libraries repeat their cause in their own text.
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            source = cause.source();
        }
        Self::internal(message)
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let status = self.status();
        if self.kind() == ErrorKind::Internal {
            log(format_args!("a page failed: {self}"));
            return (status, "Something went wrong.\n").into_response();
        }
        (status, format!("{}\n", self.message())).into_response()
    }
}

/// Reads the data of `load`, or a selector, as a type of the site's own; what doesn't fit is a bad request.
///
/// Refuse what you don't know: put `#[serde(deny_unknown_fields)]` on the type.
pub fn from_data<T: DeserializeOwned>(data: Value) -> Result<T> {
    serde_json::from_value(data).map_err(|error| Error::bad_request(error.to_string()))
}

/// Writes one line to the service's log.
pub(crate) fn log(line: fmt::Arguments<'_>) {
    // Nobody reads the log: there is nowhere left to say so.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
