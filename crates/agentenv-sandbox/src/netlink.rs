//! The few rtnetlink requests of a sandbox's network, written by hand: a crate for this would be asynchronous.

use std::{net::Ipv4Addr, os::fd::OwnedFd};

use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType},
};

/// A netlink answer: one acknowledgement each.
const MAX_ANSWER: usize = 8 << 10;

/// A connection to the kernel's routing tables of this network namespace.
pub(crate) struct RouteSocket(OwnedFd);

/// A request: header, fixed part, attributes, each aligned to four bytes.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: i32, fixed: &[u8]) -> Self {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        // Sequence number and port: one request is in flight, so neither matters.
        bytes.extend([0; 8]);
        bytes.extend(fixed);
        let mut message = Self(bytes);
        message.align();
        message
    }

    fn align(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend((u16::try_from(value.len() + 4).unwrap_or(u16::MAX)).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.align();
        self
    }

    fn nested(mut self, kind: u16, fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.0.len();
        self = fill(self.attribute(kind, &[]));
        let length = u16::try_from(self.0.len() - start).unwrap_or(u16::MAX);
        self.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self.align();
        self
    }

    fn finish(mut self) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        self.0
    }
}

/// `struct ifinfomsg`
fn link(index: u32, up: bool) -> Vec<u8> {
    let flag = if up { libc::IFF_UP as u32 } else { 0 };
    let mut bytes = vec![libc::AF_UNSPEC as u8, 0, 0, 0];
    bytes.extend(index.to_ne_bytes());
    bytes.extend(flag.to_ne_bytes());
    bytes.extend(flag.to_ne_bytes());
    bytes
}

/// A message that makes every address of a network this machine's.
fn local_route(flags: i32, network: Ipv4Addr, prefix: u8, index: u32) -> Message {
    // `struct rtmsg`: family, destination length, source length, tos, table, protocol, scope, type, flags.
    let fixed = [
        libc::AF_INET as u8,
        prefix,
        0,
        0,
        libc::RT_TABLE_LOCAL,
        libc::RTPROT_BOOT,
        libc::RT_SCOPE_HOST,
        libc::RTN_LOCAL,
        0,
        0,
        0,
        0,
    ];
    Message::new(libc::RTM_NEWROUTE, flags, &fixed)
        .attribute(libc::RTA_DST, &network.octets())
        .attribute(libc::RTA_OIF, &index.to_ne_bytes())
}

/// A metric of a route, in the kernel's `linux/rtnetlink.h`.
const RTAX_QUICKACK: u16 = 15;
const CREATE: i32 = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
/// `VETH_INFO_PEER`
const VETH_INFO_PEER: u16 = 1;

fn name(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

impl RouteSocket {
    pub(crate) fn open() -> Result<Self, Errno> {
        // The protocol for routes is number 0.
        let flags = SocketFlags::CLOEXEC;
        rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None).map(Self)
    }

    /// Sets a link up.
    pub(crate) fn set_up(&self, index: u32) -> Result<(), Errno> {
        self.ask(Message::new(libc::RTM_NEWLINK, 0, &link(index, true)))
    }

    /// Makes a bridge without ports, already up.
    pub(crate) fn add_bridge(&self, bridge: &str) -> Result<(), Errno> {
        let message = Message::new(libc::RTM_NEWLINK, CREATE, &link(0, true))
            .attribute(libc::IFLA_IFNAME, &name(bridge))
            .nested(libc::IFLA_LINKINFO, |info| info.attribute(libc::IFLA_INFO_KIND, b"bridge"));
        self.ask(message)
    }

    /// Makes a veth pair, both ends here, the first one already up.
    pub(crate) fn add_veth(&self, first: &str, second: &str) -> Result<(), Errno> {
        let message = Message::new(libc::RTM_NEWLINK, CREATE, &link(0, true))
            .attribute(libc::IFLA_IFNAME, &name(first))
            .nested(libc::IFLA_LINKINFO, |info| {
                info.attribute(libc::IFLA_INFO_KIND, b"veth").nested(libc::IFLA_INFO_DATA, |data| {
                    data.nested(VETH_INFO_PEER, |peer| {
                        peer.raw(&link(0, true)).attribute(libc::IFLA_IFNAME, &name(second))
                    })
                })
            });
        self.ask(message)
    }

    /// Gives a link an address of its own, without a network around it.
    pub(crate) fn add_address(&self, index: u32, address: Ipv4Addr) -> Result<(), Errno> {
        // `struct ifaddrmsg`: family, prefix length, flags, scope, index.
        let mut fixed = vec![libc::AF_INET as u8, 32, 0, 0];
        fixed.extend(index.to_ne_bytes());
        let message = Message::new(libc::RTM_NEWADDR, CREATE, &fixed)
            .attribute(libc::IFA_LOCAL, &address.octets())
            .attribute(libc::IFA_ADDRESS, &address.octets());
        self.ask(message)
    }

    /// `ip route add local NETWORK/PREFIX dev INDEX table local`: every address of it is this machine.
    pub(crate) fn add_local_route(&self, network: Ipv4Addr, prefix: u8, index: u32) -> Result<(), Errno> {
        self.ask(local_route(CREATE, network, prefix, index))
    }

    /// `ip route replace local NETWORK/PREFIX dev INDEX table local quickack 1`: what arrives from there is acknowledged at once. A server
    /// that writes its answer in two pieces otherwise waits 40 ms for the word that the first one came, as Python's does.
    pub(crate) fn acknowledge_at_once(&self, network: Ipv4Addr, prefix: u8, index: u32) -> Result<(), Errno> {
        let message = local_route(libc::NLM_F_CREATE | libc::NLM_F_REPLACE, network, prefix, index)
            .attribute(libc::RTA_PREFSRC, &Ipv4Addr::LOCALHOST.octets())
            .nested(libc::RTA_METRICS, |metrics| metrics.attribute(RTAX_QUICKACK, &1_u32.to_ne_bytes()));
        self.ask(message)
    }

    fn ask(&self, message: Message) -> Result<(), Errno> {
        rustix::net::send(&self.0, &message.finish(), SendFlags::empty())?;
        let mut answer = [0; MAX_ANSWER];
        let (_, length) = rustix::net::recv(&self.0, &mut answer[..], RecvFlags::empty())?;
        // An acknowledgement is a `struct nlmsgerr` behind the header: a negative errno, or 0.
        let kind = answer.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]]));
        if length < 20 || kind != Some(libc::NLMSG_ERROR as u16) {
            return Err(Errno::PROTO);
        }
        match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
            0 => Ok(()),
            errno => Err(Errno::from_raw_os_error(-errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_aligned_and_nested() {
        let bytes = Message::new(16, 0, &link(0, true))
            .attribute(3, b"eth0\0")
            .nested(18, |info| info.attribute(1, b"bridge"))
            .finish();
        assert_eq!(bytes.len(), 16 + 16 + 12 + 4 + 12);
        assert_eq!(bytes[..4], 60_u32.to_ne_bytes());
        assert_eq!(bytes[44..46], 16_u16.to_ne_bytes());
    }
}
