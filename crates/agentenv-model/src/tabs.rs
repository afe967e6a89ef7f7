//! Start tabs (ENV-9).

use std::fmt;

use agentenv_protocol::{HostError, HostName, HostPattern};
use serde::{Deserialize, Serialize};

/// The longest URL of a start tab; Chromium takes 2 MiB, people write a line.
const MAX_URL_LEN: usize = 2048;

/// Why a text is not a start tab.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TabError {
    /// Neither http nor https.
    #[error("`{0}` does not begin with `https://` or `http://`")]
    Scheme(String),
    /// A character that no URL has, or too many of them.
    #[error("`{0}` is not a URL")]
    Invalid(String),
    /// A user name or password in it.
    #[error("`{0}` has a user name in it")]
    User(String),
    /// A port other than the standard one.
    #[error("`{0}` has a port: sites answer at the standard ports")]
    Port(String),
    /// No host name.
    #[error("{0}")]
    Host(HostError),
}

/// A page that is open when a deploy says ready.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StartTab {
    url: String,
    host: HostName,
}

impl StartTab {
    /// Parses an absolute http or https URL.
    pub fn parse(text: &str) -> Result<Self, TabError> {
        let scheme_end = text.find("://").ok_or_else(|| TabError::Scheme(text.to_owned()))?;
        let default_port = match text[..scheme_end].to_ascii_lowercase().as_str() {
            "https" => "443",
            "http" => "80",
            _ => return Err(TabError::Scheme(text.to_owned())),
        };
        // A backslash is a slash for browsers, and the host another one than it seems.
        let odd =
            |c: char| c.is_whitespace() || c.is_control() || matches!(c, '\\' | '<' | '>' | '"' | '`' | '{' | '}');
        if text.len() > MAX_URL_LEN || text.contains(odd) {
            return Err(TabError::Invalid(text.to_owned()));
        }
        let rest = &text[scheme_end + 3..];
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        if authority.contains('@') {
            return Err(TabError::User(text.to_owned()));
        }
        let host = match authority.rsplit_once(':') {
            Some((host, port)) if port == default_port => host,
            Some((host, port)) if !host.contains(':') && port.bytes().all(|b| b.is_ascii_digit()) => {
                return Err(TabError::Port(text.to_owned()));
            }
            _ => authority,
        };
        Ok(Self { url: text.to_owned(), host: HostName::parse(host).map_err(TabError::Host)? })
    }

    /// The URL as it was written.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The host in it.
    pub fn host(&self) -> &HostName {
        &self.host
    }
}

impl fmt::Display for StartTab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl fmt::Debug for StartTab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.url)
    }
}

impl TryFrom<String> for StartTab {
    type Error = TabError;
    fn try_from(text: String) -> Result<Self, TabError> {
        Self::parse(&text)
    }
}

impl From<StartTab> for String {
    fn from(tab: StartTab) -> Self {
        tab.url
    }
}

/// The tabs whose host none of the patterns covers.
pub fn unclaimed_tabs<'a>(tabs: &'a [StartTab], claimed: &[HostPattern]) -> Vec<&'a StartTab> {
    tabs.iter().filter(|tab| !claimed.iter().any(|pattern| pattern.covers(&tab.host))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs() {
        for (text, host) in [
            ("https://tracker.test/issues/", "tracker.test"),
            ("http://SHOP.test", "shop.test"),
            ("HTTPS://shop.test:443/?q=1#x", "shop.test"),
            ("http://shop.test:80", "shop.test"),
            ("https://shop.test?next=http://other.test/", "shop.test"),
            ("https://bücher.example/", "xn--bcher-kva.example"),
        ] {
            assert_eq!(StartTab::parse(text).map(|tab| tab.host().to_string()).as_deref(), Ok(host), "{text}");
        }
        for text in [
            "shop.test",
            "ftp://shop.test",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://",
            "https:///x",
            "https://shop.test:8443/",
            "https://shop.test:80/",
            "https://user@shop.test/",
            "https://127.0.0.1/",
            "https://[::1]/",
            "https://2130706433/",
            "https://localhost/",
            "https://shop.test\\@evil.test/",
            "https://a b/",
            "https://*.test/",
        ] {
            assert!(StartTab::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_tab_is_told_before_its_host_is_looked_at() {
        let long = format!("https://shop.test/{}", "x".repeat(MAX_URL_LEN));
        for text in
            ["https://shop.test/a b", "https://shop.test/\u{1}", "https://shop.test/\\x", "https://shop.test/<", &long]
        {
            assert!(matches!(StartTab::parse(text), Err(TabError::Invalid(_))), "{text}");
        }
        for text in ["https://ada@shop.test/", "https://ada:secret@shop.test/"] {
            assert!(matches!(StartTab::parse(text), Err(TabError::User(_))), "{text}");
        }
    }

    #[test]
    fn a_tab_that_no_website_claims_is_named() {
        let tabs: Vec<_> = ["https://shop.test/", "https://a.b.shop.test/", "https://other.test/x"]
            .map(|text| StartTab::parse(text).unwrap())
            .to_vec();
        let claimed = |texts: &[&str]| texts.iter().map(|text| HostPattern::parse(text).unwrap()).collect::<Vec<_>>();
        assert_eq!(unclaimed_tabs(&tabs, &claimed(&["shop.test", "*.shop.test"])), [&tabs[2]]);
        assert_eq!(unclaimed_tabs(&tabs, &claimed(&["shop.test"])), [&tabs[1], &tabs[2]]);
        assert_eq!(unclaimed_tabs(&tabs, &[]).len(), 3);
    }
}
