//! Settings of the host that commands take which deploy (GW-6).

use std::{ffi::OsString, net::SocketAddr, path::Path};

use agentenv_deploy::HostSettings;
use agentenv_protocol::control::ControlError;
use clap::Args;

/// The port of a name server that names none.
const DNS_PORT: u16 = 53;

/// How real sites are reached from this machine.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Real sites, from this machine")]
pub(crate) struct HostArgs {
    /// A name server for real names, in place of this machine's (repeatable)
    #[arg(long = "dns-server", value_name = "IP[:PORT]", env = "AGENTENV_DNS_SERVERS", value_delimiter = ',', value_parser = dns_server)]
    dns_servers: Vec<NameServer>,
    /// A file of certificate authorities to trust for real sites, beside the public ones
    #[arg(long, value_name = "FILE", env = "AGENTENV_CA_BUNDLE")]
    ca_bundle: Option<OsString>,
    /// An HTTP proxy that every connection to a real site goes through; a password is safe in the variable alone
    #[arg(long, value_name = "URL", env = agentenv_deploy::UPSTREAM_PROXY_VARIABLE, hide_env_values = true)]
    upstream_proxy: Option<Hidden>,
}

impl HostArgs {
    /// The same, read and checked. A variable that is set and empty says nothing.
    pub(crate) fn settings(&self) -> Result<HostSettings, ControlError> {
        let bundle = self.ca_bundle.as_deref().filter(|path| !path.is_empty()).map(Path::new);
        let proxy = self.upstream_proxy.as_ref().map(|proxy| proxy.0.as_str()).filter(|text| !text.is_empty());
        let servers = self.dns_servers.iter().filter_map(|server| server.0).collect();
        HostSettings::new(servers, bundle, proxy.map(Into::into)).map_err(|error| error.control())
    }
}

/// A text that no dump of the arguments shows.
#[derive(Clone)]
struct Hidden(String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

// Never refuses: clap would show the value.
impl From<String> for Hidden {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// One of a list, which may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameServer(Option<SocketAddr>);

fn dns_server(text: &str) -> Result<NameServer, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(NameServer(None));
    }
    let with_default = || text.trim_matches(['[', ']']).parse().map(|address| SocketAddr::new(address, DNS_PORT));
    let port_is_real = |address: &SocketAddr| address.port() != 0;
    let address = text.parse().or_else(|_| with_default()).ok().filter(port_is_real);
    address.map(|address| NameServer(Some(address))).ok_or_else(|| {
        "a name server is an address, such as `192.0.2.53`, `192.0.2.53:5353` or `[2001:db8::53]:53`".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_server_is_an_address_with_or_without_a_port() {
        for (text, expected) in [
            ("192.0.2.53", "192.0.2.53:53"),
            (" 192.0.2.53:5353", "192.0.2.53:5353"),
            ("2001:db8::53", "[2001:db8::53]:53"),
            ("[2001:db8::53]", "[2001:db8::53]:53"),
            ("[2001:db8::53]:54", "[2001:db8::53]:54"),
        ] {
            assert_eq!(dns_server(text), Ok(NameServer(Some(expected.parse().unwrap()))), "{text}");
        }
        assert_eq!(dns_server(""), Ok(NameServer(None)));
        for text in ["dns.corp", "192.0.2", "192.0.2.53:0", "192.0.2.53:99999", "udp://192.0.2.53"] {
            assert!(dns_server(text).is_err(), "{text}");
        }
    }
}
