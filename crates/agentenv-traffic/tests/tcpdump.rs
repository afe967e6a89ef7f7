//! What real programs say to each other, as tcpdump captures it.

use std::{fs::File, path::Path, process::Command};

use agentenv_protocol::{Name, TrafficRing, TrafficService};
use agentenv_traffic::{CaptureFile, Exchange, HarWriter, Options, Record, RingTraffic, merge};

fn ring() -> TrafficRing {
    let service =
        |name: &str, port, client_ports| TrafficService { name: Name::parse(name).unwrap(), port, client_ports };
    TrafficRing {
        website: Name::parse("shop").unwrap(),
        services: vec![service("server", 8000, None), service("frontend", 8080, Some((21_000, 21_000)))],
        gateway_address: "127.0.0.2".parse().unwrap(),
        recording: false,
        files: 1,
        file_bytes: 1,
        dropped: 0,
        gaps: Vec::new(),
    }
}

fn exchanges(file: &Path, options: Options) -> Vec<Exchange> {
    let file = CaptureFile { name: "shop.1.pcap".to_owned(), bytes: File::open(file).unwrap() };
    let mut traffic = merge(vec![RingTraffic::new(ring(), std::iter::once(Ok(file)), options)]);
    let exchanges = traffic
        .by_ref()
        .filter_map(|record| match record.unwrap() {
            Record::Exchange(exchange) => Some(*exchange),
            Record::Flow(flow) => {
                assert_eq!(flow.lost_bytes, 0, "{flow:?}");
                None
            }
        })
        .collect();
    let summary = traffic.summaries().next().unwrap();
    assert!(summary.notes.is_empty() && summary.packets > 200, "{summary:?}");
    exchanges
}

/// Method, path, status, bytes of both bodies and of the decoded response.
type Line = (String, String, u16, u64, u64, u64);

fn line(exchange: &Exchange) -> Line {
    let (request, response) = (exchange.request.as_ref().unwrap(), exchange.response.as_ref().unwrap());
    let body = &response.body;
    (
        request.method.clone(),
        request.target.clone(),
        response.status,
        request.body.encoded_bytes,
        body.encoded_bytes,
        body.decoded_bytes,
    )
}

#[test]
fn a_capture_of_tcpdump_is_read_to_the_last_exchange() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lo.pcap");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/talk.py");
    // Not as root inside: tcpdump would want to become somebody else, of whom the namespace knows nothing.
    let mut talk = Command::new("unshare");
    talk.args(["--user", "--map-user=1000", "--map-group=1000", "--keep-caps", "--net", "/usr/bin/python3", script])
        .arg(&file);
    let done = talk.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));

    let exchanges = exchanges(&file, Options { body_bytes: Some(8 << 20), ..Options::default() });
    let large = 400_000;
    let once: Vec<Line> = [
        ("GET", "/plain", 200, 0, 12, 12),
        ("GET", "/gzip", 200, 0, 0, 900),
        ("HEAD", "/plain", 200, 0, 0, 0),
        ("GET", "/chunked", 200, 0, 3008, 3008),
        ("POST", "/echo", 200, 6, 6, 6),
        ("GET", "/nothing", 204, 0, 0, 0),
        ("GET", "/elsewhere", 302, 0, 0, 0),
        ("GET", "/large", 200, 0, large, large),
        ("POST", "/echo", 200, large, large, large),
        ("GET", "/old", 200, 0, 13, 13),
    ]
    .map(|(method, path, status, sent, received, decoded)| {
        (method.into(), path.into(), status, sent, received, decoded)
    })
    .into();
    let mut said: Vec<Line> = exchanges.iter().map(line).collect();
    // How far it is squeezed is the encoder's matter.
    said.iter_mut().filter(|line| line.1 == "/gzip").for_each(|line| line.4 = 0);
    assert_eq!(said[..10], once);
    assert_eq!(said[10..20], once);
    let numbered = (0..20).map(|number| format!("/{number}"));
    assert!(said[20..40].iter().map(|line| line.1.clone()).eq(numbered));
    for line in &once {
        assert_eq!(said[40..].iter().filter(|other| *other == line).count(), 8, "{line:?}");
    }
    assert_eq!(said.len(), 120);

    for exchange in &exchanges {
        assert!(exchange.flags.is_empty(), "{:?}: {exchange:?}", exchange.flags);
        let six = exchange.peers.server_address.is_ipv6();
        let (client, service) = if six { ("frontend", "frontend") } else { ("gateway", "server") };
        let pipelined = exchange.request.as_ref().unwrap().header("x-real").is_none();
        let client = if pipelined { "unknown" } else { client };
        let peers = (exchange.peers.client.to_string(), exchange.peers.service.to_string());
        assert_eq!(peers, (client.to_owned(), service.to_owned()));
        let url = &exchange.request.as_ref().unwrap().url;
        assert!(url.starts_with("http://shop.test/"), "{url}");
    }
    let large: Vec<u8> = (0..400_000u32).map(|number| (number * 31 % 251) as u8).collect();
    assert_eq!(exchanges[8].response.as_ref().unwrap().body.content.as_deref(), Some(&large[..]));

    let mut har = HarWriter::begin(Vec::new(), "0", &[]).unwrap();
    for exchange in exchanges {
        har.entry(exchange).unwrap();
    }
    let har: serde_json::Value = serde_json::from_slice(&har.finish().unwrap()).unwrap();
    assert_eq!(har["log"]["entries"].as_array().unwrap().len(), 120);
}
