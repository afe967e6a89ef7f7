//! The `website/v1` and `traffic/v1` names, and the bodies of the `website/v1` operations (PR-2).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where an agent card is served.
pub const AGENT_CARD_PATH: &str = "/.well-known/agent-card.json";
/// The extension of a website.
pub const WEBSITE_EXTENSION: &str = "urn:agentenv:website/v1";
/// The extension of a gateway whose deploy captures traffic.
pub const TRAFFIC_EXTENSION: &str = "urn:agentenv:traffic/v1";
/// Where the gateway lists captures.
pub const TRAFFIC_CAPTURES_PATH: &str = "/traffic/v1/captures";
/// Media type of a capture file.
pub const PCAP_MEDIA_TYPE: &str = "application/vnd.tcpdump.pcap";
/// Card parameter: the site's name.
pub const WEBSITE_NAME_PARAM: &str = "name";
/// Card parameter: the names it answers to.
pub const WEBSITE_DOMAINS_PARAM: &str = "domains";
/// Card parameter: whether it is a real site.
pub const WEBSITE_LIVE_PARAM: &str = "live";
/// Card parameter: further hosts of a live site.
pub const WEBSITE_ALLOW_HOSTS_PARAM: &str = "allow_hosts";
/// Card parameter: the path prefixes served as pages.
pub const WEBSITE_ROUTES_PARAM: &str = "routes";
/// The variable that hands a server its settings, as JSON (PR-6).
pub const WEBSITE_SETTINGS_ENV: &str = "AGENTENV_WEBSITE_SETTINGS";
/// The variable of the gateway's own configuration: site name to where its pages are (GW-1).
pub const WEBSITE_URLS_ENV: &str = "WEBSITE_URLS";
/// The variable that hands a server its key (PR-8).
pub const SITE_KEY_ENV: &str = "AGENTENV_SITE_KEY";
/// The header that carries the key (PR-8).
pub const SITE_KEY_HEADER: &str = "agentenv-site-key";
/// The header that may carry the control token on `/svc/` (GW-2).
pub const CONTROL_TOKEN_HEADER: &str = "agentenv-control-token";

/// The header of an answer that gives a capture file: `complete`, or `growing` where more may follow later.
pub const CAPTURE_STATE_HEADER: &str = "agentenv-capture-state";

/// Paths of the `website/v1` operations, on a site's server.
pub mod operation {
    /// GET: 200, or 503 with the reason.
    pub const READY: &str = "/api/ready";
    /// POST [`super::DataLoad`]: adds, all or nothing.
    pub const DATA_LOAD: &str = "/api/data/load";
    /// POST [`super::DataGet`], answers [`super::DataReply`].
    pub const DATA_GET: &str = "/api/data/get";
    /// POST: back to the state at deploy.
    pub const DATA_RESET: &str = "/api/data/reset";
    /// POST [`super::SessionRequest`], answers [`super::SessionState`]. GET is a page route (PR-3).
    pub const SESSION: &str = "/api/session";
}

/// Body of `data/load`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DataLoad {
    /// The site's own JSON.
    pub data: Value,
}

/// Body of `data/get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DataGet {
    /// The site's own JSON; everything without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<Value>,
}

/// Answer of `data/get`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DataReply {
    /// The site's own JSON.
    pub data: Value,
}

/// Body of `session`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SessionRequest {
    /// Whom to sign in; the site's default user without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A user's sign-in state, in the shape of Playwright's storage state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SessionState {
    /// Cookies.
    #[serde(default)]
    pub cookies: Vec<Cookie>,
    /// Local storage by origin.
    #[serde(default)]
    pub origins: Vec<OriginState>,
    /// How to see that the user is signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
}

/// A cookie as Playwright writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Cookie {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
    /// Domain; with a leading dot it covers subdomains.
    pub domain: String,
    /// Path.
    #[serde(default = "root_path")]
    pub path: String,
    /// Seconds since the epoch; -1 for a session cookie.
    #[serde(default = "session_cookie")]
    pub expires: f64,
    /// Hidden from scripts.
    #[serde(default)]
    pub http_only: bool,
    /// Sent over HTTPS only.
    #[serde(default)]
    pub secure: bool,
    /// Cross-site rule.
    #[serde(default)]
    pub same_site: SameSite,
}

fn root_path() -> String {
    "/".to_owned()
}

fn session_cookie() -> f64 {
    -1.0
}

/// Cross-site rule of a cookie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum SameSite {
    /// Never cross-site.
    Strict,
    /// On top-level navigations.
    #[default]
    Lax,
    /// Always.
    None,
}

/// Local storage of one origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct OriginState {
    /// Such as `https://shop.test`.
    pub origin: String,
    /// Entries.
    pub local_storage: Vec<LocalStorageItem>,
}

/// One entry of local storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LocalStorageItem {
    /// Key.
    pub name: String,
    /// Value.
    pub value: String,
}

/// A page that shows that the user is signed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verify {
    /// Absolute URL of the page.
    pub url: String,
    /// Text that the loaded page contains.
    pub contains: String,
}

/// Body of every error of `website/v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ErrorBody {
    /// What kind of error.
    pub kind: ErrorKind,
    /// What went wrong, in one sentence.
    pub message: String,
    /// What to do about it.
    #[serde(default)]
    pub hint: String,
}

/// Kinds of errors of `website/v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The request is wrong.
    BadRequest,
    /// There is no such thing: a user, a selector's target, an operation.
    NotFound,
    /// Not ready yet.
    NotReady,
    /// A real site asked for a human.
    BlockedBySite,
    /// The site failed.
    Internal,
}
