//! The one task that owns the WebSocket: numbers calls, hands answers back, spreads events.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    sync::{broadcast, mpsc, oneshot},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, Utf8Bytes},
};

use super::{CdpError, Event};

/// Calls that wait to be written. Callers wait for their answers, so the queue is as long as there are callers.
pub(super) const CALL_QUEUE: usize = 64;
/// Events that a reader may lag behind. A page with network events on sends some hundreds while it loads.
pub(super) const EVENT_QUEUE: usize = 4096;

/// One call on its way.
pub(super) struct Call {
    pub(super) method: String,
    pub(super) session: Option<String>,
    pub(super) params: Value,
    pub(super) answer: oneshot::Sender<Result<Value, CdpError>>,
}

/// A message of the browser. Unknown fields are left out, and every known one may be absent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Incoming {
    id: Option<u64>,
    method: Option<String>,
    session_id: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    code: i64,
    #[serde(default)]
    message: String,
    #[serde(default)]
    data: Option<Value>,
}

type Pending = HashMap<u64, (String, oneshot::Sender<Result<Value, CdpError>>)>;

/// Runs until the browser closes or every handle is dropped; calls without an answer then end as [`CdpError::Closed`].
pub(super) async fn run(
    mut socket: WebSocketStream<TcpStream>,
    mut calls: mpsc::Receiver<Call>,
    events: broadcast::Sender<Arc<Event>>,
    ended: Arc<OnceLock<String>>,
) {
    let mut pending = Pending::new();
    let mut last_id = 0u64;
    loop {
        tokio::select! {
            call = calls.recv() => {
                let Some(call) = call else { break };
                last_id += 1;
                let text = encode(last_id, &call);
                // A call whose caller gave up is dropped here, so `pending` doesn't grow with calls that time out.
                pending.retain(|_, (_, answer)| !answer.is_closed());
                pending.insert(last_id, (call.method, call.answer));
                if socket.send(Message::Text(text)).await.is_err() {
                    break;
                }
            }
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => receive(&text, &mut pending, &events),
                Some(Ok(Message::Close(frame))) => {
                    // Before the calls that wait are told that it is closed.
                    if let Some(frame) = frame.filter(|frame| !frame.reason.is_empty()) {
                        ended.set(frame.reason.to_string()).ok();
                    }
                    break;
                }
                Some(Err(_)) | None => break,
                Some(Ok(_)) => {}
            },
        }
    }
    socket.close(None).await.ok();
}

fn encode(id: u64, call: &Call) -> Utf8Bytes {
    let mut message = json!({ "id": id, "method": call.method, "params": call.params });
    if let Some(session) = &call.session {
        message["sessionId"] = json!(session);
    }
    message.to_string().into()
}

fn receive(text: &str, pending: &mut Pending, events: &broadcast::Sender<Arc<Event>>) {
    let Ok(message) = serde_json::from_str::<Incoming>(text) else {
        tracing::debug!(bytes = text.len(), "a DevTools message that is not one");
        return;
    };
    if let Some((method, answer)) = message.id.and_then(|id| pending.remove(&id)) {
        let result = match message.error {
            None => Ok(message.result),
            Some(refusal) => Err(refused(method, refusal)),
        };
        // The caller may have timed out meanwhile.
        answer.send(result).ok();
    } else if let Some(method) = message.method {
        // Nobody may be listening.
        events.send(Arc::new(Event { method, session: message.session_id, params: message.params })).ok();
    }
}

fn refused(method: String, refusal: Refusal) -> CdpError {
    let message = match refusal.data.as_ref().and_then(Value::as_str) {
        Some(data) => format!("{}: {data}", refusal.message),
        None => refusal.message,
    };
    CdpError::Refused { method, code: refusal.code, message }
}
