//! What tcpdump, tshark, capinfos and dpkt read in our files, and a tcpdump that captures beside us.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use super::*;

crate::trials![every_reader_agrees_on_every_file, checksums_and_long_frames_are_whole, a_second_capture_sees_the_same,];

/// What a program prints; it must succeed and have nothing to complain of.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {complaints}");
    assert!(!complaints.contains("truncated") && !complaints.contains("cut short"), "{command:?}: {complaints}");
    String::from_utf8(output.stdout).unwrap()
}

fn tshark(file: &Path, arguments: &[&str]) -> Vec<String> {
    // Its user's own profile might say otherwise.
    let text = run(Command::new("tshark").env("HOME", "/nonexistent").args(["-n", "-r"]).arg(file).args(arguments));
    text.lines().map(str::to_owned).collect()
}

fn python() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    target.join("venv/bin/python")
}

/// Packets in a file, as each of the readers counts them.
fn counts(files: &[PathBuf]) -> Vec<[u64; 4]> {
    let script = "
import sys, dpkt
for name in sys.argv[1:]:
    with open(name, 'rb') as file:
        print(sum(1 for _ in dpkt.pcap.Reader(file)))
";
    let number = |text: &str| text.trim().parse::<u64>().unwrap_or_else(|_| panic!("{text}"));
    let dpkt = run(Command::new(python()).args(["-c", script]).args(files));
    // A table: name and count.
    let capinfos = run(Command::new("capinfos").args(["-T", "-r", "-M", "-c"]).args(files));
    let known = dpkt.lines().zip(capinfos.lines());
    let counts = files.iter().zip(known).map(|(file, (dpkt, capinfos))| {
        let tcpdump = run(Command::new("tcpdump").args(["-n", "-t", "--count", "-r"]).arg(file));
        let tcpdump = tcpdump.split(' ').next().unwrap();
        let tshark = tshark(file, &["-T", "fields", "-e", "frame.number"]).len() as u64;
        [number(tcpdump), tshark, number(capinfos.rsplit('\t').next().unwrap()), number(dpkt)]
    });
    counts.collect()
}

fn every_reader_agrees_on_every_file() {
    const PACKETS: u64 = 12_000;
    let captured = Captured::new(small(50, 60_000));
    let (from, _to) = udp(&captured.sandbox);
    let copies = tempfile::tempdir().unwrap();
    let mut copied = Vec::new();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send_numbered(&from, 0..PACKETS, 100));
        // The file that grows, as a reader gets it that goes no further than it is told.
        for copy in 0..5 {
            let last = captured.capture.files().last().unwrap().generation;
            if let Ok(open) = captured.capture.open(last) {
                let path = copies.path().join(format!("{copy}.pcap"));
                std::io::copy(&mut open.file.take(open.bytes), &mut fs::File::create(&path).unwrap()).unwrap();
                copied.push(path);
            }
        }
        sending.join().unwrap();
    });
    assert!(captured.capture.flush(LIMIT));
    let files = captured.capture.files();
    assert!(files.len() > 30, "{}", files.len());
    assert_eq!(files.last().unwrap().state, CaptureState::Growing);
    let paths: Vec<_> = files.iter().map(|file| captured.path(file.generation)).collect();
    for (file, counts) in files.iter().zip(counts(&paths)) {
        assert_eq!(counts, [file.packets; 4], "{file:?}");
    }
    assert_eq!(files.iter().map(|file| file.packets).sum::<u64>(), PACKETS);
    assert_eq!(captured.capture.dropped(), 0);
    for (copy, counts) in copied.iter().zip(counts(&copied)) {
        assert_eq!(counts, [records(&fs::read(copy).unwrap()).len() as u64; 4]);
    }
    // A file with its header alone is one too.
    let empty = Captured::new(RingOptions::default());
    assert_eq!(counts(&[empty.path(1)]), [[0; 4]]);
}

/// Sent from inside: both protocols, both families, short and long, and in bulk, which the kernel cuts up only for a card.
const CONVERSATIONS: &str = "
import socket, threading
for family, here in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):
    to = socket.socket(family, socket.SOCK_DGRAM)
    to.bind((here, 0))
    out = socket.socket(family, socket.SOCK_DGRAM)
    out.connect(to.getsockname()[:2])
    # The last makes a packet of 65,535 or 65,536 bytes, the most that fits the link.
    for length in (0, 1, 2, 3, 511, 9000, 60001, 65507 if family == socket.AF_INET else 65488):
        out.send(bytes(number * 7 % 256 for number in range(length)))
    # UDP_SEGMENT: 14 datagrams in one call.
    out.setsockopt(socket.IPPROTO_UDP, 103, 1000)
    out.send(b'y' * 13999)
    listener = socket.create_server((here, 0), family=family)
    def answer():
        peer, _ = listener.accept()
        while data := peer.recv(1 << 20):
            pass
        peer.sendall(b'done')
        peer.close()
    thread = threading.Thread(target=answer)
    thread.start()
    talk = socket.create_connection(listener.getsockname()[:2])
    talk.sendall(b'odd')
    for _ in range(8):
        talk.sendall(b'z' * (1 << 18))
    talk.shutdown(socket.SHUT_WR)
    assert talk.recv(100) == b'done'
    thread.join()
";

fn checksums_and_long_frames_are_whole() {
    let captured = Captured::new(RingOptions::default());
    let output = captured.host.output(&captured.sandbox, &["python3", "-c", CONVERSATIONS]);
    assert_eq!(output.exit, ExitInfo::Code(0), "{}", output.stderr);
    let summary = captured.capture.stop().unwrap();
    let checks = ["ip", "tcp", "udp"].map(|protocol| format!("{protocol}.check_checksum:TRUE"));
    let mut arguments = vec!["-T", "fields"];
    for check in &checks {
        arguments.extend(["-o", check]);
    }
    let fields = [
        "frame.len",
        "frame.cap_len",
        "eth.type",
        "ip.checksum.status",
        "ipv6.version",
        "tcp.checksum.status",
        "udp.checksum.status",
        "icmp.type",
    ];
    for field in fields {
        arguments.extend(["-e", field]);
    }
    let lines = tshark(&path(captured.folder.path(), 1), &arguments);
    assert_eq!(lines.len() as u64, summary.packets);
    let (mut longest, mut kinds) = ([0, 0], std::collections::BTreeSet::new());
    for line in &lines {
        let [length, taken, kind, ip, six, tcp, udp, icmp] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(length, taken, "{line}");
        assert!(kind == "0x0800" && ip == "1" || kind == "0x86dd" && six == "6", "{line}");
        // 1 is good. One of TCP and UDP; the datagrams are taken, so nothing answers that nobody listens.
        assert!((tcp, udp, icmp) == ("1", "", "") || (tcp, udp, icmp) == ("", "1", ""), "{line}");
        kinds.insert((kind, tcp.is_empty()));
        let at = usize::from(tcp.is_empty());
        longest[at] = longest[at].max(length.parse::<u64>().unwrap());
    }
    assert_eq!(kinds.len(), 4, "{kinds:?}");
    // The longest that there is, in UDP; TCP in bulk comes close.
    assert!(longest[1] >= 65_549, "{longest:?}");
    assert!(longest[0] > 60_000, "{longest:?}");
}

/// A tcpdump in the pod's namespace that has begun to record.
fn tcpdump_beside(sandbox: &Sandbox, file: &Path) -> Child {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{}/ns/net", sandbox.broker_pid()));
    command.args(["tcpdump", "-Z", "root", "-n", "-i", "lo", "-B", "32768", "-U", "-w"]).arg(file);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    while !said.contains("listening on") {
        let read = BufReader::with_capacity(1, child.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_ne!(read, 0, "{said}");
    }
    child
}

fn a_second_capture_sees_the_same() {
    // The broker's namespace is its own: only root enters it from elsewhere.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let captured = Captured::new(small(20, 1_000_000));
    let folder = tempfile::tempdir().unwrap();
    let theirs = folder.path().join("theirs.pcap");
    let tcpdump = tcpdump_beside(&captured.sandbox, &theirs);
    let (from, _to) = udp(&captured.sandbox);
    send_numbered(&from, 0..20_000, 100);
    let (mut client, mut server) = tcp(&captured.sandbox);
    for round in 0..200_u32 {
        client.write_all(&round.to_be_bytes()).unwrap();
        let mut bytes = [0; 4];
        server.read_exact(&mut bytes).unwrap();
        server.write_all(&bytes).unwrap();
        client.read_exact(&mut bytes).unwrap();
    }
    drop((client, server));
    let summary = captured.capture.stop().unwrap();
    // It drops what it has not yet written when it is interrupted.
    let expected: u64 = summary.files.iter().map(|file| file.bytes - 24).sum::<u64>() + 24;
    eventually("tcpdump has written it all", || fs::metadata(&theirs).unwrap().len() >= expected);
    let pid = rustix::process::Pid::from_child(&tcpdump);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let said = tcpdump.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("0 packets dropped by kernel"), "{said}");
    // Checksums apart: tcpdump leaves those unfinished that the kernel left.
    let comparable = |frame: &[u8]| {
        let mut frame = frame.to_vec();
        let at = if frame[23] == 17 { 40 } else { 50 };
        frame[at..at + 2].fill(0);
        frame
    };
    let theirs: Vec<_> = records(&fs::read(&theirs).unwrap()).into_iter().map(comparable).collect();
    let mut ours = Vec::new();
    for file in &summary.files {
        ours.extend(
            records(&fs::read(path(captured.folder.path(), file.generation)).unwrap()).into_iter().map(comparable),
        );
    }
    assert!(ours.len() > 20_400, "{}", ours.len());
    assert_eq!((ours.len(), summary.dropped), (theirs.len(), 0));
    assert!(ours == theirs, "the same packets in the same order");
}
