use proptest::prelude::*;

use super::*;

/// Reads the text in pieces of `step` bytes; whether a fault was seen.
fn refused(text: &[u8], step: usize) -> bool {
    let mut scanner = Scanner::default();
    for piece in text.chunks(step) {
        if scanner.state == State::Await || scanner.fault(piece).is_some() {
            return true;
        }
    }
    false
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn what_is_framed_one_way_only_passes() {
    for text in [
        GET.repeat(3),
        format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello{GET}"),
        format!("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n{GET}"),
        "\r\nGET / HTTP/1.0\r\n\r\n".to_owned(),
        "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n".to_owned(),
        "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n".to_owned(),
    ] {
        for step in [1, 2, 7, 4096] {
            assert!(!refused(text.as_bytes(), step), "{step}: {text}");
        }
    }
}

#[test]
fn rows_02_11_12_13_what_could_be_framed_two_ways_is_refused() {
    let post = |fields: &str, body: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}");
    let chunked = |body: &str| post("Transfer-Encoding: chunked\r\n", body);
    for text in [
        post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n"),
        post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
        post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"),
        post("Transfer-Encoding : chunked\r\n", "0\r\n\r\n"),
        post("Content-Length: +3\r\n", "abc"),
        post("Content-Length: -3\r\n", "abc"),
        post("Content-Length: 3, 3\r\n", "abc"),
        post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"),
        post("Content-Length: 3\r\nContent-Length: 0\r\n", "abc"),
        post("Content-Length:\r\nContent-Length: 3\r\n", "abc"),
        post("Content-Length: 18446744073709551616\r\n", "abc"),
        chunked("5;x=y\r\nhello\r\n0\r\n\r\n"),
        chunked("+5\r\nhello\r\n0\r\n\r\n"),
        chunked("0x5\r\nhello\r\n0\r\n\r\n"),
        chunked("10000000000000000\r\n"),
        chunked("5\nhello\r\n0\r\n\r\n"),
        chunked("5\r\nhello0\r\n\r\n"),
        chunked("\r\n"),
        post("X: a\r\n folded\r\n", ""),
        post(": empty\r\n", ""),
        post("X: a\nY: b\r\n", ""),
        post("X: a\rY: b\r\n", ""),
        post("X: \0\r\n", ""),
        post("no colon\r\n", ""),
        post("Host: b\r\n", ""),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        "GET  / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        "GET / HTTP/1.1 \r\nHost: a\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "GET /\r\n\r\n".to_owned(),
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(),
        "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\nearly".to_owned(),
        "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\nContent-Length: 1\r\n\r\nx".to_owned(),
        "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\nearly".to_owned(),
    ] {
        for step in [1, 2, 7, 4096] {
            assert!(refused(text.as_bytes(), step), "{step}: {text}");
        }
    }
}

proptest! {
    #[test]
    fn the_verdict_does_not_depend_on_how_the_bytes_arrive(
        parts in prop::collection::vec(prop::sample::select(vec![
            "GET / HTTP/1.1", "POST / HTTP/1.1", "\r\n", "\n", "\r", "Host: a", "Content-Length: 3", "abc", "0", "3",
            "Transfer-Encoding: chunked", ":", " ", ";", "Upgrade: websocket", "X: y", "\r\n\r\n",
        ]), 0..24),
        step in 1usize..9,
    ) {
        let text = parts.concat();
        prop_assert_eq!(refused(text.as_bytes(), step), refused(text.as_bytes(), 4096));
    }
}
