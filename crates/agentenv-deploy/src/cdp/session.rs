//! Handles: one for the browser, one for each attached target.

use std::{
    future::Future,
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    sync::{broadcast, mpsc, oneshot},
    time::timeout,
};

use super::{
    CdpError, Event, Events, connect,
    link::{self, CALL_QUEUE, Call, EVENT_QUEUE},
};

/// A call answers in milliseconds; a browser under load in hundreds of them.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The browser's endpoint. Clones share one connection, which closes with the last of them and of their sessions.
#[derive(Clone, Debug)]
pub struct Cdp {
    calls: mpsc::Sender<Call>,
    events: broadcast::WeakSender<Arc<Event>>,
    product: Arc<str>,
    ended: Arc<OnceLock<String>>,
}

impl Cdp {
    /// Connects to a browser that may still be starting, trying until the limit.
    pub async fn connect<F, R>(dial: F, port: u16, limit: Duration) -> Result<Self, CdpError>
    where
        F: Fn() -> R,
        R: Future<Output = io::Result<TcpStream>>,
    {
        Self::connect_below(dial, port, "", limit).await
    }

    /// Connects to a browser whose DevTools are below a path: `/agent/TOKEN/BROWSER` at a gateway.
    pub async fn connect_below<F, R>(dial: F, port: u16, base: &str, limit: Duration) -> Result<Self, CdpError>
    where
        F: Fn() -> R,
        R: Future<Output = io::Result<TcpStream>>,
    {
        let (version, socket) = connect::connect(dial, port, base, limit).await?;
        let (calls, receiver) = mpsc::channel(CALL_QUEUE);
        let (events, _) = broadcast::channel(EVENT_QUEUE);
        let weak = events.downgrade();
        let ended = Arc::new(OnceLock::new());
        tokio::spawn(link::run(socket, receiver, events, Arc::clone(&ended)));
        Ok(Self { calls, events: weak, product: version.product.into(), ended })
    }

    /// The browser's product and version, such as `Chrome/156.0.8078.108`.
    pub fn product(&self) -> &str {
        &self.product
    }

    /// Whether it is still connected.
    pub fn is_open(&self) -> bool {
        self.events.upgrade().is_some()
    }

    /// What the other end said when it closed the connection, where it said something.
    pub fn close_reason(&self) -> Option<&str> {
        self.ended.get().map(String::as_str)
    }

    /// Listens to events from now on; of a closed connection it ends at once.
    pub fn events(&self) -> Events {
        match self.events.upgrade() {
            Some(sender) => Events(sender.subscribe()),
            None => Events(broadcast::channel(1).1),
        }
    }

    /// Calls a method of the browser itself.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, CdpError> {
        self.send(method, None, params, CALL_TIMEOUT).await
    }

    /// Attaches to a target in a flat session.
    pub async fn attach(&self, target: &str) -> Result<Session, CdpError> {
        const METHOD: &str = "Target.attachToTarget";
        let answer = self.call(METHOD, json!({ "targetId": target, "flatten": true })).await?;
        let id = answer
            .get("sessionId")
            .and_then(Value::as_str)
            .ok_or(CdpError::MissingField { method: METHOD, field: "sessionId" })?;
        Ok(Session { cdp: self.clone(), id: id.into(), target: target.into() })
    }

    async fn send(
        &self,
        method: &str,
        session: Option<&str>,
        params: Value,
        limit: Duration,
    ) -> Result<Value, CdpError> {
        let (answer, receiver) = oneshot::channel();
        let call = Call { method: method.to_owned(), session: session.map(str::to_owned), params, answer };
        let exchange = async {
            self.calls.send(call).await.map_err(|_| CdpError::Closed)?;
            receiver.await.unwrap_or(Err(CdpError::Closed))
        };
        timeout(limit, exchange)
            .await
            .unwrap_or_else(|_| Err(CdpError::Timeout { method: method.to_owned(), after: limit }))
    }
}

/// One attached target.
#[derive(Clone, Debug)]
pub struct Session {
    cdp: Cdp,
    id: Arc<str>,
    target: Arc<str>,
}

impl Session {
    /// The session's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The target's id.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The browser it belongs to.
    pub fn browser(&self) -> &Cdp {
        &self.cdp
    }

    /// Calls a method of the target.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value, CdpError> {
        self.call_within(method, params, CALL_TIMEOUT).await
    }

    /// Calls a method that takes as long as the page does.
    pub async fn call_within(&self, method: &str, params: Value, limit: Duration) -> Result<Value, CdpError> {
        self.cdp.send(method, Some(&self.id), params, limit).await
    }

    /// Detaches; the target stays.
    pub async fn detach(self) -> Result<(), CdpError> {
        self.cdp.call("Target.detachFromTarget", json!({ "sessionId": &*self.id })).await.map(drop)
    }
}
