//! One line of the table of what happened.

use std::io;

use serde::Serialize;

use crate::{
    har::{date_time, write_json},
    record::{Application, Exchange, Flag, Flow, Peers, Record},
    step::Step,
};

/// A line: an exchange, or a flow that is no HTTP.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// When it began: RFC 3339, UTC, microseconds.
    pub time: String,
    /// The task step in which it began.
    pub step: Option<String>,
    /// The website whose ring it is in.
    pub site: String,
    /// Who connected: `gateway`, a service, or `unknown`.
    pub client: String,
    /// Who was connected to: a service, or `unknown`.
    pub service: String,
    /// Where the client connected from.
    pub client_address: String,
    /// Where it connected to.
    pub server_address: String,
    /// The connection's number in this reading of its ring.
    pub connection: u64,
    /// `http`, `websocket`, `tls`, `http2`, `tcp` or `udp`.
    pub protocol: String,
    /// Method of the request.
    pub method: Option<String>,
    /// URL of the request.
    pub url: Option<String>,
    /// The host name in the ClientHello of a TLS flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sni: Option<String>,
    /// Status of the response.
    pub status: Option<u16>,
    /// The response's media type.
    pub media_type: Option<String>,
    /// Bytes of the request's body, or of all that the client sent in a flow or a WebSocket.
    pub request_bytes: u64,
    /// The same of the response, or the service.
    pub response_bytes: u64,
    /// Packets of a flow, both ways.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u64>,
    /// From the first byte to the last, in milliseconds.
    pub duration_ms: f64,
    /// What has to be known of it.
    pub flags: Vec<Flag>,
}

impl Row {
    /// The line of a record; `None` for the connections of HTTP exchanges, which have lines of their own, and for those that
    /// carried nothing.
    pub fn of(record: &Record, steps: &[Step]) -> Option<Self> {
        match record {
            Record::Exchange(exchange) => Some(Self::of_exchange(exchange, steps)),
            Record::Flow(flow) => Self::of_flow(flow, steps),
        }
    }

    /// The line as JSON, in which nothing is left that a terminal obeys.
    pub fn to_json(&self) -> io::Result<Vec<u8>> {
        let mut json = Vec::new();
        write_json(&mut json, self)?;
        Ok(json)
    }

    /// What every line has.
    fn begun(started_us: u64, step: Option<usize>, peers: &Peers, steps: &[Step]) -> Self {
        Self {
            time: date_time(started_us),
            step: step_name(step, steps),
            site: peers.website.to_string(),
            client: peers.client.to_string(),
            service: peers.service.to_string(),
            client_address: peers.client_address.to_string(),
            server_address: peers.server_address.to_string(),
            connection: peers.connection,
            ..Self::default()
        }
    }

    fn of_exchange(exchange: &Exchange, steps: &[Step]) -> Self {
        let (request, response) = (exchange.request.as_ref(), exchange.response.as_ref());
        let upgrade = exchange.upgrade.as_ref();
        let sent = request.map_or(0, |request| request.body.encoded_bytes);
        let received = response.map_or(0, |response| response.body.encoded_bytes);
        let ended_us = upgrade.map_or(0, |upgrade| upgrade.last_us.saturating_sub(exchange.started_us));
        Self {
            protocol: upgrade.map_or_else(|| "http".to_owned(), |upgrade| upgrade.protocol.clone()),
            method: request.map(|request| request.method.clone()),
            url: request.map(|request| request.url.clone()),
            status: response.map(|response| response.status),
            media_type: response.and_then(|response| response.header("content-type")).map(str::to_owned),
            request_bytes: upgrade.map_or(sent, |upgrade| upgrade.to_server_bytes),
            response_bytes: upgrade.map_or(received, |upgrade| upgrade.to_client_bytes),
            duration_ms: milliseconds(exchange.duration_us().max(ended_us)),
            flags: exchange.flags.iter().copied().collect(),
            ..Self::begun(exchange.started_us, exchange.step, &exchange.peers, steps)
        }
    }

    fn of_flow(flow: &Flow, steps: &[Step]) -> Option<Self> {
        let (protocol, sni) = match &flow.application {
            Application::Http => return None,
            Application::None if flow.transport == "tcp" => return None,
            Application::Http2 => ("http2", None),
            Application::Tls { sni, .. } => ("tls", sni.clone()),
            Application::None | Application::Other => (flow.transport, None),
        };
        Some(Self {
            protocol: protocol.to_owned(),
            sni,
            request_bytes: flow.to_server_bytes,
            response_bytes: flow.to_client_bytes,
            packets: Some(flow.to_server_packets + flow.to_client_packets),
            duration_ms: milliseconds(flow.ended_us.saturating_sub(flow.started_us)),
            flags: flow.flags.iter().copied().collect(),
            ..Self::begun(flow.started_us, flow.step, &flow.peers, steps)
        })
    }
}

fn step_name(step: Option<usize>, steps: &[Step]) -> Option<String> {
    steps.get(step?).map(|step| step.name.clone())
}

/// Microseconds as milliseconds.
pub(crate) fn milliseconds(us: u64) -> f64 {
    us as f64 / 1000.0
}
