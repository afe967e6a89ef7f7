//! The page that proves that a user is signed in, in a hidden context with that user's state.

use std::time::Duration;

use agentenv_protocol::Verify;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{PageError, SignInError, hidden::HiddenPage, page};
use crate::cdp::{Cdp, CdpError, Session};

/// A page of a local site loads in under a second; one of a real site within this.
const LOAD_LIMIT: Duration = Duration::from_secs(20);
/// What a script adds to a loaded page comes soon after.
const APPEAR_LIMIT: Duration = Duration::from_secs(5);
/// An error page that happens to contain the text proves nothing.
const FIRST_ERROR_STATUS: u16 = 400;

/// Answers when the text is in the page: in what it shows, or in its markup without scripts and styles (a script may hold
/// the text of every state). Runs in a world of its own, where the page's scripts can't reach it.
const APPEARS: &str = r"
(needle, limit) => new Promise(done => {
  const seen = () => {
    if ((document.body?.innerText ?? '').includes(needle) || document.title.includes(needle)) return true;
    const root = document.documentElement?.cloneNode(true);
    if (!root) return false;
    root.querySelectorAll('script, style, template').forEach(element => element.remove());
    return root.outerHTML.includes(needle);
  };
  if (seen()) return done(true);
  const observer = new MutationObserver(() => { if (seen()) { observer.disconnect(); done(true); } });
  observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  setTimeout(() => { observer.disconnect(); done(seen()); }, limit);
})";

/// Loads the page in the context and looks for its text.
pub(super) async fn assert_page(cdp: &Cdp, context: &str, proof: &Verify) -> Result<(), SignInError> {
    let page = HiddenPage::open(cdp, Some(context)).await?;
    let asserted = assert_in(&page.session, proof).await;
    let closed = page.close().await;
    asserted?;
    Ok(closed?)
}

async fn assert_in(session: &Session, proof: &Verify) -> Result<(), SignInError> {
    let not_loaded = |why| SignInError::VerifyPage { url: proof.url.clone(), why };
    let status = page::load(session, &proof.url, LOAD_LIMIT).await.map_err(not_loaded)?;
    if let Some(status) = status.filter(|status| *status >= FIRST_ERROR_STATUS) {
        return Err(not_loaded(PageError::Status(status)));
    }
    if appears(session, &proof.contains).await? {
        Ok(())
    } else {
        Err(SignInError::VerifyAbsent { url: proof.url.clone(), contains: proof.contains.clone() })
    }
}

async fn appears(session: &Session, needle: &str) -> Result<bool, CdpError> {
    let deadline = Instant::now() + APPEAR_LIMIT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match look(session, needle, left).await {
            // A page that goes on to another one ends what runs in it: look again there.
            Err(CdpError::Refused { .. }) if !left.is_zero() => tokio::task::yield_now().await,
            Err(CdpError::Refused { .. } | CdpError::Timeout { .. }) => return Ok(false),
            other => return other,
        }
    }
}

async fn look(session: &Session, needle: &str, limit: Duration) -> Result<bool, CdpError> {
    let world = session.call("Page.createIsolatedWorld", json!({ "frameId": session.target() })).await?;
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let params = json!({
        "functionDeclaration": APPEARS,
        "executionContextId": world.get("executionContextId"),
        "arguments": [{ "value": needle }, { "value": limit_ms }],
        "awaitPromise": true,
        "returnByValue": true,
    });
    let answer = session.call_within("Runtime.callFunctionOn", params, limit + Duration::from_secs(1)).await?;
    Ok(answer.pointer("/result/value").and_then(Value::as_bool).unwrap_or(false))
}
