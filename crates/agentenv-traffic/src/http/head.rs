//! Heads of messages.

use memchr::memchr;

use crate::{
    limits,
    record::{self, Header, Version},
    tcp::Side,
};

/// Bytes of a start line that are looked at to find out whether it is one.
const START_LINE_BYTES: usize = 8192;

/// Longer than any method.
const METHOD_BYTES: usize = 32;

/// What a message begins with.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) start: Start,
    pub(crate) version: Version,
    pub(crate) headers: Vec<Header>,
    pub(crate) bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) enum Start {
    Request { method: String, target: String },
    Response { status: u16, reason: String },
}

/// How the length of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// Why a head is none.
#[derive(Debug)]
pub(crate) struct BadHead;

impl Head {
    /// Parses a whole head of a direction, its empty line included.
    pub(crate) fn parse(side: Side, bytes: &[u8]) -> Result<Self, BadHead> {
        let mut lines = vec![httparse::EMPTY_HEADER; limits::HEADERS];
        let mut config = httparse::ParserConfig::default();
        // What real servers send is to be seen, also where it is not quite right.
        config
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .allow_multiple_spaces_in_request_line_delimiters(true)
            .allow_multiple_spaces_in_response_status_delimiters(true)
            .ignore_invalid_headers_in_responses(true)
            .ignore_invalid_headers_in_requests(true);
        let (start, version, length, lines) = match side {
            Side::ToServer => {
                let mut request = httparse::Request::new(&mut lines);
                let length = complete(config.parse_request(&mut request, bytes))?;
                let (Some(method), Some(target)) = (request.method, request.path) else { return Err(BadHead) };
                let start = Start::Request { method: method.to_owned(), target: target.to_owned() };
                (start, request.version, length, &*request.headers)
            }
            Side::ToClient => {
                let mut response = httparse::Response::new(&mut lines);
                let length = complete(config.parse_response(&mut response, bytes))?;
                let status = response.code.ok_or(BadHead)?;
                let reason = response.reason.unwrap_or_default().to_owned();
                (Start::Response { status, reason }, response.version, length, &*response.headers)
            }
        };
        let version = if version == Some(0) { Version::Http10 } else { Version::Http11 };
        Ok(Self { start, version, headers: headers(lines), bytes: length as u64 })
    }

    /// The first value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        record::find(&self.headers, name)
    }

    fn has_token(&self, name: &str, token: &str) -> bool {
        let mut parts = record::values(&self.headers, name).flat_map(|value| value.split(','));
        parts.any(|part| part.trim().eq_ignore_ascii_case(token))
    }

    /// How the body of a request is framed, if it has one.
    pub(crate) fn request_framing(&self) -> Option<Framing> {
        if self.is_chunked() {
            return Some(Framing::Chunked);
        }
        self.content_length().map(Framing::Length)
    }

    /// How the body of a response is framed, if it has one. `method` is that of its request, where it is known.
    pub(crate) fn response_framing(&self, status: u16, method: Option<&str>) -> Option<Framing> {
        if method == Some("HEAD") || status < 200 || matches!(status, 204 | 304) {
            return None;
        }
        if self.is_chunked() {
            return Some(Framing::Chunked);
        }
        if self.has_header("transfer-encoding") {
            return Some(Framing::UntilClose);
        }
        Some(self.content_length().map_or(Framing::UntilClose, Framing::Length))
    }

    fn has_header(&self, name: &str) -> bool {
        self.header(name).is_some()
    }

    fn is_chunked(&self) -> bool {
        let last = record::values(&self.headers, "transfer-encoding").next_back();
        let last = last.and_then(|value| value.rsplit(',').next());
        last.is_some_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"))
    }

    /// The first of what several lines or a list may say: they are the same where it is no attack.
    fn content_length(&self) -> Option<u64> {
        let value = self.header("content-length")?.split(',').next()?.trim();
        if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) { None } else { value.parse().ok() }
    }

    /// The protocol to which the connection changes, in small letters.
    pub(crate) fn upgrade(&self) -> Option<String> {
        self.has_token("connection", "upgrade").then(|| self.header("upgrade").unwrap_or_default().to_ascii_lowercase())
    }
}

fn complete(status: Result<httparse::Status<usize>, httparse::Error>) -> Result<usize, BadHead> {
    match status {
        Ok(httparse::Status::Complete(length)) => Ok(length),
        Ok(httparse::Status::Partial) | Err(_) => Err(BadHead),
    }
}

fn headers(lines: &[httparse::Header<'_>]) -> Vec<Header> {
    let header = |line: &httparse::Header<'_>| Header { name: line.name.to_owned(), value: text(line.value) };
    lines.iter().map(header).collect()
}

/// A value as text: UTF-8, or else Latin-1 as of old.
fn text(bytes: &[u8]) -> String {
    str::from_utf8(bytes).map_or_else(|_| bytes.iter().copied().map(char::from).collect(), str::to_owned)
}

/// Parses the trailers of a chunked body, their empty line included.
pub(crate) fn trailers(bytes: &[u8]) -> Result<Vec<Header>, BadHead> {
    let mut lines = vec![httparse::EMPTY_HEADER; limits::HEADERS];
    match httparse::parse_headers(bytes, &mut lines) {
        Ok(httparse::Status::Complete((_, lines))) => Ok(headers(lines)),
        _ => Err(BadHead),
    }
}

/// Whether the last line of a head that grows line by line is the empty one. The first `seen` bytes are those before it.
pub(crate) fn head_ends(bytes: &[u8], seen: usize) -> bool {
    let (before, line) = bytes.split_at(seen);
    // A line may have come in parts.
    let empty = matches!(line, b"\n" | b"\r\n") && before.ends_with(b"\n");
    empty || line == b"\n" && before.ends_with(b"\n\r")
}

/// Whether the first bytes can be those of a message of a direction.
pub(crate) fn may_be_head(side: Side, bytes: &[u8]) -> bool {
    match side {
        Side::ToClient => bytes.iter().zip(b"HTTP/1.").all(|(a, b)| a == b),
        Side::ToServer => {
            let method = bytes.iter().take(METHOD_BYTES + 1).take_while(|byte| is_method(**byte)).count();
            method == bytes.len() && method <= METHOD_BYTES || method > 0 && bytes.get(method) == Some(&b' ')
        }
    }
}

fn is_method(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte == b'-' || byte == b'_'
}

/// Whether a segment begins with a whole start line: how the beginning of a message is found again after something is missing.
pub(crate) fn looks_like_start(side: Side, segment: &[u8]) -> bool {
    let line = &segment[..segment.len().min(START_LINE_BYTES)];
    let Some(end) = memchr(b'\n', line) else { return false };
    let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
    match side {
        Side::ToClient => {
            let status = line.strip_prefix(b"HTTP/1.0 ").or_else(|| line.strip_prefix(b"HTTP/1.1 "));
            status.is_some_and(|status| {
                status.len() >= 3
                    && status[..3].iter().all(u8::is_ascii_digit)
                    && status.get(3).is_none_or(|byte| *byte == b' ')
            })
        }
        Side::ToServer => {
            let version = line.ends_with(b" HTTP/1.1") || line.ends_with(b" HTTP/1.0");
            version && may_be_head(side, line) && line.len() > START_LINE_MIN
        }
    }
}

/// `M / HTTP/1.1` is the shortest.
const START_LINE_MIN: usize = 11;
