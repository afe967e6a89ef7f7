//! Refuses HTTP/1 framing that another reader could understand otherwise (rows 2, 11 to 13).
//!
//! hyper reads some messages leniently: a lone LF ends a line, `Content-Length` beside `Transfer-Encoding` is dropped, chunk
//! extensions are skipped. What it writes on is clean, so nothing can be smuggled past us; but an attempt is to be answered
//! 400 and closed. So the bytes pass by this reader first. Where it sees a fault it puts a NUL in the place of the byte that
//! completes it: hyper then refuses the head with 400, or the body with an error, and closes.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

use crate::limits::HTTP1_BUFFER_BYTES;

#[cfg(test)]
mod tests;

/// Opened by the server when an upgrade or a CONNECT was granted; until then, nothing may follow the head.
#[derive(Clone, Default)]
pub(crate) struct UpgradeGate(Arc<AtomicBool>);

impl UpgradeGate {
    pub(crate) fn open(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The reader, around the connection.
pub(crate) struct Guard<T> {
    io: T,
    scanner: Scanner,
    gate: UpgradeGate,
}

impl<T> Guard<T> {
    pub(crate) fn new(io: T, gate: UpgradeGate) -> Self {
        Self { io, scanner: Scanner::default(), gate }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guard<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.scanner.state == State::Poisoned {
            // The rest of what the client sends is nobody's business.
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        let fresh = &mut buf.filled_mut()[before..];
        if this.scanner.state == State::Await && !fresh.is_empty() {
            if !this.gate.is_open() {
                return Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "bytes before the upgrade was granted",
                )));
            }
            this.scanner.state = State::Raw;
        }
        if let Some(fault) = this.scanner.fault(fresh) {
            this.scanner.state = State::Poisoned;
            fresh[fault] = 0;
            buf.set_filled(before + fault + 1);
        }
        Poll::Ready(Ok(()))
    }
}

crate::write_through::write_through!(Guard);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// In the request line or the fields.
    #[default]
    Head,
    /// In a body of so many more bytes.
    Body(u64),
    /// In the line with a chunk's size.
    ChunkSize,
    /// In a chunk of so many more bytes.
    Chunk(u64),
    /// In the line end behind a chunk.
    ChunkEnd,
    /// In the trailers.
    Trailers,
    /// Behind a head that asks for something else than HTTP.
    Await,
    /// No HTTP any more.
    Raw,
    /// A fault was seen.
    Poisoned,
}

/// What the fields of a head say about its framing.
#[derive(Default)]
struct Head {
    request_line: bool,
    old: bool,
    connect: bool,
    websocket: bool,
    length: Option<u64>,
    chunked: bool,
    hosts: u32,
}

struct Fault;

#[derive(Default)]
struct Scanner {
    state: State,
    line: Vec<u8>,
    head: Head,
    head_bytes: usize,
}

impl Scanner {
    /// Reads on. The place of the byte that completes a fault, where there is one.
    fn fault(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            match &mut self.state {
                State::Body(left) | State::Chunk(left) => {
                    let step = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len() - at);
                    *left -= step as u64;
                    at += step;
                    self.state = match self.state {
                        State::Body(0) => State::Head,
                        State::Chunk(0) => State::ChunkEnd,
                        other => other,
                    };
                }
                State::Raw | State::Poisoned => return None,
                // Bytes in the same read as the head that they follow.
                State::Await => return Some(at),
                State::Head | State::ChunkSize | State::ChunkEnd | State::Trailers => {
                    if self.byte(bytes[at]).is_err() || (self.state == State::Await && at + 1 < bytes.len()) {
                        return Some(at);
                    }
                    at += 1;
                }
            }
        }
        None
    }

    fn byte(&mut self, byte: u8) -> Result<(), Fault> {
        self.head_bytes += 1;
        // hyper's own limit comes first and has a status of its own; this one only bounds `line`.
        if self.head_bytes > 2 * HTTP1_BUFFER_BYTES {
            return Err(Fault);
        }
        if byte != b'\n' {
            // A CR that no LF follows.
            if self.line.last() == Some(&b'\r') {
                return Err(Fault);
            }
            self.line.push(byte);
            return Ok(());
        }
        // A LF that no CR precedes.
        if self.line.pop() != Some(b'\r') {
            return Err(Fault);
        }
        let line = std::mem::take(&mut self.line);
        self.end_of_line(&line)?;
        self.line = line;
        self.line.clear();
        Ok(())
    }

    fn end_of_line(&mut self, line: &[u8]) -> Result<(), Fault> {
        match self.state {
            State::Head if !self.head.request_line => {
                if !line.is_empty() {
                    self.head = Head { request_line: true, ..request_line(line)? };
                }
            }
            State::Head if line.is_empty() => self.state = self.end_of_head()?,
            State::Head => self.head.field(line)?,
            State::ChunkSize => {
                self.state = match chunk_size(line)? {
                    0 => State::Trailers,
                    size => State::Chunk(size),
                }
            }
            State::ChunkEnd if line.is_empty() => {
                self.head_bytes = 0;
                self.state = State::ChunkSize;
            }
            State::Trailers if line.is_empty() => {
                self.head_bytes = 0;
                self.state = State::Head;
            }
            State::Trailers => {
                field(line)?;
            }
            _ => return Err(Fault),
        }
        Ok(())
    }

    fn end_of_head(&mut self) -> Result<State, Fault> {
        self.head_bytes = 0;
        let head = std::mem::take(&mut self.head);
        let has_body = head.chunked || head.length.is_some_and(|length| length > 0);
        // An old client may leave the host out; whoever needs one asks for it.
        if head.hosts == 0 && !head.old || (head.connect || head.websocket) && has_body {
            return Err(Fault);
        }
        match (head.chunked, head.length) {
            (true, Some(_)) => Err(Fault),
            (true, None) if head.old => Err(Fault),
            _ if head.connect || head.websocket => Ok(State::Await),
            (true, None) => Ok(State::ChunkSize),
            (false, Some(length)) if length > 0 => Ok(State::Body(length)),
            (false, _) => Ok(State::Head),
        }
    }
}

impl Head {
    fn field(&mut self, line: &[u8]) -> Result<(), Fault> {
        let (name, value) = field(line)?;
        let name = name.to_ascii_lowercase();
        match name.as_slice() {
            b"content-length" => {
                // 18 digits are more than any body and never overflow.
                let digits = !value.is_empty() && value.len() <= 18 && value.iter().all(u8::is_ascii_digit);
                if !digits || self.length.is_some() {
                    return Err(Fault);
                }
                self.length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            }
            b"transfer-encoding" => {
                if self.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(Fault);
                }
                self.chunked = true;
            }
            b"host" => {
                self.hosts += 1;
                if self.hosts > 1 {
                    return Err(Fault);
                }
            }
            b"upgrade" if value.to_ascii_lowercase().windows(9).any(|part| part == b"websocket") => {
                self.websocket = true;
            }
            _ => {}
        }
        Ok(())
    }
}

/// `METHOD target HTTP/1.x`, one space each.
fn request_line(line: &[u8]) -> Result<Head, Fault> {
    let mut parts = line.split(|b| *b == b' ');
    let (Some(method), Some(target), Some(version), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Fault);
    };
    if target.is_empty() || !is_token(method) || !matches!(version, b"HTTP/1.1" | b"HTTP/1.0") {
        return Err(Fault);
    }
    Ok(Head { connect: method == b"CONNECT", old: version == b"HTTP/1.0", ..Head::default() })
}

/// `name: value`; no folding, no space before the colon, no control characters.
fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Fault> {
    let colon = line.iter().position(|b| *b == b':').ok_or(Fault)?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if !is_token(name) || value.iter().any(|b| *b < 0x20 && *b != b'\t' || *b == 0x7f) {
        return Err(Fault);
    }
    Ok((name, value.trim_ascii()))
}

/// Hexadecimal digits and nothing else: no sign, no extension.
fn chunk_size(line: &[u8]) -> Result<u64, Fault> {
    if line.is_empty() || line.len() > 15 || !line.iter().all(u8::is_ascii_hexdigit) {
        return Err(Fault);
    }
    std::str::from_utf8(line).ok().and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or(Fault)
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b))
}
