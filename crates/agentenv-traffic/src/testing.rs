//! Hand-made connections for tests.

use std::{
    io::Cursor,
    net::{IpAddr, SocketAddr},
};

use agentenv_protocol::{Name, TrafficRing, TrafficService};
use etherparse::PacketBuilder;
use pcap_file::{
    DataLink,
    pcap::{PcapHeader, PcapPacket, PcapWriter},
};

use crate::{
    reader::{CaptureFile, Options, RingTraffic, Summary},
    record::{Exchange, Flow, Record},
};

/// When hand-made captures begin.
pub(crate) const BEGIN_US: u64 = 1_800_000_000_000_000;
/// Time between two of their packets.
pub(crate) const TICK_US: u64 = 100;

pub(crate) const GATEWAY: &str = "127.0.0.2:40001";
pub(crate) const SERVER: &str = "127.0.0.1:8000";

/// A TCP segment to be written.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) client: SocketAddr,
    pub(crate) server: SocketAddr,
    pub(crate) up: bool,
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) payload: Vec<u8>,
}

/// A connection in which two ends take turns.
#[derive(Clone, Debug)]
pub(crate) struct Talk {
    client: SocketAddr,
    server: SocketAddr,
    /// Next sequence numbers: of the client, of the server.
    next: [u32; 2],
    /// Bytes of a segment at most.
    pub(crate) segment: usize,
    pub(crate) sent: Vec<Sent>,
}

impl Talk {
    /// With its handshake. The sequence numbers wrap soon.
    pub(crate) fn open() -> Self {
        Self::between(GATEWAY, SERVER)
    }

    pub(crate) fn between(client: &str, server: &str) -> Self {
        let (client, server) = (client.parse().unwrap(), server.parse().unwrap());
        let mut talk = Self { client, server, next: [u32::MAX - 40, u32::MAX - 70], segment: 1000, sent: Vec::new() };
        talk.push(true, Vec::new(), |sent| (sent.syn, sent.ack) = (true, None));
        talk.next[0] = talk.next[0].wrapping_add(1);
        talk.push(false, Vec::new(), |sent| sent.syn = true);
        talk.next[1] = talk.next[1].wrapping_add(1);
        talk.push(true, Vec::new(), |_| {});
        talk
    }

    fn push(&mut self, up: bool, payload: Vec<u8>, with: impl FnOnce(&mut Sent)) {
        let (seq, ack) = if up { (self.next[0], self.next[1]) } else { (self.next[1], self.next[0]) };
        let length = payload.len() as u32;
        let (client, server) = (self.client, self.server);
        let mut sent = Sent { client, server, up, seq, ack: Some(ack), syn: false, fin: false, rst: false, payload };
        with(&mut sent);
        self.sent.push(sent);
        let next = &mut self.next[usize::from(!up)];
        *next = next.wrapping_add(length);
    }

    fn send(&mut self, up: bool, bytes: &[u8]) -> &mut Self {
        for part in bytes.chunks(self.segment) {
            self.push(up, part.to_vec(), |_| {});
        }
        // The other end acknowledges.
        self.push(!up, Vec::new(), |_| {});
        self
    }

    pub(crate) fn up(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.send(true, bytes.as_ref())
    }

    pub(crate) fn down(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.send(false, bytes.as_ref())
    }

    pub(crate) fn fin(&mut self, up: bool) -> &mut Self {
        self.push(up, Vec::new(), |sent| sent.fin = true);
        let next = &mut self.next[usize::from(!up)];
        *next = next.wrapping_add(1);
        self
    }

    pub(crate) fn reset(&mut self, up: bool) -> &mut Self {
        self.push(up, Vec::new(), |sent| sent.rst = true);
        self
    }

    pub(crate) fn close(&mut self) -> &mut Self {
        self.fin(false).fin(true).push(false, Vec::new(), |_| {});
        self
    }
}

/// A frame as the loopback interface shows it.
pub(crate) fn frame(sent: &Sent) -> Vec<u8> {
    let (source, destination) = if sent.up { (sent.client, sent.server) } else { (sent.server, sent.client) };
    let link = PacketBuilder::ethernet2([0; 6], [0; 6]);
    let ip = match (source.ip(), destination.ip()) {
        (IpAddr::V4(a), IpAddr::V4(b)) => link.ipv4(a.octets(), b.octets(), 64),
        (IpAddr::V6(a), IpAddr::V6(b)) => link.ipv6(a.octets(), b.octets(), 64),
        other => panic!("{other:?}"),
    };
    let mut tcp = ip.tcp(source.port(), destination.port(), sent.seq, 65_535);
    if let Some(ack) = sent.ack {
        tcp = tcp.ack(ack);
    }
    tcp = if sent.syn { tcp.syn() } else { tcp };
    tcp = if sent.fin { tcp.fin() } else { tcp };
    tcp = if sent.rst { tcp.rst() } else { tcp };
    let mut frame = Vec::new();
    tcp.write(&mut frame, &sent.payload).unwrap();
    frame
}

/// A file of frames, each a tick after the one before it, from a packet's number on.
pub(crate) fn pcap_from(first: usize, frames: &[Vec<u8>]) -> Vec<u8> {
    let header = PcapHeader { datalink: DataLink::ETHERNET, snaplen: 262_144, ..PcapHeader::default() };
    let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
    for (number, frame) in frames.iter().enumerate() {
        let time = std::time::Duration::from_micros(BEGIN_US + (first + number) as u64 * TICK_US);
        let length = frame.len() as u32;
        writer.write_packet(&PcapPacket::new(time, length, &frame[..]).unwrap()).unwrap();
    }
    writer.into_inner()
}

pub(crate) fn pcap(sent: &[Sent]) -> Vec<u8> {
    pcap_from(0, &sent.iter().map(frame).collect::<Vec<_>>())
}

pub(crate) fn ring() -> TrafficRing {
    let name = |name: &str| Name::parse(name).unwrap();
    let service = |service: &str, port, client_ports| TrafficService { name: name(service), port, client_ports };
    TrafficRing {
        website: name("shop"),
        services: vec![
            service("server", 8000, Some((20_000, 20_999))),
            service("frontend", 8080, Some((21_000, 21_999))),
            service("worker", 9000, None),
        ],
        gateway_address: "127.0.0.2".parse().unwrap(),
        recording: true,
        files: 10,
        file_bytes: 20_000_000,
        dropped: 0,
        gaps: Vec::new(),
    }
}

/// What was read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) summary: Summary,
    /// The most that was held.
    pub(crate) held: usize,
}

pub(crate) fn read_files(files: Vec<Vec<u8>>, options: Options) -> Read {
    let files = files.into_iter().enumerate().map(|(number, bytes)| {
        Ok(CaptureFile { name: format!("shop.{}.pcap", number + 1), bytes: Cursor::new(bytes) })
    });
    let mut ring = RingTraffic::new(ring(), files, options);
    let (mut exchanges, mut flows, mut held) = (Vec::new(), Vec::new(), 0);
    while let Some(record) = ring.next() {
        held = held.max(ring.held_bytes());
        match record.unwrap() {
            Record::Exchange(exchange) => exchanges.push(*exchange),
            Record::Flow(flow) => flows.push(*flow),
        }
    }
    assert_eq!(ring.held_bytes(), 0, "everything is given back");
    Read { exchanges, flows, summary: ring.summary().clone(), held }
}

pub(crate) fn with_bodies() -> Options {
    Options { body_bytes: Some(1 << 20), ..Options::default() }
}

pub(crate) fn read(sent: &[Sent]) -> Read {
    read_files(vec![pcap(sent)], with_bodies())
}

/// An exchange as one line: `GET http://shop.test/ 0 > 200 5 hello [flags]`.
pub(crate) fn line(exchange: &Exchange) -> String {
    let text = |content: &Option<Vec<u8>>| {
        let content = content.as_deref().unwrap_or_default();
        if content.len() > 32 {
            format!("({} bytes)", content.len())
        } else {
            String::from_utf8_lossy(content).into_owned()
        }
    };
    let request = exchange.request.as_ref().map_or("-".to_owned(), |request| {
        format!("{} {} {} {}", request.method, request.url, request.body.encoded_bytes, text(&request.body.content))
    });
    let response = exchange.response.as_ref().map_or("-".to_owned(), |response| {
        format!("{} {} {}", response.status, response.body.encoded_bytes, text(&response.body.content))
    });
    let flags: Vec<String> = exchange.flags.iter().map(|flag| format!("{flag:?}")).collect();
    format!("{} > {} [{}]", request.trim_end(), response.trim_end(), flags.join(" "))
}

pub(crate) fn lines(read: &Read) -> Vec<String> {
    read.exchanges.iter().map(line).collect()
}
