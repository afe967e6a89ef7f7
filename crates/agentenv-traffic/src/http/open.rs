//! An exchange that isn't over.

use std::{collections::BTreeSet, net::SocketAddr};

use super::{
    body::BodyReader,
    head::{Head, Start},
};
use crate::{
    budget::Reservation,
    record::{Exchange, Flag, Header, Peers, Request, Response, Upgrade},
};

/// One message of it.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) head: Head,
    pub(crate) body: BodyReader,
    pub(crate) trailers: Vec<Header>,
    pub(crate) began_us: u64,
    pub(crate) last_us: u64,
    pub(crate) done: bool,
}

/// An exchange as far as it has come.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) id: u64,
    pub(crate) request: Option<Message>,
    /// What the client had received when it sent the request: an offset in the other direction.
    pub(crate) ack: Option<u64>,
    /// Whether it can be told which response is its own.
    pub(crate) pairable: bool,
    pub(crate) interim: Vec<u16>,
    pub(crate) response: Option<Message>,
    pub(crate) upgrade: Option<Upgrade>,
    pub(crate) flags: BTreeSet<Flag>,
    /// What its heads take of memory.
    pub(crate) reservation: Option<Reservation>,
}

impl Open {
    /// Whether nothing more of it can come.
    pub(crate) fn is_complete(&self) -> bool {
        let sent = self.request.as_ref().is_none_or(|request| request.done);
        let answered = self.response.as_ref().map_or(!self.pairable, |response| response.done);
        sent && answered && self.upgrade.is_none()
    }

    /// Whether a response to it is still to come.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.pairable && self.request.is_some() && self.response.is_none()
    }

    /// The method of its request.
    pub(crate) fn method(&self) -> Option<&str> {
        match &self.request.as_ref()?.head.start {
            Start::Request { method, .. } => Some(method),
            Start::Response { .. } => None,
        }
    }

    pub(crate) fn finish(self, peers: &Peers) -> Exchange {
        let mut flags = self.flags;
        if self.request.is_none() {
            flags.insert(Flag::RequestMissing);
        }
        if self.response.is_none() {
            flags.insert(Flag::ResponseMissing);
        }
        let answered = self.response.as_ref().map(|response| (response.began_us, response.last_us));
        let started_us = match (&self.request, answered) {
            (Some(request), _) => request.began_us,
            (None, answered) => answered.map_or(0, |(began_us, _)| began_us),
        };
        let sent_us = self.request.as_ref().map_or(started_us, |request| request.last_us);
        let sent_us = answered.map_or(sent_us, |(began_us, _)| sent_us.min(began_us)).max(started_us);
        let (began_us, last_us) = answered.unwrap_or((sent_us, sent_us));
        let request = self.request.and_then(|message| request(message, peers.server_address, &mut flags));
        let response = self.response.and_then(|message| response(message, &mut flags));
        Exchange {
            started_us,
            send_us: sent_us - started_us,
            wait_us: began_us.saturating_sub(sent_us),
            receive_us: last_us.saturating_sub(began_us),
            peers: peers.clone(),
            step: None,
            request,
            interim: self.interim,
            response,
            upgrade: self.upgrade,
            flags,
        }
    }
}

fn request(message: Message, server: SocketAddr, flags: &mut BTreeSet<Flag>) -> Option<Request> {
    let host = message.head.header("host").unwrap_or_default().to_owned();
    let Head { start: Start::Request { method, target }, version, headers, bytes } = message.head else { return None };
    let (body, noted) = message.body.finish();
    flags.extend(noted);
    let url = url(&method, &target, &host, server);
    Some(Request { method, target, url, version, headers, trailers: message.trailers, head_bytes: bytes, body })
}

fn response(message: Message, flags: &mut BTreeSet<Flag>) -> Option<Response> {
    let Head { start: Start::Response { status, reason }, version, headers, bytes } = message.head else { return None };
    let (body, noted) = message.body.finish();
    flags.extend(noted);
    Some(Response { status, reason, version, headers, trailers: message.trailers, head_bytes: bytes, body })
}

/// The URL that a request is for.
pub(crate) fn url(method: &str, target: &str, host: &str, server: SocketAddr) -> String {
    let absolute = target.get(..8).unwrap_or(target).to_ascii_lowercase();
    if absolute.starts_with("http://") || absolute.starts_with("https://") {
        return target.to_owned();
    }
    if method == "CONNECT" {
        return format!("http://{target}");
    }
    let of_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]%".contains(&byte);
    let host = if host.is_empty() || !host.bytes().all(of_host) { server.to_string() } else { host.to_owned() };
    let slash = if target.starts_with('/') { "" } else { "/" };
    format!("http://{host}{slash}{target}")
}
