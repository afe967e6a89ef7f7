//! Where the placed sockets of a sandbox are.

use std::net::{Ipv4Addr, SocketAddrV4};

/// The resolver.
pub(crate) const DNS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 53), 53);
/// The HTTP proxy that the browser uses.
pub(crate) const FORWARD_PORT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128);
/// Sites by TLS: a wildcard, since every name has an address of its own.
pub(crate) const TLS: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 443);
/// Sites by plain HTTP.
pub(crate) const HTTP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 80);
/// Where connections of the gateway, and of browsers by way of it, come from in a website's sandbox: on loopback the source would
/// otherwise be the destination, and a capture would not show who spoke.
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The browser's own DevTools.
pub(crate) const DEVTOOLS: u16 = 9222;
