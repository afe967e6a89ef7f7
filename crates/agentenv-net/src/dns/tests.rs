use std::{net::Ipv4Addr, sync::Mutex};

use agentenv_protocol::{HostPattern, Name, control::SiteTableEntry};
use hickory_proto::rr::Name as DnsName;

use super::*;
use crate::life::LifeOwner;

#[derive(Default)]
struct Denied(Mutex<Vec<(String, u16, DenyReason)>>);

impl DeniedLog for Denied {
    fn denied(&self, _: &SandboxName, host: &str, port: u16, reason: &DenyReason) {
        self.0.lock().unwrap().push((host.to_owned(), port, reason.clone()));
    }
}

fn resolver() -> (Resolver, Arc<Denied>) {
    let table = Arc::new(SiteTable::new(["shop.test", "*.w.test"].map(|pattern| SiteTableEntry {
        pattern: HostPattern::parse(pattern).unwrap(),
        website: Name::parse("shop").unwrap(),
    })));
    let denied = Arc::new(Denied::default());
    let book = Arc::new(AddressBook::new(&table));
    (
        Resolver {
            sandbox: SandboxName::parse("browser").unwrap(),
            table,
            book,
            denied: denied.clone(),
            direct: false,
        },
        denied,
    )
}

fn question(name: &str, record: RecordType) -> Vec<u8> {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(DnsName::from_ascii(name).unwrap(), record));
    message.to_vec().unwrap()
}

fn ask(resolver: &Resolver, name: &str, record: RecordType) -> (ResponseCode, Vec<Ipv4Addr>) {
    let answer = Message::from_vec(&resolver.answer(&question(name, record)).unwrap()).unwrap();
    assert_eq!((answer.metadata.id, answer.queries.len()), (7, 1));
    let addresses = answer.answers.iter().map(|record| match &record.data {
        RData::A(address) => address.0,
        other => panic!("{other}"),
    });
    (answer.metadata.response_code, addresses.collect())
}

#[test]
fn known_names_have_an_address_and_nothing_else() {
    let (resolver, denied) = resolver();
    for name in ["shop.test.", "SHOP.test."] {
        assert_eq!(ask(&resolver, name, RecordType::A), (ResponseCode::NoError, vec![[198, 18, 0, 1].into()]));
    }
    assert_eq!(ask(&resolver, "a.w.test.", RecordType::A), (ResponseCode::NoError, vec![[198, 18, 0, 2].into()]));
    for record in [RecordType::AAAA, RecordType::HTTPS, RecordType::TXT, RecordType::MX, RecordType::ANY] {
        assert_eq!(ask(&resolver, "shop.test.", record), (ResponseCode::NoError, vec![]), "{record}");
    }
    assert!(denied.0.lock().unwrap().is_empty());
}

#[test]
fn row_39_names_that_no_website_has_do_not_exist_and_are_logged() {
    let (resolver, denied) = resolver();
    let long = format!("{0}.{0}.evil.example.", "a".repeat(63));
    let names = ["example.com.", "w.test.", "localhost.", "1.0.18.198.in-addr.arpa.", ".", &long];
    for (name, record) in names.iter().zip([
        RecordType::A,
        RecordType::TXT,
        RecordType::A,
        RecordType::PTR,
        RecordType::NS,
        RecordType::NULL,
    ]) {
        assert_eq!(ask(&resolver, name, record), (ResponseCode::NXDomain, vec![]), "{name}");
    }
    let denied = denied.0.lock().unwrap();
    assert_eq!(denied.len(), names.len());
    assert_eq!(denied[0], ("example.com".to_owned(), 0, DenyReason::NotAllowed));
    assert_eq!(denied[2].2, DenyReason::Localhost);
}

#[test]
fn malformed_messages_get_formerr_or_nothing() {
    let (resolver, _) = resolver();
    let good = question("shop.test.", RecordType::A);
    let code = |message: &[u8]| {
        resolver.answer(message).map(|answer| Message::from_vec(&answer).unwrap().metadata.response_code)
    };
    assert_eq!(code(&good[..5]), None);
    assert_eq!(code(&good[..good.len() - 3]), Some(ResponseCode::FormErr));
    let mut answer = good.clone();
    answer[2] |= 0x80;
    assert_eq!(code(&answer), None);
    let mut update = good.clone();
    update[2] |= 5 << 3;
    assert!(matches!(code(&update), Some(ResponseCode::NotImp | ResponseCode::FormErr)));
    let mut none = good[..HEADER_BYTES].to_vec();
    none[5] = 0;
    assert_eq!(code(&none), Some(ResponseCode::FormErr));
    let mut chaos = good.clone();
    *chaos.last_mut().unwrap() = 3;
    assert_eq!(code(&chaos), Some(ResponseCode::Refused));
}

#[tokio::test]
async fn it_answers_over_udp_and_tcp() {
    let (resolver, _) = resolver();
    let owner = LifeOwner::new(std::time::Duration::from_millis(100));
    let udp = StdUdpSocket::bind("127.0.0.1:0").unwrap();
    let udp_at = udp.local_addr().unwrap();
    resolver.clone().serve_udp(udp, &owner.life()).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.send_to(b"junk", udp_at).await.unwrap();
    client.send_to(&question("shop.test.", RecordType::A), udp_at).await.unwrap();
    let mut buffer = [0; 512];
    let (length, _) = client.recv_from(&mut buffer).await.unwrap();
    assert_eq!(Message::from_vec(&buffer[..length]).unwrap().answers.len(), 1);

    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp_at = tcp.local_addr().unwrap();
    crate::serve::accept(tcp, &owner.life(), tracing::Span::none(), move |stream| resolver.clone().serve_tcp(stream))
        .unwrap();
    let mut client = TcpStream::connect(tcp_at).await.unwrap();
    for _ in 0..2 {
        let asked = question("shop.test.", RecordType::A);
        client.write_u16(u16::try_from(asked.len()).unwrap()).await.unwrap();
        client.write_all(&asked).await.unwrap();
        let mut answer = vec![0; client.read_u16().await.unwrap().into()];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(Message::from_vec(&answer).unwrap().answers.len(), 1);
    }
    client.write_u16(60_000).await.unwrap();
    assert_eq!(client.read(&mut buffer).await.unwrap(), 0, "a length beyond the limit closes");
    owner.end().await;
}
