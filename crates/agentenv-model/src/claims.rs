//! Who claims which names, who wins them, and what is left for the real sites (ENV-8, NET-3, NET-4).

use std::cmp::Ordering;

use agentenv_protocol::{HostName, HostPattern, Name, control::SiteTableEntry};
use serde::{Deserialize, Serialize};

use crate::{EnvSpec, NetworkSpec};

#[cfg(test)]
mod tests;

/// What a claim comes from; the stronger kind is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClaimKind {
    /// A name on an allowlist.
    Allowlist,
    /// A further host of a live site.
    LiveAllowHost,
    /// A domain of a live site.
    LiveDomain,
    /// A domain of a synthetic site.
    Synthetic,
}

impl ClaimKind {
    /// Whether it comes from a website: start tabs may be there (ENV-9).
    pub fn is_of_website(self) -> bool {
        self != Self::Allowlist
    }

    fn is_live(self) -> bool {
        matches!(self, Self::LiveDomain | Self::LiveAllowHost)
    }
}

/// One name that somebody claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The website or computer, by its name in the deploy.
    pub owner: Name,
    /// What it comes from.
    pub kind: ClaimKind,
    /// What it covers.
    pub pattern: HostPattern,
}

/// The claims of one website.
pub fn claims_of(owner: &Name, live: bool, domains: &[HostPattern], allow_hosts: &[HostPattern]) -> Vec<Claim> {
    let kind = if live { ClaimKind::LiveDomain } else { ClaimKind::Synthetic };
    let claim = |kind| move |pattern: &HostPattern| Claim { owner: owner.clone(), kind, pattern: pattern.clone() };
    domains.iter().map(claim(kind)).chain(allow_hosts.iter().map(claim(ClaimKind::LiveAllowHost))).collect()
}

impl EnvSpec {
    /// The claims of the env under its name in a deploy: those of a website. What else it may be claims nothing: an allowlist
    /// takes no name from anybody.
    pub fn claims(&self, owner: &Name) -> Vec<Claim> {
        match self {
            Self::Website(site) => claims_of(owner, site.live, &site.domains, &site.allow_hosts),
            Self::Browser(_) | Self::Computer(_) | Self::Multi(_) => Vec::new(),
        }
    }
}

/// Pairs of claims that cannot both hold: the same pattern of two synthetic sites, the same domain of two live sites.
pub fn check_claims(claims: &[Claim]) -> Vec<(&Claim, &Claim)> {
    let exclusive = |claim: &Claim| matches!(claim.kind, ClaimKind::Synthetic | ClaimKind::LiveDomain);
    let mut conflicts = Vec::new();
    for (index, later) in claims.iter().enumerate().filter(|(_, claim)| exclusive(claim)) {
        let earlier = claims[..index].iter().find(|earlier| {
            earlier.kind == later.kind && earlier.pattern == later.pattern && earlier.owner != later.owner
        });
        conflicts.extend(earlier.map(|earlier| (earlier, later)));
    }
    conflicts
}

/// Whose a name is: a synthetic site wins, then exact beats wildcard and a longer suffix a shorter one.
pub fn winner<'a>(claims: &'a [Claim], host: &HostName) -> Option<&'a Claim> {
    winner_of(claims, &HostPattern::Exact(host.clone()))
}

/// Whose every name of a pattern is, as far as one claim has all of them; names within it may be somebody else's.
pub fn winner_of<'a>(claims: &'a [Claim], pattern: &HostPattern) -> Option<&'a Claim> {
    // Of equals the first one: between live sites that share a host nobody loses anything.
    let stronger =
        |best: &'a Claim, next: &'a Claim| if next.wins_over(best) == Ordering::Greater { next } else { best };
    claims.iter().filter(|claim| claim.pattern.contains(pattern)).reduce(stronger)
}

impl Claim {
    fn wins_over(&self, other: &Self) -> Ordering {
        let is_synthetic = |claim: &Self| claim.kind == ClaimKind::Synthetic;
        let by_site = is_synthetic(self).cmp(&is_synthetic(other));
        by_site.then_with(|| self.pattern.precedence(&other.pattern)).then_with(|| self.kind.cmp(&other.kind))
    }
}

/// The names of websites, where start tabs may be (ENV-9).
pub fn website_names(claims: &[Claim]) -> Vec<HostPattern> {
    claims.iter().filter(|claim| claim.kind.is_of_website()).map(|claim| claim.pattern.clone()).collect()
}

/// The site table: the synthetic claims, who wins first.
pub fn site_table(claims: &[Claim]) -> Vec<SiteTableEntry> {
    let mut table: Vec<_> = claims
        .iter()
        .filter(|claim| claim.kind == ClaimKind::Synthetic)
        .map(|claim| SiteTableEntry { pattern: claim.pattern.clone(), website: claim.owner.clone() })
        .collect();
    table.sort_by(|a, b| {
        b.pattern.precedence(&a.pattern).then_with(|| a.pattern.to_string().cmp(&b.pattern.to_string()))
    });
    table
}

/// The names of live sites, and those of them that a synthetic site has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveHosts<'a> {
    /// What goes straight to the real sites. A synthetic name within a wider one of these is still the synthetic site's.
    pub hosts: Vec<HostPattern>,
    /// What a synthetic site covers whole, with its claim.
    pub left_off: Vec<(&'a Claim, &'a Claim)>,
}

/// The live hosts of a deploy (NET-4): every live site's domains and further hosts that no synthetic site covers.
pub fn live_hosts(claims: &[Claim]) -> LiveHosts<'_> {
    let mut live = LiveHosts::default();
    for claim in claims.iter().filter(|claim| claim.kind.is_live()) {
        match covered(claims, &claim.pattern) {
            Some(by) => live.left_off.push((claim, by)),
            None if live.hosts.contains(&claim.pattern) => {}
            None => live.hosts.push(claim.pattern.clone()),
        }
    }
    live
}

impl LiveHosts<'_> {
    /// What people should know: a live name that they won't reach.
    pub fn warnings(&self) -> Vec<String> {
        let warning = |(claim, by): &(&Claim, &Claim)| {
            format!(
                "`{}` of live site `{}` is left off: website `{}` answers it in this deploy",
                claim.pattern, claim.owner, by.owner
            )
        };
        self.left_off.iter().map(warning).collect()
    }
}

/// The synthetic claim that covers every name of a pattern.
fn covered<'a>(claims: &'a [Claim], pattern: &HostPattern) -> Option<&'a Claim> {
    winner_of(claims, pattern).filter(|claim| claim.kind == ClaimKind::Synthetic)
}

/// What a sandbox reaches on the real network, beside the deploy's synthetic sites.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// These names.
    Hosts(Vec<HostPattern>),
    /// Any public name.
    Open,
}

/// The reach of a browser or computer (NET-4). `open` is left as it is by live sites; a computer that routes no sites has the
/// live hosts too.
pub fn reach(network: &NetworkSpec, claims: &[Claim]) -> Reach {
    let allowed = match network {
        NetworkSpec::Open => return Reach::Open,
        NetworkSpec::Sites => &[][..],
        NetworkSpec::Allowlist(patterns) => patterns.as_slice(),
    };
    let mut hosts = live_hosts(claims).hosts;
    for pattern in allowed {
        if !hosts.contains(pattern) && covered(claims, pattern).is_none() {
            hosts.push(pattern.clone());
        }
    }
    Reach::Hosts(hosts)
}

/// The reach of a website's server (NET-8): a live site's names, for it always the real ones; nothing of a synthetic site.
pub fn site_reach(live: bool, domains: &[HostPattern], allow_hosts: &[HostPattern]) -> Vec<HostPattern> {
    let mut hosts: Vec<HostPattern> = Vec::new();
    for pattern in domains.iter().chain(allow_hosts).filter(|_| live) {
        if !hosts.contains(pattern) {
            hosts.push(pattern.clone());
        }
    }
    hosts
}
