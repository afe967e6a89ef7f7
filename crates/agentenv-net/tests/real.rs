//! Live hosts over a real network that the test makes: a namespace of its own with name server and origins at documentation
//! addresses, so that nothing can go anywhere else (NET-3; ATTACKS rows 26 to 29, 32, 33, 39, 43).

mod common;

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as StdTcpListener},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agentenv_net::{DenyReason, HostNetwork, Limits, RealNetwork, SiteTable};
use agentenv_protocol::{HostPattern, control::SiteTableEntry};
use common::*;
use hickory_proto::{
    op::{Message, MessageType, OpCode, ResponseCode},
    rr::{
        Name as DnsName, RData, Record, RecordType,
        rdata::{A, AAAA, CNAME},
    },
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::watch,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Set in the process that has the network.
const INSIDE: &str = "AGENTENV_TEST_INSIDE";
const DNS: &str = "203.0.113.53";
const ORIGIN: &str = "203.0.113.10";
const PROXY: &str = "203.0.113.99";
const PRIVATE: &str = "10.20.30.40";

/// Runs a test in a network namespace of its own, as whoever runs it.
fn inside<F: Future<Output = ()>>(test: &str, run: impl FnOnce() -> F) {
    if std::env::var_os(INSIDE).is_some() {
        ip(&["link", "set", "lo", "up"]);
        for address in [DNS, ORIGIN, PROXY, PRIVATE] {
            ip(&["addr", "add", &format!("{address}/32"), "dev", "lo"]);
        }
        return tokio::runtime::Runtime::new().unwrap().block_on(run());
    }
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).output().unwrap();
    assert!(done.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Answers of a name, one after the other; the last stays.
type Answers = Vec<Vec<RData>>;

/// A name server that counts what it is asked.
#[derive(Clone, Default)]
struct NameServer {
    names: Arc<Mutex<HashMap<String, Answers>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl NameServer {
    async fn start() -> Self {
        let server = Self::default();
        let socket = UdpSocket::bind((DNS, 53)).await.unwrap();
        let served = server.clone();
        tokio::spawn(async move {
            let mut buffer = [0; 2048];
            while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
                if let Some(answer) = served.answer(&buffer[..length]) {
                    socket.send_to(&answer, client).await.unwrap();
                }
            }
        });
        server
    }

    fn has(&self, name: &str, answers: &[&[&str]]) {
        let data = |text: &&str| match text.parse() {
            Ok(IpAddr::V4(address)) => RData::A(A(address)),
            Ok(IpAddr::V6(address)) => RData::AAAA(AAAA(address)),
            Err(_) => RData::CNAME(CNAME(DnsName::from_ascii(text).unwrap())),
        };
        let answers = answers.iter().map(|answer| answer.iter().map(data).collect()).collect();
        self.names.lock().unwrap().insert(name.to_owned(), answers);
    }

    fn answer(&self, question: &[u8]) -> Option<Vec<u8>> {
        let question = Message::from_vec(question).unwrap();
        let query = question.queries[0].clone();
        let mut name = query.name().to_ascii().trim_end_matches('.').to_ascii_lowercase();
        self.asked.lock().unwrap().push(name.clone());
        let mut answer = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
        answer.metadata.recursion_available = true;
        answer.add_query(query.clone());
        let mut names = self.names.lock().unwrap();
        loop {
            let Some(answers) = names.get_mut(&name) else {
                answer.metadata.response_code = ResponseCode::NXDomain;
                break;
            };
            if answers.is_empty() {
                return None;
            }
            // Both questions of a connection get one answer: it moves on with the second.
            let data = answers[0].clone();
            if answers.len() > 1 && query.query_type() == RecordType::AAAA {
                answers.remove(0);
            }
            let owner = DnsName::from_ascii(format!("{name}.")).unwrap();
            let mut next = None;
            for data in data {
                if let RData::CNAME(target) = &data {
                    next = Some(target.to_ascii().trim_end_matches('.').to_owned());
                } else if data.record_type() != query.query_type() {
                    continue;
                }
                answer.add_answer(Record::from_rdata(owner.clone(), 0, data));
            }
            match next {
                Some(next) => name = next,
                None => break,
            }
        }
        answer.to_vec().ok()
    }
}

/// A site of the real internet: TLS for its names on 443, plain HTTP on 80.
struct Real {
    certificate: CertificateDer<'static>,
    tls: Arc<AtomicUsize>,
    http: Echo,
}

impl Real {
    async fn start(names: &[&str]) -> Self {
        let made = rcgen::generate_simple_self_signed(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        let made = made.unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        let listener = TcpListener::bind((ORIGIN, 443)).await.unwrap();
        let tls = Arc::new(AtomicUsize::new(0));
        let (counted, acceptor) = (tls.clone(), TlsAcceptor::from(Arc::new(config)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(stream).await?;
                    let mut request = vec![0; 4096];
                    let length = stream.read(&mut request).await?;
                    stream.write_all(&with_headers("Connection: close\r\n", "real ")).await?;
                    stream.write_all(&request[..length]).await?;
                    stream.shutdown().await
                });
            }
        });
        let http = Echo::new(|request| {
            if request.starts_with("GET /h2c") {
                let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
                return Reply::Mirror(head.into());
            }
            if request.to_ascii_lowercase().contains("upgrade: websocket") {
                let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
                return Reply::Mirror(head.into());
            }
            if request.starts_with("GET /framed-twice") {
                let chunked = "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n";
                return Reply::Bytes(
                    format!("HTTP/1.1 200 OK\r\n{chunked}8\r\nall of i\r\n1\r\nt\r\n0\r\n\r\n").into_bytes(),
                );
            }
            if request.starts_with("GET /inside") {
                return Reply::Bytes(
                    b"HTTP/1.1 302 Found\r\nLocation: http://10.20.30.40/\r\nContent-Length: 0\r\n\r\n".to_vec(),
                );
            }
            Reply::Bytes(ok("real"))
        })
        .await;
        forward((ORIGIN, 80), http.address).await;
        Self { certificate, tls, http }
    }

    fn connections(&self) -> usize {
        self.tls.load(Ordering::SeqCst)
    }

    /// A client that trusts this site and nothing else.
    fn client(&self) -> TlsConnector {
        trusting(self.certificate.clone(), &[])
    }
}

async fn forward(from: (&str, u16), to: SocketAddr) {
    let listener = TcpListener::bind(from).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut onward = TcpStream::connect(to).await?;
                tokio::io::copy_bidirectional(&mut stream, &mut onward).await
            });
        }
    });
}

/// Listens where nothing may arrive.
fn trap(address: &str, port: u16) -> StdTcpListener {
    let trap = StdTcpListener::bind((address, port)).unwrap();
    trap.set_nonblocking(true).unwrap();
    trap
}

fn assert_untouched(trap: &StdTcpListener) {
    assert_eq!(trap.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "something arrived");
}

struct World {
    deploy: Deploy,
    names: NameServer,
    real: Real,
    browser: Browser,
}

fn table(live: &[&str]) -> SiteTable {
    let entries = [("shop.test", "shop"), ("gist.github.com", "tracker")].map(|(pattern, website)| SiteTableEntry {
        pattern: HostPattern::parse(pattern).unwrap(),
        website: name(website),
    });
    SiteTable::new(entries).with_live_hosts(live.iter().map(|pattern| HostPattern::parse(pattern).unwrap()))
}

impl World {
    async fn new() -> Self {
        Self::with(limits(), None).await
    }

    async fn with(limits: Limits, proxy: Option<&str>) -> Self {
        let (names, real) = (NameServer::start().await, Real::start(&["github.com", "api.github.com"]).await);
        names.has("github.com", &[&[ORIGIN]]);
        names.has("api.github.com", &[&["github.com."]]);
        names.has("gist.github.com", &[&[ORIGIN]]);
        let host = HostNetwork {
            dns_servers: vec![SocketAddr::from((DNS.parse::<Ipv4Addr>().unwrap(), 53))],
            proxy: proxy.map(|proxy| proxy.parse().unwrap()),
        };
        let network = RealNetwork::new(&host, limits.real_connect).unwrap();
        let deploy = Deploy::with(limits, Echo::labelled("shop").await).await;
        let table = Arc::new(table(&["github.com", "*.github.com"]));
        let browser = deploy.browser_with(table, Some(Arc::new(network)));
        Self { deploy, names, real, browser }
    }

    async fn connect(&self, target: &str) -> (String, TcpStream) {
        connect(self.browser.forward, target).await
    }

    /// A request over TLS that the real site ends.
    async fn https(&self, stream: TcpStream, sni: &str) -> std::io::Result<String> {
        let name = ServerName::try_from(sni.to_owned()).unwrap();
        let mut stream = within(self.real.client().connect(name, stream)).await?;
        stream.write_all(format!("GET / HTTP/1.1\r\nHost: {sni}\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        within(stream.read_to_string(&mut answer)).await?;
        Ok(answer)
    }

    fn last_denied(&self) -> (String, u16, DenyReason) {
        self.deploy.denied.entries().pop().expect("nothing was denied")
    }
}

#[test]
fn a_live_host_is_tunnelled_untouched_and_a_synthetic_name_within_wins() {
    inside("a_live_host_is_tunnelled_untouched_and_a_synthetic_name_within_wins", || async {
        let world = World::new().await;
        for name in ["github.com", "api.github.com", "GitHub.com."] {
            let (head, stream) = world.connect(&format!("{name}:443")).await;
            assert_eq!(status(&head), 200, "{head}");
            let sni = name.trim_end_matches('.').to_ascii_lowercase();
            let answer = world.https(stream, &sni).await.unwrap();
            assert!(answer.contains("real GET / HTTP/1.1"), "{answer}");
        }
        assert_eq!(world.real.connections(), 3);
        // Of the same wildcard, and it resolves too: the site answers with the deploy's own certificate.
        let (head, stream) = world.connect("gist.github.com:443").await;
        assert_eq!(status(&head), 200);
        let error = world.https(stream, "gist.github.com").await.unwrap_err();
        assert!(error.to_string().contains("certificate"), "{error}");
        assert_eq!(world.real.connections(), 3);
        for denied in ["example.com:443", "notgithub.com:443", "github.com.evil.test:443"] {
            assert_eq!(status(&world.connect(denied).await.0), 403, "{denied}");
        }
        assert!(!world.names.asked.lock().unwrap().iter().any(|name| name.contains("gist") || name.contains("evil")));
    });
}

#[test]
fn row_29_a_tunnel_for_one_live_name_takes_no_other() {
    inside("row_29_a_tunnel_for_one_live_name_takes_no_other", || async {
        let world = World::new().await;
        for sni in ["api.github.com", "gist.github.com", "example.com"] {
            let (_, stream) = world.connect("github.com:443").await;
            world.https(stream, sni).await.unwrap_err();
            let (host, port, reason) = world.last_denied();
            assert_eq!((host.as_str(), port), (sni, 443));
            assert!(matches!(reason, DenyReason::OtherSni { .. }), "{reason}");
        }
        let (_, mut stream) = world.connect("github.com:443").await;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: github.com\r\n\r\n").await.unwrap();
        let mut rest = Vec::new();
        let _ = within(stream.read_to_end(&mut rest)).await;
        assert!(rest.is_empty() && world.last_denied().2 == DenyReason::NoHandshake);
    });
}

#[test]
fn row_31_a_client_hello_to_a_live_host_may_be_cut_anywhere() {
    inside("row_31_a_client_hello_to_a_live_host_may_be_cut_anywhere", || async {
        let world = World::new().await;
        // The bytes of a real client, written one at a time.
        let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
        let name = ServerName::try_from("github.com").unwrap();
        let client = tokio::spawn(world.real.client().connect(name, theirs));
        let mut hello = vec![0; 4096];
        let length = ours.read(&mut hello).await.unwrap();
        let (_, mut stream) = world.connect("github.com:443").await;
        for byte in &hello[..length] {
            stream.write_all(&[*byte]).await.unwrap();
        }
        let (mut a, mut b) = (ours, stream);
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut a, &mut b).await });
        within(client).await.unwrap().unwrap();
    });
}

#[test]
fn rows_26_to_28_a_name_that_is_not_public_is_denied_and_nothing_is_sent_there() {
    inside("rows_26_to_28_a_name_that_is_not_public_is_denied_and_nothing_is_sent_there", || async {
        let world = World::new().await;
        let traps = [trap(PRIVATE, 443), trap(PRIVATE, 80), trap("127.0.0.1", 443), trap("127.0.0.1", 80)];
        world.names.has("private.github.com", &[&[PRIVATE]]);
        world.names.has("mixed.github.com", &[&[ORIGIN, PRIVATE]]);
        world.names.has("mixed6.github.com", &[&[ORIGIN, "fd00::1"]]);
        world.names.has("mapped.github.com", &[&["::ffff:10.20.30.40"]]);
        world.names.has("loop.github.com", &[&["127.0.0.1"]]);
        world.names.has("cname.github.com", &[&["intranet.corp."]]);
        world.names.has("intranet.corp", &[&[PRIVATE]]);
        for name in ["private", "mixed", "mixed6", "mapped", "loop", "cname"] {
            let name = format!("{name}.github.com");
            let (head, _) = world.connect(&format!("{name}:443")).await;
            assert_eq!(status(&head), 403, "{name}");
            assert_eq!(world.last_denied(), (name.clone(), 443, DenyReason::NotPublic));
            let answer = raw(world.browser.forward, &get(&format!("http://{name}/"), &name, "")).await;
            assert!(status(&answer) == 403 && !answer.contains(PRIVATE), "{answer}");
        }
        // Resolved anew for each connection: the first goes through, the second name's second answer never does.
        world.names.has("rebind.github.com", &[&[ORIGIN], &["127.0.0.1"]]);
        assert_eq!(status(&world.connect("rebind.github.com:443").await.0), 200);
        assert_eq!(status(&world.connect("rebind.github.com:443").await.0), 403);
        let asked = world.names.asked.lock().unwrap().iter().filter(|name| *name == "rebind.github.com").count();
        assert_eq!(asked, 4, "an A and an AAAA question for each connection, and no more");
        traps.iter().for_each(assert_untouched);
    });
}

#[test]
fn row_33_an_absolute_url_goes_on_as_its_path_with_the_right_host() {
    inside("row_33_an_absolute_url_goes_on_as_its_path_with_the_right_host", || async {
        let world = World::new().await;
        let secrets = "Proxy-Authorization: Basic eA==\r\nProxy-Connection: keep-alive\r\nConnection: close, x-mine\r\nX-Mine: 1\r\n\
                       Agentenv-Site-Key: k\r\nAgentenv-Control-Token: t\r\nAuthorization: token abc\r\n";
        let body = "POST http://github.com/login?a=b HTTP/1.1\r\nHost: github.com\r\nContent-Length: 5\r\n";
        let answer = raw(world.browser.forward, &format!("{body}{secrets}\r\nhello")).await;
        assert!(status(&answer) == 200 && answer.ends_with("real"), "{answer}");
        let seen = world.real.http.last().to_ascii_lowercase();
        assert!(seen.starts_with("post /login?a=b http/1.1\r\n") && seen.ends_with("hello"), "{seen}");
        assert!(seen.contains("\r\nhost: github.com\r\n") && seen.contains("authorization: token abc"), "{seen}");
        for gone in ["proxy-", "x-mine", "agentenv", "x-forwarded", "http://"] {
            assert!(!seen.contains(gone), "{gone} in {seen}");
        }
        // A port other than 80, and a Host that differs, are as for synthetic names (rows 15, 32).
        for (target, host, code) in
            [("http://github.com:22/", "github.com:22", 403), ("http://github.com/", "api.github.com", 400)]
        {
            assert_eq!(status(&raw(world.browser.forward, &get(target, host, "")).await), code, "{target}");
        }
        assert_eq!(status(&world.connect("github.com:22").await.0), 403);
        // Row 43: where a redirect leads is for the client to ask for, and then it is decided anew.
        let answer = raw(world.browser.forward, &get("http://github.com/inside", "github.com", "")).await;
        assert!(status(&answer) == 302 && answer.contains("http://10.20.30.40/"), "{answer}");
        assert_eq!(status(&raw(world.browser.forward, &get("http://10.20.30.40/", PRIVATE, "")).await), 403);
    });
}

#[test]
fn an_answer_of_a_real_host_is_framed_once_and_a_websocket_becomes_nothing_else() {
    inside("an_answer_of_a_real_host_is_framed_once_and_a_websocket_becomes_nothing_else", || async {
        let world = World::new().await;
        let answer = raw(world.browser.forward, &get("http://github.com/framed-twice", "github.com", "")).await;
        assert!(status(&answer) == 200 && !answer.to_ascii_lowercase().contains("content-length"), "{answer}");
        assert!(answer.contains("all of i"), "{answer}");
        let upgrade = "GET /h2c HTTP/1.1\r\nHost: github.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        let mut stream = TcpStream::connect(world.browser.http_at("github.com")).await.unwrap();
        stream.write_all(upgrade.as_bytes()).await.unwrap();
        assert_eq!(status(&read_head(&mut stream).await), 502);
    });
}

#[test]
fn an_upload_to_a_real_host_may_take_longer_than_its_answer_while_it_goes_on() {
    inside("an_upload_to_a_real_host_may_take_longer_than_its_answer_while_it_goes_on", || async {
        let limit = Duration::from_millis(600);
        let world = World::with(Limits { answer: limit, ..limits() }, None).await;
        let mut stream = TcpStream::connect(world.browser.forward).await.unwrap();
        let (pieces, host) = (8, "Host: github.com\r\nConnection: close\r\n");
        let head = format!("POST http://github.com/upload HTTP/1.1\r\n{host}Content-Length: {pieces}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..pieces {
            // Twice the limit in all: that is what is tested.
            tokio::time::sleep(limit / 4).await;
            stream.write_all(b"x").await.unwrap();
        }
        assert_eq!(status(&read_head(&mut stream).await), 200);
    });
}

#[test]
fn placed_sockets_lead_to_live_hosts_as_the_forward_port_does() {
    inside("placed_sockets_lead_to_live_hosts_as_the_forward_port_does", || async {
        let world = World::new().await;
        let stream = TcpStream::connect(world.browser.https_at("github.com")).await.unwrap();
        assert!(world.https(stream, "github.com").await.unwrap().contains("real "));
        let answer = raw(world.browser.http_at("api.github.com"), &get("/x", "api.github.com", "")).await;
        assert!(answer.ends_with("real") && world.real.http.last().starts_with("GET /x HTTP/1.1"), "{answer}");
        let answer = raw(world.browser.http_at("api.github.com"), &get("/x", "github.com", "")).await;
        assert_eq!(status(&answer), 421);
        let upgrade = "GET /socket HTTP/1.1\r\nHost: github.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        let mut stream = TcpStream::connect(world.browser.http_at("github.com")).await.unwrap();
        stream.write_all(upgrade.as_bytes()).await.unwrap();
        assert_eq!(status(&read_head(&mut stream).await), 101);
        stream.write_all(b"frame").await.unwrap();
        let mut frame = [0; 5];
        within(stream.read_exact(&mut frame)).await.unwrap();
        assert_eq!(&frame, b"frame");
        // A live name's address is one of ours, asked for or not; nothing went upstream for it (row 39).
        world.names.asked.lock().unwrap().clear();
        assert!(world.browser.book.address_of(&host("data.exfiltrated.github.com")).is_some());
        assert!(world.names.asked.lock().unwrap().is_empty());
    });
}

#[test]
fn what_cannot_be_reached_is_told_apart() {
    inside("what_cannot_be_reached_is_told_apart", || async {
        let short = Limits { real_connect: Duration::from_millis(400), ..limits() };
        let world = World::with(short, None).await;
        world.names.has("refused.github.com", &[&[DNS]]);
        world.names.has("silent.github.com", &[]);
        for (name, code, told) in [
            ("refused.github.com", 502, "can't be reached: refused.github.com"),
            ("nowhere.github.com", 502, "has no address: nowhere.github.com"),
            ("silent.github.com", 504, "did not answer in time: silent.github.com"),
        ] {
            let (head, mut stream) = world.connect(&format!("{name}:443")).await;
            let mut body = String::new();
            within(stream.read_to_string(&mut body)).await.unwrap();
            assert!(status(&head) == code && body.contains(told), "{head}{body}");
        }
    });
}

#[test]
fn row_65_an_idle_tunnel_to_a_live_host_ends() {
    inside("row_65_an_idle_tunnel_to_a_live_host_ends", || async {
        let world = World::with(Limits { tunnel_idle: Duration::from_millis(200), ..limits() }, None).await;
        let (_, stream) = world.connect("github.com:443").await;
        let name = ServerName::try_from("github.com").unwrap();
        let mut stream = within(world.real.client().connect(name, stream)).await.unwrap();
        // The site says nothing before it is asked, nor does the client.
        assert!(matches!(within(stream.read(&mut [0])).await, Ok(0) | Err(_)));
    });
}

#[test]
fn an_upstream_proxy_gets_the_names_and_its_own_password() {
    inside("an_upstream_proxy_gets_the_names_and_its_own_password", || async {
        let (heads, mut seen) = watch::channel(String::new());
        let listener = TcpListener::bind((PROXY, 3128)).await.unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let head = read_head(&mut stream).await;
                let refused = head.contains("forbidden");
                heads.send_replace(head);
                let answer =
                    if refused { "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n" } else { "HTTP/1.1 200 Yes\r\n\r\n" };
                stream.write_all(answer.as_bytes()).await.unwrap();
                if !refused {
                    let mut origin = TcpStream::connect((ORIGIN, 443)).await.unwrap();
                    tokio::spawn(async move { tokio::io::copy_bidirectional(&mut stream, &mut origin).await });
                }
            }
        });
        let world = World::with(limits(), Some("http://us:p%40ss@203.0.113.99:3128")).await;
        let (head, stream) = world.connect("github.com:443").await;
        assert_eq!(status(&head), 200);
        assert!(world.https(stream, "github.com").await.unwrap().contains("real "));
        let proxied = seen.borrow_and_update().to_ascii_lowercase();
        assert!(proxied.starts_with("connect github.com:443 http/1.1\r\n"), "{proxied}");
        assert!(proxied.contains("proxy-authorization: basic dxm6cebzcw=="), "{proxied}");
        assert!(world.names.asked.lock().unwrap().is_empty());
        let (head, mut stream) = world.connect("forbidden.github.com:443").await;
        let mut body = String::new();
        within(stream.read_to_string(&mut body)).await.unwrap();
        assert!(status(&head) == 502 && !body.contains("403"), "{head}{body}");
    });
}
