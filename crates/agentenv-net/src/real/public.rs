//! Which addresses are of the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address may be one of a real site. What is left out (IANA's special-purpose registries): this host, private,
/// shared (CGNAT), loopback, link-local, benchmarking (our own range), protocol assignments, multicast, reserved; in IPv6 also
/// what holds or reaches such an IPv4 address: mapped, compatible, 6to4, Teredo, NAT64, ISATAP. The documentation networks count
/// as public: nothing private is there.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => v6(address),
    }
}

fn v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 224;
    !special
}

fn v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    let last = v4_of(s[6], s[7]);
    match s {
        // Mapped, compatible (with `::` and `::1`), translated.
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => s[5] == 0xffff && v4(last),
        // NAT64: the well-known prefix, and the one for local use.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => v4(last),
        [0x64, 0xff9b, 1, ..] => false,
        // 6to4.
        [0x2002, high, low, ..] => v4(v4_of(high, low)),
        // Teredo and the other protocol assignments, then ORCHID.
        [0x2001, 0..0x200, ..] => false,
        // Discard-only, SRv6.
        [0x100, 0, 0, ..] | [0x5f00, ..] => false,
        // ISATAP: an IPv4 address of any network at the end.
        [.., 0 | 0x200, 0x5efe, _, _] => v4(last),
        // Only what is handed out as global unicast.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

fn v4_of(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_27_only_public_addresses_are_a_real_site() {
        for (text, public) in [
            ("140.82.112.3", true),
            ("8.8.8.8", true),
            ("203.0.113.7", true),
            ("192.0.2.1", true),
            ("100.63.255.255", true),
            ("100.128.0.0", true),
            ("172.15.0.1", true),
            ("172.32.0.1", true),
            ("198.17.255.255", true),
            ("198.20.0.0", true),
            ("223.255.255.255", true),
            ("0.0.0.0", false),
            ("0.1.2.3", false),
            ("10.0.0.1", false),
            ("100.64.0.1", false),
            ("100.127.255.255", false),
            ("127.0.0.1", false),
            ("127.255.255.254", false),
            ("169.254.169.254", false),
            ("172.16.0.1", false),
            ("172.31.255.255", false),
            ("192.0.0.8", false),
            ("192.88.99.1", false),
            ("192.168.1.1", false),
            ("198.18.0.1", false),
            ("198.19.255.255", false),
            ("224.0.0.1", false),
            ("239.255.255.255", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
            ("2606:50c0:8000::153", true),
            ("2a00:1450:4001::1", true),
            ("2001:4860:4860::8888", true),
            ("2001:db8::1", true),
            ("::ffff:8.8.8.8", true),
            ("64:ff9b::808:808", true),
            ("2002:808:808::1", true),
            ("::", false),
            ("::1", false),
            ("::7f00:1", false),
            ("::808:808", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:10.0.0.1", false),
            ("::ffff:0:127.0.0.1", false),
            ("64:ff9b::7f00:1", false),
            ("64:ff9b::a00:1", false),
            ("64:ff9b:1::808:808", false),
            ("2002:7f00:1::1", false),
            ("2002:a00:1::", false),
            ("2001::1", false),
            ("2001:0:4136:e378:8000:63bf:3fff:fdd2", false),
            ("2001:20::1", false),
            ("2a00::5efe:10.0.0.1", false),
            ("2a00::200:5efe:10.0.0.1", false),
            ("100::1", false),
            ("fc00::1", false),
            ("fd12:3456::1", false),
            ("fe80::1", false),
            ("febf::1", false),
            ("fec0::1", false),
            ("ff02::1", false),
            ("5f00::1", false),
            ("4000::1", false),
        ] {
            assert_eq!(is_public(text.parse().unwrap()), public, "{text}");
        }
    }
}
