//! Host names and host patterns (ENV-3).

use std::{cmp::Ordering, fmt, net::IpAddr};

use serde::{Deserialize, Serialize};

use crate::ids::text_forms;

/// Why a text is not a host name or host pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Nothing is left once a trailing dot is ignored.
    #[error("a host name is empty")]
    Empty,
    /// An IP address in some spelling.
    #[error("`{0}` is an IP address, not a host name")]
    Address(String),
    /// `localhost`, or a name under `.localhost`.
    #[error("`{0}` is a name of the machine itself")]
    Localhost(String),
    /// A port was given.
    #[error("`{0}` has a port")]
    Port(String),
    /// `*` anywhere but as the whole first label.
    #[error("`{0}` has a `*` that is not its whole first label")]
    Wildcard(String),
    /// Not a name that IDNA accepts.
    #[error("`{0}` is not a host name")]
    Invalid(String),
}

/// A host name: lower-case A-labels, no trailing dot, never an address or the machine itself.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostName(String);

impl HostName {
    /// Parses a name; case and one trailing dot are ignored, Unicode becomes A-labels.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        let bad = || HostError::Invalid(text.to_owned());
        let bare = text.strip_suffix('.').unwrap_or(text);
        if bare.is_empty() {
            return Err(HostError::Empty);
        }
        if is_address(bare) {
            return Err(HostError::Address(text.to_owned()));
        }
        if let Some((_, port)) = bare.rsplit_once(':')
            && port.bytes().all(|b| b.is_ascii_digit())
        {
            return Err(HostError::Port(text.to_owned()));
        }
        if bare.contains('*') {
            return Err(HostError::Wildcard(text.to_owned()));
        }
        let name =
            idna::domain_to_ascii_cow(bare.as_bytes(), idna::AsciiDenyList::URL).map_err(|_| bad())?.into_owned();
        let label_ok = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if name.len() > 253 || !name.split('.').all(label_ok) {
            return Err(bad());
        }
        // IDNA maps full-width digits and dots: what looked like a name may be an address now.
        if is_address(&name) {
            return Err(HostError::Address(text.to_owned()));
        }
        if name == "localhost" || name.ends_with(".localhost") {
            return Err(HostError::Localhost(text.to_owned()));
        }
        Ok(Self(name))
    }

    /// The name as lower-case A-labels.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a client would read the text as an address: dotted, decimal, octal or hexadecimal IPv4, or IPv6.
fn is_address(text: &str) -> bool {
    let inner = text.trim_start_matches('[').trim_end_matches(']');
    if inner.parse::<IpAddr>().is_ok() || inner.split_once('%').is_some_and(|(a, _)| a.parse::<IpAddr>().is_ok()) {
        return true;
    }
    // WHATWG URL, "ends in a number": the last label decides.
    let last = text.rsplit('.').next().unwrap_or_default();
    let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    !last.is_empty()
        && (last.bytes().all(|b| b.is_ascii_digit())
            || hexadecimal.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit())))
}

/// An exact name, or `*.suffix`, which covers every depth below the suffix and never the suffix itself.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum HostPattern {
    /// This name only.
    Exact(HostName),
    /// Every name below this one.
    Below(HostName),
}

impl HostPattern {
    /// Parses an exact name or `*.suffix`.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        match text.strip_prefix("*.") {
            Some(suffix) => HostName::parse(suffix).map(Self::Below),
            None => HostName::parse(text).map(Self::Exact),
        }
    }

    /// Whether the pattern covers the name.
    pub fn covers(&self, name: &HostName) -> bool {
        match self {
            Self::Exact(exact) => exact == name,
            Self::Below(suffix) => {
                name.0.strip_suffix(&suffix.0).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
        }
    }

    /// Whether every name that `other` covers is covered by this pattern.
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Exact(name)) => self.covers(name),
            (Self::Below(wide), Self::Below(narrow)) => wide == narrow || self.covers(narrow),
            (Self::Exact(_), Self::Below(_)) => false,
        }
    }

    /// Whether some name is covered by both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other) || other.contains(self)
    }

    /// Orders by who wins a name that both cover: exact beats wildcard, a longer suffix a shorter one. The winner is greater.
    pub fn precedence(&self, other: &Self) -> Ordering {
        let rank = |pattern: &Self| match pattern {
            Self::Exact(_) => (1, 0),
            Self::Below(suffix) => (0, suffix.0.split('.').count()),
        };
        rank(self).cmp(&rank(other))
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => write!(f, "{name}"),
            Self::Below(suffix) => write!(f, "*.{suffix}"),
        }
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

text_forms!(HostName, HostError);
text_forms!(HostPattern, HostError);

#[cfg(test)]
mod tests;
