//! An empty page of ours at any origin, to get at what the browser stores for it. Not a byte leaves the browser, and
//! nothing of the site runs.

use serde_json::{Value, json};

use super::hidden::HiddenPage;
use crate::cdp::{Cdp, CdpError, Events, Session};

/// A 404 stays out of the browser's history.
const BLANK_STATUS: u16 = 404;
/// `<!doctype html><link rel=icon href=data:,><title></title>`, in base64 as the protocol wants it. The icon keeps the
/// browser from asking the site for one.
const BLANK_PAGE: &str = "PCFkb2N0eXBlIGh0bWw+PGxpbmsgcmVsPWljb24gaHJlZj1kYXRhOiw+PHRpdGxlPjwvdGl0bGU+";

/// Why an expression could not be evaluated at an origin.
#[derive(Debug)]
pub(super) enum OriginError {
    /// It is no web origin.
    NoOrigin,
    /// The browser opened no page there, or the expression threw: the browser's text.
    Refused(String),
    /// The browser didn't answer.
    Cdp(CdpError),
}

impl From<CdpError> for OriginError {
    fn from(error: CdpError) -> Self {
        Self::Cdp(error)
    }
}

/// A hidden page all of whose requests are answered by ourselves.
#[derive(Debug)]
pub(super) struct OriginPage(HiddenPage);

impl OriginPage {
    /// Opens it in the default context, or in another one.
    pub(super) async fn open(cdp: &Cdp, context: Option<&str>) -> Result<Self, CdpError> {
        let page = HiddenPage::open(cdp, context).await?;
        match intercept(&page.session).await {
            Ok(()) => Ok(Self(page)),
            Err(error) => {
                page.close().await.ok();
                Err(error)
            }
        }
    }

    /// Evaluates an expression at an origin; a promise is awaited.
    pub(super) async fn evaluate(&self, origin: &str, expression: &str) -> Result<Value, OriginError> {
        let origin = origin.trim_end_matches('/');
        if !is_web_origin(origin) {
            return Err(OriginError::NoOrigin);
        }
        self.go_to(origin).await?;
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.0.session.call("Runtime.evaluate", params).await?;
        if let Some(thrown) = answer.pointer("/exceptionDetails/exception/description").and_then(Value::as_str) {
            // Its first line; the rest is a stack.
            return Err(OriginError::Refused(thrown.lines().next().unwrap_or_default().to_owned()));
        }
        answer
            .pointer_mut("/result/value")
            .map(Value::take)
            .ok_or_else(|| OriginError::Refused("no answer from its page".to_owned()))
    }

    pub(super) async fn close(self) -> Result<(), CdpError> {
        self.0.close().await
    }

    async fn go_to(&self, origin: &str) -> Result<(), OriginError> {
        let session = &self.0.session;
        let events = session.browser().events();
        let answer = tokio::select! {
            answer = session.call("Page.navigate", json!({ "url": format!("{origin}/") })) => answer?,
            error = answer_requests(session, events) => return Err(error.into()),
        };
        match answer.get("errorText").and_then(Value::as_str) {
            None => Ok(()),
            Some(error) => Err(OriginError::Refused(error.to_owned())),
        }
    }
}

async fn intercept(session: &Session) -> Result<(), CdpError> {
    // A worker that the site registered would answer before us.
    session.call("Network.enable", json!({})).await?;
    session.call("Network.setBypassServiceWorker", json!({ "bypass": true })).await?;
    session.call("Page.enable", json!({})).await?;
    session.call("Fetch.enable", json!({ "patterns": [{ "urlPattern": "*" }] })).await.map(drop)
}

/// Answers every request until something fails.
async fn answer_requests(session: &Session, mut events: Events) -> CdpError {
    loop {
        let event = match events.next().await {
            Ok(event) => event,
            Err(error) => return error,
        };
        if event.is(session, "Fetch.requestPaused") {
            let params = json!({
                "requestId": event.text("/requestId"),
                "responseCode": BLANK_STATUS,
                "responseHeaders": [{ "name": "content-type", "value": "text/html" }],
                "body": BLANK_PAGE,
            });
            if let Err(error) = session.call("Fetch.fulfillRequest", params).await {
                return error;
            }
        }
    }
}

/// Whether the text is a scheme, a host and perhaps a port, and nothing more.
fn is_web_origin(origin: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    matches!(scheme, "http" | "https")
        && !authority.is_empty()
        && authority.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b))
}
