//! What is found in captured traffic.

use std::{collections::BTreeSet, fmt, net::SocketAddr};

use agentenv_protocol::Name;
use serde::Serialize;

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Record {
    /// A request and its response.
    Exchange(Box<Exchange>),
    /// A connection, or a flow of datagrams.
    Flow(Box<Flow>),
}

impl Record {
    /// When it began, in microseconds since 1970.
    pub fn started_us(&self) -> u64 {
        match self {
            Self::Exchange(exchange) => exchange.started_us,
            Self::Flow(flow) => flow.started_us,
        }
    }

    /// The task step in which it began: its place among the steps that the reader was given.
    pub fn step(&self) -> Option<usize> {
        match self {
            Self::Exchange(exchange) => exchange.step,
            Self::Flow(flow) => flow.step,
        }
    }

    /// About what it takes of memory.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Exchange(exchange) => exchange.weight(),
            Self::Flow(_) => size_of::<Flow>(),
        }
    }
}

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Party {
    /// The gateway: for a browser, or the deploy itself.
    Gateway,
    /// A service of the website.
    Service(Name),
    /// The addresses don't say.
    Unknown,
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gateway => f.write_str("gateway"),
            Self::Service(name) => fmt::Display::fmt(name, f),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

/// The two ends of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// The website whose ring it was captured in.
    pub website: Name,
    /// Who connected.
    pub client: Party,
    /// Who was connected to.
    pub service: Party,
    /// The client's address.
    pub client_address: SocketAddr,
    /// The service's address.
    pub server_address: SocketAddr,
    /// The connection's number in this reading, from 1.
    pub connection: u64,
}

/// One HTTP request and its response, as far as they were captured.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// When the first byte of it was captured, in microseconds since 1970.
    pub started_us: u64,
    /// From the first byte of the request to the last, or to the first of the response if that came earlier.
    pub send_us: u64,
    /// From there to the first byte of the response.
    pub wait_us: u64,
    /// From there to the last byte of the response.
    pub receive_us: u64,
    /// Between whom.
    pub peers: Peers,
    /// The task step in which it began: its place among the steps that the reader was given.
    pub step: Option<usize>,
    /// The request.
    pub request: Option<Request>,
    /// Interim responses (1xx) before the response.
    pub interim: Vec<u16>,
    /// The response.
    pub response: Option<Response>,
    /// What the connection became.
    pub upgrade: Option<Upgrade>,
    /// What has to be known of it.
    pub flags: BTreeSet<Flag>,
}

impl Exchange {
    /// From its first byte to its last, in microseconds.
    pub fn duration_us(&self) -> u64 {
        self.send_us + self.wait_us + self.receive_us
    }

    fn weight(&self) -> usize {
        let message = |headers: &[Header], trailers: &[Header], body: &Body| {
            let lines = headers.iter().chain(trailers);
            let lines: usize = lines.map(Header::weight).sum();
            lines + body.content.as_ref().map_or(0, Vec::len)
        };
        let request = self.request.as_ref().map_or(0, |request| {
            message(&request.headers, &request.trailers, &request.body) + request.target.len() + request.url.len()
        });
        let response = self.response.as_ref();
        let response = response.map_or(0, |response| message(&response.headers, &response.trailers, &response.body));
        size_of::<Self>() + request + response
    }
}

/// HTTP's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        })
    }
}

/// One header line. Secrets of agent-env are masked in its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Name, spelled as it was sent.
    pub name: String,
    /// Value.
    pub value: String,
}

impl Header {
    /// About what it takes of memory.
    pub(crate) fn weight(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.value.len()
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method.
    pub method: String,
    /// Target, as it was sent.
    pub target: String,
    /// The whole URL, made of target and `Host`.
    pub url: String,
    /// Version.
    pub version: Version,
    /// Headers, in order.
    pub headers: Vec<Header>,
    /// Trailers of a chunked body.
    pub trailers: Vec<Header>,
    /// Bytes of the head, its empty line included.
    pub head_bytes: u64,
    /// Body.
    pub body: Body,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Reason phrase.
    pub reason: String,
    /// Version.
    pub version: Version,
    /// Headers, in order.
    pub headers: Vec<Header>,
    /// Trailers of a chunked body.
    pub trailers: Vec<Header>,
    /// Bytes of the head, its empty line included.
    pub head_bytes: u64,
    /// Body.
    pub body: Body,
}

impl Request {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }
}

impl Response {
    /// The first value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }
}

/// The first value of a header.
pub(crate) fn find<'a>(headers: &'a [Header], name: &str) -> Option<&'a str> {
    values(headers, name).next().map(str::trim)
}

/// Every value of a header, as it was sent.
pub(crate) fn values<'a>(headers: &'a [Header], name: &str) -> impl DoubleEndedIterator<Item = &'a str> {
    headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value.as_str())
}

/// A body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Body {
    /// Bytes of it that were captured, without the framing of chunks and still encoded.
    pub encoded_bytes: u64,
    /// Bytes of it when decoded, as far as it could be.
    pub decoded_bytes: u64,
    /// Its first decoded bytes, where they were asked for.
    pub content: Option<Vec<u8>>,
}

/// What became of a connection after a request to change its protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// `websocket`, or another protocol's name; `tunnel` after CONNECT.
    pub protocol: String,
    /// Bytes sent to the server in it.
    pub to_server_bytes: u64,
    /// Bytes sent to the client in it.
    pub to_client_bytes: u64,
    /// When the last of them was captured.
    pub last_us: u64,
}

/// What has to be known of an exchange or a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// Not all of it was captured.
    Incomplete,
    /// It is the first that was found again on its connection after something was missing, or after the capture's begin.
    Resynchronised,
    /// No request was captured for this response.
    RequestMissing,
    /// No response was captured for this request.
    ResponseMissing,
    /// Something was missing between pipelined requests, so that it is not known which response is whose: each stands alone.
    Unpaired,
    /// The connection was reset.
    Reset,
    /// The connection had not ended with the capture.
    Open,
    /// It is not HTTP from some point on.
    Malformed,
    /// The connection began before the capture.
    BeganBefore,
    /// It became a WebSocket.
    Websocket,
    /// The body is given in part.
    BodyCut,
    /// The body could not be decoded, or not to its end.
    BodyUndecoded,
    /// Limits of memory cut it short.
    OverLimit,
}

/// What a flow carried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Application {
    /// Nothing.
    None,
    /// HTTP/1.
    Http,
    /// HTTP/2 without TLS.
    Http2,
    /// TLS, with the name that the client asked for.
    Tls {
        /// The name, where the ClientHello was captured and has one.
        sni: Option<String>,
        /// Protocols that the client offered.
        alpn: Vec<String>,
    },
    /// Something else.
    Other,
}

/// One connection, or one flow of datagrams.
#[derive(Clone, Debug)]
pub struct Flow {
    /// When its first packet was captured, in microseconds since 1970.
    pub started_us: u64,
    /// When its last packet was captured.
    pub ended_us: u64,
    /// Between whom.
    pub peers: Peers,
    /// The task step in which it began.
    pub step: Option<usize>,
    /// `tcp` or `udp`.
    pub transport: &'static str,
    /// What it carried.
    pub application: Application,
    /// HTTP exchanges found in it.
    pub exchanges: u64,
    /// Packets to the server.
    pub to_server_packets: u64,
    /// Packets to the client.
    pub to_client_packets: u64,
    /// Payload bytes to the server, each counted once.
    pub to_server_bytes: u64,
    /// Payload bytes to the client.
    pub to_client_bytes: u64,
    /// Payload bytes that were sent and not captured.
    pub lost_bytes: u64,
    /// What has to be known of it.
    pub flags: BTreeSet<Flag>,
}
