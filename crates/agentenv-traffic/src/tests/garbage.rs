//! Whatever is in the files: no panic, and no more memory than is allowed.

use proptest::prelude::*;

use super::loss::polite;
use crate::{
    limits,
    reader::Options,
    testing::{Sent, Talk, frame, pcap_from, read_files, with_bodies},
};

/// Bytes that mean something to some parser.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        Just(b"GET / HTTP/1.1\r\n".to_vec()),
        Just(b"HTTP/1.1 200 OK\r\n".to_vec()),
        Just(b"HTTP/1.1 101 S\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n".to_vec()),
        Just(b"HTTP/1.1 100 C\r\n\r\n".to_vec()),
        Just(b"Content-Length: 5\r\n".to_vec()),
        Just(b"Content-Length: 18446744073709551615\r\n".to_vec()),
        Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
        Just(b"Content-Encoding: gzip\r\n".to_vec()),
        Just(b"Content-Encoding: br\r\n".to_vec()),
        Just(b"CONNECT a:1 HTTP/1.1\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"0\r\n".to_vec()),
        Just(b"ffffffffffffffff\r\n".to_vec()),
        Just(b"5\r\nhello\r\n".to_vec()),
        Just(b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..20),
    ];
    proptest::collection::vec(token, 0..8).prop_map(|parts| parts.concat())
}

fn segment() -> impl Strategy<Value = Sent> {
    let seq = prop_oneof![0..200u32, any::<u32>(), Just(u32::MAX), Just(1 << 31)];
    let ack = proptest::option::weighted(0.8, prop_oneof![0..200u32, any::<u32>()]);
    let flags = (proptest::bool::weighted(0.1), proptest::bool::weighted(0.1), proptest::bool::weighted(0.05));
    (any::<bool>(), 0..3u16, seq, ack, flags, payload()).prop_map(|(up, port, seq, ack, (syn, fin, rst), payload)| {
        Sent {
            client: ([127, 0, 0, 2], 40_000 + port).into(),
            server: ([127, 0, 0, 1], 8000).into(),
            up,
            seq,
            ack,
            syn,
            fin,
            rst,
            payload,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn segments_of_garbage(sent in proptest::collection::vec(segment(), 0..120)) {
        let frames: Vec<_> = sent.iter().map(frame).collect();
        let read = read_files(vec![pcap_from(0, &frames)], with_bodies());
        prop_assert_eq!(read.summary.packets, frames.len() as u64);
        prop_assert!(read.flows.iter().map(|flow| flow.exchanges).sum::<u64>() == read.exchanges.len() as u64);
    }

    #[test]
    fn frames_of_garbage(frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..100), 0..50)) {
        let read = read_files(vec![pcap_from(0, &frames)], with_bodies());
        prop_assert_eq!(read.summary.packets, frames.len() as u64);
    }

    #[test]
    fn bytes_of_a_good_file_are_changed(at in proptest::collection::vec((0..20_000usize, any::<u8>()), 1..40)) {
        let frames: Vec<_> = polite(100).sent.iter().map(frame).collect();
        let mut file = pcap_from(0, &frames);
        for (at, byte) in at {
            let length = file.len();
            file[at % length] = byte;
        }
        read_files(vec![file], with_bodies());
    }

    #[test]
    fn files_of_garbage(bytes in proptest::collection::vec(any::<u8>(), 0..300), header: bool) {
        let mut file = if header { pcap_from(0, &[]) } else { Vec::new() };
        file.extend(bytes);
        read_files(vec![file], Options::default());
    }
}

/// Every connection holds as much as it can: segments behind one that never comes, heads without an end.
#[test]
fn row_64_what_is_held_is_bounded_over_all_connections() {
    let mut frames = Vec::new();
    for number in 0..60u16 {
        let mut talk = Talk::between(&format!("127.0.0.2:{}", 30_000 + number), "127.0.0.1:8000");
        talk.segment = 60_000;
        talk.up(vec![b'x'; 4 << 20]);
        talk.sent.remove(3);
        frames.extend(talk.sent.iter().map(frame));
    }
    let total: usize = frames.iter().map(Vec::len).sum();
    assert!(total > limits::BUFFERED_BYTES * 3 / 2);
    let read = read_files(vec![pcap_from(0, &frames)], Options::default());
    assert!(read.held <= limits::BUFFERED_BYTES, "{}", read.held);
    assert!(read.flows.iter().all(|flow| flow.lost_bytes >= 60_000));
    assert_eq!(read.flows.len(), 60);
}
