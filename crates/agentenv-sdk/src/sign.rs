//! Signed texts: cookies and sign-in links, in one format with a purpose each, so that neither passes for the other.

use agentenv_protocol::SiteKey;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// What a signed text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Cookie,
    Link,
}

/// What a signed text says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) user: String,
    /// Where a link leads; empty in a cookie.
    pub(crate) path: String,
    pub(crate) generation: u64,
    /// Seconds since the epoch; none for a claim that the clock doesn't end.
    pub(crate) expires: Option<u64>,
}

/// The key of a deploy's site.
#[derive(Clone)]
pub(crate) struct Signer(Hmac<Sha256>);

impl Signer {
    /// Derives the key from the site key: made per deploy, the same after a restart of the service, and nowhere on disk.
    /// Without a site key (by hand) it is random.
    pub(crate) fn new(key: Option<&SiteKey>, site: &str) -> Self {
        let random;
        let key = match key {
            Some(key) => key,
            None => {
                random = SiteKey::random();
                &random
            }
        };
        let mut derive = mac(key.expose().as_bytes());
        derive.update(b"agentenv session v1\n");
        derive.update(site.as_bytes());
        Self(mac(&derive.finalize().into_bytes()))
    }

    /// The claim as a text of URL- and cookie-safe characters.
    pub(crate) fn sign(&self, purpose: Purpose, claim: &Claim) -> String {
        let text = format!(
            "{}.{}.{}.{}.{}",
            purpose.letter(),
            claim.generation,
            claim.expires.map_or_else(|| "-".to_owned(), |seconds| seconds.to_string()),
            hex::encode(&claim.user),
            hex::encode(&claim.path)
        );
        let signature = hex::encode(self.0.clone().chain_update(&text).finalize().into_bytes());
        format!("{text}.{signature}")
    }

    /// The claim of a text that this key signed for this purpose.
    pub(crate) fn verify(&self, purpose: Purpose, text: &str) -> Option<Claim> {
        let (signed, signature) = text.rsplit_once('.')?;
        self.0.clone().chain_update(signed).verify_slice(&hex::decode(signature).ok()?).ok()?;
        let mut parts = signed.split('.');
        if parts.next()? != purpose.letter() {
            return None;
        }
        let generation = parts.next()?.parse().ok()?;
        let expires = match parts.next()? {
            "-" => None,
            seconds => Some(seconds.parse().ok()?),
        };
        let mut word = || String::from_utf8(hex::decode(parts.next()?).ok()?).ok();
        Some(Claim { user: word()?, path: word()?, generation, expires })
    }
}

impl Purpose {
    fn letter(self) -> &'static str {
        match self {
            Self::Cookie => "c",
            Self::Link => "l",
        }
    }
}

fn mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> Claim {
        Claim { user: "ada.l@x;\"é".to_owned(), path: "/a?b=c".to_owned(), generation: 3, expires: Some(9) }
    }

    #[test]
    fn a_text_is_taken_back_for_its_purpose_and_key_only() {
        let key = SiteKey::random();
        let signer = Signer::new(Some(&key), "shop");
        let text = signer.sign(Purpose::Link, &claim());
        assert_eq!(signer.verify(Purpose::Link, &text), Some(claim()));
        assert_eq!(signer.verify(Purpose::Cookie, &text), None);
        assert_eq!(Signer::new(Some(&key), "shop").verify(Purpose::Link, &text), Some(claim()), "after a restart");
        for other in [Signer::new(Some(&key), "tracker"), Signer::new(None, "shop"), Signer::new(None, "shop")] {
            assert_eq!(other.verify(Purpose::Link, &text), None);
        }
        assert!(!text.contains(key.expose()));
    }

    #[test]
    fn a_text_changed_anywhere_is_refused() {
        let signer = Signer::new(None, "shop");
        let text = signer.sign(Purpose::Cookie, &claim());
        for index in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[index] = if bytes[index] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(signer.verify(Purpose::Cookie, &changed), None, "{changed}");
            assert_eq!(signer.verify(Purpose::Cookie, &text[..index]), None);
        }
    }
}
