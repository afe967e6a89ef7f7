//! The one function that decides every connection (NET-2).

use std::collections::HashMap;

use agentenv_protocol::{HostError, HostName, HostPattern, Name, SandboxName, control::SiteTableEntry};

use crate::limits::DENIED_HOST_CHARS;

#[cfg(test)]
mod tests;

/// What happens to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A website of the deploy answers.
    Site(Name),
    /// It goes straight to the real host; where a network has no way there, it is denied as
    /// [`DenyReason::DirectUnavailable`].
    Direct,
    /// It goes nowhere.
    Deny(DenyReason),
}

/// Why a connection was denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DenyReason {
    /// No website has the name.
    #[error("no website of this deploy has this name")]
    NotAllowed,
    /// An address instead of a name.
    #[error("an address is never allowed, only names")]
    Address,
    /// The machine itself.
    #[error("names of the machine itself are never allowed")]
    Localhost,
    /// Neither 80 nor 443.
    #[error("port {0} is not allowed, only 80 and 443")]
    Port(u16),
    /// Not a host name: userinfo, brackets, NUL, a second port.
    #[error("not a host name")]
    BadName,
    /// The TLS handshake named no host.
    #[error("the TLS handshake named no host, expected `{expected}`")]
    NoSni {
        /// The name that the address or the tunnel stands for.
        expected: HostName,
    },
    /// The TLS handshake named another host than the address or the tunnel stands for.
    #[error("the TLS handshake named another host than `{expected}`")]
    OtherSni {
        /// The name that the address or the tunnel stands for.
        expected: HostName,
    },
    /// A request inside a connection named another host than the connection is for.
    #[error("the request named another host than `{expected}`, which the connection is for")]
    OtherHost {
        /// The name that the address or the tunnel stands for.
        expected: HostName,
    },
    /// The bytes are no TLS handshake, or it came too slowly or too long.
    #[error("no TLS handshake came")]
    NoHandshake,
    /// The address belongs to no name.
    #[error("the address belongs to no name")]
    UnknownAddress,
    /// A wildcard's names have used up their addresses.
    #[error("too many names under wildcards have been asked for")]
    TooManyNames,
    /// The verdict was [`Verdict::Direct`], and this deploy has nothing that dials real hosts.
    #[error("real hosts can't be reached from this deploy")]
    DirectUnavailable,
    /// A live name that resolves to what is not public (NET-3).
    #[error("it resolves to an address that is not public")]
    NotPublic,
}

/// The names of a deploy's synthetic sites, and what else a sandbox reaches.
#[derive(Clone, Debug, Default)]
pub struct SiteTable {
    exact: HashMap<HostName, Name>,
    below: Vec<(HostPattern, Name)>,
    order: Vec<HostName>,
    live: Vec<HostPattern>,
    open: bool,
}

impl SiteTable {
    /// Makes the table. Two entries of one pattern can't be: planning refuses them (ENV-8); here the first stays.
    pub fn new(entries: impl IntoIterator<Item = SiteTableEntry>) -> Self {
        let mut table = Self::default();
        for SiteTableEntry { pattern, website } in entries {
            match pattern {
                HostPattern::Exact(name) => {
                    if !table.exact.contains_key(&name) {
                        table.order.push(name.clone());
                        table.exact.insert(name, website);
                    }
                }
                below @ HostPattern::Below(_) => table.below.push((below, website)),
            }
        }
        // A stable sort with the winner first: the first that covers a name is the one.
        table.below.sort_by(|(a, _), (b, _)| b.precedence(a));
        table
    }

    /// Adds the patterns that go straight to the real hosts. A synthetic name still wins within them.
    #[must_use]
    pub fn with_live_hosts(mut self, patterns: impl IntoIterator<Item = HostPattern>) -> Self {
        self.live.extend(patterns);
        self
    }

    /// Lets every other name go straight to its real host (NET-4, `open`).
    #[must_use]
    pub fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// The website that answers to a name.
    pub fn site(&self, name: &HostName) -> Option<&Name> {
        self.exact
            .get(name)
            .or_else(|| self.below.iter().find(|(pattern, _)| pattern.covers(name)).map(|(_, website)| website))
    }

    /// The exact names, in the order in which they were given.
    pub fn exact_names(&self) -> &[HostName] {
        &self.order
    }
}

/// Decides a connection to `host` at `port`. Pure: the same answer for DNS, TLS, plain HTTP and the forward port.
///
/// A synthetic name always wins, an exact one before a wildcard, a longer suffix before a shorter one. Ports other than 80
/// and 443, addresses in any spelling, names of the machine itself and what is no name at all are denied.
pub fn decide(table: &SiteTable, host: &str, port: u16) -> Verdict {
    match HostName::parse(host) {
        Err(error) => Verdict::Deny(error.into()),
        Ok(_) if port != 80 && port != 443 => Verdict::Deny(DenyReason::Port(port)),
        Ok(name) => match table.site(&name) {
            Some(website) => Verdict::Site(website.clone()),
            None if table.open || table.live.iter().any(|pattern| pattern.covers(&name)) => Verdict::Direct,
            None => Verdict::Deny(DenyReason::NotAllowed),
        },
    }
}

impl From<HostError> for DenyReason {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Address(_) => Self::Address,
            HostError::Localhost(_) => Self::Localhost,
            HostError::Empty | HostError::Port(_) | HostError::Wildcard(_) | HostError::Invalid(_) => Self::BadName,
        }
    }
}

/// Takes what was denied (NET-7).
pub trait DeniedLog: Send + Sync {
    /// Takes one denied attempt. `host` is as it was asked for, shortened, without control characters; `port` is 0 for DNS.
    /// Called from async tasks: must not block.
    fn denied(&self, sandbox: &SandboxName, host: &str, port: u16, reason: &DenyReason);
}

/// A host as it was asked for, fit for a log.
pub(crate) fn printable(host: &str) -> String {
    host.chars().take(DENIED_HOST_CHARS).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
