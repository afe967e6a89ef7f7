//! Requests and responses of one connection, paired.

mod pairing;

use std::collections::{BTreeSet, VecDeque};

use super::{
    body::Bodies,
    head::{Head, looks_like_start, may_be_head},
    open::{Message, Open},
    parser::{Event, Lost, Parser},
};
use crate::{
    record::{Application as Carried, Flag, Peers, Record},
    tcp::{Application, Piece, Side},
    tls::ClientHello,
};

/// How HTTP/2 begins where both ends know of it.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0";

/// How a connection came to its end, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Closed,
    Reset,
    /// The capture ended first, or it was idle for longer than it could be followed.
    Open,
}

/// What a connection is taken to carry.
#[derive(Debug)]
enum Mode {
    Unknown,
    Http,
    Tls(ClientHello),
    Http2,
    Other,
}

/// What a connection carries, as far as it has come.
#[derive(Debug)]
pub(crate) struct Conversation {
    peers: Peers,
    bodies: Bodies,
    mode: Mode,
    parsers: [Parser; 2],
    open: VecDeque<Open>,
    next_id: u64,
    /// The exchanges whose request and response are going on.
    current: [Option<u64>; 2],
    /// It can't be told any more which response is whose.
    unpaired: bool,
    /// Messages may be missing right before what was found again: it can be told only of a client that doesn't pipeline.
    uncertain: bool,
    done: Vec<Record>,
    /// How many exchanges were found.
    pub(crate) exchanges: u64,
    /// What has to be known of the whole connection.
    pub(crate) flags: BTreeSet<Flag>,
}

impl Conversation {
    pub(crate) fn new(peers: Peers, bodies: &Bodies) -> Self {
        Self {
            peers,
            bodies: bodies.clone(),
            mode: Mode::Unknown,
            parsers: Side::BOTH.map(|side| Parser::new(side, bodies.budget())),
            open: VecDeque::new(),
            next_id: 1,
            current: [None, None],
            unpaired: false,
            uncertain: false,
            done: Vec::new(),
            exchanges: 0,
            flags: BTreeSet::new(),
        }
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// The exchanges that have come to their end since the last call.
    pub(crate) fn take_done(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.done)
    }

    /// What it carried.
    pub(crate) fn carried(&self) -> Carried {
        match &self.mode {
            Mode::Unknown => Carried::None,
            Mode::Http if self.exchanges == 0 && self.open.is_empty() => Carried::Other,
            Mode::Http => Carried::Http,
            Mode::Http2 => Carried::Http2,
            Mode::Tls(hello) => Carried::Tls { sni: hello.sni().map(str::to_owned), alpn: hello.alpn().to_vec() },
            Mode::Other => Carried::Other,
        }
    }

    /// Ends everything that isn't over.
    pub(crate) fn finish(&mut self, ending: Ending) {
        let flag = match ending {
            Ending::Closed => None,
            Ending::Reset => Some(Flag::Reset),
            Ending::Open => Some(Flag::Open),
        };
        self.flags.extend(flag);
        for mut open in std::mem::take(&mut self.open) {
            let whole = |message: &Option<Message>| message.as_ref().is_some_and(|message| message.done);
            let whole = (open.request.is_none() || whole(&open.request)) && whole(&open.response);
            if !whole {
                open.flags.insert(Flag::Incomplete);
            }
            if !whole || open.upgrade.is_some() {
                open.flags.extend(flag);
            }
            self.emit(open);
        }
        self.current = [None, None];
    }

    fn emit(&mut self, open: Open) {
        self.exchanges += 1;
        self.done.push(Record::Exchange(Box::new(open.finish(&self.peers))));
    }

    fn find(&mut self, id: Option<u64>) -> Option<&mut Open> {
        let id = id?;
        self.open.iter_mut().find(|open| open.id == id)
    }

    /// The message that is going on in a direction.
    fn message(&mut self, side: Side) -> Option<(&mut Message, &mut BTreeSet<Flag>)> {
        let open = self.find(self.current[side as usize])?;
        let message = match side {
            Side::ToServer => open.request.as_mut(),
            Side::ToClient => open.response.as_mut(),
        };
        message.map(|message| (message, &mut open.flags))
    }

    /// The message of a direction is over.
    fn end_message(&mut self, side: Side, flags: &[Flag]) {
        if let Some((message, known)) = self.message(side) {
            message.done = true;
            known.extend(flags);
        }
        let id = self.current[side as usize].take();
        let complete = self.open.iter().position(|open| Some(open.id) == id && open.is_complete());
        if let Some(open) = complete.and_then(|at| self.open.remove(at)) {
            self.emit(open);
        }
    }

    fn decide(&mut self, side: Side, piece: &Piece<'_>) -> Mode {
        let bytes = piece.bytes;
        let tls = piece.starts_segment && matches!(bytes, [0x14..=0x17, 0x03, 0x00..=0x04, ..]);
        if tls || side == Side::ToServer && bytes.first() == Some(&0x16) {
            return Mode::Tls(ClientHello::new(self.bodies.budget()));
        }
        if bytes.starts_with(HTTP2_PREFACE) {
            return Mode::Http2;
        }
        if self.parsers[side as usize].is_searching() {
            let found = piece.starts_segment && looks_like_start(side, bytes);
            return if found { Mode::Http } else { Mode::Unknown };
        }
        if may_be_head(side, bytes) { Mode::Http } else { Mode::Other }
    }

    fn http(&mut self, side: Side, piece: Piece<'_>) {
        let mut rest = piece.bytes;
        loop {
            let read = piece.bytes.len() - rest.len();
            let (at, fresh) = (piece.offset + read as u64, piece.starts_segment && read == 0);
            let parser = &mut self.parsers[side as usize];
            let Some(event) = parser.next(&mut rest, piece.time_us, at, fresh) else { break };
            match event {
                Event::Head { head, began_us, began, found_again } => {
                    let message = self.begin_message(head, began_us, piece.time_us);
                    match side {
                        Side::ToServer => self.request(message, piece.ack, found_again),
                        Side::ToClient => self.response(message, began, found_again),
                    }
                }
                Event::Body(bytes) => {
                    if let Some((message, _)) = self.message(side) {
                        message.body.push(bytes);
                        message.last_us = message.last_us.max(piece.time_us);
                    }
                }
                Event::End { trailers } => {
                    if let Some((message, _)) = self.message(side) {
                        message.trailers = trailers;
                        message.last_us = message.last_us.max(piece.time_us);
                    }
                    self.end_message(side, &[]);
                }
                Event::Broken => self.broken(side),
                Event::Other(bytes) => self.other(side, bytes, piece.time_us),
            }
        }
    }

    fn begin_message(&self, head: Head, began_us: u64, time_us: u64) -> Message {
        let body = self.bodies.begin(head.header("content-encoding"));
        Message { head, body, trailers: Vec::new(), began_us, last_us: time_us.max(began_us), done: false }
    }

    fn other(&mut self, side: Side, bytes: u64, time_us: u64) {
        let Some(upgrade) = self.find(self.current[side as usize]).and_then(|open| open.upgrade.as_mut()) else {
            return;
        };
        match side {
            Side::ToServer => upgrade.to_server_bytes += bytes,
            Side::ToClient => upgrade.to_client_bytes += bytes,
        }
        upgrade.last_us = upgrade.last_us.max(time_us);
    }

    fn broken(&mut self, side: Side) {
        if !self.parsers.iter().any(|parser| parser.spoke) {
            self.mode = Mode::Other;
            self.parsers.iter_mut().for_each(Parser::other);
            return;
        }
        self.flags.insert(Flag::Malformed);
        self.end_message(side, &[Flag::Malformed, Flag::Incomplete]);
    }
}

impl Application for Conversation {
    fn data(&mut self, side: Side, piece: Piece<'_>) {
        if matches!(self.mode, Mode::Unknown) {
            self.mode = self.decide(side, &piece);
        }
        match &mut self.mode {
            Mode::Http => self.http(side, piece),
            Mode::Tls(hello) if side == Side::ToServer => hello.push(piece.bytes),
            Mode::Unknown | Mode::Tls(_) | Mode::Http2 | Mode::Other => {}
        }
    }

    fn lost(&mut self, side: Side, bytes: u64) {
        self.flags.insert(Flag::Incomplete);
        match &mut self.mode {
            Mode::Tls(hello) if side == Side::ToServer => hello.give_up(),
            Mode::Unknown => self.parsers[side as usize].search(),
            Mode::Http => match self.parsers[side as usize].lost(bytes) {
                Lost::Between => {}
                Lost::Within => {
                    if let Some((message, flags)) = self.message(side) {
                        message.body.lost();
                        flags.insert(Flag::Incomplete);
                    }
                    // The hole may have been the body's end.
                    let last_us = self.message(side).map_or(0, |(message, _)| message.last_us);
                    self.http(
                        side,
                        Piece { time_us: last_us, offset: 0, ack: None, starts_segment: false, bytes: &[] },
                    );
                }
                Lost::Track => self.end_message(side, &[Flag::Incomplete]),
            },
            Mode::Tls(_) | Mode::Http2 | Mode::Other => {}
        }
    }

    fn began_before(&mut self, side: Side) {
        self.flags.insert(Flag::BeganBefore);
        self.uncertain = true;
        self.parsers[side as usize].search();
    }

    fn ended(&mut self, side: Side) {
        if matches!(self.mode, Mode::Http) {
            let whole = self.parsers[side as usize].ended();
            let upgraded = self.find(self.current[side as usize]).is_some_and(|open| open.upgrade.is_some());
            if !upgraded {
                self.end_message(side, if whole { &[] } else { &[Flag::Incomplete] });
            }
        }
    }
}
