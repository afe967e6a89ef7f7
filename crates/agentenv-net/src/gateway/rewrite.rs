//! What a site's answer says about where it is, put in the gateway's terms (GW-5).

use agentenv_protocol::{HostName, Name};
use http::{HeaderMap, HeaderValue, Uri, header};

use crate::{SiteTable, headers::split_port};

/// Rewrites `Location`, `Content-Location` and cookies. `browsable` says which websites have a route here.
pub(super) fn answer(
    headers: &mut HeaderMap,
    website: &Name,
    host: &HostName,
    table: &SiteTable,
    browsable: impl Fn(&Name) -> bool,
) {
    for name in [header::LOCATION, header::CONTENT_LOCATION] {
        let moved = headers.get(&name).and_then(|value| value.to_str().ok()).and_then(|value| {
            location(value, website, |target| {
                if target == host {
                    Some(website.clone())
                } else {
                    table.site(target).filter(|name| browsable(name)).cloned()
                }
            })
        });
        if let Some(moved) = moved.and_then(|moved| HeaderValue::from_str(&moved).ok()) {
            headers.insert(name, moved);
        }
    }
    let cookies: Vec<HeaderValue> = headers
        .get_all(header::SET_COOKIE)
        .into_iter()
        .filter_map(|value| {
            // Byte by byte, so that no byte of a value keeps the rest as the site wrote it.
            let text: String = value.as_bytes().iter().copied().map(char::from).collect();
            let bytes: Vec<u8> = cookie(&text, website).chars().filter_map(|c| c.try_into().ok()).collect();
            HeaderValue::from_bytes(&bytes).ok()
        })
        .collect();
    headers.remove(header::SET_COOKIE);
    for cookie in cookies {
        headers.append(header::SET_COOKIE, cookie);
    }
}

/// Where a redirect leads by way of the gateway; `None` where it stays as it is: relative, or to a name of nobody here.
fn location(value: &str, website: &Name, site_of: impl Fn(&HostName) -> Option<Name>) -> Option<String> {
    if value.starts_with('/') && !value.starts_with("//") && !value.starts_with("/\\") {
        return Some(format!("/website/{website}{value}"));
    }
    let (value, fragment) = value.split_once('#').map_or((value, None), |(value, fragment)| (value, Some(fragment)));
    let absolute = if value.starts_with("//") { format!("https:{value}") } else { value.to_owned() };
    let uri: Uri = absolute.parse().ok()?;
    let port = match uri.scheme_str()? {
        "http" => "80",
        "https" => "443",
        _ => return None,
    };
    let (name, given) = split_port(uri.authority()?.as_str());
    if given.is_some_and(|given| given != port) {
        return None;
    }
    let target = site_of(&HostName::parse(name).ok()?)?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let slash = if path.starts_with('/') { "" } else { "/" };
    let fragment = fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default();
    Some(format!("/website/{target}{slash}{path}{fragment}"))
}

/// A cookie below the site's route, for the gateway's host.
fn cookie(text: &str, website: &Name) -> String {
    let mut parts = text.split(';');
    let mut cookie = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, value) = part.split_once('=').map_or((part, ""), |(name, value)| (name, value));
        match name.trim().to_ascii_lowercase().as_str() {
            // The gateway's host is another; without a domain the cookie is the gateway's alone.
            "domain" => {}
            "path" if value.trim().starts_with('/') => {
                cookie.push_str(&format!("; Path=/website/{website}{}", value.trim()));
            }
            // The default is the folder of the request, which is below the route.
            "path" => {}
            _ => {
                cookie.push(';');
                cookie.push_str(part);
            }
        }
    }
    cookie
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop() -> Name {
        Name::parse("shop").unwrap()
    }

    #[test]
    fn redirects_stay_below_the_route_and_foreign_ones_stay_as_they_are() {
        let to = |value: &str| {
            location(value, &shop(), |name| match name.as_str() {
                "shop.test" => Some(shop()),
                "tracker.test" => Name::parse("tracker").ok(),
                _ => None,
            })
        };
        for (value, moved) in [
            ("/cart?x=1#top", Some("/website/shop/cart?x=1#top")),
            ("/", Some("/website/shop/")),
            ("https://shop.test/cart?x=1#top", Some("/website/shop/cart?x=1#top")),
            ("http://SHOP.test:80", Some("/website/shop/")),
            ("//shop.test/a", Some("/website/shop/a")),
            ("https://tracker.test/issues/", Some("/website/tracker/issues/")),
            ("https://shop.test:8443/", None),
            ("https://evil.example/", None),
            ("//evil.example/", None),
            ("/\\evil.example/", None),
            ("next", None),
            ("../svc/shop/", None),
            ("javascript:alert(1)", None),
        ] {
            assert_eq!(to(value).as_deref(), moved, "{value}");
        }
    }

    #[test]
    fn a_cookie_of_any_bytes_stays_below_the_route() {
        let mut headers = HeaderMap::new();
        for value in [&b"a=\xff\xa0; Path=/; Domain=x"[..], "b=größe; Path=/".as_bytes()] {
            headers.append(header::SET_COOKIE, HeaderValue::from_bytes(value).unwrap());
        }
        let host = HostName::parse("shop.test").unwrap();
        answer(&mut headers, &shop(), &host, &SiteTable::default(), |_| true);
        let moved: Vec<&[u8]> = headers.get_all(header::SET_COOKIE).iter().map(HeaderValue::as_bytes).collect();
        assert_eq!(moved, [&b"a=\xff\xa0; Path=/website/shop/"[..], "b=größe; Path=/website/shop/".as_bytes()]);
    }

    #[test]
    fn cookies_stay_below_the_route() {
        for (text, moved) in [
            ("a=b; Path=/; HttpOnly", "a=b; Path=/website/shop/; HttpOnly"),
            ("a=b;path=/cart;Domain=shop.test;Secure", "a=b; Path=/website/shop/cart;Secure"),
            ("a=b", "a=b"),
            ("a=b; Path=x; SameSite=Lax", "a=b; SameSite=Lax"),
        ] {
            assert_eq!(cookie(text, &shop()), moved);
        }
    }
}
