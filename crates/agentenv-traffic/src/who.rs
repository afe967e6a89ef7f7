//! Who speaks, as addresses and ports tell.

use std::net::{IpAddr, SocketAddr};

use agentenv_protocol::TrafficRing;

use crate::{packet::Segment, record::Party};

/// Who is who in one ring.
#[derive(Clone, Debug)]
pub(crate) struct Who(TrafficRing);

impl Who {
    pub(crate) fn new(ring: TrafficRing) -> Self {
        Self(ring)
    }

    pub(crate) fn ring(&self) -> &TrafficRing {
        &self.0
    }

    /// Who connected from an address.
    pub(crate) fn client(&self, address: SocketAddr) -> Party {
        if address.ip() == IpAddr::V4(self.0.gateway_address) {
            return Party::Gateway;
        }
        let of = |range: Option<(u16, u16)>| range.is_some_and(|(from, to)| (from..=to).contains(&address.port()));
        let service = self.0.services.iter().find(|service| of(service.client_ports));
        service.map_or(Party::Unknown, |service| Party::Service(service.name.clone()))
    }

    /// Who listens at an address.
    pub(crate) fn service(&self, address: SocketAddr) -> Party {
        let service = self.0.services.iter().find(|service| service.port == address.port());
        service.map_or(Party::Unknown, |service| Party::Service(service.name.clone()))
    }

    /// Whether the sender of a connection's first captured segment is its client.
    pub(crate) fn is_from_client(&self, source: SocketAddr, destination: SocketAddr, segment: &Segment<'_>) -> bool {
        if segment.syn {
            return segment.ack.is_none();
        }
        self.is_client(source, destination, segment.payload)
    }

    /// The same, of packets that don't say so themselves.
    pub(crate) fn is_client(&self, source: SocketAddr, destination: SocketAddr, payload: &[u8]) -> bool {
        let gateway = IpAddr::V4(self.0.gateway_address);
        if (source.ip() == gateway) != (destination.ip() == gateway) {
            return source.ip() == gateway;
        }
        let serves = |address| self.service(address) != Party::Unknown;
        let calls = |address| self.client(address) != Party::Unknown;
        let sends = |from: SocketAddr, to: SocketAddr| serves(to) && !serves(from) || calls(from) && !calls(to);
        match (sends(source, destination), sends(destination, source)) {
            (true, false) => true,
            (false, true) => false,
            _ if payload.starts_with(b"HTTP/1.") => false,
            // Ephemeral ports are the high ones.
            _ => source.port() >= destination.port(),
        }
    }
}
