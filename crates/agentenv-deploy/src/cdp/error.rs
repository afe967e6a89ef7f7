//! What goes wrong between us and a browser.

use std::{io, time::Duration};

use tokio_tungstenite::tungstenite;

/// Why a CDP call or connection failed.
#[derive(Debug, thiserror::Error)]
pub enum CdpError {
    /// No connection to the browser could be made before the deadline.
    #[error("the browser accepted no connection within {} ms", .after.as_millis())]
    NotListening {
        /// How long was tried.
        after: Duration,
        /// The last reason.
        #[source]
        last: io::Error,
    },
    /// The browser accepted and then didn't answer before the deadline.
    #[error("the browser's DevTools did not answer within {} ms", .after.as_millis())]
    NotAnswering {
        /// How long was waited.
        after: Duration,
    },
    /// `/json/version` answered something else.
    #[error("the browser's DevTools answered garbage: {what}")]
    BadAnswer {
        /// What was wrong with it.
        what: &'static str,
    },
    /// What goes before DevTools' paths is no path.
    #[error("the address of the browser's DevTools is no URL")]
    BadAddress,
    /// HTTP broke off.
    #[error("the browser's DevTools broke off")]
    Http(#[from] hyper::Error),
    /// The WebSocket could not be opened.
    #[error("the browser's DevTools refused a WebSocket")]
    WebSocket(#[source] Box<tungstenite::Error>),
    /// The connection ended: the browser is gone, or closed it.
    #[error("the browser closed its DevTools connection")]
    Closed,
    /// A call got no answer in time.
    #[error("`{method}` got no answer within {} ms", .after.as_millis())]
    Timeout {
        /// The call.
        method: String,
        /// How long was waited.
        after: Duration,
    },
    /// The browser refused a call.
    #[error("`{method}` was refused: {message} ({code})")]
    Refused {
        /// The call.
        method: String,
        /// The protocol's code.
        code: i64,
        /// The browser's text.
        message: String,
    },
    /// An answer lacks what the protocol promises.
    #[error("the answer to `{method}` has no `{field}`")]
    MissingField {
        /// The call.
        method: &'static str,
        /// What is missing.
        field: &'static str,
    },
    /// Events came faster than they were read, so some are lost.
    #[error("{lost} DevTools events were lost")]
    EventsLost {
        /// How many.
        lost: u64,
    },
}
