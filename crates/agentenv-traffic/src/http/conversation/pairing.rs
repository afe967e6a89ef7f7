//! Which response is whose.
//!
//! Responses come in the order of their requests, so it is a matter of counting, until something is missing. Then acknowledgements
//! tell what a client had received when it sent a request; and a client that doesn't pipeline has the response to the one
//! before. Where that leaves more than one way, requests and responses are given apart.

use std::collections::BTreeSet;

use super::{
    super::{
        head::Start,
        open::{Message, Open},
        parser::Parser,
    },
    Conversation,
};
use crate::{
    limits,
    record::{Flag, Header, Upgrade},
    tcp::Side,
};

impl Conversation {
    fn begin_exchange(&mut self) -> Open {
        let id = self.next_id;
        self.next_id += 1;
        Open {
            id,
            request: None,
            ack: None,
            pairable: false,
            interim: Vec::new(),
            response: None,
            upgrade: None,
            flags: BTreeSet::new(),
            reservation: None,
        }
    }

    pub(super) fn request(&mut self, message: Message, ack: Option<u64>, found_again: bool) {
        if self.open.len() >= limits::PENDING {
            self.stop_pairing(Flag::OverLimit);
        }
        let unanswered = self.open.iter().any(Open::is_unanswered);
        if unanswered && found_again && self.parsers[Side::ToClient as usize].is_searching() {
            // Their responses are among what is missing: the client has gone on.
            self.give_up_unanswered(usize::MAX);
        } else if unanswered && (found_again || self.uncertain) {
            self.stop_pairing(Flag::Unpaired);
        }
        self.uncertain = found_again || self.uncertain && unanswered;
        self.parsers[Side::ToServer as usize].body(message.head.request_framing());
        let mut open = self.begin_exchange();
        open.pairable = !self.unpaired;
        open.ack = ack;
        open.flags.extend(found_again.then_some(Flag::Resynchronised));
        open.flags.extend(self.unpaired.then_some(Flag::Unpaired));
        open.request = Some(self.within_budget(&mut open, message));
        self.current[Side::ToServer as usize] = Some(open.id);
        self.open.push_back(open);
    }

    /// Takes a head's memory from the account, or leaves its headers out.
    fn within_budget(&self, open: &mut Open, mut message: Message) -> Message {
        let bytes = 512 + message.head.headers.iter().map(Header::weight).sum::<usize>();
        let reserved = match &mut open.reservation {
            Some(reservation) => reservation.grow(bytes),
            none => {
                *none = self.bodies.budget().reserve(bytes);
                none.is_some()
            }
        };
        if !reserved {
            message.head.headers = Vec::new();
            open.flags.insert(Flag::OverLimit);
        }
        message
    }

    /// From here on each request and each response stands alone.
    fn stop_pairing(&mut self, flag: Flag) {
        self.unpaired = true;
        let (complete, going_on): (Vec<Open>, _) = std::mem::take(&mut self.open)
            .into_iter()
            .map(|mut open| {
                if open.is_unanswered() {
                    open.pairable = false;
                    open.flags.extend([Flag::Unpaired, flag]);
                }
                open
            })
            .partition(Open::is_complete);
        self.open = going_on.into();
        for open in complete {
            self.emit(open);
        }
    }

    /// The first of the unanswered requests won't be answered any more.
    fn give_up_unanswered(&mut self, count: usize) {
        let unanswered = self.open.iter().filter(|open| open.is_unanswered()).take(count);
        let ids: Vec<u64> = unanswered.map(|open| open.id).collect();
        for id in ids {
            let at = self.open.iter().position(|open| open.id == id);
            if let Some(mut open) = at.and_then(|at| self.open.remove(at)) {
                open.flags.insert(Flag::Incomplete);
                self.emit(open);
            }
        }
    }

    /// The exchange that a response is of, by where it began.
    fn pair(&mut self, began: u64, found_again: bool) -> Option<u64> {
        // A request that was sent after some of the response had been received isn't what it answers.
        let asked = |open: &&Open| open.is_unanswered() && open.ack.is_none_or(|ack| ack <= began);
        let unanswered = || self.open.iter().filter(asked);
        if !found_again {
            let first = unanswered().next().map(|open| open.id);
            let missing = self.parsers[Side::ToServer as usize].is_searching();
            if first.is_none() && (self.uncertain || !missing) {
                // An answer that nobody asked for, or to something that is not known to be missing.
                self.stop_pairing(Flag::Unpaired);
            }
            return first;
        }
        self.uncertain = true;
        let count = unanswered().count();
        if self.parsers[Side::ToServer as usize].is_searching() {
            // Requests are missing too, and the response is of one of them: it came after what those waited for.
            self.give_up_unanswered(count);
            return None;
        }
        // Responses may be missing. A client that doesn't pipeline sends a request when it has the response to the one before.
        let last: Vec<_> = unanswered().skip(count.saturating_sub(2)).map(|open| (open.id, open.ack)).collect();
        if let [(_, before), (_, last)] = last[..]
            && before == last
        {
            self.stop_pairing(Flag::Unpaired);
            return None;
        }
        self.give_up_unanswered(count.saturating_sub(1));
        last.last().map(|(id, _)| *id)
    }

    pub(super) fn response(&mut self, message: Message, began: u64, found_again: bool) {
        let Start::Response { status, .. } = message.head.start else { return };
        let id = self.pair(began, found_again);
        let is_upgrade = status == 101 && message.head.upgrade().is_some();
        if status < 200 && !is_upgrade {
            self.parsers[Side::ToClient as usize].body(None);
            if let Some(open) = self.find(id).filter(|open| open.interim.len() < limits::INTERIM) {
                open.interim.push(status);
            }
            return;
        }
        let at = self.open.iter().position(|open| Some(open.id) == id);
        let mut open = at.and_then(|at| self.open.remove(at)).unwrap_or_else(|| self.begin_exchange());
        open.flags.extend(found_again.then_some(Flag::Resynchronised));
        open.flags.extend((open.request.is_none() && self.unpaired).then_some(Flag::Unpaired));
        let method = open.method().map(str::to_owned);
        let framing = message.head.response_framing(status, method.as_deref());
        let tunnel = method.as_deref() == Some("CONNECT") && (200..300).contains(&status);
        let protocol = if is_upgrade { message.head.upgrade() } else { tunnel.then(|| "tunnel".to_owned()) };
        let last_us = message.last_us;
        open.response = Some(self.within_budget(&mut open, message));
        self.current[Side::ToClient as usize] = Some(open.id);
        match protocol {
            None => self.parsers[Side::ToClient as usize].body(framing),
            Some(protocol) => {
                open.flags.extend((protocol == "websocket").then_some(Flag::Websocket));
                let upgrade = Upgrade { protocol, to_server_bytes: 0, to_client_bytes: 0, last_us };
                open.upgrade = Some(upgrade);
                self.parsers.iter_mut().for_each(Parser::other);
                let messages = [open.request.as_mut(), open.response.as_mut()];
                messages.into_iter().flatten().for_each(|message| message.done = true);
                // Both directions are this exchange's from here on.
                self.current = [Some(open.id); 2];
            }
        }
        self.open.insert(at.unwrap_or(self.open.len()), open);
    }
}
