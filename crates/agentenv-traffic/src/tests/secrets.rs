//! Secrets of agent-env in what is given out.

use crate::{
    MASK,
    har::HarWriter,
    reader::Options,
    record::Record,
    row::Row,
    testing::{Talk, pcap, read_files},
};

const KEY: &str = "k3y-0123456789abcdefghijklmnopqrstuvwxyzABCD";
const TOKEN: &str = "t0ken-0123456789abcdefghijklmnopqrstuvwxyzAB";

#[test]
fn row_58_a_site_key_is_masked_wherever_it_is() {
    let mut talk = Talk::open();
    talk.segment = 50;
    talk.up(format!(
        "POST /api/data/load?key={KEY} HTTP/1.1\r\nHost: s.test\r\nAGENTENV-site-KEY: {KEY}\r\nagentenv-control-token:{TOKEN}\r\n\
         X-Copy: a{KEY}b\r\nCookie: c={TOKEN}\r\nContent-Length: {}\r\n\r\nx{KEY}",
        KEY.len() + 1
    ));
    let body = format!("<p>{KEY}</p>{TOKEN}");
    talk.down(format!(
        "HTTP/1.1 200 OK\r\nLocation: /{TOKEN}\r\nSet-Cookie: k={KEY}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\
         Agentenv-Site-Key: {KEY}\r\n\r\n",
        body.len()
    ));
    // Another exchange, which has only the value.
    talk.up(format!("GET /{KEY} HTTP/1.1\r\nHost: s.test\r\n\r\n")).down("HTTP/1.1 204 N\r\n\r\n").close();
    for body_bytes in [None, Some(1 << 20), Some(30), Some(60)] {
        let read = read_files(vec![pcap(&talk.sent)], Options { body_bytes, ..Options::default() });
        let debug = format!("{:?}", read.exchanges);
        let mut har = HarWriter::begin(Vec::new(), "0", &[]).unwrap();
        let mut rows = String::new();
        for exchange in read.exchanges {
            rows += &format!("{:?}", Row::of(&Record::Exchange(Box::new(exchange.clone())), &[]));
            har.entry(exchange).unwrap();
        }
        let har = String::from_utf8(har.finish().unwrap()).unwrap();
        for text in [debug, rows, har] {
            for secret in [KEY, TOKEN] {
                // Not even the part of it that a cut body ends with.
                assert!(!text.contains(&secret[..12]), "{body_bytes:?}: {text}");
            }
            assert!(text.contains(MASK));
        }
    }
}
