//! Whatever is missing: what is said to be whole is right.

use std::collections::HashMap;

use proptest::prelude::*;

use super::segments::{disturb, disturbed};
use crate::{
    record::{Exchange, Flag},
    testing::{Sent, Talk, line, lines, read},
};

/// Requests and responses of all kinds of framing, each with a number of its own.
pub(super) fn message(number: usize) -> (String, String) {
    let text = format!("body-{number}-").repeat(number * 7 % 40 + 1);
    let id = format!("X-Id: {number}\r\nHost: s.test\r\n");
    let request = match number % 4 {
        0 => format!("GET /{number} HTTP/1.1\r\n{id}\r\n"),
        1 => format!("POST /{number} HTTP/1.1\r\n{id}Content-Length: {}\r\n\r\n{text}", text.len()),
        2 => format!(
            "PUT /{number} HTTP/1.1\r\n{id}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{text}\r\n0\r\n\r\n",
            text.len()
        ),
        _ => format!("HEAD /{number} HTTP/1.1\r\n{id}\r\n"),
    };
    let length = format!("Content-Length: {}\r\n\r\n", text.len());
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n5\r\n{}\r\n", &text[..5]);
    let response = match number % 4 {
        3 => format!("HTTP/1.1 200 OK\r\n{id}{length}"),
        0 => format!("HTTP/1.1 200 OK\r\n{id}{length}{text}"),
        1 => format!("HTTP/1.1 200 OK\r\n{id}{chunked}{:x}\r\n{}\r\n0\r\nX-T: 1\r\n\r\n", text.len() - 5, &text[5..]),
        _ => format!("HTTP/1.1 304 Not Modified\r\n{id}Content-Length: 77\r\n\r\n"),
    };
    (request, response)
}

const MESSAGES: usize = 12;

/// A client that waits for each response.
pub(super) fn polite(segment: usize) -> Talk {
    let mut talk = Talk::open();
    talk.segment = segment;
    for number in 0..MESSAGES {
        let (request, response) = message(number);
        talk.up(request).down(response);
    }
    talk.close();
    talk
}

/// A client that sends several requests at once.
pub(super) fn pipelined(segment: usize) -> Talk {
    let mut talk = Talk::open();
    talk.segment = segment;
    for number in (0..MESSAGES).step_by(3) {
        let messages: Vec<_> = (number..number + 3).map(message).collect();
        for (request, _) in &messages {
            talk.up(request);
        }
        for (_, response) in &messages {
            talk.down(response);
        }
    }
    talk.close();
    talk
}

/// The numbers that a request and a response say they have.
fn numbers(exchange: &Exchange) -> (Option<&str>, Option<&str>) {
    let request = exchange.request.as_ref().and_then(|request| request.header("x-id"));
    (request, exchange.response.as_ref().and_then(|response| response.header("x-id")))
}

fn check(sent: &[Sent], whole: &HashMap<String, String>, polite: bool) -> Result<(), TestCaseError> {
    let read = read(sent);
    for exchange in &read.exchanges {
        let line = line(exchange);
        let paired = exchange.request.is_some() && exchange.response.is_some();
        if let (true, (request, response)) = (paired, numbers(exchange)) {
            // A client that pipelines may be told apart only where nothing was missing right before.
            let sure = polite || !exchange.flags.contains(&Flag::Resynchronised);
            prop_assert!(!sure || request == response, "{} in {:#?}", line, lines(&read));
        } else {
            let flags = [Flag::RequestMissing, Flag::ResponseMissing];
            prop_assert!(flags.iter().any(|flag| exchange.flags.contains(flag)), "{}", line);
        }
        if exchange.flags.iter().all(|flag| *flag == Flag::Resynchronised) && (polite || exchange.flags.is_empty()) {
            let number = numbers(exchange).0.unwrap_or_default();
            let line = line.replace("[Resynchronised]", "[]");
            prop_assert_eq!(Some(&line), whole.get(number), "{:#?}", lines(&read));
        }
    }
    Ok(())
}

fn whole(talk: &Talk) -> HashMap<String, String> {
    let exchanges = read(&talk.sent).exchanges;
    exchanges.iter().map(|exchange| (numbers(exchange).0.unwrap().to_owned(), line(exchange))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Single segments are missing.
    #[test]
    fn lost_segments(segment in 1..300usize, lost in proptest::collection::vec(0..1000usize, 1..8), pipeline: bool) {
        let talk = if pipeline { pipelined(segment) } else { polite(segment) };
        let mut sent = talk.sent.clone();
        for lost in lost {
            sent.remove(lost % sent.len());
        }
        check(&sent, &whole(&talk), !pipeline)?;
    }

    /// Everything is missing for a while.
    #[test]
    fn a_lost_stretch(segment in 1..300usize, from in 0..1000usize, count in 1..60usize, pipeline: bool) {
        let talk = if pipeline { pipelined(segment) } else { polite(segment) };
        let mut sent = talk.sent.clone();
        let from = from % sent.len();
        sent.drain(from..(from + count).min(talk.sent.len()));
        check(&sent, &whole(&talk), !pipeline)?;
    }

    /// Some are missing, the others out of order and repeated.
    #[test]
    fn lost_and_disturbed(
        segment in 1..300usize,
        lost in proptest::collection::vec(0..1000usize, 0..6),
        how in disturbed(),
        pipeline: bool,
    ) {
        let talk = if pipeline { pipelined(segment) } else { polite(segment) };
        let mut sent = disturb(&talk.sent, &how);
        for lost in lost {
            sent.remove(lost % sent.len());
        }
        check(&sent, &whole(&talk), !pipeline)?;
    }

    /// One direction is missing, or nearly.
    #[test]
    fn a_lost_direction(segment in 1..300usize, up: bool, kept in 0..10usize) {
        let talk = polite(segment);
        let kept = |at: usize| at < kept;
        let sent: Vec<Sent> = talk.sent.iter().enumerate().filter(|(at, sent)| sent.up == up || kept(*at)).map(|(_, sent)| sent.clone()).collect();
        check(&sent, &whole(&talk), true)?;
    }
}

#[test]
fn most_of_what_is_there_is_found() {
    let talk = polite(2000);
    // The fifth request's segment.
    let at = talk.sent.iter().position(|sent| sent.payload.starts_with(b"GET /4 ")).unwrap();
    let mut sent = talk.sent.clone();
    sent.remove(at);
    let lines = lines(&read(&sent));
    assert_eq!(lines.iter().filter(|line| line.ends_with("[]")).count(), MESSAGES - 2, "{lines:#?}");
    assert!(lines.iter().any(|line| line.starts_with("- > 200")), "{lines:#?}");
}
