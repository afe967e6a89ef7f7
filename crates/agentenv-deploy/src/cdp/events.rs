//! What the browser tells unasked.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{CdpError, Session};

/// One event of the browser.
#[derive(Debug)]
pub struct Event {
    /// Such as `Page.loadEventFired`.
    pub method: String,
    /// The session it came from; none for the browser's own.
    pub session: Option<String>,
    /// Its parameters, as the browser wrote them.
    pub params: Value,
}

impl Event {
    /// Whether it is this event of this session.
    pub fn is(&self, session: &Session, method: &str) -> bool {
        self.method == method && self.session.as_deref() == Some(session.id())
    }

    /// Reads a text parameter by JSON Pointer; empty where there is none.
    pub fn text(&self, pointer: &str) -> &str {
        self.params.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}

/// The events of one connection from the moment of [`super::Cdp::events`] on.
#[derive(Debug)]
pub struct Events(pub(super) Receiver<Arc<Event>>);

impl Events {
    /// Waits for the next event, of whatever session.
    pub async fn next(&mut self) -> Result<Arc<Event>, CdpError> {
        match self.0.recv().await {
            Ok(event) => Ok(event),
            Err(RecvError::Closed) => Err(CdpError::Closed),
            Err(RecvError::Lagged(lost)) => Err(CdpError::EventsLost { lost }),
        }
    }
}
