//! What a proxy does to header fields.

use std::net::IpAddr;

use agentenv_protocol::{CONTROL_TOKEN_HEADER, HostName, SITE_KEY_HEADER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version, header, uri::Authority};

use crate::error::ProxyError;

/// Fields that are for one connection (RFC 9110 §7.6.1), and for a proxy.
const HOP_BY_HOP: [&str; 11] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "expect",
];

/// Removes what is for this connection only: the standard fields and those that `Connection` names (row 3).
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = list(headers, header::CONNECTION).filter_map(|name| name.parse().ok()).collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

/// Removes what only the gateway may say: who the client is, the site's key, the control token. `_` counts as `-`, which
/// is what WSGI and CGI make of both.
pub(crate) fn remove_ours(headers: &mut HeaderMap) {
    let ours: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            let name = name.as_str().replace('_', "-");
            name.starts_with("x-forwarded-")
                || matches!(name.as_str(), "forwarded" | "x-real-ip" | SITE_KEY_HEADER | CONTROL_TOKEN_HEADER)
        })
        .cloned()
        .collect();
    for name in ours {
        headers.remove(name);
    }
}

/// Says who the client is and what it asked for (row 9).
pub(crate) fn set_forwarded(headers: &mut HeaderMap, https: bool, host: &HeaderValue, peer: IpAddr) {
    headers.insert("x-forwarded-proto", HeaderValue::from_static(if https { "https" } else { "http" }));
    headers.insert("x-forwarded-host", host.clone());
    if let Ok(peer) = HeaderValue::from_str(&peer.to_string()) {
        headers.insert("x-forwarded-for", peer);
    }
}

/// The elements of a list field, lower-case.
pub(crate) fn list(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = String> + '_ {
    headers
        .get_all(name)
        .into_iter()
        .flat_map(|value| value.as_bytes().split(|b| *b == b','))
        .filter_map(|element| std::str::from_utf8(element).ok())
        .map(|element| element.trim().to_ascii_lowercase())
        .filter(|element| !element.is_empty())
}

/// Whether the request asks to become a WebSocket.
pub(crate) fn is_websocket<B>(request: &Request<B>) -> bool {
    request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && list(request.headers(), header::UPGRADE).any(|protocol| protocol == "websocket")
        && list(request.headers(), header::CONNECTION).any(|option| option == "upgrade")
}

/// Says that what follows is a WebSocket.
pub(crate) fn set_websocket(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

/// Whether the method changes nothing.
pub(crate) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The host that a request names, as it was written: in its target, in `Host`, or in both if they agree (row 15).
pub(crate) fn authority<B>(request: &Request<B>) -> Result<String, ProxyError> {
    let mut hosts = request.headers().get_all(header::HOST).into_iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(ProxyError::BadRequest("more than one Host"));
    }
    let host = host.map(|host| host.to_str().map_err(|_| ProxyError::BadRequest("the Host is no text"))).transpose()?;
    match (request.uri().authority().map(Authority::as_str), host) {
        (None, None | Some("")) => Err(ProxyError::BadRequest("no Host")),
        (Some(target), None) => Ok(target.to_owned()),
        (None, Some(host)) => Ok(host.to_owned()),
        (Some(target), Some(host)) if same_authority(target, host, default_port(request)) => Ok(target.to_owned()),
        (Some(_), Some(_)) => Err(ProxyError::BadRequest("the target's host and the Host differ")),
    }
}

fn default_port<B>(request: &Request<B>) -> u16 {
    match request.uri().scheme_str() {
        Some("http") => 80,
        _ => 443,
    }
}

fn same_authority(a: &str, b: &str, default_port: u16) -> bool {
    let normal = |text: &str| {
        let (host, port) = split_port(text);
        let port = port.map_or(Some(default_port), parse_port);
        (host.trim_end_matches('.').to_ascii_lowercase(), port)
    };
    normal(a) == normal(b)
}

/// Splits `host:port`; the host may be an address in brackets.
pub(crate) fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

/// A port as it is written in an authority: digits, and no sign, which Rust's own parser takes.
pub(crate) fn parse_port(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Whether an authority is this name at this port, or without one.
pub(crate) fn is_host(authority: &str, name: &HostName, port: u16) -> bool {
    let (host, given) = split_port(authority);
    given.is_none_or(|given| parse_port(given) == Some(port)) && HostName::parse(host).is_ok_and(|host| host == *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        fields.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn row_03_fields_that_connection_names_are_removed() {
        let mut headers = map(&[
            ("connection", "authorization, X-Forwarded-For"),
            ("connection", "x-a"),
            ("authorization", "Basic eA=="),
            ("x-a", "1"),
            ("x-b", "2"),
            ("te", "trailers"),
        ]);
        remove_hop_by_hop(&mut headers);
        set_forwarded(&mut headers, true, &HeaderValue::from_static("shop.test"), [127, 0, 0, 1].into());
        assert_eq!(headers.len(), 4, "{headers:?}");
        assert_eq!(headers["x-forwarded-for"], "127.0.0.1");
    }

    #[test]
    fn row_09_what_only_the_gateway_says_is_removed_in_every_spelling() {
        let mut headers = map(&[
            ("x_forwarded_for", "1.2.3.4"),
            ("x-forwarded_proto", "gopher"),
            ("x-forwarded-anything", "x"),
            ("forwarded", "for=x"),
            ("agentenv_site_key", "k"),
            ("agentenv-control-token", "t"),
            ("accept", "*/*"),
        ]);
        remove_ours(&mut headers);
        assert_eq!(headers, map(&[("accept", "*/*")]));
    }

    #[test]
    fn row_15_target_and_host_must_agree() {
        let request = |uri: &str, hosts: &[&str]| {
            let mut request = Request::builder().uri(uri);
            for host in hosts {
                request = request.header(header::HOST, *host);
            }
            authority(&request.body(()).unwrap()).ok()
        };
        assert_eq!(request("http://a.test/x", &["a.test"]).as_deref(), Some("a.test"));
        assert_eq!(request("http://a.test:80/x", &["A.test."]).as_deref(), Some("a.test:80"));
        assert_eq!(request("/x", &["a.test"]).as_deref(), Some("a.test"));
        for (uri, hosts) in [
            ("http://a.test/x", &["b.test"] as &[&str]),
            ("http://a.test/x", &["a.test:81"]),
            ("/x", &[]),
            ("/x", &["a.test", "a.test"]),
            ("/x", &[""]),
        ] {
            assert_eq!(request(uri, hosts), None, "{uri} {hosts:?}");
        }
    }
}
