//! Placed sockets.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream},
    os::fd::{AsFd as _, BorrowedFd},
    time::Instant,
};

use agentenv_sandbox::{NetworkKind, Sandbox};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{probe, support::*};

crate::trials![
    a_service_is_reached_through_a_placed_socket,
    a_wildcard_listener_answers_for_every_name_of_a_browser,
    placed_sockets_come_unconnected_and_do_not_block,
    row_89_a_site_that_never_accepts_holds_up_nobody,
    row_93_no_placed_address_can_be_stolen,
    pods_do_not_reach_each_other,
];

fn connect(sandbox: &Sandbox, port: u16) -> TcpStream {
    let socket = sandbox.tcp(1).unwrap().remove(0);
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => panic!("connect: {error}"),
    }
    wait(socket.as_fd(), PollFlags::OUT);
    rustix::net::sockopt::socket_error(&socket).unwrap().unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(false).unwrap();
    stream
}

fn wait(fd: BorrowedFd<'_>, events: PollFlags) {
    let ready = poll(&mut [PollFd::new(&fd, events)], Some(&Timespec { tv_sec: 30, tv_nsec: 0 })).unwrap();
    assert_eq!(ready, 1);
}

/// A placed listener, as the supervisor makes them: bound from the host's side.
fn listen(sandbox: &Sandbox, address: &str) -> TcpListener {
    let socket = sandbox.tcp(1).unwrap().remove(0);
    let address: SocketAddrV4 = address.parse().unwrap();
    rustix::net::bind(&socket, &address).unwrap();
    rustix::net::listen(&socket, 16).unwrap();
    let listener = TcpListener::from(socket);
    listener.set_nonblocking(false).unwrap();
    listener
}

fn a_service_is_reached_through_a_placed_socket() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    // Port 80, without a capability.
    let mut service = host.start(&sandbox, &spec(&sandbox, &[PROBE, probe::COMMAND, "listen", "0.0.0.0:80"]));
    assert_eq!(line(&mut service), "listening");
    assert!(TcpStream::connect("127.0.0.1:80").is_err(), "nothing of it is on the host");
    let mut stream = connect(&sandbox, 80);
    stream.write_all(b"hello").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "HELLO");
}

fn a_wildcard_listener_answers_for_every_name_of_a_browser() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Browser);
    // We own the namespace, so a low port needs no privilege of ours on the host.
    let listener = listen(&sandbox, "0.0.0.0:443");
    for address in ["198.18.0.1", "198.18.77.3", "198.19.255.254"] {
        let target = format!("{address}:443");
        let service = host.start(&sandbox, &spec(&sandbox, &[PROBE, probe::COMMAND, "connect", &target]));
        wait(listener.as_fd(), PollFlags::IN);
        let (mut stream, _) = listener.accept().unwrap();
        assert_eq!(stream.local_addr().unwrap().to_string(), target);
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        stream.write_all(b"from outside").unwrap();
        drop(stream);
        assert_eq!((text.as_str(), finish(service).stdout.trim()), ("hello", "from outside"));
    }
    // The address after the range leads nowhere.
    let past = host.output(&sandbox, &["curl", "-sS", "-m", "5", "http://198.20.0.1/"]);
    assert_eq!(past.exit, agentenv_sandbox::ExitInfo::Code(7), "{}", past.stderr);
}

fn placed_sockets_come_unconnected_and_do_not_block() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Pod);
    // More than one message carries.
    let sockets = sandbox.tcp(300).unwrap();
    assert_eq!(sockets.len(), 300);
    for socket in &sockets {
        assert!(rustix::net::getpeername(socket).is_err());
        assert!(rustix::fs::fcntl_getfl(socket).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
        assert!(rustix::io::fcntl_getfd(socket).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }
    assert_eq!(sandbox.udp(3).unwrap().len(), 3);
    assert!(sandbox.tcp(0).unwrap().is_empty());
}

fn row_89_a_site_that_never_accepts_holds_up_nobody() {
    let host = Host::new();
    let (deaf, other) = (host.create(NetworkKind::Pod), host.create(NetworkKind::Pod));
    let mut holding = host.start(&deaf, &spec(&deaf, &[PROBE, probe::COMMAND, "hold", "127.0.0.1:8000"]));
    assert_eq!(line(&mut holding), "listening");
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8000);
    let mut kept = Vec::new();
    let begin = Instant::now();
    for socket in deaf.tcp(600).unwrap() {
        // Past the backlog they stay in progress; nobody waits for them.
        let _ = rustix::net::connect(&socket, &address);
        kept.push(socket);
    }
    assert!(begin.elapsed().as_secs() < 10, "the broker waited");
    assert_eq!(deaf.tcp(10).unwrap().len(), 10);
    let mut service = host.start(&other, &spec(&other, &[PROBE, probe::COMMAND, "listen", "127.0.0.1:8000"]));
    assert_eq!(line(&mut service), "listening");
    drop(connect(&other, 8000));
}

fn row_93_no_placed_address_can_be_stolen() {
    let host = Host::new();
    let sandbox = host.create(NetworkKind::Browser);
    let _listeners = ["0.0.0.0:443", "0.0.0.0:8443", "127.0.0.9:3128"].map(|address| listen(&sandbox, address));
    let dns = sandbox.udp(2).unwrap();
    for (socket, address) in dns.iter().zip(["127.0.0.9:53", "127.0.0.9:5353"]) {
        rustix::net::bind(socket, &address.parse::<SocketAddrV4>().unwrap()).unwrap();
    }
    let taken = ["198.18.0.5:443", "0.0.0.0:443", "198.18.0.5:8443", "127.0.0.9:3128", "0.0.0.0:3128", "127.0.0.9:53"];
    let text = host.probe(&sandbox, &[&["bind"], &taken[..]].concat());
    let outcomes: Vec<_> = text.lines().map(|line| line.rsplit_once(' ').unwrap()).collect();
    // A stream and a datagram socket each; where we placed the other kind alone, the address is free to bind.
    for (index, (address, outcome)) in outcomes.iter().enumerate() {
        let low = address.ends_with(":443") || address.ends_with(":53");
        let ours = index % 2 == 0;
        match (low, ours) {
            (true, _) => assert_eq!(*outcome, "EACCES", "{address}"),
            (false, true) => assert_eq!(*outcome, "EADDRINUSE", "{address}"),
            (false, false) => assert_eq!(*outcome, "ok", "{address}"),
        }
    }
    let text = host.probe(&sandbox, &["bind", "127.0.0.9:5353"]);
    assert!(text.ends_with("EADDRINUSE"), "{text}");
}

fn pods_do_not_reach_each_other() {
    let host = Host::new();
    let (one, other) = (host.create(NetworkKind::Pod), host.create(NetworkKind::Pod));
    let mut service = host.start(&one, &spec(&one, &[PROBE, probe::COMMAND, "listen", "0.0.0.0:8000"]));
    assert_eq!(line(&mut service), "listening");
    let curl = ["curl", "-sS", "-m", "5", "http://127.0.0.1:8000/"];
    assert_eq!(host.output(&other, &curl).exit, agentenv_sandbox::ExitInfo::Code(7));
    // In its own pod it is on localhost, for another service too.
    let service_too = host.start(&one, &spec(&one, &[PROBE, probe::COMMAND, "connect", "127.0.0.1:8000"]));
    assert_eq!(finish(service_too).stdout.trim(), "HELLO");
}
