//! What a capture loses and costs, against tcpdump and dumpcap under the same load.
//!
//! The load is datagrams over the loopback interface of a network namespace made for this, sent by one thread at a rate that is kept
//! (the last one is as fast as it goes), counted by the sender; each program writes to memory. Then the same program's capture of a
//! site, whose ring turns while its files are downloaded.

use std::{
    env, fs,
    net::UdpSocket,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::{self, sleep},
    time::{Duration, Instant},
};

use agentenv_tests::{Home, eventually, program};
use rustix::process::{Pid, Signal, kill_process};

use crate::{office, say::say};

/// The command that runs inside the namespace.
pub const INSIDE: &str = "captures-inside";
/// Packets a second; none is as fast as the sender can.
const RATES: [Option<u32>; 7] =
    [Some(5_000), Some(20_000), Some(50_000), Some(100_000), Some(200_000), Some(300_000), None];
/// Bytes of a datagram.
const SIZES: [usize; 2] = [64, 1400];
/// How long each load lasts.
const LOAD: Duration = Duration::from_secs(2);
/// How long a program may take to begin or to end.
const WAIT: Duration = Duration::from_secs(30);
/// A file's header, and a packet's in it.
const PCAP_HEADERS: (usize, usize) = (24, 16);
/// Clock ticks a second, of `/proc`.
const TICKS: f64 = 100.0;

#[derive(Clone, Copy, PartialEq)]
enum Recorder {
    Ours,
    Tcpdump,
    Dumpcap,
}

impl Recorder {
    const ALL: [Self; 3] = [Self::Ours, Self::Tcpdump, Self::Dumpcap];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "agent-env capture",
            Self::Tcpdump => "tcpdump -U",
            Self::Dumpcap => "dumpcap -P",
        }
    }

    fn command(self, folder: &Path) -> Command {
        let mut command = match self {
            Self::Ours => Command::new(program()),
            Self::Tcpdump => Command::new("tcpdump"),
            Self::Dumpcap => Command::new("dumpcap"),
        };
        match self {
            // As many files as the load may fill: what is counted is what was lost, not what was rotated away.
            Self::Ours => command.args(["capture", "--interface", "lo", "--files", "500", "--output"]).arg(folder),
            Self::Tcpdump => command.args(["-i", "lo", "-U", "-w"]).arg(folder.join("1.pcap")),
            Self::Dumpcap => command.args(["-q", "-i", "lo", "-P", "-w"]).arg(folder.join("1.pcap")),
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// `bench capture`: prints a table, and where each of them begins to lose.
pub fn bench() {
    let mut command = Command::new("unshare");
    if !agentenv_tests::is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let this = env::current_exe().expect("this program has a file");
    let ended = command.arg("--net").arg(this).arg(INSIDE).status().expect("unshare starts");
    assert!(ended.success(), "the load inside the namespace failed");
    downloads();
}

/// The part inside the namespace.
pub fn inside() {
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip starts");
    assert!(up.success());
    for size in SIZES {
        say!("datagrams of {size} bytes, {} s each", LOAD.as_secs());
        say!("{:<18} {:>9} {:>10} {:>10} {:>8} {:>14}", "", "rate", "sent", "lost", "lost %", "CPU s/million");
        let mut clean = [0.0_f64; 3];
        let mut broke = [false; 3];
        for rate in RATES {
            for (at, recorder) in Recorder::ALL.into_iter().enumerate() {
                let run = measure(recorder, rate, size);
                let lost = run.sent - run.seen;
                let percent = 100.0 * lost as f64 / run.sent as f64;
                say!(
                    "{:<18} {:>7.0}/s {:>10} {lost:>10} {percent:>7.2}% {:>14.2}",
                    recorder.name(),
                    run.rate,
                    run.sent,
                    run.cpu * 1e6 / run.seen.max(1) as f64
                );
                broke[at] |= lost > 0;
                if !broke[at] {
                    clean[at] = run.rate;
                }
            }
        }
        for (recorder, rate) in Recorder::ALL.into_iter().zip(clean) {
            say!("{}: no loss up to {rate:.0} packets a second", recorder.name());
        }
    }
}

struct Run {
    rate: f64,
    sent: u64,
    seen: u64,
    cpu: f64,
}

/// One load under one recorder.
fn measure(recorder: Recorder, rate: Option<u32>, size: usize) -> Run {
    let folder = PathBuf::from("/dev/shm").join(format!("agentenv-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("memory to write to");
    let mut child = recorder.command(&folder).spawn().unwrap_or_else(|error| panic!("{}: {error}", recorder.name()));
    // A sink that takes nothing: the kernel drops for it, after the recorder has seen the packet.
    let sink = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let target = sink.local_addr().expect("it has an address");
    let port = target.port();
    // Recording once it has written a packet.
    let probe = UdpSocket::bind("127.0.0.1:0").expect("a port");
    eventually("the recorder records", WAIT, || {
        probe.send_to(&[0], target).expect("the sink is there");
        sleep(Duration::from_millis(20));
        (count(&folder, port, 1) > 0).then_some(())
    });
    let (sent, took) = send(&target.to_string(), rate, size);
    let cpu = finish(&mut child);
    let seen = count(&folder, port, size);
    fs::remove_dir_all(&folder).expect("the files are ours");
    Run { rate: sent as f64 / took.as_secs_f64(), sent, seen, cpu }
}

fn send(target: &str, rate: Option<u32>, size: usize) -> (u64, Duration) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(target).expect("the sink is there");
    let datagram = vec![0x5a; size];
    let (began, mut sent) = (Instant::now(), 0_u64);
    while began.elapsed() < LOAD {
        let due = rate.map_or(u64::MAX, |rate| (began.elapsed().as_secs_f64() * f64::from(rate)) as u64);
        // Some at a time, so that the clock is not asked for each.
        for _ in 0..due.saturating_sub(sent).min(64) {
            socket.send(&datagram).expect("loopback takes it");
            sent += 1;
        }
        if sent >= due {
            thread::yield_now();
        }
    }
    (sent, began.elapsed())
}

/// Has it end as people end it, and says how much processor it took.
fn finish(child: &mut Child) -> f64 {
    // tcpdump and dumpcap may take a second to look at what came.
    sleep(Duration::from_millis(1500));
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a pid");
    let cpu = cpu_of(child.id());
    kill_process(pid, Signal::INT).expect("it is ours");
    child.wait().expect("it ends");
    cpu
}

/// Seconds of processor of a process and the one child that dumpcap may have.
fn cpu_of(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS
}

/// The packets in a folder's files that are datagrams of this size to this port.
fn count(folder: &Path, port: u16, size: usize) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut count = 0;
    for file in files.filter(|path| path.extension().is_some_and(|extension| extension == "pcap")) {
        let bytes = fs::read(file).unwrap_or_default();
        let mut rest = bytes.get(PCAP_HEADERS.0..).unwrap_or_default();
        while let Some(length) = rest.get(8..12) {
            let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
            let Some(packet) = rest.get(PCAP_HEADERS.1..PCAP_HEADERS.1 + length) else { break };
            // Ethernet 14, IPv4 20, UDP 8.
            let to = packet.get(36..38).map(|port| u16::from_be_bytes([port[0], port[1]]));
            count += u64::from(to == Some(port) && length == 42 + size);
            rest = &rest[PCAP_HEADERS.1 + length..];
        }
    }
    count
}

/// Downloads of a deploy's files while its ring turns.
fn downloads() {
    let home: Home = office::home();
    let deploy = home.deploy_with("shop", &["--capture-traffic", "--capture-files", "4", "--capture-file-mb", "2"]);
    let pages = deploy.info.websites[0].browse_url.clone().expect("a synthetic site has pages");
    let listing = |home: &Home| office::timed(home, &["traffic", "list", deploy.id(), "--json"]).0;
    let (began, load) = (Instant::now(), LOAD * 3);
    let loader = thread::spawn(move || {
        let mut requests = 0_u64;
        let address = pages.strip_prefix("http://").and_then(|rest| rest.split('/').next()).map(str::to_owned);
        let gateway = format!("http://{}", address.expect("a URL with a host"));
        let path = pages.strip_prefix(&gateway).expect("its own path").to_owned();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        while began.elapsed() < load {
            agentenv_tests::raw_http(&gateway, request.as_bytes());
            requests += 1;
        }
        requests
    });
    let out = home.path().join("out");
    let (mut bytes, mut files) = (0, 0);
    while began.elapsed() < load {
        let folder = out.display().to_string();
        let arguments = ["traffic", "get", deploy.id(), "--all", "--force", "--output", &folder];
        // A file that is rotated away meanwhile is the point.
        let _ = home.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        for entry in fs::read_dir(&out).into_iter().flatten().flatten() {
            bytes += entry.metadata().map_or(0, |metadata| metadata.len());
            files += 1;
        }
    }
    let requests = loader.join().expect("the load ends");
    let listing = listing(&home);
    let ring = &listing["rings"][0];
    let last = listing["captures"].as_array().and_then(|files| files.last()).map(|file| file["generation"].clone());
    say!(
        "a site's ring of 4 files of 2 MB under {requests} requests: generation {}, {} dropped; meanwhile {files} files of {:.1} MB \
         downloaded, {:.1} MB a second",
        last.unwrap_or_default(),
        ring["dropped"],
        bytes as f64 / 1e6,
        bytes as f64 / 1e6 / load.as_secs_f64()
    );
    deploy.close();
}
