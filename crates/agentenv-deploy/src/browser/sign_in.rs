//! Puts a user's sign-in state into a browser and asserts it (BR-2).

use agentenv_protocol::{Cookie, Name, OriginState, SameSite, SessionState};
use futures_util::future::try_join_all;
use serde_json::{Value, json};

use super::{
    Browser, BrowserError, SignInError,
    hidden::Context,
    origin::{OriginError, OriginPage},
    verify,
};
use crate::cdp::{Cdp, CdpError};

impl Browser {
    /// Signs a user in: proves the state in a hidden context where there is a `verify`, puts it into the default context,
    /// and reads every cookie and entry back. Answers whether a page proved it. When the proof fails, nothing was put.
    pub async fn sign_in(&self, site: &Name, user: &str, state: &SessionState) -> Result<bool, BrowserError> {
        self.sign_in_state(state).await.map_err(|why| BrowserError::SignIn {
            browser: self.name.clone(),
            site: site.clone(),
            user: user.to_owned(),
            why: Box::new(why),
        })
    }

    async fn sign_in_state(&self, state: &SessionState) -> Result<bool, SignInError> {
        if let Some(proof) = &state.verify {
            let context = Context::create(&self.cdp).await?;
            let proved = async {
                put(&self.cdp, Some(&context.id), state).await?;
                verify::assert_page(&self.cdp, &context.id, proof).await
            };
            let proved = proved.await;
            let disposed = context.dispose(&self.cdp).await;
            proved?;
            disposed?;
        }
        put(&self.cdp, None, state).await?;
        read_back(&self.cdp, state).await?;
        Ok(state.verify.is_some())
    }
}

/// Puts cookies, then local storage, into a context.
async fn put(cdp: &Cdp, context: Option<&str>, state: &SessionState) -> Result<(), SignInError> {
    // One call each, so that a refusal names its cookie.
    try_join_all(state.cookies.iter().map(|cookie| set_cookie(cdp, context, cookie))).await?;
    with_storage(cdp, context, state, Storage::Write).await
}

async fn read_back(cdp: &Cdp, state: &SessionState) -> Result<(), SignInError> {
    let answer = cdp.call("Storage.getCookies", json!({})).await?;
    let kept = answer.get("cookies").and_then(Value::as_array).cloned().unwrap_or_default();
    for cookie in &state.cookies {
        if let Some(what) = difference(cookie, &kept) {
            return Err(SignInError::CookieNotKept {
                cookie: cookie.name.clone(),
                domain: cookie.domain.clone(),
                what,
            });
        }
    }
    with_storage(cdp, None, state, Storage::Read).await
}

async fn set_cookie(cdp: &Cdp, context: Option<&str>, cookie: &Cookie) -> Result<(), SignInError> {
    let mut params = json!({ "cookies": [wire(cookie)] });
    if let Some(context) = context {
        params["browserContextId"] = json!(context);
    }
    match cdp.call("Storage.setCookies", params).await {
        Ok(_) => Ok(()),
        Err(CdpError::Refused { message, .. }) => Err(SignInError::CookieRefused {
            cookie: cookie.name.clone(),
            domain: cookie.domain.clone(),
            reason: message,
        }),
        Err(error) => Err(error.into()),
    }
}

/// The protocol's form of a cookie: without `expires` it lasts as long as the browser.
fn wire(cookie: &Cookie) -> Value {
    let same_site = match cookie.same_site {
        SameSite::Strict => "Strict",
        SameSite::Lax => "Lax",
        SameSite::None => "None",
    };
    let mut wire = json!({
        "name": cookie.name,
        "value": cookie.value,
        "domain": cookie.domain,
        "path": cookie.path,
        "httpOnly": cookie.http_only,
        "secure": cookie.secure,
        "sameSite": same_site,
    });
    if cookie.expires >= 0.0 {
        wire["expires"] = json!(cookie.expires);
    }
    wire
}

/// How what the browser kept differs from what was set. It drops some cookies without a word: expired ones,
/// `SameSite=None` without `Secure`, and turns a public suffix into a host.
fn difference(cookie: &Cookie, kept: &[Value]) -> Option<&'static str> {
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let flag = |value: &Value, field: &str| value.get(field).and_then(Value::as_bool).unwrap_or_default();
    let domain = cookie.domain.to_ascii_lowercase();
    let Some(found) = kept.iter().find(|found| {
        text(found, "name") == cookie.name && text(found, "domain") == domain && text(found, "path") == cookie.path
    }) else {
        return Some("has none");
    };
    if text(found, "value") != cookie.value {
        return Some("keeps another value");
    }
    if flag(found, "httpOnly") != cookie.http_only || flag(found, "secure") != cookie.secure {
        return Some("keeps other attributes");
    }
    None
}

/// What to do at an origin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Storage {
    Write,
    Read,
}

impl Storage {
    /// An expression that answers the keys whose value is not there.
    fn script(self, entries: &str) -> String {
        let write = match self {
            Self::Write => "for (const [k, v] of entries) localStorage.setItem(k, v);",
            Self::Read => "",
        };
        format!(
            "(entries => {{ {write} return entries.filter(([k, v]) => localStorage.getItem(k) !== v).map(([k]) => k) }})({entries})"
        )
    }
}

/// Visits each origin with entries in one hidden page.
async fn with_storage(
    cdp: &Cdp,
    context: Option<&str>,
    state: &SessionState,
    what: Storage,
) -> Result<(), SignInError> {
    let origins: Vec<&OriginState> = state.origins.iter().filter(|origin| !origin.local_storage.is_empty()).collect();
    if origins.is_empty() {
        return Ok(());
    }
    let page = OriginPage::open(cdp, context).await?;
    let visited = async {
        for origin in origins {
            visit(&page, origin, what).await?;
        }
        Ok(())
    };
    let visited: Result<(), SignInError> = visited.await;
    let closed = page.close().await;
    visited?;
    Ok(closed?)
}

async fn visit(page: &OriginPage, state: &OriginState, what: Storage) -> Result<(), SignInError> {
    let entries: Vec<[&str; 2]> = state.local_storage.iter().map(|item| [&*item.name, &*item.value]).collect();
    let entries = serde_json::to_string(&entries).expect("texts always have a JSON form");
    let missing = page.evaluate(&state.origin, &what.script(&entries)).await.map_err(|error| match error {
        OriginError::NoOrigin => SignInError::BadOrigin(state.origin.clone()),
        OriginError::Refused(reason) => SignInError::Storage { origin: state.origin.clone(), reason },
        OriginError::Cdp(error) => error.into(),
    })?;
    match missing.get(0).and_then(Value::as_str) {
        None => Ok(()),
        Some(key) => Err(SignInError::EntryNotKept { origin: state.origin.clone(), key: key.to_owned() }),
    }
}
