//! Which route a target is, read once and strictly (row 16).

use agentenv_protocol::{AGENT_CARD_PATH, Name, TRAFFIC_CAPTURES_PATH};
use percent_encoding::percent_decode_str;

use crate::error::ProxyError;

/// A route of GW-1. `rest` is path and query for the upstream and begins with `/`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    Card,
    Service {
        website: Name,
        rest: String,
    },
    Website {
        website: Name,
        rest: String,
    },
    Bare {
        website: Name,
    },
    Captures,
    /// `id` is all that follows in the path, as it stands there.
    Capture {
        id: String,
    },
    Agent {
        token: String,
        browser: Name,
        rest: String,
    },
}

impl Route {
    /// Whether it needs no token: then it is for the Hosts of [`super::own_host`] only.
    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Card | Self::Website { .. } | Self::Bare { .. })
    }

    /// Reads a target in origin form.
    ///
    /// A path that another reader could resolve to another route is none: dot segments in any encoding, also before a `;`,
    /// empty segments, encoded slashes, backslashes, NUL.
    pub(super) fn parse(target: &str) -> Result<Self, ProxyError> {
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        if path == AGENT_CARD_PATH {
            return Ok(Self::Card);
        }
        // What follows is an id or refused as none; nobody reads it as a path.
        if let Some(below) = path.strip_prefix(TRAFFIC_CAPTURES_PATH) {
            match below.strip_prefix('/') {
                Some(id) => return Ok(Self::Capture { id: id.to_owned() }),
                None if below.is_empty() => return Ok(Self::Captures),
                None => return Err(ProxyError::NoRoute),
            }
        }
        let path = path.strip_prefix('/').ok_or(ProxyError::NoRoute)?;
        let mut segments = path.split('/');
        let last = segments.next_back().unwrap_or_default();
        // Only the last one may be empty.
        if !segments.all(|segment| !segment.is_empty() && is_plain(segment)) || !is_plain(last) {
            return Err(ProxyError::NoRoute);
        }
        let with_query = |rest: &str| match query {
            Some(query) => format!("/{rest}?{query}"),
            None => format!("/{rest}"),
        };
        let mut parts = path.splitn(3, '/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some("svc"), Some(website), Some(rest)) => {
                Ok(Self::Service { website: name(website)?, rest: with_query(rest) })
            }
            (Some("website"), Some(website), Some(rest)) => {
                Ok(Self::Website { website: name(website)?, rest: with_query(rest) })
            }
            (Some("website"), Some(website), None) => Ok(Self::Bare { website: name(website)? }),
            (Some("agent"), Some(token), Some(rest)) => {
                let (browser, rest) = rest.split_once('/').unwrap_or((rest, ""));
                Ok(Self::Agent { token: token.to_owned(), browser: name(browser)?, rest: with_query(rest) })
            }
            _ => Err(ProxyError::NoRoute),
        }
    }
}

fn name(text: &str) -> Result<Name, ProxyError> {
    Name::parse(text).map_err(|_| ProxyError::NoRoute)
}

/// Whether a segment means the same to every reader.
fn is_plain(segment: &str) -> bool {
    // Twice: an upstream may decode once more than it should.
    let once = percent_decode_str(segment).collect::<Vec<u8>>();
    let twice = percent_encoding::percent_decode(&once).collect::<Vec<u8>>();
    [segment.as_bytes(), &once, &twice].iter().all(|bytes| {
        let bare = bytes.split(|b| *b == b';').next().unwrap_or_default();
        !bytes.iter().any(|b| matches!(b, b'/' | b'\\' | 0)) && !matches!(bare, b"." | b"..")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shop() -> Name {
        Name::parse("shop").unwrap()
    }

    #[test]
    fn targets_and_their_routes() {
        for (target, route) in [
            ("/svc/shop/api/ready", Route::Service { website: shop(), rest: "/api/ready".to_owned() }),
            ("/website/shop/", Route::Website { website: shop(), rest: "/".to_owned() }),
            ("/website/shop/a/b/?x=/../%2f", Route::Website { website: shop(), rest: "/a/b/?x=/../%2f".to_owned() }),
            ("/website/shop/a;v=1/%20b", Route::Website { website: shop(), rest: "/a;v=1/%20b".to_owned() }),
            ("/website/shop", Route::Bare { website: shop() }),
            ("/.well-known/agent-card.json?x", Route::Card),
            (
                "/agent/t/shop/json/version/",
                Route::Agent { token: "t".to_owned(), browser: shop(), rest: "/json/version/".to_owned() },
            ),
            ("/traffic/v1/captures", Route::Captures),
            ("/traffic/v1/captures?x=/../", Route::Captures),
            ("/traffic/v1/captures/shop.1.pcap?x", Route::Capture { id: "shop.1.pcap".to_owned() }),
            ("/traffic/v1/captures/../../svc/shop/%2f", Route::Capture { id: "../../svc/shop/%2f".to_owned() }),
            ("/traffic/v1/captures/", Route::Capture { id: String::new() }),
            ("/agent/t/shop", Route::Agent { token: "t".to_owned(), browser: shop(), rest: "/".to_owned() }),
        ] {
            assert_eq!(Route::parse(target).ok(), Some(route), "{target}");
        }
    }

    #[test]
    fn row_16_paths_that_lead_into_another_route_are_none() {
        for target in [
            "/",
            "*",
            "",
            "/svc",
            "/svc/shop",
            "/svc/",
            "/other/",
            "/traffic/v1/",
            "/traffic/v1/captures.pcap",
            "/traffic/v2/captures",
            "/traffic/v1/%63aptures",
            "/x/../traffic/v1/captures",
            "//traffic/v1/captures",
            "/SVC/shop/",
            "/website/shop/../tracker/",
            "/website/shop/%2e%2e/tracker/",
            "/website/shop/%2E./tracker/",
            "/website/shop/..;/tracker/",
            "/website/shop/..;x=1/tracker/",
            "/website/shop/%2e%2e;/tracker/",
            "/website/shop/%252e%252e/x",
            "/website/shop/..",
            "/website/shop/.",
            "/website/shop/%2e",
            "/website//shop/",
            "//website/shop/",
            "/website/shop//x",
            "/website/shop//",
            "//svc/shop/",
            "/website/shop/a%2fb",
            "/website/shop/a%2Fb",
            "/website/shop/a%5cb",
            "/website/shop/a\\b",
            "/website/shop/%252f",
            "/website/shop%2f..%2ftracker/",
            "/website/shop%00/",
            "/website/shop/%00",
            "/website/shop;/x",
            "/website;/shop/",
            "/website/%73hop/",
            "/%77ebsite/shop/",
            "/website/shop.test/",
            "/website/Shop/",
            "/svc/shop/%2e%2e/tracker/api/ready",
            "http://x/svc/shop/",
        ] {
            assert!(Route::parse(target).is_err(), "{target}: {:?}", Route::parse(target));
        }
    }

    proptest! {
        #[test]
        fn what_is_routed_stays_below_its_route(target in "/(website|svc)/shop/([a-z.;/\\\\%]|%2e|%2f|%5c|%00){0,20}") {
            if let Ok(Route::Website { rest, website } | Route::Service { rest, website }) = Route::parse(&target) {
                prop_assert_eq!(website, shop());
                let decoded = percent_decode_str(&rest).decode_utf8_lossy().into_owned();
                prop_assert!(!decoded.split(['/', '\\']).any(|segment| matches!(segment, "." | "..")), "{}", rest);
            }
        }
    }
}
