//! A sandbox's network: everything it has, made from inside its namespace by the broker before anything else runs there.

use std::{fs, net::Ipv4Addr};

use rustix::io::Errno;

use crate::{
    failure::Failure,
    kernel::{self, Kernel},
    netlink::RouteSocket,
    spec::{NetworkKind, SITE_RANGE},
};

/// Loopback is the first link of every namespace.
const LOOPBACK: u32 = 1;
/// The address of the link that leads nowhere. Of 10/8, which Chromium keeps pages away from; with a network around it
/// unused addresses would stall connections for 3 s.
const ETH0_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 255, 255, 254);

/// Builds the network of this namespace.
pub(crate) fn build(kernel: Kernel, kind: NetworkKind) -> Result<(), Failure> {
    let routes = kernel.call("netlink socket", RouteSocket::open)?;
    if kind == NetworkKind::Browser {
        // Before any link is up: a link gets its IPv6 address when it comes up.
        for scope in ["all", "default", "lo"] {
            sysctl(kernel, &format!("net/ipv6/conf/{scope}/disable_ipv6"), "1")?;
        }
    }
    kernel.call("setting loopback up", || routes.set_up(LOOPBACK))?;
    // The two that the kernel made with it; the narrower one is the services'.
    for (network, prefix) in [(Ipv4Addr::new(127, 0, 0, 0), 8), (Ipv4Addr::LOCALHOST, 32)] {
        kernel.call("route of loopback", || routes.acknowledge_at_once(network, prefix, LOOPBACK))?;
    }
    match kind {
        // The namespace is the pod's own, so its ports are too: an app may listen on 80 without a capability.
        NetworkKind::Pod => free_ports(kernel),
        NetworkKind::LivePod => free_ports(kernel).and_then(|()| site_route(kernel, &routes)),
        NetworkKind::Browser => browser(kernel, &routes),
    }
}

fn free_ports(kernel: Kernel) -> Result<(), Failure> {
    sysctl(kernel, "net/ipv4/ip_unprivileged_port_start", "0")
}

fn site_route(kernel: Kernel, routes: &RouteSocket) -> Result<(), Failure> {
    let (network, prefix) = SITE_RANGE;
    kernel.call("local route", || routes.add_local_route(network, prefix, LOOPBACK))
}

fn browser(kernel: Kernel, routes: &RouteSocket) -> Result<(), Failure> {
    site_route(kernel, routes)?;
    // A kernel without bridges may still have veth; both are a link with a carrier.
    kernel.call("eth0", || routes.add_bridge("eth0").or_else(|_| routes.add_veth("eth0", "eth0-peer")))?;
    let index = kernel.call("eth0", || link_index("eth0"))?;
    kernel.call("address of eth0", || routes.add_address(index, ETH0_ADDRESS))?;
    // The far end of a veth pair has to be up too; a bridge has none.
    if let Ok(peer) = link_index("eth0-peer") {
        kernel.call("eth0-peer", || routes.set_up(peer))?;
    }
    Ok(())
}

fn link_index(name: &str) -> Result<u32, Errno> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let any = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::netdevice::name_to_index(&any, name)
}

/// Writes a setting of this namespace. A setting that doesn't exist (a kernel without IPv6) needs no writing.
pub(crate) fn sysctl(kernel: Kernel, setting: &str, value: &str) -> Result<(), Failure> {
    let path = format!("/proc/sys/{setting}");
    kernel.at("write", &path, || match fs::write(&path, value) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        written => written.map_err(|error| kernel::errno(&error)),
    })
}
