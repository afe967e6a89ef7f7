//! Capture files as packets.

use std::{
    io::{self, Read},
    net::{IpAddr, SocketAddr},
};

use etherparse::{EtherType, LaxNetSlice, LaxSlicedPacket, TransportSlice};
use pcap_file::{
    DataLink,
    pcap::{PcapReadError, PcapReader, PcapTsResolution, RawPcapPacket},
};

use crate::{limits, note::Damage};

/// Bytes of a Linux "cooked" header, which `tcpdump -i any` writes in the place of Ethernet's.
const COOKED_HEADER: usize = 16;

/// A packet of a transport that is followed.
#[derive(Clone, Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) time_us: u64,
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) transport: Transport<'a>,
}

#[derive(Clone, Debug)]
pub(crate) enum Transport<'a> {
    Tcp(Segment<'a>),
    /// The length of its payload.
    Udp(u64),
}

/// A TCP segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segment<'a> {
    pub(crate) seq: u32,
    pub(crate) ack: Option<u32>,
    pub(crate) syn: bool,
    pub(crate) fin: bool,
    pub(crate) rst: bool,
    pub(crate) payload: &'a [u8],
    /// Payload bytes that were sent and not captured, where the packet was cut.
    pub(crate) cut: u32,
}

/// What a record of a file is.
#[derive(Debug)]
pub(crate) enum Captured<'a> {
    /// Of a connection or flow.
    Packet(Packet<'a>),
    /// Anything else: ICMP, ARP, fragments, what can't be read.
    Other,
}

/// Why a file ends.
#[derive(Debug)]
pub(crate) enum FileError {
    /// The rest of it is no pcap.
    Damaged(Damage),
    Io(io::Error),
}

/// The packets of one file.
pub(crate) struct Packets<R: Read> {
    reader: PcapReader<R>,
    link: DataLink,
    nanoseconds: bool,
}

impl<R: Read> Packets<R> {
    pub(crate) fn open(file: R) -> Result<Self, FileError> {
        let reader = PcapReader::with_capacity(file, limits::READ_BYTES).map_err(|error| match read_error(error) {
            FileError::Damaged(_) => FileError::Damaged(Damage::NotPcap),
            error @ FileError::Io(_) => error,
        })?;
        let header = reader.header();
        let known = matches!(header.datalink, DataLink::ETHERNET | DataLink::RAW | DataLink::LINUX_SLL);
        if !known {
            return Err(FileError::Damaged(Damage::UnknownLink(u32::from(header.datalink))));
        }
        Ok(Self { reader, link: header.datalink, nanoseconds: header.ts_resolution == PcapTsResolution::NanoSecond })
    }

    pub(crate) fn next(&mut self) -> Result<Option<Captured<'_>>, FileError> {
        match self.reader.next_raw_packet() {
            None => Ok(None),
            Some(Err(error)) => Err(read_error(error)),
            Some(Ok(raw)) => Ok(Some(captured(self.link, self.nanoseconds, &raw))),
        }
    }
}

fn read_error(error: PcapReadError) -> FileError {
    match error {
        PcapReadError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => FileError::Io(error),
        PcapReadError::Io(_) => FileError::Damaged(Damage::Truncated),
        PcapReadError::Validation(_) => FileError::Damaged(Damage::NotPcap),
    }
}

fn captured<'a>(link: DataLink, nanoseconds: bool, raw: &RawPcapPacket<'a>) -> Captured<'a> {
    let fraction = if nanoseconds { raw.ts_frac / 1000 } else { raw.ts_frac };
    let time_us = u64::from(raw.ts_sec) * 1_000_000 + u64::from(fraction.min(999_999));
    // The reader gives slices of its buffer.
    let std::borrow::Cow::Borrowed(data) = &raw.data else { return Captured::Other };
    let Some(sliced) = slice(link, data) else { return Captured::Other };
    packet(time_us, &sliced).map_or(Captured::Other, Captured::Packet)
}

fn slice(link: DataLink, data: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    match link {
        DataLink::ETHERNET => LaxSlicedPacket::from_ethernet(data).ok(),
        DataLink::LINUX_SLL => {
            let (header, payload) = data.split_at_checked(COOKED_HEADER)?;
            let protocol = u16::from_be_bytes(*header.last_chunk()?);
            Some(LaxSlicedPacket::from_ether_type(EtherType(protocol), payload))
        }
        _ => LaxSlicedPacket::from_ip(data).ok(),
    }
}

fn packet<'a>(time_us: u64, sliced: &LaxSlicedPacket<'a>) -> Option<Packet<'a>> {
    let (source, destination, payload, announced): (IpAddr, IpAddr, _, usize) = match sliced.net.as_ref()? {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let announced = header.payload_len().map_or(0, usize::from);
            (header.source_addr().into(), header.destination_addr().into(), ip.payload(), announced)
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            // Extension headers are none of TCP's, and a cut packet with some of them is not worth more.
            let announced = if ip.extensions().first_header().is_none() { header.payload_length() } else { 0 };
            (header.source_addr().into(), header.destination_addr().into(), ip.payload(), usize::from(announced))
        }
        LaxNetSlice::Arp(_) => return None,
    };
    if payload.fragmented {
        return None;
    }
    let (ports, transport) = match sliced.transport.as_ref()? {
        TransportSlice::Tcp(tcp) => {
            let cut = announced.saturating_sub(payload.payload.len());
            let segment = Segment {
                seq: tcp.sequence_number(),
                ack: tcp.ack().then(|| tcp.acknowledgment_number()),
                syn: tcp.syn(),
                fin: tcp.fin(),
                rst: tcp.rst(),
                payload: tcp.payload(),
                cut: u32::try_from(cut).unwrap_or(0),
            };
            ((tcp.source_port(), tcp.destination_port()), Transport::Tcp(segment))
        }
        TransportSlice::Udp(udp) => {
            let length = u64::from(udp.length()).saturating_sub(8);
            ((udp.source_port(), udp.destination_port()), Transport::Udp(length))
        }
        _ => return None,
    };
    let at = |ip: IpAddr, port| SocketAddr::new(ip.to_canonical(), port);
    Some(Packet { time_us, source: at(source, ports.0), destination: at(destination, ports.1), transport })
}
