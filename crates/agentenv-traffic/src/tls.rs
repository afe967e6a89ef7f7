//! TLS, as far as it is in the clear: what the ClientHello names.

use crate::{
    budget::{Budget, Buffer},
    limits,
};

const RECORD_HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const EXTENSION_SERVER_NAME: u16 = 0;
const EXTENSION_ALPN: u16 = 16;

/// Longer than any name.
const NAME_BYTES: usize = 255;

/// Protocols that a client may offer, of which more are not shown.
const PROTOCOLS: usize = 16;

/// A ClientHello while its bytes come.
#[derive(Debug)]
pub(crate) struct ClientHello {
    buffer: Buffer,
    /// Bytes that have to be there before it is worth looking again.
    wanted: usize,
    done: bool,
    sni: Option<String>,
    alpn: Vec<String>,
}

impl ClientHello {
    pub(crate) fn new(budget: &Budget) -> Self {
        let buffer = Buffer::new(budget, limits::CLIENT_HELLO_BYTES);
        Self { buffer, wanted: 0, done: false, sni: None, alpn: Vec::new() }
    }

    pub(crate) fn sni(&self) -> Option<&str> {
        self.sni.as_deref()
    }

    pub(crate) fn alpn(&self) -> &[String] {
        &self.alpn
    }

    /// Takes what the client sends, in order.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.done {
            return;
        }
        let room = limits::CLIENT_HELLO_BYTES - self.buffer.len();
        let fits = self.buffer.push(&bytes[..bytes.len().min(room)]);
        if fits && self.buffer.len() < self.wanted {
            return;
        }
        match handshake(&self.buffer) {
            Handshake::Whole(message) => {
                (self.sni, self.alpn) = names(&message).unwrap_or_default();
                self.give_up();
            }
            Handshake::Partial { wanted } if fits && wanted <= limits::CLIENT_HELLO_BYTES => self.wanted = wanted,
            Handshake::Partial { .. } | Handshake::Other => self.give_up(),
        }
    }

    /// Waits for no more of it.
    pub(crate) fn give_up(&mut self) {
        self.done = true;
        self.buffer.clear();
    }
}

enum Handshake {
    Whole(Vec<u8>),
    Partial { wanted: usize },
    Other,
}

/// The body of the ClientHello, which may lie in several records.
fn handshake(bytes: &[u8]) -> Handshake {
    let mut message = Vec::new();
    let mut at = 0;
    loop {
        let Some((header, rest)) = bytes[at..].split_first_chunk::<5>() else {
            return Handshake::Partial { wanted: at + 5 };
        };
        if header[0] != RECORD_HANDSHAKE || header[1] != 3 {
            return Handshake::Other;
        }
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        if length == 0 {
            return Handshake::Other;
        }
        let record = &rest[..rest.len().min(length)];
        message.extend_from_slice(record);
        if let Some((header, body)) = message.split_first_chunk::<4>() {
            if header[0] != CLIENT_HELLO {
                return Handshake::Other;
            }
            let length = u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
            if let Some(body) = body.get(..length) {
                return Handshake::Whole(body.to_vec());
            }
        }
        if record.len() < length {
            return Handshake::Partial { wanted: at + 5 + length };
        }
        at += 5 + length;
    }
}

/// Server name and protocols of a ClientHello.
fn names(body: &[u8]) -> Option<(Option<String>, Vec<String>)> {
    let mut at = Reader(body);
    // Version and random.
    at.take(34)?;
    at.vector8()?;
    at.vector16()?;
    at.vector8()?;
    let mut extensions = at.vector16()?;
    let (mut sni, mut alpn) = (None, Vec::new());
    while let Some(kind) = extensions.u16() {
        let mut data = extensions.vector16()?;
        match kind {
            EXTENSION_SERVER_NAME => {
                let mut list = data.vector16()?;
                while let Some([kind]) = list.take(1) {
                    let name = list.vector16()?.0;
                    if *kind == 0 && name.len() <= NAME_BYTES {
                        sni.get_or_insert_with(|| String::from_utf8_lossy(name).into_owned());
                    }
                }
            }
            EXTENSION_ALPN => {
                let mut list = data.vector16()?;
                while let Some(name) = list.vector8().filter(|_| alpn.len() < PROTOCOLS) {
                    alpn.push(String::from_utf8_lossy(name.0).into_owned());
                }
            }
            _ => {}
        }
    }
    Some((sni, alpn))
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn vector8(&mut self) -> Option<Reader<'a>> {
        let length = self.take(1)?[0];
        self.take(length.into()).map(Reader)
    }

    fn vector16(&mut self) -> Option<Reader<'a>> {
        let length = self.u16()?;
        self.take(length.into()).map(Reader)
    }
}
