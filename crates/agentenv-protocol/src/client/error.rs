//! What a client of a gateway is told.

use std::{io, time::Duration};

use http::StatusCode;

use crate::CaptureId;

/// Why a gateway did not give what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL is none of a gateway.
    #[error("`{url}` is not the URL of a gateway: http://HOST:PORT")]
    Url {
        /// As it was given.
        url: String,
    },
    /// The token can't be one: it holds what no header may.
    #[error("the control token is not a token")]
    Token,
    /// Nothing accepts there: the deploy is closed, or dead.
    #[error("the gateway at {gateway} can't be reached: {source}")]
    Unreachable {
        /// `HOST:PORT`.
        gateway: String,
        /// What the connection said; a timeout where it said nothing.
        source: io::Error,
    },
    /// It closed the connection before the answer was there: the deploy was closed, or died.
    #[error("the gateway at {gateway} went away before it had answered")]
    Closed {
        /// `HOST:PORT`.
        gateway: String,
        /// What the connection said.
        source: hyper::Error,
    },
    /// The answer did not come in time.
    #[error("the gateway at {gateway} did not answer within {after:?}")]
    Slow {
        /// `HOST:PORT`.
        gateway: String,
        /// How long it was given.
        after: Duration,
    },
    /// 401: the control token is of another deploy.
    #[error("the gateway at {gateway} refused the control token")]
    Unauthorized {
        /// `HOST:PORT`.
        gateway: String,
    },
    /// The deploy captures no traffic.
    #[error("the deploy of the gateway at {gateway} captures no traffic")]
    NoTraffic {
        /// `HOST:PORT`.
        gateway: String,
    },
    /// 410: the file was there, and its ring has removed it.
    #[error("capture `{id}` was rotated away")]
    RotatedAway {
        /// Which file.
        id: CaptureId,
    },
    /// 404: no ring has or had such a file, or the deploy captures no traffic.
    #[error("there is no capture `{id}`")]
    NoCapture {
        /// Which file.
        id: CaptureId,
    },
    /// 416: the file has nothing there, or nothing there yet.
    #[error("capture `{id}` has no bytes in this range: it has {bytes:?} in all")]
    RangeBeyond {
        /// Which file.
        id: CaptureId,
        /// Its length, where the gateway said it.
        bytes: Option<u64>,
    },
    /// Any other answer that gives nothing. 503: too many downloads at a time, try again.
    #[error("the gateway at {gateway} answered {status}: {reason}")]
    Refused {
        /// `HOST:PORT`.
        gateway: String,
        /// Status of the answer.
        status: StatusCode,
        /// What it said.
        reason: String,
    },
    /// The answer is not one of a gateway.
    #[error("the gateway at {gateway} answered garbage: {what}")]
    Garbage {
        /// `HOST:PORT`.
        gateway: String,
        /// What is wrong with it.
        what: String,
    },
    /// The download ended early: the gateway died, or was closed.
    #[error("the download of capture `{id}` ended after {received} of {length} bytes")]
    Incomplete {
        /// Which file.
        id: CaptureId,
        /// Bytes that came; they are those of the file.
        received: u64,
        /// Bytes that were announced.
        length: u64,
        /// What the connection said.
        source: Option<hyper::Error>,
    },
    /// The download stands still.
    #[error("the download of capture `{id}` stood still for {after:?} after {received} of {length} bytes")]
    Stalled {
        /// Which file.
        id: CaptureId,
        /// Bytes that came; they are those of the file.
        received: u64,
        /// Bytes that were announced.
        length: u64,
        /// How long it was given.
        after: Duration,
    },
}
