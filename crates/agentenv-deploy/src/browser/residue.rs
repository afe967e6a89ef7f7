//! What a browser holds, for the proof that a new one holds nothing of the last episode (BR-5).
//!
//! A reset launches the browser on an empty home, so cache, history and downloads, which are files there, are gone by
//! construction; a test looks for a mark of the last episode in every file of the home. This looks from the inside.

use std::fmt;

use serde_json::{Value, json};

use crate::cdp::{Cdp, CdpError};

/// What a browser holds in its default context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Residue {
    /// Cookies, as `name@domain`.
    pub(super) cookies: Vec<String>,
    /// URLs of the tabs.
    pub(super) tabs: Vec<String>,
}

impl Residue {
    /// Reads it.
    pub(super) async fn read(cdp: &Cdp) -> Result<Self, CdpError> {
        let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let cookies = list(&cdp.call("Storage.getCookies", json!({})).await?, "cookies")
            .map(|cookie| format!("{}@{}", text(cookie, "name"), text(cookie, "domain")))
            .collect();
        let tabs = list(&cdp.call("Target.getTargets", json!({})).await?, "targetInfos")
            .filter(|target| text(target, "type") == "page")
            .map(|target| text(target, "url"))
            .collect();
        Ok(Self { cookies, tabs })
    }

    /// Whether nothing is there but these tabs, or one blank one.
    pub(super) fn is_clean(&self, start_tabs: &[String]) -> bool {
        let blank = ["about:blank".to_owned()];
        let mut wanted = if start_tabs.is_empty() { blank.to_vec() } else { start_tabs.to_vec() };
        let mut tabs = self.tabs.clone();
        tabs.sort();
        wanted.sort();
        self.cookies.is_empty() && tabs == wanted
    }
}

impl fmt::Display for Residue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cookies and {} tabs ({})", self.cookies.len(), self.tabs.len(), self.tabs.join(", "))
    }
}

fn list<'a>(answer: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    answer.get(field).and_then(Value::as_array).into_iter().flatten()
}
