//! Client ports of a service's own: who opened a connection shows, and nothing else about sockets changes.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddrV4},
    ops::RangeInclusive,
    os::fd::OwnedFd,
    path::Path,
    process::Command,
    time::Instant,
};

use crate::{faults, support::*};
use agentenv_sandbox::{
    Capture, ExitInfo, NetworkKind, RingOptions, Sandbox, SandboxError, SeccompProfile, Service, ServiceSpec,
    process::{ProcessId, ProcessRole, find_processes_of},
    split_client_ports,
};

crate::trials![
    three_services_are_told_apart,
    sockets_are_what_they_always_were,
    what_is_executed_beside_a_service_has_its_ports,
    signals_leave_nothing_behind,
    row_59_a_hostile_service_holds_up_nobody_else,
    a_dead_socket_maker_takes_its_service_along,
    row_70_a_kernel_that_cannot_is_no_failure,
    ports_that_cannot_be_are_refused,
    making_a_socket_takes_microseconds,
];

const TALK: &str = include_str!("client_ports/talk.py");
const SAME: &str = include_str!("client_ports/same.py");
const HOSTILE: &str = include_str!("client_ports/hostile.py");
/// Rounds of connections, of each kind, to each other service.
const ROUNDS: usize = 40;
/// Kinds of them, see `talk.py`.
const KINDS: usize = 7;

type Ports = RangeInclusive<u16>;

/// A service that runs a script, with what it imports under `/usr`.
fn python(sandbox: &Sandbox, script: &str, words: &[&str], ports: &Ports) -> ServiceSpec {
    let command: Vec<_> = ["/usr/bin/python3", "-c", script].iter().chain(words).copied().collect();
    ServiceSpec { client_ports: Some(ports.clone()), ..spec(sandbox, &command) }
}

/// What a program that ended well said.
fn said(service: Service) -> String {
    let output = finish(service);
    assert_eq!(output.exit, ExitInfo::Code(0), "{}{}", output.stdout, output.stderr);
    output.stdout.trim().to_owned()
}

/// Ranges of two services.
fn two() -> [Ports; 2] {
    split_client_ports(2).try_into().unwrap()
}

/// The services of the pod below, and where they listen.
const SERVICES: [(&str, u16); 3] = [("server", 8000), ("frontend", 8010), ("worker", 8020)];
/// Where the gateway connects from.
const GATEWAY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

fn three_services_are_told_apart() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let folder = tempfile::tempdir().unwrap();
    let capture = Capture::start(sandbox.packet().unwrap(), "lo", folder.path(), RingOptions::default()).unwrap();
    let ranges = split_client_ports(3);
    let mut services = Vec::new();
    for ((name, port), ports) in SERVICES.iter().zip(&ranges) {
        let others = SERVICES.iter().map(|(_, other)| other).filter(|other| *other != port).map(u16::to_string);
        let words: Vec<_> =
            [(*name).to_owned(), port.to_string(), ROUNDS.to_string()].into_iter().chain(others).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let service = host.start(&sandbox, &python(&sandbox, TALK, &words, ports));
        assert_eq!(service.client_ports().as_ref(), Some(ports));
        services.push(service);
    }
    services.iter_mut().for_each(|service| assert_eq!(line(service), "up"));
    let _told: Vec<_> = SERVICES.iter().map(|(_, port)| tell(&sandbox, port + 1)).collect();
    for ((name, _), service) in SERVICES.iter().zip(services) {
        let text = said(service);
        let heard: Vec<_> = text.lines().map(|line| line.split_once(' ').unwrap()).collect();
        assert_eq!(heard.len(), 2 * ROUNDS * KINDS);
        for (who, port) in heard {
            let range = &ranges[SERVICES.iter().position(|(name, _)| *name == who).unwrap()];
            assert!(who != *name && range.contains(&port.parse().unwrap()), "{who} came from {port}, not {range:?}");
        }
    }
    assert!(capture.flush(LIMIT));
    let summary = capture.stop().unwrap();
    assert_eq!(summary.files.len(), 1);
    who_connected(&folder.path().join(format!("{:010}.pcap", summary.files[0].generation)), &ranges);
}

/// Connects as the gateway does, which tells a service of [`TALK`] to go.
fn tell(sandbox: &Sandbox, port: u16) -> OwnedFd {
    let socket = sandbox.tcp(1).unwrap().remove(0);
    rustix::net::bind(&socket, &SocketAddrV4::new(GATEWAY, 0)).unwrap();
    match rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => socket,
        Err(error) => panic!("connect: {error}"),
    }
}

/// Asks tshark who opened what, and tells the services apart by ports alone, as a reader of a capture does.
fn who_connected(pcap: &Path, ranges: &[Ports]) {
    let fields = ["ip.src", "tcp.srcport", "tcp.dstport", "udp.srcport", "udp.dstport"].map(|field| ["-e", field]);
    let firsts = "(tcp.flags.syn == 1 && tcp.flags.ack == 0) || (udp && udp.dstport < 32768)";
    let output = Command::new("tshark")
        .args(["-n", "-r", pcap.to_str().unwrap(), "-Y", firsts, "-T", "fields", "-E", "separator=,"])
        .args(fields.concat())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut opened = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let [source, tcp_from, tcp_to, udp_from, udp_to] = line.split(',').collect::<Vec<_>>().try_into().unwrap();
        let (kind, from, to) = if tcp_to.is_empty() { ("udp", udp_from, udp_to) } else { ("tcp", tcp_from, tcp_to) };
        let (from, to): (u16, u16) = (from.parse().unwrap(), to.parse().unwrap());
        let place = ranges.iter().position(|range| range.contains(&from));
        let from = if source == GATEWAY.to_string() { "gateway" } else { SERVICES[place.unwrap()].0 };
        let (to, _) = SERVICES.iter().find(|(_, port)| [*port, port + 1].contains(&to)).unwrap();
        *opened.entry((kind, from, *to)).or_insert(0) += 1;
    }
    let names = SERVICES.map(|(name, _)| name);
    // Five of the kinds of `talk.py` are of TCP.
    for (kind, count) in [("tcp", 5 * ROUNDS), ("udp", 2 * ROUNDS)] {
        for from in names {
            for to in names.into_iter().filter(|to| *to != from) {
                assert_eq!(opened.remove(&(kind, from, to)), Some(count), "{kind} from {from} to {to}");
            }
        }
    }
    let gateways: Vec<_> = opened.into_iter().collect();
    assert_eq!(gateways, ["frontend", "server", "worker"].map(|to| (("tcp", "gateway", to), 1)));
}

fn sockets_are_what_they_always_were() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let [_, ports] = two();
    let words = [ports.start(), ports.end()].map(u16::to_string);
    let words = words.each_ref().map(String::as_str);
    assert_eq!(said(host.start(&sandbox, &python(&sandbox, SAME, &words, &ports))), "same");
    // Without a maker the same holds, but for the ports: so the script tells the truth.
    let sandbox = host.create(NetworkKind::Pod);
    let bare = ServiceSpec { client_ports: None, ..python(&sandbox, SAME, &["1", "65535"], &ports) };
    let service = host.start(&sandbox, &bare);
    assert_eq!(service.client_ports(), None);
    assert_eq!(said(service), "same");
}

const PORT_OF_A_NEW_SOCKET: &str = "
import socket
s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])";

fn what_is_executed_beside_a_service_has_its_ports() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    for ports in two() {
        let sleep = ServiceSpec { client_ports: Some(ports.clone()), ..spec(&sandbox, &["sleep", "1000"]) };
        let service = host.start(&sandbox, &sleep);
        let command = ["/usr/bin/python3", "-c", PORT_OF_A_NEW_SOCKET].map(str::to_owned).to_vec();
        for _ in 0..3 {
            let beside = host.spawner.exec(&sandbox, &service, command.clone(), &environment()).unwrap();
            assert_eq!(beside.client_ports(), Some(ports.clone()));
            assert!(ports.contains(&said(beside).parse().unwrap()));
        }
    }
}

/// A signal every 200 µs, whose handler has no call restarted.
const SIGNALS: &str = "
import os, signal, socket
signal.signal(signal.SIGALRM, lambda *_: None)
before = len(os.listdir('/proc/self/fd'))
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
made = interrupted = 0
while made < 2000:
    try: socket.socket().close(); made += 1
    except InterruptedError: interrupted += 1
signal.setitimer(signal.ITIMER_REAL, 0)
assert len(os.listdir('/proc/self/fd')) == before
print(made, 'made,', interrupted, 'interrupted')";

fn signals_leave_nothing_behind() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    println!("{}", said(host.start(&sandbox, &python(&sandbox, SIGNALS, &[], &two()[0]))));
}

/// Connects to itself, and says how long the slowest socket took to make.
const NEIGHBOUR: &str = "
import socket, sys, time
listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))
slowest = 0
for _ in range(500):
    began = time.monotonic()
    s = socket.socket()
    slowest = max(slowest, time.monotonic() - began)
    s.connect(listener.getsockname())
    stream, peer = listener.accept()
    assert int(sys.argv[2]) <= peer[1] <= int(sys.argv[3]), peer
    stream.close(); s.close()
print(f'{slowest * 1e6:.0f}')";

fn row_59_a_hostile_service_holds_up_nobody_else() {
    let [hostiles, neighbours] = two();
    let range = [neighbours.start(), neighbours.end()].map(u16::to_string);
    for what in ["threads", "swap", "churn", "bomb", "idle", "stopped"] {
        let marker = marker();
        let host = Host::marked(&marker);
        let sandbox = host.create(NetworkKind::Pod);
        let mut hostile = python(&sandbox, HOSTILE, &[what, "9"], &hostiles);
        // The uid's own limit is for the whole pod; the neighbour is to be held up by sockets alone.
        hostile.limits.nproc = if what == "bomb" { 200 } else { 2000 };
        let mut hostile = host.start(&sandbox, &hostile);
        assert_eq!(line(&mut hostile), "hostile");
        let words = ["8000", &range[0], &range[1]];
        let slowest = said(host.start(&sandbox, &python(&sandbox, NEIGHBOUR, &words, &neighbours)));
        println!("{what}: the neighbour's slowest socket took {slowest} µs");
        // A busy machine takes milliseconds; somebody who is held up takes as long as the hostile one likes.
        assert!(slowest.parse::<u64>().unwrap() < 5_000_000, "{what}: {slowest} µs");
        assert_eq!(hostile.try_wait(), None, "{what}");
        let maker = maker_of(&marker);
        if rustix::process::geteuid().as_raw() == 0 {
            // Never more than the listener, and one socket on its way.
            let held = fs::read_dir(format!("/proc/{}/fd", maker.pid)).unwrap().count();
            assert!((1..=2).contains(&held), "{what}: {held}");
        }
        hostile.kill();
        assert_eq!(hostile.wait_exit(LIMIT), Some(ExitInfo::Signal(9)));
        eventually("its socket maker ends with it", || !maker.is_alive());
    }
}

/// The socket maker of the only service that has one.
fn maker_of(marker: &str) -> ProcessId {
    let mut makers = Vec::new();
    eventually("one socket maker is there", || {
        let found = find_processes_of(marker).unwrap().into_iter();
        makers = found.filter(|(_, role)| *role == ProcessRole::SocketMaker).map(|(id, _)| id).collect();
        makers.len() == 1
    });
    makers.remove(0)
}

fn a_dead_socket_maker_takes_its_service_along() {
    let marker = marker();
    let host = Host::marked(&marker);
    let sandbox = host.create(NetworkKind::Pod);
    let other = host.start(&sandbox, &spec(&sandbox, &["sleep", "1000"]));
    let sleep = ServiceSpec { client_ports: Some(two()[0].clone()), ..spec(&sandbox, &["sleep", "1000"]) };
    let service = host.start(&sandbox, &sleep);
    let maker = maker_of(&marker);
    if rustix::process::geteuid().as_raw() == 0 {
        let status = fs::read_to_string(format!("/proc/{}/status", maker.pid)).unwrap();
        assert_eq!(status.matches("0000000000000000").count(), 5 + 2, "{status}");
        assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
        let fds: Vec<_> =
            fs::read_dir(format!("/proc/{}/fd", maker.pid)).unwrap().map(|fd| fd.unwrap().path()).collect();
        assert_eq!(fds.len(), 1);
        assert_eq!(fs::read_link(&fds[0]).unwrap().to_str(), Some("anon_inode:seccomp notify"));
    }
    assert!(maker.kill_if_same(LIMIT).unwrap());
    assert_eq!(service.wait_exit(LIMIT), Some(ExitInfo::Signal(9)));
    assert_eq!(other.try_wait(), None);
    // The next one has its own again.
    let ports = &two()[0];
    let service = host.start(&sandbox, &python(&sandbox, PORT_OF_A_NEW_SOCKET, &[], ports));
    assert!(ports.contains(&said(service).parse().unwrap()));
}

/// Under a listener of somebody else's, as in a container whose calls are listened to. Only root may be put under one
/// without giving up new privileges, which an ordinary user's id maps need; what follows is the same for everybody.
fn row_70_a_kernel_that_cannot_is_no_failure() {
    if rustix::process::geteuid().as_raw() != 0 {
        return;
    }
    let marker = faults::LISTENED.to_owned() + &marker();
    let host = Host::marked(&marker);
    let sandbox = host.create(NetworkKind::Pod);
    let service = host.start(&sandbox, &python(&sandbox, PORT_OF_A_NEW_SOCKET, &[], &(40_000..=40_000)));
    assert_eq!(service.client_ports(), None);
    assert_ne!(said(service), "40000");
    let is_maker = |(_, role): &(_, ProcessRole)| *role == ProcessRole::SocketMaker;
    eventually("no socket maker stays", || !find_processes_of(&marker).unwrap().iter().any(is_maker));
    // The same once more, beside a service.
    let sleep = ServiceSpec { client_ports: Some(40_000..=40_000), ..spec(&sandbox, &["sleep", "1000"]) };
    let service = host.start(&sandbox, &sleep);
    let command = ["/usr/bin/python3", "-c", PORT_OF_A_NEW_SOCKET].map(str::to_owned).to_vec();
    let beside = host.spawner.exec(&sandbox, &service, command, &environment()).unwrap();
    assert_ne!(said(beside), "40000");
    assert_eq!(service.try_wait(), None);
}

fn ports_that_cannot_be_are_refused() {
    let host = Host::new();
    let (pod, browser) = (host.create(NetworkKind::Pod), host.create(NetworkKind::Browser));
    #[expect(clippy::reversed_empty_ranges, reason = "an empty one is refused")]
    for (sandbox, ports) in [(&pod, 0..=9), (&pod, 40_001..=40_000), (&browser, 40_000..=50_000)] {
        let spec = ServiceSpec { client_ports: Some(ports), ..spec(sandbox, &["true"]) };
        assert_eq!(spec.seccomp == SeccompProfile::Browser, sandbox.network() == NetworkKind::Browser);
        let error = host.spawner.start(sandbox, &spec, &environment()).unwrap_err();
        assert!(matches!(&error, SandboxError::Spec { .. }), "{error}");
    }
}

/// What a program takes to make a socket, connect it and close it, in nanoseconds; the machine may be busy, so the best.
const COST: &str = "
import socket, threading, time
listener = socket.create_server(('127.0.0.1', 8000))
def accept():
    while True: listener.accept()[0].close()
threading.Thread(target=accept, daemon=True).start()
def measure(body, n=200):
    def once():
        began = time.perf_counter_ns()
        for _ in range(n): body()
        return (time.perf_counter_ns() - began) // n
    return min(once() for _ in range(20))
def connect():
    with socket.create_connection(('127.0.0.1', 8000)) as s: s.recv(1)
print(measure(lambda: socket.socket().close()), measure(connect))";

fn making_a_socket_takes_microseconds() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    let with = python(&sandbox, COST, &[], &two()[0]);
    let without = ServiceSpec { client_ports: None, ..with.clone() };
    for (what, spec) in [("without", &without), ("with", &with)] {
        let began = Instant::now();
        let service = host.start(&sandbox, spec);
        let started = began.elapsed();
        let times = said(service);
        println!("{what}: started in {started:?}; ns for a socket, and one connected: {times}");
        // Far above what it takes, so that a busy machine passes; a wait of any kind would not.
        assert!(times.split(' ').all(|ns| ns.parse::<u64>().unwrap() < 2_000_000), "{times}");
    }
}
