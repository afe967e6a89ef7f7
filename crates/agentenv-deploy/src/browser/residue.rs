//! What an episode left in a browser, for the proof that a reset leaves nothing (BR-5).
//!
//! A reset relaunches the browser on an empty home, so cache, history and downloads, which are files there, are gone by
//! construction; a test looks for a mark of the last episode in every file of the home. This looks from the inside.

use serde_json::{Value, json};

use super::{
    Browser, BrowserError,
    origin::{OriginError, OriginPage},
};
use crate::cdp::CdpError;

/// Counts what an origin stores; workers and caches exist at secure origins only.
const COUNT_STORAGE: &str = r"
(async () => ({
  'local storage': localStorage.length,
  'databases': (await indexedDB.databases()).length,
  'caches': self.caches ? (await caches.keys()).length : 0,
  'service workers': navigator.serviceWorker ? (await navigator.serviceWorker.getRegistrations()).length : 0,
}))()";

/// What a browser holds in its default context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residue {
    /// Cookies, as `name@domain`.
    pub cookies: Vec<String>,
    /// URLs of the tabs.
    pub tabs: Vec<String>,
    /// What the origins that were asked about store, such as `2 local storage of https://shop.test`.
    pub storage: Vec<String>,
}

impl Residue {
    /// Whether nothing is there but the start tabs: no cookie, no storage, no other tab. A site may set a cookie when its
    /// start tab is opened; such a site's browsers are not clean by this measure.
    pub fn is_clean(&self, start_tabs: &[String]) -> bool {
        let blank = ["about:blank".to_owned()];
        let mut wanted = if start_tabs.is_empty() { blank.to_vec() } else { start_tabs.to_vec() };
        let mut tabs = self.tabs.clone();
        tabs.sort();
        wanted.sort();
        self.cookies.is_empty() && self.storage.is_empty() && tabs == wanted
    }
}

impl Browser {
    /// Reads what the browser holds; storage is asked for by origin.
    pub async fn residue(&self, origins: &[String]) -> Result<Residue, BrowserError> {
        self.read_residue(origins).await.map_err(|source| self.failed(source))
    }

    async fn read_residue(&self, origins: &[String]) -> Result<Residue, CdpError> {
        let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let cookies = list(&self.cdp.call("Storage.getCookies", json!({})).await?, "cookies")
            .map(|cookie| format!("{}@{}", text(cookie, "name"), text(cookie, "domain")))
            .collect();
        let tabs = list(&self.cdp.call("Target.getTargets", json!({})).await?, "targetInfos")
            .filter(|target| text(target, "type") == "page")
            .map(|target| text(target, "url"))
            .collect();
        let page = OriginPage::open(&self.cdp, None).await?;
        let mut storage = Vec::new();
        for origin in origins {
            match page.evaluate(origin, COUNT_STORAGE).await {
                Ok(counts) => storage.extend(stored(origin, &counts)),
                Err(OriginError::Cdp(error)) => return Err(error),
                // What can't be looked at is not known to be empty.
                Err(OriginError::NoOrigin) => storage.push(format!("`{origin}` is no origin")),
                Err(OriginError::Refused(reason)) => storage.push(format!("`{origin}` can't be read: {reason}")),
            }
        }
        page.close().await?;
        Ok(Residue { cookies, tabs, storage })
    }
}

fn stored(origin: &str, counts: &Value) -> Vec<String> {
    counts
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, count)| count.as_u64() != Some(0))
        .map(|(kind, count)| format!("{count} {kind} of {origin}"))
        .collect()
}

fn list<'a>(answer: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    answer.get(field).and_then(Value::as_array).into_iter().flatten()
}
