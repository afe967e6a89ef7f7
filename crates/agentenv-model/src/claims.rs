//! Who claims which names (ENV-8).

use agentenv_protocol::{HostName, HostPattern, Name, control::SiteTableEntry};

/// How strong a claim is; the stronger one is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// A live site's names and a computer's allowlist.
    Allowlist,
    /// A synthetic site's domains.
    Site,
}

/// What a claim comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimKind {
    /// A domain of a synthetic site.
    Synthetic,
    /// A domain of a live site.
    LiveDomain,
    /// A further host of a live site.
    LiveAllowHost,
    /// A name on an allowlist.
    Allowlist,
}

impl ClaimKind {
    /// Its rank.
    pub fn rank(self) -> Rank {
        match self {
            Self::Synthetic => Rank::Site,
            Self::LiveDomain | Self::LiveAllowHost | Self::Allowlist => Rank::Allowlist,
        }
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

/// Whose a name is: the higher rank wins, then exact beats wildcard and a longer suffix a shorter one.
pub fn winner<'a>(claims: &'a [Claim], host: &HostName) -> Option<&'a Claim> {
    claims
        .iter()
        .filter(|claim| claim.pattern.covers(host))
        .max_by(|a, b| a.kind.rank().cmp(&b.kind.rank()).then_with(|| a.pattern.precedence(&b.pattern)))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(list: &[(&str, ClaimKind, &str)]) -> Vec<Claim> {
        list.iter()
            .map(|(owner, kind, pattern)| Claim {
                owner: Name::parse(owner).unwrap(),
                kind: *kind,
                pattern: HostPattern::parse(pattern).unwrap(),
            })
            .collect()
    }

    use ClaimKind::{Allowlist, LiveAllowHost, LiveDomain, Synthetic};

    #[test]
    fn two_of_a_kind_conflict_and_others_do_not() {
        for (list, conflicts) in [
            (vec![("a", Synthetic, "shop.test"), ("b", Synthetic, "SHOP.test.")], 1),
            (vec![("a", Synthetic, "*.shop.test"), ("b", Synthetic, "*.shop.test")], 1),
            (vec![("a", Synthetic, "*.shop.test"), ("b", Synthetic, "a.shop.test")], 0),
            (vec![("a", Synthetic, "*.shop.test"), ("b", Synthetic, "*.b.shop.test")], 0),
            (vec![("a", Synthetic, "shop.test"), ("a", Synthetic, "shop.test")], 0),
            (vec![("a", LiveDomain, "github.com"), ("b", LiveDomain, "github.com")], 1),
            (vec![("a", LiveAllowHost, "cdn.com"), ("b", LiveAllowHost, "cdn.com")], 0),
            (vec![("a", LiveDomain, "github.com"), ("b", Synthetic, "github.com")], 0),
            (vec![("a", LiveDomain, "github.com"), ("b", Allowlist, "github.com")], 0),
            (vec![("a", Synthetic, "x.test"), ("b", Synthetic, "x.test"), ("c", Synthetic, "x.test")], 2),
        ] {
            let claims = claims(&list);
            assert_eq!(check_claims(&claims).len(), conflicts, "{list:?}");
        }
    }

    #[test]
    fn the_winner_of_a_name() {
        let claims = claims(&[
            ("wide", Synthetic, "*.shop.test"),
            ("narrow", Synthetic, "*.eu.shop.test"),
            ("exact", Synthetic, "pay.eu.shop.test"),
            ("live", LiveDomain, "exact.com"),
            ("fake", Synthetic, "*.com"),
            ("desk", Allowlist, "only.org"),
        ]);
        for (host, expected) in [
            ("a.shop.test", Some("wide")),
            ("a.eu.shop.test", Some("narrow")),
            ("pay.eu.shop.test", Some("exact")),
            ("eu.shop.test", Some("wide")),
            ("shop.test", None),
            // A synthetic wildcard beats a live exact name: rank comes first.
            ("exact.com", Some("fake")),
            ("only.org", Some("desk")),
        ] {
            let won = winner(&claims, &HostName::parse(host).unwrap()).map(|claim| claim.owner.as_str());
            assert_eq!(won, expected, "{host}");
        }
        let table: Vec<_> = site_table(&claims).iter().map(|entry| entry.pattern.to_string()).collect();
        assert_eq!(table, ["pay.eu.shop.test", "*.eu.shop.test", "*.shop.test", "*.com"]);
    }
}
