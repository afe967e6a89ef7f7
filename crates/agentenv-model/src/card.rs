//! A site's card against what is stored of it (ENV-11).

use std::collections::BTreeSet;

use agentenv_protocol::{HostPattern, WebsiteParams};

use crate::{Place, PlannedWebsite, Problem, Problems};

/// The domains of a running site, if its card says what was stored. A synthetic site that stores none takes its card's.
pub fn compare_card(website: &PlannedWebsite, card: &WebsiteParams) -> Result<Vec<HostPattern>, Problems> {
    let mut problems = Vec::new();
    let mut differ = |what: &str, stored: String, card: String| {
        if stored != card {
            let message =
                format!("website `{}` was stored with {what} {stored}, and its card says {card}", website.name);
            let hint = "make env.toml and the site's declaration say the same, and put it again";
            problems.push(Problem::new(Place::Env(website.env.clone()), message, hint));
        }
    };
    differ("live", website.live.to_string(), card.live.to_string());
    let takes_the_cards = website.domains.is_empty() && !website.live;
    if !takes_the_cards {
        differ("domains", shown(&website.domains), shown(&card.domains));
    }
    differ("allow_hosts", shown(&website.allow_hosts), shown(&card.allow_hosts));
    Problems::check(if takes_the_cards { card.domains.clone() } else { website.domains.clone() }, problems)
}

/// Order does not matter.
fn shown(patterns: &[HostPattern]) -> String {
    let texts: BTreeSet<String> = patterns.iter().map(|pattern| format!("\"{pattern}\"")).collect();
    format!("[{}]", texts.into_iter().collect::<Vec<_>>().join(", "))
}
