use super::*;

/// The Internet checksum as RFC 1071 writes it: 16 bits at a time, most significant byte first.
fn reference(parts: &[&[u8]]) -> u16 {
    let bytes = parts.concat();
    let mut sum: u32 = 0;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn ethernet(kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
    [&[0; 12][..], &kind, packet].concat()
}

/// An IPv4 frame, with a checksum field as the kernel leaves it.
fn v4(protocol: u8, options: usize, segment: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 20 + options];
    packet[0] = 0x40 | ((20 + options) / 4) as u8;
    let total = (packet.len() + segment.len()) as u16;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    packet[9] = protocol;
    packet[12..20].copy_from_slice(&[127, 0, 0, 1, 127, 0, 0, 77]);
    packet.extend_from_slice(segment);
    ethernet(IPV4, &packet)
}

/// An IPv6 frame, with so many extension headers of options.
fn v6(protocol: u8, extensions: usize, segment: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; IPV6_HEADER];
    packet[0] = 0x60;
    packet[4..6].copy_from_slice(&((segment.len() + 16 * extensions) as u16).to_be_bytes());
    packet[6] = if extensions > 0 { 0 } else { protocol };
    packet[23] = 1;
    packet[39] = 1;
    for extension in 0..extensions {
        let last = extension + 1 == extensions;
        packet.extend_from_slice(&[if last { protocol } else { 60 }, 1]);
        packet.extend_from_slice(&[0; 14]);
    }
    packet.extend_from_slice(segment);
    ethernet(IPV6, &packet)
}

fn segment(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 256) as u8).collect()
}

#[test]
fn equals_the_checksum_of_the_rfc() {
    for length in [20, 21, 23, 24, 63, 1500, 65_000] {
        for (protocol, field) in [(TCP, 16), (UDP, 6)] {
            let mut zeroed = segment(length);
            zeroed[field..field + 2].fill(0);
            let big = (length as u32).to_be_bytes();
            for (mut frame, addresses) in [
                (v4(protocol, 0, &segment(length)), 26..34),
                (v4(protocol, 12, &segment(length)), 26..34),
                (v6(protocol, 0, &segment(length)), 22..54),
                (v6(protocol, 2, &segment(length)), 22..54),
            ] {
                let expected = reference(&[&frame[addresses], &big, &[0, 0, 0, protocol], &zeroed]);
                complete(&mut frame);
                let start = frame.len() - length;
                let found = u16::from_be_bytes(frame[start + field..start + field + 2].try_into().unwrap());
                assert_eq!(found, expected, "{length} {protocol}");
            }
        }
    }
}

#[test]
fn a_udp_checksum_is_never_the_zero_that_means_none() {
    let mut bytes = segment(8);
    // The last word is chosen so that all sum up to 0xffff.
    bytes.extend_from_slice(&[0, 0]);
    let mut frame = v4(UDP, 0, &bytes);
    complete(&mut frame);
    let missing: [u8; 2] = frame[14 + 20 + 6..14 + 20 + 8].try_into().unwrap();
    bytes[8..].copy_from_slice(&missing);
    let mut frame = v4(UDP, 0, &bytes);
    complete(&mut frame);
    assert_eq!(frame[14 + 20 + 6..14 + 20 + 8], [0xff, 0xff]);
}

#[test]
fn padding_behind_the_packet_does_not_count() {
    let mut frame = v4(TCP, 0, &segment(24));
    let mut padded = [&frame[..], &[9; 6]].concat();
    complete(&mut frame);
    complete(&mut padded);
    assert_eq!(padded[..frame.len()], frame);
    assert_eq!(padded[frame.len()..], [9; 6]);
}

#[test]
fn a_super_frame_without_a_length_reaches_to_its_end() {
    let mut told = v4(TCP, 0, &segment(1000));
    let mut untold = told.clone();
    untold[16..18].fill(0);
    complete(&mut told);
    complete(&mut untold);
    assert_eq!(told[18..], untold[18..]);
}

#[test]
fn what_is_cut_or_of_something_else_stays_as_it_is() {
    let fragment = |offset: [u8; 2]| {
        let mut frame = v4(UDP, 0, &segment(100));
        frame[20..22].copy_from_slice(&offset);
        frame
    };
    let mut odd_header = v4(TCP, 0, &segment(40));
    odd_header[14] = 0x44;
    for frame in [
        fragment([0x20, 0]),
        fragment([0, 1]),
        v4(1, 0, &segment(40)),
        v6(58, 0, &segment(40)),
        // A fragment header, and a routing header.
        v6(44, 0, &segment(40)),
        v6(43, 0, &segment(40)),
        ethernet([0x81, 0], &segment(40)),
        ethernet([8, 6], &segment(40)),
        odd_header,
    ] {
        let mut after = frame.clone();
        complete(&mut after);
        assert_eq!(after, frame);
    }
    for whole in [v4(TCP, 4, &segment(40)), v6(UDP, 2, &segment(40))] {
        for length in 0..whole.len() {
            let mut cut = whole[..length].to_vec();
            complete(&mut cut);
            assert_eq!(cut, whole[..length], "{length}");
        }
    }
}
