//! What the fuzz targets in `fuzz/` drive: everything that bytes from a sandbox reach first. Not for anybody else.

use std::{
    net::Ipv4Addr,
    sync::{Arc, LazyLock},
    time::Duration,
};

use agentenv_protocol::{HostName, HostPattern, Name, SandboxName, control::SiteTableEntry};
use hickory_proto::op::{Message, ResponseCode};
use http::Response;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::Runtime,
};

use crate::{
    AddressBook, DeniedLog, DenyReason, Limits, SiteTable, body,
    browser_net::real::{ClientHello, client_hello as client_hello_of},
    dns::Resolver,
    headers::authority,
    life::LifeOwner,
    serve,
};

/// Polled by hand, without threads: each input costs what it does and nothing else.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime without I/O needs nothing")
});

struct Nowhere;

impl DeniedLog for Nowhere {
    fn denied(&self, _: &SandboxName, host: &str, _: u16, _: &DenyReason) {
        assert!(!host.chars().any(char::is_control), "a log line with control characters");
    }
}

/// A TLS client's first bytes: read to a name or refused, never more than the limit, and passed on as they came.
pub fn client_hello(data: &[u8]) {
    RUNTIME.block_on(async {
        let mut stream = data;
        if let Ok(ClientHello { sni, bytes }) = client_hello_of(&mut stream).await {
            assert!(data.starts_with(&bytes), "what is passed on is not what came");
            if let Some(sni) = sni {
                let _ = HostName::parse(&sni);
            }
        }
    });
}

/// A DNS message: answered or not, and an answer is one, with the question's id, with addresses of ours only.
pub fn dns_message(data: &[u8]) {
    static RESOLVER: LazyLock<Resolver> = LazyLock::new(|| {
        let pattern = |text: &str| HostPattern::parse(text).expect("a pattern");
        let entry = |text| SiteTableEntry { pattern: pattern(text), website: Name::parse("shop").expect("a name") };
        let table = Arc::new(
            SiteTable::new([entry("shop.test"), entry("*.shop.test")]).with_live_hosts([pattern("*.github.com")]),
        );
        Resolver {
            sandbox: SandboxName::parse("browser").expect("a name"),
            book: Arc::new(AddressBook::new(&table)),
            table,
            denied: Arc::new(Nowhere),
            direct: true,
        }
    });
    let Some(answer) = RESOLVER.answer(data) else { return };
    let message = Message::from_vec(&answer).expect("an answer is a DNS message");
    assert_eq!(answer[..2], data[..2], "the question's id");
    for record in &message.answers {
        let address = record.data.ip_addr().expect("only addresses are answered");
        let std::net::IpAddr::V4(address) = address else { panic!("an IPv6 address") };
        assert_eq!(address.octets()[..2], Ipv4Addr::new(198, 18, 0, 0).octets()[..2], "an address of ours");
        assert_eq!(message.metadata.response_code, ResponseCode::NoError);
    }
}

/// What a client sends to an HTTP/1 listener: requests that have one meaning reach a handler, the rest is refused and closed.
pub fn http_head(data: &[u8]) {
    RUNTIME.block_on(async {
        let (mut client, server) = tokio::io::duplex(256 * 1024);
        let owner = LifeOwner::new(Duration::ZERO);
        let life = owner.life();
        let limits = Limits { head: Duration::from_millis(50), write: Duration::from_millis(50), ..Limits::default() };
        let serving = serve::http1(server, &limits, &life, |request| async move {
            // One Host, on one line, and one body: what a handler gets was framed in one way only.
            if let Ok(host) = authority(&request) {
                assert!(!host.contains(['\r', '\n', '\0']), "{host:?}");
            }
            let lengths = request.headers().get_all(http::header::CONTENT_LENGTH).iter().count();
            let chunked = request.headers().contains_key(http::header::TRANSFER_ENCODING);
            assert!(lengths <= 1 && !(lengths == 1 && chunked), "a body of two lengths");
            Response::new(body::empty())
        });
        let talking = async {
            let _ = client.write_all(data).await;
            let _ = client.shutdown().await;
            let mut answer = Vec::new();
            let _ = client.read_to_end(&mut answer).await;
        };
        let both = async { tokio::join!(serving, talking) };
        let _ = tokio::time::timeout(Duration::from_secs(5), both).await.expect("a connection that is over ends");
    });
}
