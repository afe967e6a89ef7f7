//! Secrets of agent-env that are on the wire, masked in everything that is given out.

use agentenv_protocol::{CONTROL_TOKEN_HEADER, SITE_KEY_HEADER};
use memchr::memmem;

use crate::{
    limits,
    record::{Exchange, Header},
};

/// What stands in the place of a secret.
pub const MASK: &str = "***";

/// Headers whose values are secrets of agent-env.
const SECRET_HEADERS: [&str; 2] = [SITE_KEY_HEADER, CONTROL_TOKEN_HEADER];

/// A shorter value would be found in places where it means nothing; real ones have 43 characters.
const SECRET_MIN: usize = 16;

/// The part of a secret at a cut body's end that is worth masking.
const PART_MIN: usize = 4;

/// The secrets that were seen.
#[derive(Debug, Default)]
pub(crate) struct Secrets {
    values: Vec<String>,
}

impl Secrets {
    /// Masks the secret headers of an exchange, and remembers their values.
    pub(crate) fn learn(&mut self, exchange: &mut Exchange) {
        for header in headers(exchange) {
            if SECRET_HEADERS.iter().any(|name| header.name.trim().eq_ignore_ascii_case(name)) {
                let value = std::mem::replace(&mut header.value, MASK.to_owned());
                self.remember(value.trim());
            }
        }
    }

    fn remember(&mut self, value: &str) {
        let wanted = value.len() >= SECRET_MIN && self.values.len() < limits::SECRETS;
        if wanted && !self.values.iter().any(|known| known == value) {
            self.values.push(value.to_owned());
        }
    }

    /// Masks what was remembered wherever it appears: a site may echo its request.
    pub(crate) fn mask(&self, exchange: &mut Exchange) {
        if self.values.is_empty() {
            return;
        }
        for header in headers(exchange) {
            self.mask_text(&mut header.name);
            self.mask_text(&mut header.value);
        }
        if let Some(request) = &mut exchange.request {
            for text in [&mut request.method, &mut request.target, &mut request.url] {
                self.mask_text(text);
            }
        }
        if let Some(response) = &mut exchange.response {
            self.mask_text(&mut response.reason);
        }
        if let Some(upgrade) = &mut exchange.upgrade {
            self.mask_text(&mut upgrade.protocol);
        }
        let bodies = [
            exchange.request.as_mut().map(|request| &mut request.body),
            exchange.response.as_mut().map(|response| &mut response.body),
        ];
        for body in bodies.into_iter().flatten() {
            let cut = |content: &Vec<u8>| (content.len() as u64) < body.decoded_bytes;
            if let Some(content) = &mut body.content {
                let cut = cut(content);
                self.values.iter().for_each(|value| mask_bytes(content, value.as_bytes(), cut));
            }
        }
    }

    fn mask_text(&self, text: &mut String) {
        for value in self.values.iter().filter(|value| text.contains(value.as_str())).collect::<Vec<_>>() {
            *text = text.replace(value.as_str(), MASK);
        }
    }
}

/// Every header and trailer of an exchange.
fn headers(exchange: &mut Exchange) -> impl Iterator<Item = &mut Header> {
    let request = exchange.request.as_mut().map(|request| request.headers.iter_mut().chain(&mut request.trailers));
    let response = exchange.response.as_mut().map(|response| response.headers.iter_mut().chain(&mut response.trailers));
    request.into_iter().flatten().chain(response.into_iter().flatten())
}

fn mask_bytes(content: &mut Vec<u8>, secret: &[u8], cut: bool) {
    let mut masked = Vec::new();
    let mut from = 0;
    for at in memmem::find_iter(content, secret) {
        masked.extend_from_slice(&content[from..at]);
        masked.extend_from_slice(MASK.as_bytes());
        from = at + secret.len();
    }
    if from > 0 {
        masked.extend_from_slice(&content[from..]);
        *content = masked;
    }
    let parts = (PART_MIN..secret.len()).rev();
    if let Some(part) = parts.filter(|_| cut).find(|part| content.ends_with(&secret[..*part])) {
        content.truncate(content.len() - part);
        content.extend_from_slice(MASK.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_wherever_it_is_in_bytes() {
        let secret = b"0123456789abcdefXYZ";
        let masked = |content: &[u8], cut| {
            let mut content = content.to_vec();
            mask_bytes(&mut content, secret, cut);
            String::from_utf8(content).unwrap()
        };
        assert_eq!(masked(b"a0123456789abcdefXYZb0123456789abcdefXYZ", false), "a***b***");
        assert_eq!(masked(b"00123456789abcdefXYZ0", false), "0***0");
        assert_eq!(masked(b"key 0123456789", true), "key ***");
        assert_eq!(masked(b"key 0123456789", false), "key 0123456789");
        assert_eq!(masked(b"012", true), "012");
    }

    #[test]
    fn a_body_full_of_secrets_is_masked_in_one_pass() {
        // As it was first written: each hit moves everything behind it.
        let one_by_one = |content: &[u8], secret: &[u8]| {
            let mut content = content.to_vec();
            let mut from = 0;
            while let Some(at) = memmem::find(&content[from..], secret) {
                content.splice(from + at..from + at + secret.len(), MASK.bytes());
                from += at + MASK.len();
            }
            content
        };
        let masked = |content: &[u8], secret: &[u8]| {
            let mut content = content.to_vec();
            mask_bytes(&mut content, secret, false);
            content
        };
        // Every text of up to seven of these letters, with secrets that overlap themselves and what a mask leaves.
        for secret in [&b"a"[..], b"aa", b"aba", b"*a*"] {
            for length in 0..=7 {
                for number in 0..3_usize.pow(length) {
                    let letter = |place| b"ab*"[number / 3_usize.pow(place) % 3];
                    let content: Vec<u8> = (0..length).map(letter).collect();
                    assert_eq!(masked(&content, secret), one_by_one(&content, secret), "{content:?} {secret:?}");
                }
            }
        }
        let secret = b"0123456789abcdefXYZ";
        let hits = (1 << 20) / secret.len();
        assert_eq!(masked(&secret.repeat(hits), secret), MASK.repeat(hits).into_bytes());
    }
}
