//! Checksums that the kernel left to a network card which loopback hasn't got.

const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const IPV6_HEADER: usize = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Hop-by-hop and destination options; behind other extension headers the kernel computes checksums itself.
const OPTIONS: [u8; 2] = [0, 60];

/// Writes the TCP or UDP checksum of an Ethernet frame. A frame that isn't whole or is of something else stays as it is.
pub(crate) fn complete(frame: &mut [u8]) {
    let Some(segment) = locate(frame) else { return };
    let Some((head, rest)) = frame.split_at_mut_checked(segment.start) else { return };
    let Some(bytes) = rest.get_mut(..segment.length) else { return };
    let at = match segment.protocol {
        TCP => 16,
        _ => 6,
    };
    let Some(field) = bytes.get_mut(at..at + 2) else { return };
    field.fill(0);
    let mut sum = sum(&head[segment.addresses]) + sum(bytes);
    // The rest of the pseudo header, in the byte order of the sums: the protocol, and a length of 32 bits.
    let length = u32::try_from(segment.length).unwrap_or(u32::MAX).to_be_bytes();
    sum += self::sum(&length) + self::sum(&[0, segment.protocol]);
    let mut checksum = !fold(sum);
    // In UDP zero means that there is none.
    if checksum == 0 && segment.protocol == UDP {
        checksum = u16::MAX;
    }
    bytes[at..at + 2].copy_from_slice(&checksum.to_ne_bytes());
}

/// A TCP or UDP segment within a frame.
struct Segment {
    addresses: std::ops::Range<usize>,
    protocol: u8,
    start: usize,
    length: usize,
}

fn locate(frame: &[u8]) -> Option<Segment> {
    let kind: [u8; 2] = frame.get(12..ETHERNET)?.try_into().ok()?;
    let packet = &frame[ETHERNET..];
    let segment = match kind {
        IPV4 => of_ipv4(packet)?,
        IPV6 => of_ipv6(packet)?,
        _ => return None,
    };
    [TCP, UDP].contains(&segment.protocol).then_some(segment)
}

fn of_ipv4(packet: &[u8]) -> Option<Segment> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let fragment = be16(packet, 6)? & 0x3fff;
    // A total of 0 is a super-frame beyond 65,535 bytes, and reaches to the frame's end.
    let total = match usize::from(be16(packet, 2)?) {
        0 => packet.len(),
        total => total,
    };
    // Of a fragment the kernel has computed what there is to compute.
    if fragment != 0 || header < 20 {
        return None;
    }
    let start = ETHERNET + header;
    Some(Segment {
        addresses: ETHERNET + 12..ETHERNET + 20,
        protocol: *packet.get(9)?,
        start,
        length: total.checked_sub(header)?,
    })
}

fn of_ipv6(packet: &[u8]) -> Option<Segment> {
    let end = match usize::from(be16(packet, 4)?) {
        0 => packet.len(),
        payload => IPV6_HEADER + payload,
    };
    let mut next = *packet.get(6)?;
    let mut at = IPV6_HEADER;
    while OPTIONS.contains(&next) {
        next = *packet.get(at)?;
        at += 8 + 8 * usize::from(*packet.get(at + 1)?);
    }
    let addresses = ETHERNET + 8..ETHERNET + 40;
    Some(Segment { addresses, protocol: next, start: ETHERNET + at, length: end.checked_sub(at)? })
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The sum of 16-bit words in this machine's byte order, in which a one's complement sum may be taken as in any other.
/// A frame has at most 2^18 bytes, so 64 bits hold what 32-bit words add up to.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum += u64::from(u32::from_ne_bytes(last));
    sum
}

fn fold(mut sum: u64) -> u16 {
    while sum > u64::from(u16::MAX) {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
mod tests;
