//! What TLS shows.

use crate::{
    record::Application,
    testing::{Talk, read},
};

/// A ClientHello of a name and protocols, in records of at most so many bytes.
fn client_hello(sni: Option<&str>, alpn: &[&str], record: usize) -> Vec<u8> {
    let vector16 = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let mut extensions = [&[0x0a, 0x0a][..], &vector16(&[])].concat();
    if let Some(name) = sni {
        let list = [&[0][..], &vector16(name.as_bytes())].concat();
        extensions.extend([&[0, 0][..], &vector16(&vector16(&list))].concat());
    }
    if !alpn.is_empty() {
        let list: Vec<u8> = alpn.iter().flat_map(|name| [&[name.len() as u8][..], name.as_bytes()].concat()).collect();
        extensions.extend([&[0, 16][..], &vector16(&vector16(&list))].concat());
    }
    let body = [&[3, 3][..], &[7; 32], &[0], &vector16(&[0x13, 0x01]), &[1, 0], &vector16(&extensions)].concat();
    let length = (body.len() as u32).to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    message.chunks(record).flat_map(|part| [&[22, 3, 1][..], &vector16(part)].concat()).collect()
}

#[test]
fn a_client_hello_names_its_host_across_segments_and_records() {
    for (segment, record) in [(1000, 16_000), (1, 16_000), (5, 7), (3, 1)] {
        let mut talk = Talk::between("127.0.0.1:21000", "10.0.0.1:443");
        talk.segment = segment;
        talk.up(client_hello(Some("api.example.com"), &["h2", "http/1.1"], record)).down([22, 3, 3, 0, 1, 2]);
        talk.up([23, 3, 3, 0, 1, 9]).close();
        let read = read(&talk.sent);
        let alpn = vec!["h2".to_owned(), "http/1.1".to_owned()];
        let wanted = Application::Tls { sni: Some("api.example.com".to_owned()), alpn };
        assert_eq!(read.flows[0].application, wanted, "{segment} {record}");
        assert_eq!(read.flows[0].to_client_bytes, 6);
        assert!(read.exchanges.is_empty());
        if segment < 1000 {
            continue;
        }
        // Without its begin only that it is TLS is known.
        let from = talk.sent.len() - 7;
        let late = crate::testing::read(&talk.sent[from..]);
        assert_eq!(late.flows[0].application, Application::Tls { sni: None, alpn: Vec::new() });
    }
}

#[test]
fn hellos_that_are_none_name_nothing() {
    let hello = client_hello(Some("a.test"), &[], 16_000);
    let mut other = hello.clone();
    other[5] = 2;
    let mut long = hello.clone();
    long[6] = 255;
    for bytes in [&hello[..40], &other, &long, &[22, 3, 1, 0, 0], &[22, 3, 1], &[22], &client_hello(None, &[], 99)] {
        let mut talk = Talk::open();
        talk.up(bytes).close();
        let read = read(&talk.sent);
        assert_eq!(read.flows[0].application, Application::Tls { sni: None, alpn: Vec::new() }, "{bytes:?}");
    }
}
