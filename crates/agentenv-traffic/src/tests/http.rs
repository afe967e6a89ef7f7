//! What HTTP says, in segments that come as they should.

use std::io::Write as _;

use flate2::{
    Compression,
    write::{DeflateEncoder, GzEncoder, ZlibEncoder},
};

use crate::{
    reader::Options,
    record::{Flag, Party},
    step::Step,
    testing::{BEGIN_US, Sent, TICK_US, Talk, line, lines, pcap, read, read_files, with_bodies},
};

const GET: &str = "GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n";

/// `hello, hello, hello` as Node's zlib writes it.
const BROTLI_HELLO: &[u8] = &[
    0x1b, 0x12, 0x00, 0xf8, 0x8d, 0x94, 0x6e, 0xde, 0x44, 0x09, 0x52, 0x86, 0x96, 0x6c, 0x2c, 0x6f, 0x11, 0x4f, 0x24,
    0xd0, 0x71, 0x00,
];

fn one(up: &str, down: &[u8]) -> Vec<String> {
    let mut talk = Talk::open();
    talk.segment = 7;
    talk.up(up).down(down).close();
    lines(&read(&talk.sent))
}

#[test]
fn bodies_end_where_http_says() {
    let head = "POST /p HTTP/1.1\r\nHost: shop.test\r\n";
    for (up, down, wanted) in [
        (GET, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "GET http://shop.test/ 0 > 200 5 hello []"),
        (GET, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "GET http://shop.test/ 0 > 200 0 []"),
        (GET, "HTTP/1.0 200 OK\r\n\r\nuntil close", "GET http://shop.test/ 0 > 200 11 until close []"),
        (GET, "HTTP/1.1 204 No Content\r\n\r\n", "GET http://shop.test/ 0 > 204 0 []"),
        (GET, "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", "GET http://shop.test/ 0 > 304 0 []"),
        (GET, "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", "GET http://shop.test/ 0 > 200 2 ok []"),
        (
            GET,
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
            "GET http://shop.test/ 0 > 200 5 hello [Incomplete]",
        ),
        (
            GET,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=\"y\"\r\nhello\r\n00a\r\n, hello, h\r\n0\r\nX-T: 1\r\n\r\n",
            "GET http://shop.test/ 0 > 200 15 hello, hello, h []",
        ),
        (
            GET,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n",
            "GET http://shop.test/ 0 > 200 5 hello [Incomplete Malformed]",
        ),
        (
            "HEAD / HTTP/1.1\r\nHost: shop.test\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            "HEAD http://shop.test/ 0 > 200 0 []",
        ),
        (
            &format!("{head}Content-Length: 3\r\n\r\na=1"),
            "HTTP/1.1 303 See Other\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
            "POST http://shop.test/p 3 a=1 > 303 0 []",
        ),
        (
            &format!("{head}Transfer-Encoding: chunked\r\n\r\n3\r\na=1\r\n0\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "POST http://shop.test/p 3 a=1 > 200 0 []",
        ),
        ("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n", "", "GET http://shop.test/ 0 > - [Incomplete ResponseMissing]"),
    ] {
        assert_eq!(one(up, down.as_bytes()), [wanted], "{down:?}");
    }
}

#[test]
fn a_url_is_made_of_target_and_host() {
    for (target, host, url) in [
        ("/a?b=c", "Host: shop.test\r\n", "http://shop.test/a?b=c"),
        ("/", "Host: shop.test:8080\r\n", "http://shop.test:8080/"),
        ("/", "Host: [::1]:80\r\n", "http://[::1]:80/"),
        ("/", "", "http://127.0.0.1:8000/"),
        ("/", "Host: evil/@x\r\n", "http://127.0.0.1:8000/"),
        ("http://a.test/x", "Host: b.test\r\n", "http://a.test/x"),
        ("*", "Host: shop.test\r\n", "http://shop.test/*"),
    ] {
        let lines = one(&format!("GET {target} HTTP/1.1\r\n{host}\r\n"), b"HTTP/1.1 204 N\r\n\r\n");
        assert_eq!(lines, [format!("GET {url} 0 > 204 0 []")]);
    }
}

#[test]
fn requests_are_paired_in_keep_alive_and_pipelines() {
    let mut talk = Talk::open();
    let ask = |path: &str| format!("GET /{path} HTTP/1.1\r\nHost: s.test\r\n\r\n");
    let say = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    talk.up(ask("a")).down(say("A"));
    talk.up([ask("b"), ask("c"), ask("d")].concat()).down([say("B"), say("C")].concat()).down(say("D"));
    talk.up(ask("e")).up(ask("f")).down([say("E"), say("F")].concat()).close();
    let lines = lines(&read(&talk.sent));
    let wanted = ["a", "b", "c", "d", "e", "f"]
        .map(|path| format!("GET http://s.test/{path} 0 > 200 1 {} []", path.to_uppercase()));
    assert_eq!(lines, wanted);
}

#[test]
fn interim_answers_are_noted() {
    let mut talk = Talk::open();
    talk.up("PUT / HTTP/1.1\r\nHost: s.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    talk.down("HTTP/1.1 100 Continue\r\n\r\n").up("data");
    talk.down("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        .close();
    let read = read(&talk.sent);
    assert_eq!(lines(&read), ["PUT http://s.test/ 4 data > 201 0 []"]);
    assert_eq!(read.exchanges[0].interim, [100, 103]);
}

#[test]
fn an_answer_may_come_before_its_request_is_whole() {
    let mut talk = Talk::open();
    talk.up("POST / HTTP/1.1\r\nHost: s.test\r\nContent-Length: 9\r\n\r\nabc");
    talk.down("HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n").up("defghi").close();
    let read = read(&talk.sent);
    assert_eq!(lines(&read), ["POST http://s.test/ 9 abcdefghi > 413 0 []"]);
    let exchange = &read.exchanges[0];
    assert!(exchange.duration_us() < 10 * TICK_US, "{exchange:?}");
}

#[test]
fn a_websocket_is_counted() {
    let mut talk = Talk::open();
    talk.up("GET /ws HTTP/1.1\r\nHost: s.test\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n");
    talk.down("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\n\x01\x02\x03");
    talk.up(b"\x82\x05hello").down(b"GET / HTTP/1.1\r\n\r\n").close();
    let read = read(&talk.sent);
    assert_eq!(lines(&read), ["GET http://s.test/ws 0 > 101 0 [Websocket]"]);
    let upgrade = read.exchanges[0].upgrade.as_ref().unwrap();
    assert_eq!((upgrade.protocol.as_str(), upgrade.to_server_bytes, upgrade.to_client_bytes), ("websocket", 7, 21));
}

#[test]
fn a_websocket_that_the_server_refuses_is_an_exchange_like_others() {
    let mut talk = Talk::open();
    talk.up("GET /ws HTTP/1.1\r\nHost: s.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    talk.down("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").up(GET).down("HTTP/1.1 204 N\r\n\r\n").close();
    let wanted = ["GET http://s.test/ws 0 > 403 2 no []", "GET http://shop.test/ 0 > 204 0 []"];
    assert_eq!(lines(&read(&talk.sent)), wanted);
}

#[test]
fn a_tunnel_is_counted() {
    let mut talk = Talk::open();
    talk.up("CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n").down("HTTP/1.1 200 OK\r\n\r\n");
    talk.up("\x16\x03\x01").down("xx").close();
    let read = read(&talk.sent);
    assert_eq!(lines(&read), ["CONNECT http://a.test:443 0 > 200 0 []"]);
    let upgrade = read.exchanges[0].upgrade.as_ref().unwrap();
    assert_eq!((upgrade.to_server_bytes, upgrade.to_client_bytes), (3, 2));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn coded(coding: &str, body: &[u8]) -> Vec<Sent> {
    let mut talk = Talk::open();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n", body.len());
    talk.up(GET).down([head.as_bytes(), body].concat()).close();
    talk.sent
}

#[test]
fn bodies_are_decoded() {
    let text = b"hello, hello, hello";
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    zlib.write_all(text).unwrap();
    let mut raw = DeflateEncoder::new(Vec::new(), Compression::best());
    raw.write_all(text).unwrap();
    let halves = [gzip(&text[..7]), gzip(&text[7..])].concat();
    for (coding, body) in [
        ("gzip", gzip(text)),
        ("X-GZip", gzip(text)),
        ("gzip", halves),
        ("deflate", zlib.finish().unwrap()),
        ("deflate", raw.finish().unwrap()),
        ("br", BROTLI_HELLO.to_vec()),
        ("identity", text.to_vec()),
    ] {
        let read = read(&coded(coding, &body));
        let exchange = &read.exchanges[0];
        let read = &exchange.response.as_ref().unwrap().body;
        assert_eq!(read.content.as_deref(), Some(&text[..]), "{coding}: {}", line(exchange));
        assert_eq!((read.encoded_bytes, read.decoded_bytes), (body.len() as u64, 19), "{coding}");
        assert!(exchange.flags.is_empty(), "{coding}: {:?}", exchange.flags);
    }
}

#[test]
fn what_cannot_be_decoded_is_said() {
    let whole = gzip(b"hello, hello, hello");
    for (coding, body) in [
        ("gzip", &whole[..whole.len() - 9]),
        ("gzip", b"no gzip at all, whatever it says"),
        ("br", b"\xff\xff\xff\xff no brotli"),
        ("deflate", b"\x78"),
        ("zstd", b"unknown"),
        ("gzip, br", b"several"),
    ] {
        let read = read(&coded(coding, body));
        assert!(read.exchanges[0].flags.contains(&Flag::BodyUndecoded), "{coding}: {}", line(&read.exchanges[0]));
        assert_eq!(read.exchanges[0].response.as_ref().unwrap().body.encoded_bytes, body.len() as u64);
    }
}

#[test]
fn a_bomb_is_decoded_up_to_a_limit() {
    let bomb = gzip(&vec![0; 80 << 20]);
    assert!(bomb.len() < 100_000);
    let mut sent = coded("gzip", &bomb);
    let mut more = Talk::between("127.0.0.2:40002", "127.0.0.1:8000");
    more.up(GET).down("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").close();
    sent.extend(more.sent);
    let read = read_files(vec![pcap(&sent)], Options { body_bytes: Some(1000), ..Options::default() });
    let body = &read.exchanges[0].response.as_ref().unwrap().body;
    assert!(body.decoded_bytes <= 64 << 20 && body.decoded_bytes > 60 << 20, "{}", body.decoded_bytes);
    assert_eq!(body.content.as_ref().unwrap().len(), 1000);
    assert!(read.exchanges[0].flags.is_superset(&[Flag::OverLimit, Flag::BodyUndecoded, Flag::BodyCut].into()));
    assert!(read.exchanges[1].flags.is_empty());
    assert!(read.held < 1 << 20, "{}", read.held);
}

#[test]
fn a_body_is_given_only_when_asked_for_and_as_far() {
    let mut talk = Talk::open();
    talk.up(GET).down("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello").close();
    let body = |body_bytes| {
        let read = read_files(vec![pcap(&talk.sent)], Options { body_bytes, ..Options::default() });
        let flags = read.exchanges[0].flags.clone();
        (read.exchanges[0].response.as_ref().unwrap().body.content.clone(), flags.contains(&Flag::BodyCut))
    };
    assert_eq!(body(None), (None, false));
    assert_eq!(body(Some(0)), (Some(Vec::new()), true));
    assert_eq!(body(Some(4)), (Some(b"hell".to_vec()), true));
    assert_eq!(body(Some(5)), (Some(b"hello".to_vec()), false));
}

#[test]
fn who_spoke_and_when() {
    for (client, server, wanted) in [
        ("127.0.0.2:40000", "127.0.0.1:8000", (Party::Gateway, "server")),
        ("127.0.0.2:40000", "127.0.0.1:8080", (Party::Gateway, "frontend")),
        ("127.0.0.1:21500", "127.0.0.1:8000", (service("frontend"), "server")),
        ("127.0.0.1:20000", "127.0.0.1:9000", (service("server"), "worker")),
        ("127.0.0.1:50000", "127.0.0.1:9000", (Party::Unknown, "worker")),
        ("[::1]:21000", "[::1]:8000", (service("frontend"), "server")),
        ("127.0.0.1:21000", "127.0.0.1:1234", (service("frontend"), "unknown")),
    ] {
        for cut in [0, 3] {
            let mut talk = Talk::between(client, server);
            talk.up(GET).down("HTTP/1.1 204 N\r\n\r\n").close();
            let read = read(&talk.sent[cut..]);
            let peers = &read.exchanges[0].peers;
            assert_eq!((peers.client.clone(), peers.service.to_string().as_str()), wanted, "{client} {server} {cut}");
            assert_eq!(peers.client_address, client.parse().unwrap());
        }
    }
}

fn service(name: &str) -> Party {
    Party::Service(agentenv_protocol::Name::parse(name).unwrap())
}

#[test]
fn an_exchange_is_tied_to_the_step_in_which_it_began() {
    let mut talk = Talk::open();
    talk.up(GET).down("HTTP/1.1 204 N\r\n\r\n").up(GET).down("HTTP/1.1 204 N\r\n\r\n");
    talk.up(GET).down("HTTP/1.1 204 N\r\n\r\n").close();
    // The requests are packets 3, 7 and 11.
    let at = |packet: u64| BEGIN_US + packet * TICK_US;
    let step = |name: &str, started_us, ended_us| Step { number: 1, name: name.to_owned(), started_us, ended_us };
    let steps = vec![step("deploy", 0, Some(at(3))), step("agent", at(10), None)];
    let read = read_files(vec![pcap(&talk.sent)], Options { steps, ..with_bodies() });
    assert_eq!(read.exchanges.iter().map(|exchange| exchange.step).collect::<Vec<_>>(), [Some(0), None, Some(1)]);
    let first = &read.exchanges[0];
    assert_eq!((first.started_us, first.send_us, first.wait_us, first.receive_us), (at(3), 0, 2 * TICK_US, 0));
}

#[test]
fn other_protocols_are_flows() {
    use crate::record::Application::{Http, Http2, None, Other};
    for (up, down, wanted) in [
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "", Http2),
        ("*1\r\n$4\r\nPING\r\n", "+PONG\r\n", Other),
        ("EHLO a\r\n", "250 ok\r\n", Other),
        ("\0\0\0\x08\x04\x52\x16\x2f", "N", Other),
        ("", "220 mail ESMTP\r\n", Other),
        ("", "", None),
        (GET, "HTTP/1.1 204 N\r\n\r\n", Http),
        (GET, "what?", Http),
    ] {
        let mut talk = Talk::open();
        talk.up(up).down(down).close();
        let read = read(&talk.sent);
        assert_eq!(read.flows.len(), 1);
        let flow = &read.flows[0];
        assert_eq!(flow.application, wanted, "{up:?} {down:?}");
        assert_eq!((flow.to_server_bytes, flow.to_client_bytes), (up.len() as u64, down.len() as u64));
        assert_eq!(flow.exchanges, read.exchanges.len() as u64);
    }
}

#[test]
fn row_64_long_heads_and_many_headers_end_somewhere() {
    let long = format!("GET / HTTP/1.1\r\nHost: s.test\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    let many = format!("GET / HTTP/1.1\r\nHost: s.test\r\n{}\r\n", "a: b\r\n".repeat(100_000));
    for head in [long, many] {
        let mut talk = Talk::open();
        talk.segment = 60_000;
        talk.up(GET)
            .down("HTTP/1.1 204 N\r\n\r\n")
            .up(head)
            .down("HTTP/1.1 431 Too Large\r\nContent-Length: 0\r\n\r\n");
        talk.up("GET /after HTTP/1.1\r\nHost: s.test\r\n\r\n").down("HTTP/1.1 204 N\r\n\r\n").close();
        let read = read(&talk.sent);
        let lines = lines(&read);
        assert_eq!(lines.first().unwrap(), "GET http://shop.test/ 0 > 204 0 []");
        assert!(lines.iter().any(|line| line.contains("> 431")), "{lines:?}");
        assert!(lines.last().unwrap().starts_with("GET http://s.test/after"), "{lines:?}");
        assert!(read.flows[0].flags.contains(&Flag::Malformed));
        assert!(read.held < 1 << 20, "{}", read.held);
    }
}
