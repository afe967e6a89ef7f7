//! Cookies of requests and responses.

use jiff::fmt::rfc2822::DateTimeParser;

use super::types::Cookie;
use crate::record::{Header, values};

/// The cookies that a request carries.
pub(crate) fn sent(headers: &[Header]) -> Vec<Cookie> {
    let parts =
        values(headers, "cookie").flat_map(|value| value.split(';')).map(str::trim).filter(|part| !part.is_empty());
    parts.map(name_and_value).collect()
}

/// The cookies that a response sets.
pub(crate) fn set(headers: &[Header]) -> Vec<Cookie> {
    values(headers, "set-cookie").map(parse).collect()
}

fn name_and_value(text: &str) -> Cookie {
    let (name, value) = text.split_once('=').unwrap_or(("", text));
    Cookie { name: name.trim().to_owned(), value: value.trim().to_owned(), ..Cookie::default() }
}

fn parse(line: &str) -> Cookie {
    let mut parts = line.split(';');
    let mut cookie = name_and_value(parts.next().unwrap_or_default());
    (cookie.http_only, cookie.secure) = (Some(false), Some(false));
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim().to_owned();
        match name.trim().to_ascii_lowercase().as_str() {
            "path" => cookie.path = Some(value),
            "domain" => cookie.domain = Some(value),
            "expires" => cookie.expires = date(&value),
            "httponly" => cookie.http_only = Some(true),
            "secure" => cookie.secure = Some(true),
            "samesite" => cookie.same_site = Some(value),
            _ => {}
        }
    }
    cookie
}

/// The format wants ISO 8601; a date that can't be read is left out.
fn date(value: &str) -> Option<String> {
    // Netscape's dashes are still sent.
    let value = value.replace('-', " ");
    let zoned = DateTimeParser::new().relaxed_weekday(true).parse_zoned(value).ok()?;
    Some(zoned.timestamp().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, value: &str) -> Header {
        Header { name: name.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn cookies_are_read_as_browsers_read_them() {
        let cookies = sent(&[header("Cookie", "a=1; b=x=y;; c"), header("cookie", "d=4")]);
        let pairs: Vec<_> = cookies.iter().map(|cookie| (cookie.name.as_str(), cookie.value.as_str())).collect();
        assert_eq!(pairs, [("a", "1"), ("b", "x=y"), ("", "c"), ("d", "4")]);
        for (line, expires) in [
            ("sid=1; Expires=Wed, 21 Oct 2026 07:28:00 GMT", Some("2026-10-21T07:28:00Z")),
            ("sid=1; Expires=Wed, 21-Oct-2026 07:28:00 GMT", Some("2026-10-21T07:28:00Z")),
            ("sid=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT", Some("1970-01-01T00:00:00Z")),
            ("sid=1; Expires=soon", None),
            ("sid=1", None),
        ] {
            assert_eq!(set(&[header("Set-Cookie", line)])[0].expires.as_deref(), expires, "{line}");
        }
        let cookie = &set(&[header("set-cookie", "s=v; Path=/; Domain=shop.test; HttpOnly; SameSite=Lax")])[0];
        assert_eq!((cookie.path.as_deref(), cookie.domain.as_deref()), (Some("/"), Some("shop.test")));
        assert_eq!((cookie.http_only, cookie.secure), (Some(true), Some(false)));
    }
}
