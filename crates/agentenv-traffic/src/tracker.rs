//! The connections and flows of a ring, each in its own state.

use std::{
    collections::{HashMap, VecDeque},
    net::SocketAddr,
};

use agentenv_protocol::TrafficRing;

use crate::{
    budget::Budget,
    http::{Bodies, Conversation, Ending},
    limits,
    packet::{Packet, Segment, Transport},
    record::{Application, Flow, Peers, Record},
    tcp::{Connection, Side},
    who::Who,
};

/// The two ends of a connection or flow, whichever sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    tcp: bool,
    low: SocketAddr,
    high: SocketAddr,
}

#[derive(Debug)]
enum Kind {
    Tcp(Box<Connection<Conversation>>),
    Udp { peers: Box<Peers>, packets: [u64; 2], bytes: [u64; 2] },
}

#[derive(Debug)]
struct Tracked {
    client: SocketAddr,
    first_us: u64,
    last_us: u64,
    /// The tracker's clock at its last packet, which never goes back.
    clock_us: u64,
    number: u64,
    closing: bool,
    kind: Kind,
}

/// Everything that is going on in a ring.
pub(crate) struct Tracker {
    who: Who,
    budget: Budget,
    bodies: Bodies,
    tracked: HashMap<Key, Tracked>,
    /// Closed ones, until nothing late of theirs is expected: when, which, and its number.
    closing: VecDeque<(u64, Key, u64)>,
    clock_us: u64,
    number: u64,
    done: Vec<Record>,
}

impl Tracker {
    pub(crate) fn new(ring: TrafficRing, body_bytes: Option<usize>) -> Self {
        let budget = Budget::new(limits::BUFFERED_BYTES);
        Self {
            who: Who::new(ring),
            bodies: Bodies::new(&budget, body_bytes),
            budget,
            tracked: HashMap::new(),
            closing: VecDeque::new(),
            clock_us: 0,
            number: 0,
            done: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        self.budget.taken()
    }

    pub(crate) fn take_done(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.done)
    }

    /// Takes a packet.
    pub(crate) fn packet(&mut self, packet: &Packet<'_>) {
        self.clock_us = self.clock_us.max(packet.time_us);
        self.end_closed();
        let (source, destination) = (packet.source, packet.destination);
        if source == destination {
            return;
        }
        let tcp = matches!(packet.transport, Transport::Tcp(_));
        let key = Key { tcp, low: source.min(destination), high: source.max(destination) };
        match &packet.transport {
            Transport::Tcp(segment) => self.segment(key, packet, segment),
            Transport::Udp(bytes) => self.datagram(key, packet, *bytes),
        }
    }

    fn segment(&mut self, key: Key, packet: &Packet<'_>, segment: &Segment<'_>) {
        if let Some(Tracked { client, kind: Kind::Tcp(connection), .. }) = self.tracked.get(&key)
            && connection.is_followed_by(side(*client, packet), segment)
        {
            self.end(key);
        }
        if !self.tracked.contains_key(&key) {
            // What is late of something forgotten begins nothing.
            if !segment.syn && segment.payload.is_empty() {
                return;
            }
            let client = self.who.is_from_client(packet.source, packet.destination, segment);
            let peers = self.begin(packet, client);
            let conversation = Conversation::new(peers.clone(), &self.bodies);
            let kind = Kind::Tcp(Box::new(Connection::new(&self.budget, conversation)));
            self.insert(key, packet, &peers, kind);
        }
        let clock_us = self.clock_us;
        let Some(tracked) = self.tracked.get_mut(&key) else { return };
        tracked.touch(packet.time_us, clock_us);
        let Kind::Tcp(connection) = &mut tracked.kind else { return };
        connection.segment(side(tracked.client, packet), packet.time_us, clock_us, segment);
        self.done.extend(connection.app.take_done());
        if connection.is_over() && !tracked.closing {
            tracked.closing = true;
            self.closing.push_back((clock_us, key, tracked.number));
        }
    }

    fn datagram(&mut self, key: Key, packet: &Packet<'_>, length: u64) {
        if !self.tracked.contains_key(&key) {
            let client = self.who.is_client(packet.source, packet.destination, &[]);
            let peers = self.begin(packet, client);
            let kind = Kind::Udp { peers: Box::new(peers.clone()), packets: [0; 2], bytes: [0; 2] };
            self.insert(key, packet, &peers, kind);
        }
        let Some(tracked) = self.tracked.get_mut(&key) else { return };
        tracked.touch(packet.time_us, self.clock_us);
        let side = side(tracked.client, packet) as usize;
        if let Kind::Udp { packets, bytes, .. } = &mut tracked.kind {
            packets[side] += 1;
            bytes[side] += length;
        }
    }

    /// Who is who in a new connection or flow.
    fn begin(&mut self, packet: &Packet<'_>, from_client: bool) -> Peers {
        self.number += 1;
        let (source, destination) = (packet.source, packet.destination);
        let (client, server) = if from_client { (source, destination) } else { (destination, source) };
        Peers {
            website: self.who.ring().website.clone(),
            client: self.who.client(client),
            service: self.who.service(server),
            client_address: client,
            server_address: server,
            connection: self.number,
        }
    }

    fn insert(&mut self, key: Key, packet: &Packet<'_>, peers: &Peers, kind: Kind) {
        if self.tracked.len() >= limits::CONNECTIONS {
            self.evict();
        }
        let (time_us, clock_us) = (packet.time_us, self.clock_us);
        let client = peers.client_address;
        let number = self.number;
        let tracked = Tracked { client, first_us: time_us, last_us: time_us, clock_us, number, closing: false, kind };
        self.tracked.insert(key, tracked);
    }

    /// Ends the eighth part that has been idle for longest, so that it is seldom done.
    fn evict(&mut self) {
        let mut idle: Vec<(u64, Key)> = self.tracked.iter().map(|(key, tracked)| (tracked.clock_us, *key)).collect();
        let count = (limits::CONNECTIONS / 8).min(idle.len());
        idle.sort_unstable_by_key(|(clock_us, _)| *clock_us);
        for (_, key) in idle.drain(..count) {
            self.end(key);
        }
        let tracked = &self.tracked;
        self.closing.retain(|(_, key, number)| tracked.get(key).is_some_and(|tracked| tracked.number == *number));
    }

    fn end_closed(&mut self) {
        while let Some((closed_us, key, number)) = self.closing.front().copied()
            && self.clock_us.saturating_sub(closed_us) > limits::LINGER_US
        {
            self.closing.pop_front();
            if self.tracked.get(&key).is_some_and(|tracked| tracked.number == number) {
                self.end(key);
            }
        }
    }

    /// Ends everything.
    pub(crate) fn finish(&mut self) {
        let mut keys: Vec<(u64, Key)> = self.tracked.iter().map(|(key, tracked)| (tracked.number, *key)).collect();
        keys.sort_unstable_by_key(|(number, _)| *number);
        for (_, key) in keys {
            self.end(key);
        }
    }

    fn end(&mut self, key: Key) {
        let Some(tracked) = self.tracked.remove(&key) else { return };
        match tracked.kind {
            Kind::Tcp(connection) => self.end_connection(tracked.first_us, tracked.last_us, *connection),
            Kind::Udp { peers, packets, bytes } => {
                let flow = Flow {
                    started_us: tracked.first_us,
                    ended_us: tracked.last_us,
                    peers: *peers,
                    step: None,
                    transport: "udp",
                    application: Application::Other,
                    exchanges: 0,
                    to_server_packets: packets[0],
                    to_client_packets: packets[1],
                    to_server_bytes: bytes[0],
                    to_client_bytes: bytes[1],
                    lost_bytes: 0,
                    flags: Default::default(),
                };
                self.done.push(Record::Flow(Box::new(flow)));
            }
        }
    }

    fn end_connection(&mut self, first_us: u64, last_us: u64, mut connection: Connection<Conversation>) {
        connection.give_up();
        connection.app.finish(match () {
            () if connection.was_reset() => Ending::Reset,
            () if connection.is_over() => Ending::Closed,
            () => Ending::Open,
        });
        self.done.extend(connection.app.take_done());
        let (up, down) = (connection.half(Side::ToServer), connection.half(Side::ToClient));
        let application = match connection.app.carried() {
            Application::None if up.bytes + down.bytes > 0 => Application::Other,
            application => application,
        };
        let flow = Flow {
            started_us: first_us,
            ended_us: last_us,
            peers: connection.app.peers().clone(),
            step: None,
            transport: "tcp",
            application,
            exchanges: connection.app.exchanges,
            to_server_packets: up.packets,
            to_client_packets: down.packets,
            to_server_bytes: up.bytes,
            to_client_bytes: down.bytes,
            lost_bytes: up.lost + down.lost,
            flags: connection.app.flags.clone(),
        };
        self.done.push(Record::Flow(Box::new(flow)));
    }
}

impl Tracked {
    fn touch(&mut self, time_us: u64, clock_us: u64) {
        self.first_us = self.first_us.min(time_us);
        self.last_us = self.last_us.max(time_us);
        self.clock_us = clock_us;
    }
}

fn side(client: SocketAddr, packet: &Packet<'_>) -> Side {
    if packet.source == client { Side::ToServer } else { Side::ToClient }
}
