//! Loads one page in one target and says how it went.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::PageError;
use crate::cdp::{CdpError, Event, Events, Session};

/// What is known of a page while it loads.
#[derive(Debug, Default)]
struct Progress {
    /// The navigation that we asked for.
    asked: String,
    /// The document that the tab shows; another one when a script or a `meta` element went on.
    shown: Option<String>,
    /// Status of the last document's response, with its loader.
    status: Option<(String, u16)>,
}

/// Navigates and waits until the page and everything in it is loaded. Answers the document's HTTP status, where it has one.
pub async fn load(page: &Session, url: &str, limit: Duration) -> Result<Option<u16>, PageError> {
    let deadline = Instant::now() + limit;
    match timeout_at(deadline, load_without_limit(page, url, limit)).await {
        Ok(result) => result,
        Err(_) => {
            page.call("Page.stopLoading", json!({})).await.ok();
            Err(PageError::StillLoading(limit))
        }
    }
}

async fn load_without_limit(page: &Session, url: &str, limit: Duration) -> Result<Option<u16>, PageError> {
    let mut events = page.browser().events();
    page.call("Page.enable", json!({})).await?;
    page.call("Network.enable", json!({})).await?;
    page.call("Page.setLifecycleEventsEnabled", json!({ "enabled": true })).await?;
    // It answers when the document arrives, but a dialog of the page before may hold it up: see to both.
    let navigate = page.call_within("Page.navigate", json!({ "url": url }), limit);
    tokio::pin!(navigate);
    let mut progress = Progress::default();
    let mut early = Vec::new();
    let answer = loop {
        tokio::select! {
            answer = &mut navigate => break answer.map_err(|error| match error {
                CdpError::Timeout { after, .. } => PageError::StillLoading(after),
                other => PageError::Cdp(other),
            })?,
            event = events.next() => {
                let event = event?;
                dismiss(page, &event).await?;
                early.push(event);
            }
        }
    };
    let field = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (error, loader) = (field("errorText"), field("loaderId"));
    progress.asked = loader;
    for event in early {
        match see(page, &mut progress, &event) {
            // The browser's page about an error may come before the error's name, which is what people want to know.
            Some(Ok(_) | Err(PageError::Network(_))) if !error.is_empty() => {}
            Some(done) => return done,
            None => {}
        }
    }
    if !error.is_empty() {
        let download = answer.get("isDownload").and_then(Value::as_bool).unwrap_or(false);
        return Err(refused(&error, download, progress.status.as_ref()));
    }
    wait(page, &mut events, &mut progress).await
}

/// A navigation that ended without a page.
fn refused(error: &str, download: bool, status: Option<&(String, u16)>) -> PageError {
    match status {
        // Chromium shows a page of its own for an error status without a body.
        Some((_, status)) if error.contains("ERR_HTTP_RESPONSE_CODE_FAILURE") || *status == 204 => {
            PageError::Status(*status)
        }
        _ if download => PageError::Download,
        _ => PageError::Network(error.to_owned()),
    }
}

async fn wait(page: &Session, events: &mut Events, progress: &mut Progress) -> Result<Option<u16>, PageError> {
    loop {
        let event = events.next().await?;
        dismiss(page, &event).await?;
        if let Some(done) = see(page, progress, &event) {
            return done;
        }
    }
}

/// A dialog holds a page up until it is answered; Playwright dismisses them too where nobody listens. The one that asks
/// whether to leave a page is answered with yes: leaving it is what was asked for.
async fn dismiss(page: &Session, event: &Event) -> Result<(), PageError> {
    if event.is(page, "Page.javascriptDialogOpening") {
        let leave = event.text("/type") == "beforeunload";
        match page.call("Page.handleJavaScriptDialog", json!({ "accept": leave })).await {
            // Another client may have answered it first.
            Ok(_) | Err(CdpError::Refused { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Takes in one event; answers once the load is over.
fn see(page: &Session, progress: &mut Progress, event: &Event) -> Option<Result<Option<u16>, PageError>> {
    if event.method == "Target.targetDestroyed" && event.text("/targetId") == page.target() {
        return Some(Err(PageError::Cdp(CdpError::Closed)));
    }
    if event.session.as_deref() != Some(page.id()) {
        return None;
    }
    match event.method.as_str() {
        "Network.responseReceived" if event.text("/type") == "Document" && event.text("/frameId") == page.target() => {
            let status = event.params.pointer("/response/status").and_then(Value::as_u64).unwrap_or_default();
            progress.status = Some((event.text("/loaderId").to_owned(), u16::try_from(status).unwrap_or_default()));
        }
        "Page.frameNavigated" if event.text("/frame/id") == page.target() => {
            let loader = event.text("/frame/loaderId").to_owned();
            // The page before may still announce itself.
            if progress.shown.is_some() || loader == progress.asked {
                progress.shown = Some(loader);
            }
            if progress.shown.is_some() && !event.text("/frame/unreachableUrl").is_empty() {
                let url = event.text("/frame/unreachableUrl");
                return Some(Err(PageError::Network(format!("`{url}`, where it leads, can't be reached"))));
            }
        }
        "Page.lifecycleEvent"
            if event.text("/name") == "load" && progress.shown.as_deref() == Some(event.text("/loaderId")) =>
        {
            return Some(Ok(progress.status_of_shown()));
        }
        "Inspector.targetCrashed" => return Some(Err(PageError::Crashed)),
        _ => {}
    }
    None
}

impl Progress {
    fn status_of_shown(&self) -> Option<u16> {
        let (loader, status) = self.status.as_ref()?;
        (self.shown.as_ref() == Some(loader)).then_some(*status)
    }
}
