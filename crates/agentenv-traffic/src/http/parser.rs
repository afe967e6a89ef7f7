//! One direction of a connection as a sequence of messages.

use memchr::memchr;

use super::head::{Framing, Head, head_ends, looks_like_start, may_be_head, trailers};
use crate::{
    budget::{Budget, Buffer},
    limits,
    record::Header,
    tcp::Side,
};

/// Bytes by which a head is told from something else.
const START_BYTES: usize = 64;

/// What comes next in a direction.
#[derive(Debug)]
pub(crate) enum Event<'a> {
    /// The head of a message; who takes it says how its body is framed before going on.
    Head { head: Head, began_us: u64, began: u64, found_again: bool },
    /// Bytes of the body.
    Body(&'a [u8]),
    /// The message is over.
    End { trailers: Vec<Header> },
    /// What comes is no HTTP: the message that was going on, if any, is broken off.
    Broken,
    /// Bytes of another protocol.
    Other(u64),
}

#[derive(Debug)]
enum State {
    /// Waits for a segment that begins with a message.
    Search,
    Head,
    Length(u64),
    UntilClose,
    ChunkSize,
    Chunk(u64),
    /// The line's end behind a chunk's bytes: how many bytes of it were there.
    ChunkEnd,
    Trailers,
    Other,
}

/// A direction's parser.
#[derive(Debug)]
pub(crate) struct Parser {
    side: Side,
    state: State,
    /// A head, a chunk's size or trailers, as far as they are there.
    buffer: Buffer,
    began_us: u64,
    /// Where the head begins.
    began: u64,
    found_again: bool,
    /// Whether a head was ever parsed.
    pub(crate) spoke: bool,
}

impl Parser {
    pub(crate) fn new(side: Side, budget: &Budget) -> Self {
        let buffer = Buffer::new(budget, limits::HEAD_BYTES);
        Self { side, state: State::Head, buffer, began_us: 0, began: 0, found_again: false, spoke: false }
    }

    /// Begins to look for the next message.
    pub(crate) fn search(&mut self) {
        self.buffer.clear();
        self.state = State::Search;
    }

    /// Whether it is looking for the next message.
    pub(crate) fn is_searching(&self) -> bool {
        matches!(self.state, State::Search)
    }

    /// Passes on everything that comes as another protocol's.
    pub(crate) fn other(&mut self) {
        self.buffer.clear();
        self.state = State::Other;
    }

    /// Says how the body of the message whose head was given is framed.
    pub(crate) fn body(&mut self, framing: Option<Framing>) {
        self.state = match framing {
            None => State::Length(0),
            Some(Framing::Length(length)) => State::Length(length),
            Some(Framing::UntilClose) => State::UntilClose,
            Some(Framing::Chunked) => State::ChunkSize,
        };
    }

    /// The next event, and what is left of the bytes. `at` is where the bytes are, `fresh` says whether they begin a segment.
    pub(crate) fn next<'a>(&mut self, bytes: &mut &'a [u8], time_us: u64, at: u64, fresh: bool) -> Option<Event<'a>> {
        let length = bytes.len();
        loop {
            if let State::Length(0) = self.state {
                self.state = State::Head;
                return Some(Event::End { trailers: Vec::new() });
            }
            if bytes.is_empty() {
                return None;
            }
            match self.state {
                State::Search if fresh && looks_like_start(self.side, bytes) => {
                    self.state = State::Head;
                    self.found_again = true;
                }
                State::Search => *bytes = &[],
                State::Other => return Some(Event::Other(std::mem::take(bytes).len() as u64)),
                State::UntilClose => return Some(Event::Body(std::mem::take(bytes))),
                State::Length(left) => {
                    let (body, left) = take(bytes, left);
                    self.state = State::Length(left);
                    return Some(Event::Body(body));
                }
                State::Chunk(left) => {
                    let (body, left) = take(bytes, left);
                    self.state = if left == 0 { State::ChunkEnd } else { State::Chunk(left) };
                    return Some(Event::Body(body));
                }
                State::Head => {
                    if let Some(event) = self.head(bytes, time_us, at + (length - bytes.len()) as u64) {
                        return Some(event);
                    }
                }
                State::ChunkSize | State::ChunkEnd => {
                    if self.chunk_line(bytes).is_none() {
                        return Some(self.broken());
                    }
                }
                State::Trailers => match self.trailers(bytes) {
                    Ok(None) => {}
                    Ok(Some(trailers)) => {
                        self.state = State::Head;
                        return Some(Event::End { trailers });
                    }
                    Err(()) => return Some(self.broken()),
                },
            }
        }
    }

    fn broken(&mut self) -> Event<'static> {
        self.search();
        Event::Broken
    }

    fn head(&mut self, bytes: &mut &[u8], time_us: u64, at: u64) -> Option<Event<'static>> {
        if self.buffer.is_empty() {
            // Empty lines between messages are nobody's.
            let blank = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
            *bytes = &bytes[blank..];
            if bytes.is_empty() {
                return None;
            }
            (self.began_us, self.began) = (time_us, at + blank as u64);
        }
        let whole = self.gather(bytes, head_ends);
        if whole.is_err() || !may_be_head(self.side, &self.buffer[..self.buffer.len().min(START_BYTES)]) {
            return Some(self.broken());
        }
        if whole != Ok(true) {
            return None;
        }
        let head = Head::parse(self.side, &self.buffer);
        self.buffer.clear();
        match head {
            Ok(head) => {
                self.spoke = true;
                let found_again = std::mem::take(&mut self.found_again);
                Some(Event::Head { head, began_us: self.began_us, began: self.began, found_again })
            }
            Err(_) => Some(self.broken()),
        }
    }

    /// Moves bytes into the buffer, line by line: all of them, or up to the end that `end` finds.
    fn gather(&mut self, bytes: &mut &[u8], end: fn(&[u8], usize) -> bool) -> Result<bool, ()> {
        while !bytes.is_empty() {
            let line = memchr(b'\n', bytes).map_or(bytes.len(), |at| at + 1);
            let seen = self.buffer.len();
            let (line, rest) = bytes.split_at(line);
            if !self.buffer.push(line) {
                return Err(());
            }
            *bytes = rest;
            if end(&self.buffer, seen) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A line of a chunked body's framing; `None` where it is none.
    fn chunk_line(&mut self, bytes: &mut &[u8]) -> Option<()> {
        let done = self.gather(bytes, |buffer, _| buffer.ends_with(b"\n")).ok()?;
        if self.buffer.len() > limits::CHUNK_LINE_BYTES {
            return None;
        }
        if !done {
            return Some(());
        }
        let line = self.buffer.trim_ascii();
        let state = if matches!(self.state, State::ChunkEnd) {
            if !line.is_empty() {
                return None;
            }
            State::ChunkSize
        } else {
            let digits = line.split(|byte| *byte == b';').next()?.trim_ascii();
            let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
            let size = u64::from_str_radix(str::from_utf8(digits).ok().filter(|_| valid)?, 16).ok()?;
            if size == 0 { State::Trailers } else { State::Chunk(size) }
        };
        self.buffer.clear();
        self.state = state;
        Some(())
    }

    fn trailers(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<Header>>, ()> {
        let end = |buffer: &[u8], seen: usize| matches!(buffer, b"\n" | b"\r\n") || head_ends(buffer, seen);
        if !self.gather(bytes, end)? {
            return Ok(None);
        }
        let parsed = trailers(&self.buffer);
        self.buffer.clear();
        parsed.map(Some).map_err(|_| ())
    }

    /// Takes note of missing bytes: whether it still knows where it is.
    pub(crate) fn lost(&mut self, bytes: u64) -> Lost {
        match &mut self.state {
            State::Other | State::UntilClose => Lost::Within,
            State::Search => Lost::Between,
            State::Length(left) if bytes <= *left => {
                *left -= bytes;
                Lost::Within
            }
            State::Chunk(left) if bytes < *left => {
                *left -= bytes;
                Lost::Within
            }
            State::Head if self.buffer.is_empty() => {
                self.search();
                Lost::Between
            }
            _ => {
                self.search();
                Lost::Track
            }
        }
    }

    /// Takes note of the direction's end: whether the message that was going on is whole.
    pub(crate) fn ended(&mut self) -> bool {
        let whole = match self.state {
            State::UntilClose | State::Search | State::Other => true,
            State::Head => self.buffer.is_empty(),
            _ => false,
        };
        if !matches!(self.state, State::Other) {
            self.search();
        }
        whole
    }
}

/// What missing bytes mean for a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// A hole in a body, whose end is still known.
    Within,
    /// Between messages; there may have been some.
    Between,
    /// The message that was going on is lost from here.
    Track,
}

fn take<'a>(bytes: &mut &'a [u8], left: u64) -> (&'a [u8], u64) {
    let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    (taken, left - count as u64)
}
