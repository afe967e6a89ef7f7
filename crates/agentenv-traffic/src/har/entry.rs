//! One exchange as an entry.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use percent_encoding::percent_decode_str;

use super::{
    cookie,
    types::{Cache, Content, Entry, Pair, PostData, Request, Response, Timings, Upgrade},
};
use crate::{
    record::{self, Body, Exchange, Flag, Header},
    row::milliseconds,
    step::Step,
};

/// What stands for a media type that nobody named; also what browsers write.
const UNKNOWN_MEDIA_TYPE: &str = "x-unknown";

/// A length that is not known.
const UNKNOWN: i64 = -1;

pub(crate) fn entry(exchange: Exchange, steps: &[Step]) -> Entry {
    let time = milliseconds(exchange.duration_us());
    let resource_type = exchange.flags.contains(&Flag::Websocket).then_some("websocket");
    let upgrade = exchange.upgrade.map(|upgrade| Upgrade {
        protocol: upgrade.protocol,
        to_server_bytes: upgrade.to_server_bytes,
        to_client_bytes: upgrade.to_client_bytes,
        duration_ms: milliseconds(upgrade.last_us.saturating_sub(exchange.started_us)),
    });
    let peers = exchange.peers;
    let step = exchange.step.and_then(|step| steps.get(step));
    let timings = Timings {
        blocked: UNKNOWN,
        dns: UNKNOWN,
        connect: UNKNOWN,
        ssl: UNKNOWN,
        send: milliseconds(exchange.send_us),
        wait: milliseconds(exchange.wait_us),
        receive: milliseconds(exchange.receive_us),
    };
    let server = peers.server_address;
    Entry {
        pageref: step.map(page_id),
        started_date_time: super::date_time(exchange.started_us),
        time,
        request: exchange.request.map_or_else(|| no_request(&server.to_string()), request),
        response: exchange.response.map_or_else(|| no_response(&exchange.flags), response),
        cache: Cache {},
        timings,
        server_ip_address: server.ip().to_string(),
        connection: format!("{}.{}", peers.website, peers.connection),
        resource_type,
        website: peers.website.to_string(),
        client: peers.client.to_string(),
        service: peers.service.to_string(),
        step: step.map(|step| step.name.clone()),
        interim: exchange.interim,
        upgrade,
        flags: exchange.flags.into_iter().collect(),
    }
}

/// The id of the page that stands for a step.
pub(crate) fn page_id(step: &Step) -> String {
    format!("step_{}", step.number)
}

fn request(request: record::Request) -> Request {
    let media_type = request.header("content-type").unwrap_or_default().to_owned();
    let body_bytes = request.body.encoded_bytes;
    Request {
        cookies: cookie::sent(&request.headers),
        query_string: query(&request.url),
        post_data: (body_bytes > 0).then(|| post_data(media_type, request.body)).flatten(),
        method: request.method,
        url: request.url,
        http_version: request.version.to_string(),
        headers: pairs(request.headers, request.trailers),
        headers_size: size(request.head_bytes),
        body_size: size(body_bytes),
    }
}

fn no_request(server: &str) -> Request {
    Request {
        method: "UNKNOWN".to_owned(),
        url: format!("http://{server}/"),
        http_version: "HTTP/1.1".to_owned(),
        cookies: Vec::new(),
        headers: Vec::new(),
        query_string: Vec::new(),
        post_data: None,
        headers_size: UNKNOWN,
        body_size: UNKNOWN,
    }
}

fn response(response: record::Response) -> Response {
    let media_type = response.header("content-type").unwrap_or(UNKNOWN_MEDIA_TYPE).to_owned();
    let body_bytes = response.body.encoded_bytes;
    Response {
        cookies: cookie::set(&response.headers),
        redirect_url: response.header("location").unwrap_or_default().to_owned(),
        content: content(media_type, response.body),
        status: response.status,
        status_text: response.reason,
        http_version: response.version.to_string(),
        headers: pairs(response.headers, response.trailers),
        headers_size: size(response.head_bytes),
        body_size: size(body_bytes),
        error: None,
    }
}

fn no_response(flags: &std::collections::BTreeSet<Flag>) -> Response {
    let error = if flags.contains(&Flag::Reset) { "connection reset" } else { "no response captured" };
    Response {
        status: 0,
        status_text: String::new(),
        http_version: String::new(),
        cookies: Vec::new(),
        headers: Vec::new(),
        content: content(UNKNOWN_MEDIA_TYPE.to_owned(), Body::default()),
        redirect_url: String::new(),
        headers_size: UNKNOWN,
        body_size: UNKNOWN,
        error: Some(error),
    }
}

fn pairs(headers: Vec<Header>, trailers: Vec<Header>) -> Vec<Pair> {
    headers.into_iter().chain(trailers).map(|header| Pair { name: header.name, value: header.value }).collect()
}

fn size(bytes: u64) -> i64 {
    bytes.try_into().unwrap_or(i64::MAX)
}

/// What a URL asks for behind its `?`.
fn query(url: &str) -> Vec<Pair> {
    let url = url.split_once('#').map_or(url, |(url, _)| url);
    url.split_once('?').map(|(_, query)| form(query)).unwrap_or_default()
}

/// `a=1&b=2` as pairs.
fn form(text: &str) -> Vec<Pair> {
    let decoded = |part: &str| percent_decode_str(&part.replace('+', " ")).decode_utf8_lossy().into_owned();
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(name, value)| Pair { name: decoded(name), value: decoded(value) })
        .collect()
}

fn post_data(mime_type: String, body: Body) -> Option<PostData> {
    let is_form = mime_type.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded");
    let (text, encoding) = text(body.content?);
    let params = if is_form && encoding.is_none() { form(&text) } else { Vec::new() };
    Some(PostData { mime_type, params, text, encoding })
}

fn content(mime_type: String, body: Body) -> Content {
    let saved = size(body.decoded_bytes) - size(body.encoded_bytes);
    let (text, encoding) = body.content.map(text).unzip();
    Content {
        size: body.decoded_bytes,
        compression: (saved > 0).then_some(saved),
        mime_type,
        text,
        encoding: encoding.flatten(),
    }
}

/// Bytes as text: what is no UTF-8 as Base64.
fn text(bytes: Vec<u8>) -> (String, Option<&'static str>) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, None),
        Err(error) => (BASE64_STANDARD.encode(error.as_bytes()), Some("base64")),
    }
}
