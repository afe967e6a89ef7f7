//! Whether a request is meant for the gateway.
//!
//! Pages are shown here without a token. A page of somebody else's, in a person's own browser, may let its own name lead to
//! 127.0.0.1 (DNS rebinding) and would then read them as its own: its name is in `Host`. Where a token is needed no page has
//! it, and clients may call the gateway what they like: it can be behind a name of theirs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::headers::{parse_port, split_port};

/// Whether an authority is what this machine calls itself, at any port: behind a forwarded one (`ssh -L`) a gateway is at
/// another, and a page has no way to give its own name an address's spelling. A name that leads here by DNS is never one.
pub(super) fn is_own(authority: &str) -> bool {
    let (host, port) = split_port(authority);
    let host_is_own = host.eq_ignore_ascii_case("localhost")
        || host == Ipv4Addr::LOCALHOST.to_string()
        || host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).and_then(|host| host.parse().ok())
            == Some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    host_is_own && port.is_none_or(|port| parse_port(port).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_this_machine_calls_itself_is_the_gateway() {
        for own in ["127.0.0.1:4000", "127.0.0.1", "localhost:4000", "LocalHost", "[::1]:4000", "[::1]"] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "",
            ":4000",
            "evil.example",
            "evil.example:4000",
            "shop.test",
            "127.0.0.1.evil.example:4000",
            "localhost.evil.example",
            "evil.localhost",
            "localhost.",
            "127.1:4000",
            "2130706433",
            "127.0.0.2:4000",
            "0.0.0.0:4000",
            "::1",
            "[::ffff:127.0.0.1]",
            "[127.0.0.1]",
            "user@localhost",
            "localhost@evil.example",
            "localhost:evil",
            "localhost:",
            "localhost:4000:4000",
            "localhost:99999",
            "localhost:+4000",
            " localhost",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }
}
