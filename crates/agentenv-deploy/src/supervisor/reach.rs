//! The way to real sites (NET-3, NET-8): one for a deploy, made only where something of it has a reach.

use std::sync::Arc;

use agentenv_model::{Plan, PlannedWebsite, Reach};
use agentenv_net::{AddressBook, BrowserNet, Limits, RealNetwork, SiteTable, Sites};
use agentenv_protocol::{SandboxName, control::ControlError};

use super::{
    build::Context,
    sockets::{Sockets, place},
};
use crate::host_settings::HostSettings;

/// How a deploy reaches real sites, and whom their visitors trust.
pub(crate) struct RealSites {
    pub(crate) network: Arc<RealNetwork>,
    /// PEM: what the host's settings add to the public authorities.
    pub(crate) further_authorities: String,
    /// PEM: the public authorities of this machine, and those.
    pub(crate) authorities: String,
}

impl RealSites {
    /// Makes the way, if something of the plan has a reach. Must be called within a runtime.
    pub(crate) fn of(plan: &Plan, host: &HostSettings) -> Result<Option<Self>, ControlError> {
        let browsers = plan.browsers.iter().any(|browser| has_reach(&browser.network));
        let computers = plan.computers.iter().any(|computer| has_reach(&computer.network));
        if !browsers && !computers && plan.websites.iter().all(|website| website.reach.is_empty()) {
            return Ok(None);
        }
        let settings = host.network().map_err(|error| error.control())?;
        let network = RealNetwork::new(&settings, Limits::default().real_connect).map_err(|error| {
            ControlError::infrastructure(format!("real sites cannot be reached: {error}"))
                .hint("name a server with `--dns-server`, or in AGENTENV_DNS_SERVERS")
        })?;
        let (further_authorities, authorities) = (host.authorities().to_owned(), host.all_authorities());
        Ok(Some(Self { network: Arc::new(network), further_authorities, authorities }))
    }
}

/// Whether something is reached on the real network.
pub(crate) fn has_reach(reach: &Reach) -> bool {
    match reach {
        Reach::Hosts(hosts) => !hosts.is_empty(),
        Reach::Open => true,
    }
}

/// What a browser reaches: the deploy's synthetic sites, and what its network adds.
pub(crate) fn table(synthetic: &Arc<SiteTable>, reach: &Reach) -> Arc<SiteTable> {
    match reach {
        Reach::Hosts(hosts) if hosts.is_empty() => Arc::clone(synthetic),
        Reach::Hosts(hosts) => Arc::new(SiteTable::clone(synthetic).with_live_hosts(hosts.iter().cloned())),
        Reach::Open => Arc::new(SiteTable::clone(synthetic).open()),
    }
}

/// Gives a live site's pod its way to the real site, before a service runs that needs it. It has no site of the deploy in it: for
/// this pod those names are always the real ones (NET-8).
pub(crate) async fn serve_pod(
    context: &Context,
    website: &PlannedWebsite,
    sockets: &Sockets,
) -> Result<(), ControlError> {
    let Some(real) = context.real.as_ref().filter(|_| !website.reach.is_empty()) else { return Ok(()) };
    let failed = |error: &dyn std::fmt::Display| {
        ControlError::infrastructure(format!("the network of live site `{}` cannot be served: {error}", website.name))
    };
    let table = Arc::new(SiteTable::default().with_live_hosts(website.reach.iter().cloned()));
    let net = BrowserNet {
        sandbox: server_of(website),
        book: Arc::new(AddressBook::new(&table)),
        table,
        authority: Arc::clone(context.authority().await?),
        sites: Sites::new(Arc::clone(&context.dialer) as _, Limits::default(), Vec::new()),
        denied: Arc::clone(&context.denied) as _,
        real: Some(Arc::clone(&real.network)),
    };
    let placed = place(sockets).map_err(|error| failed(&error))?;
    context.down.net(net.spawn(placed).map_err(|error| failed(&error))?);
    Ok(())
}

/// The denied log names a pod by its server: the one that has the reach.
fn server_of(website: &PlannedWebsite) -> SandboxName {
    let server = website.service(agentenv_model::Role::Server).or_else(|| website.services.first());
    match server {
        Some(server) => SandboxName::of_service(&website.name, &server.name),
        None => SandboxName::of_browser(&website.name),
    }
}

#[cfg(test)]
mod tests {
    use agentenv_net::{Verdict, decide};
    use agentenv_protocol::{HostPattern, Name, control::SiteTableEntry};

    use super::*;

    #[test]
    fn a_browsers_table_has_its_networks_names_and_synthetic_ones_win() {
        let synthetic = Arc::new(SiteTable::new([SiteTableEntry {
            pattern: HostPattern::parse("gist.github.com").unwrap(),
            website: Name::parse("gist").unwrap(),
        }]));
        let hosts = Reach::Hosts(vec![HostPattern::parse("*.github.com").unwrap()]);
        for (reach, host, expected) in [
            (&Reach::Hosts(Vec::new()), "api.github.com", "deny"),
            (&hosts, "api.github.com", "direct"),
            (&hosts, "gist.github.com", "site"),
            (&hosts, "github.com", "deny"),
            (&Reach::Open, "example.com", "direct"),
            (&Reach::Open, "gist.github.com", "site"),
            (&Reach::Open, "10.0.0.1", "deny"),
        ] {
            let found = match decide(&table(&synthetic, reach), host, 443) {
                Verdict::Site(_) => "site",
                Verdict::Direct => "direct",
                Verdict::Deny(_) => "deny",
            };
            assert_eq!(found, expected, "{reach:?} {host}");
        }
    }
}
