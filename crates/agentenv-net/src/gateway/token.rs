//! The control token at the gateway: asked for, removed, and never passed on (GW-2, GW-3).

use agentenv_protocol::{CONTROL_TOKEN_HEADER, ControlToken};
use base64::{Engine as _, engine::general_purpose};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use percent_encoding::percent_decode;

use crate::error::ProxyError;

/// Takes the token out of the two fields that may carry it: whether it was there. `Authorization` is removed only when it
/// carries the token, the other field always.
///
/// # Errors
/// One of the two fields comes twice, or the token is in a place where it would be passed on.
pub(super) fn take(token: &ControlToken, headers: &mut HeaderMap) -> Result<bool, ProxyError> {
    let control = HeaderName::from_static(CONTROL_TOKEN_HEADER);
    for name in [&header::AUTHORIZATION, &control] {
        if headers.get_all(name).into_iter().count() > 1 {
            return Err(ProxyError::BadRequest("Authorization or the control token came twice"));
        }
    }
    let by_control = headers.remove(&control).is_some_and(|value| token.matches(value.as_bytes().trim_ascii()));
    let by_authorization =
        headers.get(header::AUTHORIZATION).and_then(bearer).is_some_and(|value| token.matches(value));
    if by_authorization {
        headers.remove(header::AUTHORIZATION);
    }
    if headers.iter().any(|(name, value)| is_in(token, name.as_str().as_bytes()) || is_in_value(token, name, value)) {
        return Err(ProxyError::TokenElsewhere);
    }
    Ok(by_control || by_authorization)
}

/// The credentials of a `Bearer` value; the scheme's case doesn't count.
fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, credentials) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| credentials.trim_ascii())
}

fn is_in_value(token: &ControlToken, name: &HeaderName, value: &HeaderValue) -> bool {
    if is_in(token, value.as_bytes()) {
        return true;
    }
    // `user:TOKEN@` and curl's `-u` come as Basic.
    let basic = if name == header::AUTHORIZATION { value.as_bytes().split_at_checked(6) } else { None };
    basic.is_some_and(|(scheme, credentials)| {
        scheme.eq_ignore_ascii_case(b"basic ")
            && general_purpose::STANDARD.decode(credentials.trim_ascii()).is_ok_and(|plain| is_in(token, &plain))
    })
}

/// Whether the token is somewhere in the bytes, as it is or percent-encoded.
///
/// Every candidate is compared in constant time; what is a candidate depends on the bytes alone, never on the token.
pub(super) fn is_in(token: &ControlToken, bytes: &[u8]) -> bool {
    if contains(token, bytes) {
        return true;
    }
    if !bytes.contains(&b'%') {
        return false;
    }
    let once = percent_decode(bytes).collect::<Vec<u8>>();
    contains(token, &once) || contains(token, &percent_decode(&once).collect::<Vec<u8>>())
}

fn contains(token: &ControlToken, bytes: &[u8]) -> bool {
    let length = token.expose().len();
    // Tokens are letters and digits: shorter runs of them hold none.
    bytes
        .split(|b| !b.is_ascii_alphanumeric())
        .filter(|run| run.len() >= length)
        .any(|run| run.windows(length).fold(false, |found, window| found | token.matches(window)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, String)]) -> HeaderMap {
        let pair = |(name, value): &(&str, String)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in fields.iter().map(pair) {
            map.append(name, value);
        }
        map
    }

    #[test]
    fn rows_01_02_the_token_is_taken_out_of_its_fields_and_other_credentials_stay() {
        let token = ControlToken::random();
        let secret = token.expose().to_owned();
        for (fields, authorized, left) in [
            (vec![("authorization", format!("Bearer {secret}"))], true, 0),
            (vec![("authorization", format!("bEaReR  {secret}"))], true, 0),
            (vec![("agentenv-control-token", secret.clone())], true, 0),
            (vec![("agentenv-control-token", secret.clone()), ("authorization", "Basic eDp5".to_owned())], true, 1),
            (vec![("agentenv-control-token", "wrong".to_owned())], false, 0),
            (vec![("authorization", "Bearer site-own".to_owned())], false, 1),
            (vec![("authorization", format!("Bearer {}", &secret[1..]))], false, 1),
            (vec![], false, 0),
        ] {
            let mut map = headers(&fields);
            assert_eq!(take(&token, &mut map).ok(), Some(authorized), "{fields:?}");
            assert_eq!(map.len(), left, "{fields:?}");
        }
    }

    #[test]
    fn row_04_the_token_anywhere_else_is_refused() {
        let token = ControlToken::random();
        let secret = token.expose().to_owned();
        let encoded = secret.bytes().map(|b| format!("%{b:02x}")).collect::<String>();
        let basic = general_purpose::STANDARD.encode(format!("me:{secret}"));
        for fields in [
            vec![("cookie", format!("a=b; t={secret}"))],
            vec![("cookie", encoded.clone())],
            vec![("cookie", encoded.replace('%', "%25"))],
            vec![("referer", format!("http://x/?t={secret}"))],
            vec![("authorization", format!("Basic {basic}"))],
            vec![("authorization", format!("Token {secret}"))],
            vec![("authorization", format!("Bearer {secret}")), ("authorization", "Basic x".to_owned())],
            vec![("agentenv-control-token", secret.clone()), ("agentenv-control-token", "x".to_owned())],
            vec![("authorization", format!("Bearer {secret}")), ("sec-websocket-protocol", format!("x{secret}"))],
        ] {
            assert!(take(&token, &mut headers(&fields)).is_err(), "{fields:?}");
        }
        assert!(!is_in(&token, &secret.as_bytes()[1..]) && !is_in(&token, secret.to_uppercase().as_bytes()));
    }
}
