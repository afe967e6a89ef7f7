//! What goes wrong with a browser, by the thing that the reader of the message can do something about.

use std::time::Duration;

use agentenv_protocol::Name;

use crate::cdp::CdpError;

/// Why a browser can't do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum BrowserError {
    /// There is no Chromium on this machine.
    #[error("no Chromium at {looked}")]
    NotInstalled {
        /// Where it was looked for.
        looked: String,
    },
    /// The deploy's certificate authority is no PEM certificate.
    #[error("the deploy's certificate authority is no PEM certificate")]
    BadAuthority,
    /// The browser itself doesn't answer or refused.
    #[error("browser `{browser}`: {source}")]
    Cdp {
        /// Which browser.
        browser: Name,
        /// What happened.
        #[source]
        source: CdpError,
    },
    /// A browser that should be new holds something.
    #[error("browser `{browser}` is not new: it holds {holds}")]
    NotNew {
        /// Which browser.
        browser: Name,
        /// What it holds.
        holds: String,
    },
    /// A start tab didn't load.
    #[error("browser `{browser}`: start tab `{tab}` did not load from `{host}`: {why}")]
    StartTab {
        /// Which browser.
        browser: Name,
        /// The tab's URL.
        tab: String,
        /// Its host.
        host: String,
        /// What happened.
        #[source]
        why: Box<PageError>,
    },
    /// A user isn't signed in.
    #[error("browser `{browser}`: `{user}` is not signed in to `{site}`: {why}")]
    SignIn {
        /// Which browser.
        browser: Name,
        /// The website.
        site: Name,
        /// The user.
        user: String,
        /// What happened.
        #[source]
        why: Box<SignInError>,
    },
}

impl BrowserError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotInstalled { .. } => "install it: `apt-get install chromium`",
            Self::BadAuthority => "deploy again; the authority is made new for each deploy",
            Self::NotNew { .. } => "close the deploy and deploy again",
            Self::Cdp { .. } => "see the browser's log with `agent-env env logs`",
            Self::StartTab { why, .. } => why.hint(),
            Self::SignIn { why, .. } => why.hint(),
        }
    }
}

/// Why a page didn't load.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The browser's own network error.
    #[error("{0}")]
    Network(String),
    /// The site answered with an error.
    #[error("the site answered {0}")]
    Status(u16),
    /// The site sent a file instead of a page.
    #[error("the site sent a download, not a page")]
    Download,
    /// It was still loading at the deadline.
    #[error("it was still loading after {} ms", .0.as_millis())]
    StillLoading(Duration),
    /// Its renderer crashed.
    #[error("its tab crashed")]
    Crashed,
    /// The browser didn't answer.
    #[error(transparent)]
    Cdp(#[from] CdpError),
}

impl PageError {
    fn hint(&self) -> &'static str {
        match self {
            Self::Network(text) if text.contains("ERR_CERT") => {
                "certificates are checked; the name must be one that a website of the env declares"
            }
            Self::Network(_) => "see what was refused with `agent-env env denied`",
            Self::Status(_) | Self::Download | Self::StillLoading(_) => "see the site's log with `agent-env env logs`",
            Self::Crashed | Self::Cdp(_) => "see the browser's log with `agent-env env logs`",
        }
    }
}

/// Why a user isn't signed in. Holds names, never values.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The browser doesn't take a cookie.
    #[error("the browser refused cookie `{cookie}` of `{domain}`: {reason}")]
    CookieRefused {
        /// Its name.
        cookie: String,
        /// Its domain.
        domain: String,
        /// The browser's text.
        reason: String,
    },
    /// A cookie was set and isn't there, or differs.
    #[error("cookie `{cookie}` of `{domain}` was set and the browser {what}")]
    CookieNotKept {
        /// Its name.
        cookie: String,
        /// Its domain.
        domain: String,
        /// What was found.
        what: &'static str,
    },
    /// An origin that can have no local storage.
    #[error("`{0}` is no origin such as `https://shop.test`")]
    BadOrigin(String),
    /// A local storage entry was put and isn't there, or differs.
    #[error("local storage entry `{key}` of `{origin}` was not kept")]
    EntryNotKept {
        /// Its origin.
        origin: String,
        /// Its key.
        key: String,
    },
    /// Local storage of an origin can't be written.
    #[error("local storage of `{origin}` can't be written: {reason}")]
    Storage {
        /// The origin.
        origin: String,
        /// The browser's text.
        reason: String,
    },
    /// The page that proves it didn't load.
    #[error("`{url}` did not load: {why}")]
    VerifyPage {
        /// The page.
        url: String,
        /// What happened.
        #[source]
        why: PageError,
    },
    /// The page that proves it loaded and doesn't.
    #[error("`{url}` does not contain `{contains}`")]
    VerifyAbsent {
        /// The page.
        url: String,
        /// What was looked for.
        contains: String,
    },
    /// The browser didn't answer.
    #[error(transparent)]
    Cdp(#[from] CdpError),
}

impl SignInError {
    fn hint(&self) -> &'static str {
        match self {
            Self::CookieRefused { .. } | Self::CookieNotKept { .. } => {
                "the site's `session` answers cookies that a browser keeps: not expired, `Secure` for `SameSite=None` and \
                 `__Secure-`, a domain that is no public suffix"
            }
            Self::BadOrigin(_) | Self::EntryNotKept { .. } | Self::Storage { .. } => {
                "look at `origins` in what the site's `session` answers"
            }
            Self::VerifyPage { .. } | Self::VerifyAbsent { .. } => {
                "look at `verify` in what the site's `session` answers, and at the site's log with `agent-env env logs`"
            }
            Self::Cdp(_) => "see the browser's log with `agent-env env logs`",
        }
    }
}
