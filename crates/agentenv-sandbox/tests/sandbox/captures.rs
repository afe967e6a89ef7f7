//! Captures of real traffic: nothing missing, nothing twice, and nothing that the captured could do about it.

pub mod readers;
pub mod small_disk;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket},
    ops::Range,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use agentenv_protocol::CaptureState;
use agentenv_sandbox::{
    Capture, CaptureError, Cgroup, ExitInfo, Health, NetworkKind, OpenCaptureError, RingOptions, Sandbox, SandboxError,
    SandboxSpec, WireError, read_ring,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::support::*;

crate::trials![
    a_numbered_workload_is_whole_across_rotations,
    a_connection_is_whole_across_rotations,
    stopping_writes_what_the_kernel_has,
    stopping_ends_while_packets_come,
    row_51_only_a_capturing_broker_holds_net_raw,
    row_48_69_the_captured_cannot_reach_their_capture,
    row_66_80_files_are_read_while_the_ring_turns,
    row_69_a_capture_that_ends_is_noticed_and_another_goes_on,
    row_69_a_capture_that_hangs_is_noticed,
    row_70_any_call_of_a_capture_may_fail,
    what_cannot_be_captured_is_refused,
];

/// Files so small that a workload turns the ring often. With more memory than by default: other tests run beside, and a
/// kernel that doesn't preempt another's long system call keeps the capture waiting for longer than 2 MiB last.
fn small(files: u32, file_bytes: u64) -> RingOptions {
    RingOptions { files, file_bytes, memory_bytes: 16 << 20 }
}

/// A pod and its capture.
struct Captured {
    capture: Capture,
    sandbox: Sandbox,
    folder: tempfile::TempDir,
    host: Host,
}

impl Captured {
    fn new(options: RingOptions) -> Self {
        let host = Host::new();
        let sandbox = host.create(NetworkKind::Pod);
        let folder = tempfile::tempdir().unwrap();
        let capture = Capture::start(sandbox.packet().unwrap(), "lo", folder.path(), options).unwrap();
        Self { capture, sandbox, folder, host }
    }

    fn path(&self, generation: u64) -> PathBuf {
        path(self.folder.path(), generation)
    }
}

fn path(folder: &Path, generation: u64) -> PathBuf {
    folder.join(format!("{generation:010}.pcap"))
}

/// Two UDP sockets in a pod: to send with, and to send to.
fn udp(sandbox: &Sandbox) -> (UdpSocket, UdpSocket) {
    let [from, to] = sandbox.udp(2).unwrap().try_into().unwrap();
    for (socket, port) in [(&from, 4000), (&to, 4001)] {
        rustix::net::bind(socket, &SocketAddrV4::new([127, 0, 0, 1].into(), port)).unwrap();
    }
    let (from, to) = (UdpSocket::from(from), UdpSocket::from(to));
    from.connect("127.0.0.1:4001").unwrap();
    from.set_nonblocking(false).unwrap();
    (from, to)
}

/// A TCP connection in a pod, both ends.
fn tcp(sandbox: &Sandbox) -> (TcpStream, TcpStream) {
    let [listener, client] = sandbox.tcp(2).unwrap().try_into().unwrap();
    let address = SocketAddrV4::new([127, 0, 0, 1].into(), 4002);
    rustix::net::bind(&listener, &address).unwrap();
    rustix::net::listen(&listener, 1).unwrap();
    let (listener, client) = (TcpListener::from(listener), TcpStream::from(client));
    listener.set_nonblocking(false).unwrap();
    client.set_nonblocking(false).unwrap();
    rustix::net::connect(&client, &address).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Sends numbered datagrams as fast as they are taken.
fn send_numbered(socket: &UdpSocket, numbers: Range<u64>, length: usize) {
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
fn number(frame: &[u8]) -> u64 {
    assert_eq!((&frame[12..14], frame[23], &frame[36..38]), (&[8, 0][..], 17, &4001_u16.to_be_bytes()[..]));
    u64::from_be_bytes(frame[42..50].try_into().unwrap())
}

/// The numbers in all files of a folder, which must be those that are told.
fn numbers(folder: &Path, files: &[agentenv_sandbox::CaptureFile]) -> Vec<u64> {
    let mut numbers = Vec::new();
    for file in files {
        let bytes = fs::read(path(folder, file.generation)).unwrap();
        let records = records(&bytes[..file.bytes as usize]);
        assert_eq!(records.len() as u64, file.packets);
        numbers.extend(records.into_iter().map(number));
    }
    numbers
}

fn a_numbered_workload_is_whole_across_rotations() {
    const PACKETS: u64 = 200_000;
    let captured = Captured::new(small(60, 1_000_000));
    let (from, _to) = udp(&captured.sandbox);
    send_numbered(&from, 0..PACKETS, 100);
    assert!(captured.capture.flush(LIMIT));
    let files = captured.capture.files();
    assert!(files.len() > 30, "{}", files.len());
    assert!(numbers(captured.folder.path(), &files).into_iter().eq(0..PACKETS));
    let summary = captured.capture.stop().unwrap();
    assert_eq!((summary.packets, summary.dropped), (PACKETS, 0));
    assert_eq!(read_ring(captured.folder.path()).unwrap(), summary.files);
}

fn a_connection_is_whole_across_rotations() {
    const CHUNK: usize = 16 << 10;
    const CHUNKS: usize = 1200;
    let captured = Captured::new(small(60, 500_000));
    let (mut client, mut server) = tcp(&captured.sandbox);
    let mut received = vec![0; CHUNK];
    for number in 0..CHUNKS {
        client.write_all(&[number as u8; CHUNK]).unwrap();
        server.read_exact(&mut received).unwrap();
        server.write_all(&[number as u8]).unwrap();
        client.read_exact(&mut received[..1]).unwrap();
    }
    drop((client, server));
    let summary = captured.capture.stop().unwrap();
    assert_eq!(summary.dropped, 0);
    assert!(summary.files.len() > 30, "{}", summary.files.len());
    let files: Vec<_> =
        summary.files.iter().map(|file| fs::read(path(captured.folder.path(), file.generation)).unwrap()).collect();
    let frames: Vec<_> = files.iter().flat_map(|file| records(file)).collect();
    // TCP may send something again, in another packet: no two are the same to the last byte.
    let distinct: std::collections::HashSet<_> = frames.iter().collect();
    assert_eq!((frames.len() as u64, distinct.len()), (summary.packets, frames.len()));
    let word = |frame: &[u8], at: usize| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap());
    let mut first = None;
    let mut bytes = vec![None; CHUNK * CHUNKS];
    for frame in frames.iter().filter(|frame| frame[36..38] == 4002_u16.to_be_bytes()) {
        let sequence = word(frame, 38);
        // What follows the SYN is byte 0.
        let start = sequence.wrapping_sub(*first.get_or_insert(sequence.wrapping_add(1))) as usize;
        let payload = &frame[34 + usize::from(frame[46] >> 4) * 4..];
        for (at, byte) in payload.iter().enumerate() {
            bytes[start + at] = Some(*byte);
        }
    }
    assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == Some((at / CHUNK) as u8)), "every byte is there");
}

/// How many packet sockets a namespace has, as the kernel tells everybody in it.
fn packet_sockets(host: &Host, sandbox: &Sandbox) -> usize {
    host.output(sandbox, &["cat", "/proc/net/packet"]).stdout.lines().count() - 1
}

fn stopping_writes_what_the_kernel_has() {
    let captured = Captured::new(small(2, 20_000_000));
    let (from, _to) = udp(&captured.sandbox);
    assert_eq!(packet_sockets(&captured.host, &captured.sandbox), 1);
    send_numbered(&from, 0..5000, 500);
    let summary = captured.capture.stop().unwrap();
    assert_eq!((summary.packets, summary.dropped, summary.files.len()), (5000, 0, 1));
    assert!(numbers(captured.folder.path(), &summary.files).into_iter().eq(0..5000));
    assert_eq!(summary.files[0].state, CaptureState::Complete);
    // Its socket is closed: one alone would keep the namespace.
    assert_eq!(packet_sockets(&captured.host, &captured.sandbox), 0);
    captured.sandbox.close().unwrap();
}

fn stopping_ends_while_packets_come() {
    let captured = Captured::new(small(3, 1_000_000));
    let (from, _to) = udp(&captured.sandbox);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut sent = 0;
            while !over.load(Ordering::Relaxed) {
                send_numbered(&from, sent..sent + 100, 100);
                sent += 100;
            }
        });
        eventually("it turns", || captured.capture.files().last().is_some_and(|file| file.generation > 3));
        let summary = captured.capture.stop();
        over.store(true, Ordering::Relaxed);
        let files = summary.unwrap().files;
        assert_eq!(read_ring(captured.folder.path()).unwrap(), files);
    });
}

fn row_51_only_a_capturing_broker_holds_net_raw() {
    const NET_RAW: u64 = 1 << 13;
    let host = Host::new();
    let capturing = host.create(NetworkKind::Pod);
    let uid = host.uids.allocate().unwrap();
    let spec = SandboxSpec {
        name: "shop".into(),
        network: NetworkKind::Pod,
        uid,
        data: None,
        packets: false,
        cgroup: Cgroup::default(),
    };
    let other = host.spawner.create(&spec).unwrap();
    for (sandbox, held) in [(&capturing, NET_RAW), (&other, 0)] {
        let status = fs::read_to_string(format!("/proc/{}/status", sandbox.broker_pid())).unwrap();
        let set = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            u64::from_str_radix(line.trim(), 16).unwrap()
        };
        assert_eq!((set("CapEff:"), set("CapPrm:")), (held, held));
        assert_eq!((set("CapBnd:"), set("CapInh:"), set("CapAmb:")), (0, 0, 0));
    }
    match other.packet() {
        Err(SandboxError::Wire { source: WireError::Refused(error), .. }) => {
            assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
        }
        other => panic!("{other:?}"),
    }
    // The services of both have nothing.
    let status = host.output(&capturing, &["cat", "/proc/self/status"]).stdout;
    let sets = status.lines().filter(|line| line.starts_with("Cap"));
    assert!(sets.clone().count() == 5 && sets.clone().all(|line| line.ends_with("0000000000000000")), "{status}");
}

/// From inside: nobody to see, signal or trace, no packet socket to be had, and the flood goes only into the ring.
fn row_48_69_the_captured_cannot_reach_their_capture() {
    let captured = Captured::new(small(4, 1_000_000));
    let protocols = captured.host.probe(&captured.sandbox, &["protocols"]);
    assert!(protocols.contains("packet EPERM") && protocols.contains("raw EPERM"), "{protocols}");
    let script = "
import os, signal, socket
pids = sorted(int(name) for name in os.listdir('/proc') if name.isdigit())
print('pids', pids)
try:
    os.kill(-1, signal.SIGKILL)
except ProcessLookupError:
    print('nobody to signal')
held = [os.readlink('/proc/self/fd/%s' % fd).split(':')[0] for fd in (0, 1, 2)]
print('held', held)
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(2000):
    out.sendto(b'x' * 8000, ('127.0.0.1', 9))
print('sent')
";
    let output = captured.host.output(&captured.sandbox, &["python3", "-c", script]);
    assert_eq!(output.exit, ExitInfo::Code(0), "{}", output.stderr);
    // Pid 1 and itself.
    assert!(
        output.stdout.contains("pids [1, 2]\nnobody to signal\n")
            && output.stdout.contains("held ['pipe', 'pipe', 'pipe']")
    );
    assert!(captured.capture.flush(LIMIT));
    assert_eq!(captured.capture.health(), Health::Running);
    let files = captured.capture.files();
    assert!(files.len() == 4 && files[0].generation > 1, "{files:?}");
    assert!(files.iter().all(|file| file.bytes <= 1_000_000), "{files:?}");
    // And an ICMP answer to each: nobody listens there.
    let summary = captured.capture.stop().unwrap();
    assert!((2000..=4000).contains(&summary.packets) && summary.dropped == 0, "{summary:?}");
}

fn row_66_80_files_are_read_while_the_ring_turns() {
    let captured = Captured::new(small(5, 300_000));
    let (from, _to) = udp(&captured.sandbox);
    // This one stalls until all is over.
    send_numbered(&from, 0..10, 100);
    assert!(captured.capture.flush(LIMIT));
    let mut stalled = captured.capture.open(1).unwrap();
    let over = AtomicBool::new(false);
    let reads = std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut reads = 0;
            while !over.load(Ordering::Relaxed) {
                for file in captured.capture.files() {
                    match captured.capture.open(file.generation) {
                        Ok(open) => {
                            assert!(open.bytes >= file.bytes);
                            let mut bytes = Vec::new();
                            open.file.take(open.bytes).read_to_end(&mut bytes).unwrap();
                            let numbers: Vec<_> = records(&bytes).into_iter().map(number).collect();
                            assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "of one generation");
                            reads += 1;
                        }
                        Err(OpenCaptureError::Gone) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            reads
        });
        send_numbered(&from, 10..60_000, 100);
        over.store(true, Ordering::Relaxed);
        reading.join().unwrap()
    });
    assert!(reads > 10, "{reads}");
    assert!(captured.capture.flush(LIMIT));
    let files = captured.capture.files();
    assert!(files[0].generation > 20, "{files:?}");
    assert_eq!((files.len(), captured.capture.dropped()), (5, 0));
    assert!(matches!(captured.capture.open(1), Err(OpenCaptureError::Gone)));
    assert!(matches!(captured.capture.open(0), Err(OpenCaptureError::Unknown)));
    assert!(matches!(captured.capture.open(1000), Err(OpenCaptureError::Unknown)));
    let mut bytes = Vec::new();
    stalled.file.read_to_end(&mut bytes).unwrap();
    let numbers: Vec<_> = records(&bytes).into_iter().map(number).collect();
    assert!(numbers.len() > 1000 && numbers.iter().copied().eq(0..numbers.len() as u64));
}

fn row_69_a_capture_that_ends_is_noticed_and_another_goes_on() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let folder = tempfile::tempdir().unwrap();
    let start = |fault| {
        let socket = sandbox.packet().unwrap();
        Capture::start_with_fault(fault, socket, "lo", folder.path(), small(10, 100_000)).unwrap()
    };
    let (from, _to) = udp(&sandbox);
    let capture = start("exit-after=100");
    send_numbered(&from, 0..100, 100);
    let ended = PollFd::from_borrowed_fd(capture.ended_fd(), PollFlags::IN);
    assert_eq!(poll(&mut [ended], Some(&Timespec { tv_sec: 60, tv_nsec: 0 })), Ok(1));
    assert_eq!(capture.health(), Health::Ended { reason: "a test ended it".into() });
    assert!(!capture.flush(LIMIT), "at once");
    send_numbered(&from, 100..200, 100);
    // What it had is there and listed.
    assert_eq!(
        capture.files().iter().map(|file| (file.packets, file.state)).collect::<Vec<_>>(),
        [(100, CaptureState::Complete)]
    );
    assert!(matches!(capture.stop(), Err(CaptureError::Ended { .. })));
    // The next one isn't the first of the folder.
    let capture = start("exit-after=100");
    send_numbered(&from, 200..400, 100);
    let summary = capture.stop().unwrap();
    assert_eq!(summary.files.iter().map(|file| file.generation).collect::<Vec<_>>(), [1, 2]);
    assert!(numbers(folder.path(), &summary.files).into_iter().eq((0..100).chain(200..400)));
    // One that ends before it did anything.
    let capture = start("exit");
    eventually("it ends", || matches!(capture.health(), Health::Ended { .. }));
}

fn row_69_a_capture_that_hangs_is_noticed() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let folder = tempfile::tempdir().unwrap();
    let socket = sandbox.packet().unwrap();
    let capture = Capture::start_with_fault("hang", socket, "lo", folder.path(), RingOptions::default()).unwrap();
    assert!(!capture.flush(Duration::from_millis(10)));
    eventually("it is noticed", || matches!(capture.health(), Health::Hung { .. }));
    assert!(matches!(capture.stop(), Err(CaptureError::Hung { .. })));
    // Another one works, and the first one, which is given up, leaves its files alone.
    let socket = sandbox.packet().unwrap();
    let capture = Capture::start(socket, "lo", folder.path(), RingOptions::default()).unwrap();
    let (from, _to) = udp(&sandbox);
    send_numbered(&from, 0..100, 100);
    let files = capture.stop().unwrap().files;
    assert_eq!(files.iter().map(|file| (file.generation, file.packets)).collect::<Vec<_>>(), [(1, 0), (2, 100)]);
}

/// Calls that the workload below makes at most; the loop ends at the first that isn't made.
const MAX_CALLS: u32 = 200;

fn row_70_any_call_of_a_capture_may_fail() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let (from, _to) = udp(&sandbox);
    let errno = rustix::io::Errno::NOMEM.raw_os_error();
    let failed = (1..MAX_CALLS).take_while(|&nth| {
        let folder = tempfile::tempdir().unwrap();
        let socket = sandbox.packet().unwrap();
        let capture = match Capture::start_failing((nth, errno), socket, "lo", folder.path(), small(2, 2000)) {
            Ok(capture) => capture,
            Err(error) => {
                assert!(error.to_string().contains("Cannot allocate memory"), "{error}");
                return true;
            }
        };
        send_numbered(&from, 0..50, 100);
        capture.flush(LIMIT);
        match capture.stop() {
            Ok(summary) => {
                assert_eq!(summary.packets, 50);
                false
            }
            Err(CaptureError::Ended { reason }) => {
                assert!(reason.contains("Cannot allocate memory"), "{reason}");
                let files = read_ring(folder.path()).unwrap();
                assert!(files.iter().all(|file| file.state == CaptureState::Complete), "{nth}: {files:?}");
                true
            }
            Err(error) => panic!("{error}"),
        }
    });
    let failed = failed.count();
    assert!((30..MAX_CALLS as usize - 1).contains(&failed), "{failed} calls are behind the gate");
}

fn what_cannot_be_captured_is_refused() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let folder = tempfile::tempdir().unwrap();
    let start = |interface: &str, folder: &Path| {
        Capture::start(sandbox.packet().unwrap(), interface, folder, RingOptions::default()).unwrap_err()
    };
    let error = start("eth7", folder.path());
    assert!(matches!(&error, CaptureError::Interface { interface, .. } if interface == "eth7"), "{error}");
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    for unusable in [file.clone(), file.join("below"), PathBuf::from("/proc/captures")] {
        let error = start("lo", &unusable);
        assert!(matches!(&error, CaptureError::Folder { path, .. } if *path == unusable), "{error}");
    }
}
