//! Start tabs: open and loaded when the deploy says ready (BR-4).

use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use serde_json::{Value, json};

use super::{Browser, BrowserError, PageError, page};
use crate::cdp::{CdpError, Session};

/// A page with a body and an error of the server is still no start tab.
const FIRST_SERVER_ERROR: u16 = 500;

impl Browser {
    /// Opens the tabs in the default context, in their order, and waits until all are loaded. The first takes the place
    /// of the blank tab that the browser started with, and is in front at the end.
    pub async fn open_start_tabs(&self, urls: &[String], limit: Duration) -> Result<(), BrowserError> {
        let mut pages = Vec::with_capacity(urls.len());
        for index in 0..urls.len() {
            let page = async {
                let target = if index == 0 { self.first_tab.to_string() } else { self.new_tab().await? };
                self.cdp.attach(&target).await
            };
            pages.push(page.await.map_err(|source| self.failed(source))?);
        }
        let loaded = try_join_all(pages.iter().zip(urls).map(|(page, url)| async move {
            load_tab(page, url, limit).await.map_err(|why| BrowserError::StartTab {
                browser: self.name.clone(),
                tab: url.clone(),
                host: host_of(url).to_owned(),
                why: Box::new(why),
            })
        }))
        .await;
        let first = pages.first().map(|page| page.target().to_owned());
        // Detaching leaves a tab as a person's own: nothing of ours listens to it.
        join_all(pages.into_iter().map(Session::detach)).await;
        loaded?;
        if let Some(target) = first {
            self.cdp
                .call("Target.activateTarget", json!({ "targetId": target }))
                .await
                .map_err(|source| self.failed(source))?;
        }
        Ok(())
    }

    async fn new_tab(&self) -> Result<String, CdpError> {
        const METHOD: &str = "Target.createTarget";
        let answer = self.cdp.call(METHOD, json!({ "url": "about:blank", "background": true })).await?;
        answer
            .get("targetId")
            .and_then(Value::as_str)
            .map(str::to_owned)
            .ok_or(CdpError::MissingField { method: METHOD, field: "targetId" })
    }
}

async fn load_tab(session: &Session, url: &str, limit: Duration) -> Result<(), PageError> {
    if let Some(status) = page::load(session, url, limit).await?
        && status >= FIRST_SERVER_ERROR
    {
        return Err(PageError::Status(status));
    }
    // `back` from a start tab leads nowhere, as in a tab that a person opened at it.
    session.call("Page.resetNavigationHistory", json!({})).await?;
    Ok(())
}

/// The host of a URL that was checked when the env was stored; for messages.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#', ':']).next().unwrap_or(rest)
}
