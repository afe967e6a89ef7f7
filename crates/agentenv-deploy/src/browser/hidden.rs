//! Hidden targets: pages that no tab strip shows, that clients see as type `other`, and that end with our connection.

use serde_json::{Value, json};

use crate::cdp::{Cdp, CdpError, Session};

/// A page that nobody sees.
#[derive(Debug)]
pub(super) struct HiddenPage {
    pub(super) session: Session,
}

impl HiddenPage {
    /// Opens `about:blank` in the default context, or in another one.
    pub(super) async fn open(cdp: &Cdp, context: Option<&str>) -> Result<Self, CdpError> {
        const METHOD: &str = "Target.createTarget";
        let mut params = json!({ "url": "about:blank", "hidden": true, "background": true });
        if let Some(context) = context {
            params["browserContextId"] = json!(context);
        }
        let answer = cdp.call(METHOD, params).await?;
        let target = text(&answer, METHOD, "targetId")?;
        match cdp.attach(&target).await {
            Ok(session) => Ok(Self { session }),
            Err(error) => {
                cdp.call("Target.closeTarget", json!({ "targetId": target })).await.ok();
                Err(error)
            }
        }
    }

    /// Closes it.
    pub(super) async fn close(self) -> Result<(), CdpError> {
        let target = self.session.target().to_owned();
        self.session.browser().call("Target.closeTarget", json!({ "targetId": target })).await.map(drop)
    }
}

/// A browser context of its own: no cookies, no storage, shared with nobody, gone when disposed.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) id: String,
}

impl Context {
    pub(super) async fn create(cdp: &Cdp) -> Result<Self, CdpError> {
        const METHOD: &str = "Target.createBrowserContext";
        let answer = cdp.call(METHOD, json!({ "disposeOnDetach": true })).await?;
        Ok(Self { id: text(&answer, METHOD, "browserContextId")? })
    }

    pub(super) async fn dispose(self, cdp: &Cdp) -> Result<(), CdpError> {
        cdp.call("Target.disposeBrowserContext", json!({ "browserContextId": self.id })).await.map(drop)
    }
}

/// Reads a text that the protocol promises.
fn text(answer: &Value, method: &'static str, field: &'static str) -> Result<String, CdpError> {
    answer.get(field).and_then(Value::as_str).map(str::to_owned).ok_or(CdpError::MissingField { method, field })
}
