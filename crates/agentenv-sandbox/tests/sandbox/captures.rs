//! Captures of real traffic, and what everybody else's programs read in them.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddrV4, TcpStream, UdpSocket},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use agentenv_protocol::CaptureState;
use agentenv_sandbox::{Capture, CaptureFile, Health, NetworkKind, RingOptions, Sandbox, read_ring};

use crate::support::*;

crate::trials![a_numbered_workload_is_whole_across_rotations, bulk];

/// Small files, so that a workload turns the ring often.
fn small(files: u32, file_bytes: u64) -> RingOptions {
    RingOptions { files, file_bytes, ..RingOptions::default() }
}

/// A pod and its capture.
struct Captured {
    capture: Capture,
    sandbox: Sandbox,
    folder: tempfile::TempDir,
    _host: Host,
}

impl Captured {
    fn new(options: RingOptions) -> Self {
        let host = Host::new();
        let sandbox = host.create(NetworkKind::Pod);
        let folder = tempfile::tempdir().unwrap();
        let capture = Capture::start(sandbox.packet().unwrap(), "lo", folder.path(), options).unwrap();
        Self { capture, sandbox, folder, _host: host }
    }

    /// Two UDP sockets in the pod: to send with, and to send to.
    fn udp(&self) -> (UdpSocket, UdpSocket) {
        let [from, to] = self.sandbox.udp(2).unwrap().try_into().unwrap();
        for (socket, port) in [(&from, 4000), (&to, 4001)] {
            rustix::net::bind(socket, &SocketAddrV4::new([127, 0, 0, 1].into(), port)).unwrap();
        }
        let (from, to) = (UdpSocket::from(from), UdpSocket::from(to));
        from.connect("127.0.0.1:4001").unwrap();
        (from, to)
    }
}

/// Sends numbered datagrams as fast as they are taken.
fn send_numbered(socket: &UdpSocket, numbers: std::ops::Range<u64>, length: usize) {
    socket.set_nonblocking(false).unwrap();
    let mut bytes = vec![0; length];
    for number in numbers {
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        socket.send(&bytes).unwrap();
    }
}

/// The records of a file, by a reader that shares nothing with the writer.
fn records(bytes: &[u8]) -> Vec<&[u8]> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(16), word(20)), (0xa1b2_c3d4, 262_144, 1));
    let (mut at, mut records) = (24, Vec::new());
    while at < bytes.len() {
        let (captured, length) = (word(at + 8) as usize, word(at + 12) as usize);
        assert_eq!(captured, length, "a whole packet");
        records.push(&bytes[at + 16..at + 16 + captured]);
        at += 16 + captured;
    }
    assert_eq!(at, bytes.len(), "whole records");
    records
}

/// The number in a datagram of [`send_numbered`].
fn number(frame: &[u8]) -> Option<u64> {
    let udp = frame[12..14] == [8, 0] && frame[23] == 17 && frame[36..38] == 4001_u16.to_be_bytes();
    udp.then(|| u64::from_be_bytes(frame[42..50].try_into().unwrap()))
}

fn a_numbered_workload_is_whole_across_rotations() {
    const PACKETS: u64 = 200_000;
    let began = std::time::Instant::now();
    let captured = Captured::new(small(60, 1_000_000));
    println!("set-up {:?}", began.elapsed());
    let (from, _to) = captured.udp();
    let began = std::time::Instant::now();
    send_numbered(&from, 0..PACKETS, 100);
    let sent = began.elapsed();
    assert!(captured.capture.flush(LIMIT));
    println!("sent in {sent:?}, flushed in {:?}", began.elapsed());
    let files = captured.capture.files();
    println!("{} files, dropped {}", files.len(), captured.capture.dropped());
    let mut expected = 0;
    for file in &files {
        let bytes = fs::read(captured.folder.path().join(format!("{:010}.pcap", file.generation))).unwrap();
        let records = records(&bytes[..file.bytes as usize]);
        assert_eq!(records.len() as u64, file.packets);
        for record in records {
            assert_eq!(number(record), Some(expected));
            expected += 1;
        }
    }
    assert_eq!(expected, PACKETS);
    assert_eq!(captured.capture.dropped(), 0);
    let began = std::time::Instant::now();
    let summary = captured.capture.stop().unwrap();
    println!("stop {:?} {}", began.elapsed(), summary.packets);
    assert_eq!(read_ring(captured.folder.path()).unwrap(), summary.files);
}

fn bulk() {
    let captured = Captured::new(RingOptions::default());
    let [listener, client] = captured.sandbox.tcp(2).unwrap().try_into().unwrap();
    let address = SocketAddrV4::new([127, 0, 0, 1].into(), 5000);
    rustix::net::bind(&listener, &address).unwrap();
    rustix::net::listen(&listener, 8).unwrap();
    let client = std::net::TcpStream::from(client);
    client.set_nonblocking(false).unwrap();
    rustix::net::connect(&client, &address).unwrap();
    let listener = std::net::TcpListener::from(listener);
    listener.set_nonblocking(false).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        let mut total = 0;
        while let Ok(count @ 1..) = server.read(&mut buffer) {
            total += count;
        }
        total
    });
    let began = std::time::Instant::now();
    let mut client = client;
    let bytes = vec![7; 1 << 20];
    for _ in 0..2000 {
        client.write_all(&bytes).unwrap();
    }
    drop(client);
    let total = reader.join().unwrap();
    let sent = began.elapsed();
    println!("{total} in {sent:?}: {} MB/s", total as f64 / sent.as_secs_f64() / 1e6);
    captured.capture.flush(LIMIT);
    let summary = captured.capture.stop().unwrap();
    println!("packets {} dropped {} freezes {}", summary.packets, summary.dropped, summary.freezes);
}
