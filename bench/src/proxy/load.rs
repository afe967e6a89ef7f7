//! The clients, and what is behind the proxies.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::net::{RecvFlags, recv};
use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

use super::{DNS, LIVE, SITE, UPSTREAM, peers::Entry, tables::Turn};

/// How long one turn lasts.
const TURN: Duration = Duration::from_secs(1);
/// Before it is measured: windows grow, connections are made.
const WARM: Duration = Duration::from_millis(200);
/// A proxy that is silent for so long has failed.
const SILENCE: Duration = Duration::from_secs(10);
/// Bytes of one read or write.
const PIECE: usize = 256 * 1024;
/// Bytes of the site's page.
const PAGE: usize = 1024;

/// The live host: takes a hello, then sends as fast as it is taken.
pub fn serve_origin() {
    accept((LIVE.1, 443), |mut stream| {
        let piece = vec![0x5a; PIECE];
        if stream.read(&mut [0; 4096])? > 0 {
            loop {
                stream.write_all(&piece)?;
            }
        }
        Ok(())
    });
}

/// The site: a page for every request.
pub fn serve_upstream() {
    let page = "x".repeat(PAGE);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {PAGE}\r\n\r\n{page}");
    accept(UPSTREAM, move |mut stream| {
        stream.set_nodelay(true)?;
        let (mut bytes, mut filled) = ([0; 4096], 0);
        loop {
            match stream.read(&mut bytes[filled..])? {
                0 => return Ok(()),
                length => filled += length,
            }
            // A request without a body, and one at a time.
            if bytes[..filled].ends_with(b"\r\n\r\n") {
                filled = 0;
                stream.write_all(answer.as_bytes())?;
            }
        }
    });
}

fn accept<A, F>(address: A, serve: F)
where
    A: std::net::ToSocketAddrs,
    F: Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
{
    let listener = TcpListener::bind(address).expect("the namespace is ours");
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            // It ends when its client does.
            thread::spawn(move || drop(serve(stream)));
        }
    });
}

/// A name server that gives every name the live host's address, and no other record.
pub fn serve_names() {
    let socket = UdpSocket::bind((DNS, 53)).expect("the namespace is ours");
    let address: std::net::Ipv4Addr = LIVE.1.parse().expect("an address");
    thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut question) {
            let Some(name) = question[12..length].iter().position(|byte| *byte == 0) else { continue };
            let end = 12 + name + 5;
            let is_a = question[end - 4..end - 2] == [0, 1];
            let mut answer = question[..end].to_vec();
            answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
            if is_a {
                // The name again, A, IN, an hour, four bytes.
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 14, 16, 0, 4]);
                answer.extend(address.octets());
            }
            let _ = socket.send_to(&answer, client);
        }
    });
}

/// The first message of a TLS client.
pub fn client_hello(config: &Arc<ClientConfig>, name: &'static str) -> Vec<u8> {
    let name = ServerName::try_from(name).expect("a name");
    let mut hello = Vec::new();
    let mut connection = ClientConnection::new(config.clone(), name).expect("a client");
    connection.write_tls(&mut hello).expect("memory takes it");
    hello
}

/// Counts of clients that run side by side until they are stopped.
#[derive(Default)]
struct Count {
    amount: AtomicU64,
    stop: AtomicBool,
}

impl Count {
    fn add(&self, amount: usize) {
        self.amount.fetch_add(amount as u64, Ordering::Relaxed);
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Runs so many clients for a turn. Each calls `ready` when it is connected.
fn measure(entry: &Entry, clients: usize, client: impl Fn(&Count, &dyn Fn()) -> io::Result<()> + Sync) -> Turn {
    let (count, all) = (Count::default(), Barrier::new(clients + 1));
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let ran = client(&count, &|| _ = all.wait());
                ran.unwrap_or_else(|error| panic!("a client of {}: {error}", entry.name));
            });
        }
        all.wait();
        thread::sleep(WARM);
        let amount = || count.amount.load(Ordering::Relaxed);
        let (cpu, before, began) = (entry.cpu(), amount(), Instant::now());
        thread::sleep(TURN);
        let (after, took) = (amount(), began.elapsed());
        let cpu = entry.cpu() - cpu;
        count.stop.store(true, Ordering::Relaxed);
        Turn { amount: (after - before) as f64, took, cpu }
    })
}

fn connect(entry: &Entry) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(entry.address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    Ok(stream)
}

/// So many streams from the live host.
pub fn tunnel(entry: &Entry, streams: usize, hello: &[u8]) -> Turn {
    measure(entry, streams, |count, ready| {
        let mut stream = connect(entry)?;
        if let Some(target) = &entry.connect {
            write!(stream, "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n")?;
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte)?;
                head.extend(byte);
            }
            let text = String::from_utf8_lossy(&head);
            assert!(text.get(9..12) == Some("200"), "{}: {text}", entry.name);
        }
        stream.write_all(hello)?;
        let mut piece = vec![0; PIECE];
        stream.read_exact(&mut piece[..1])?;
        ready();
        while count.goes_on() {
            // Taken and not copied: what is left of the processor is the proxy's.
            match recv(&stream, &mut piece[..], RecvFlags::TRUNC)?.0 {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => count.add(length),
            }
        }
        Ok(())
    })
}

fn secure(entry: &Entry, config: &Arc<ClientConfig>) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = ServerName::try_from(SITE).expect("a name");
    let connection = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, connect(entry)?))
}

/// Handshakes, each with one request.
pub fn handshakes(entry: &Entry, config: &Arc<ClientConfig>, clients: usize) -> Turn {
    measure(entry, clients, |count, ready| {
        let one = || ask(&mut secure(entry, config)?, "/", SITE).map(drop);
        // The first mints.
        one()?;
        ready();
        while count.goes_on() {
            one()?;
            count.add(1);
        }
        Ok(())
    })
}

/// Requests on connections that stay: over TLS to the site, or to the gateway.
pub fn requests(entry: &Entry, config: Option<&Arc<ClientConfig>>, clients: usize) -> Turn {
    measure(entry, clients, |count, ready| match config {
        Some(config) => keep_asking(secure(entry, config)?, "/", SITE, count, ready),
        None => keep_asking(connect(entry)?, "/website/shop/", "localhost", count, ready),
    })
}

fn keep_asking(
    mut stream: impl Read + Write,
    path: &str,
    host: &str,
    count: &Count,
    ready: &dyn Fn(),
) -> io::Result<()> {
    let mut answer = vec![0; ask(&mut stream, path, host)?];
    ready();
    while count.goes_on() {
        send(&mut stream, path, host)?;
        // One is as long as the other.
        stream.read_exact(&mut answer)?;
        if !is_good(&answer) || !answer.ends_with(b"xxxx") {
            return Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned()));
        }
        count.add(1);
    }
    Ok(())
}

fn send(stream: &mut impl Write, path: &str, host: &str) -> io::Result<()> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())?;
    stream.flush()
}

/// Asks once; how long the answer is.
fn ask(stream: &mut (impl Read + Write), path: &str, host: &str) -> io::Result<usize> {
    send(stream, path, host)?;
    let mut answer = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece)?;
        answer.extend_from_slice(&piece[..length]);
        let head = answer.windows(4).position(|part| part == b"\r\n\r\n");
        if length == 0 || !is_good(&answer) || head.is_some_and(|head| answer.len() > head + 4 + PAGE) {
            return Err(io::Error::other(String::from_utf8_lossy(&answer).into_owned()));
        }
        if head.is_some_and(|head| answer.len() == head + 4 + PAGE) {
            return Ok(answer.len());
        }
    }
}

fn is_good(answer: &[u8]) -> bool {
    let wanted = b"HTTP/1.1 200";
    answer.iter().zip(wanted).all(|(is, wanted)| is == wanted)
}
