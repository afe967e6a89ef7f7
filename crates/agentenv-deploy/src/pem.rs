//! Certificates as text.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};

/// The certificates of a PEM text. `None` where there is none, or one that is broken.
pub(crate) fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    certificates.ok().filter(|certificates| !certificates.is_empty())
}

/// The same, each as a line of base64, which browsers' policies take.
pub(crate) fn bodies(pem: &str) -> Option<Vec<String>> {
    Some(certificates(pem)?.iter().map(|certificate| STANDARD.encode(certificate)).collect())
}

/// The certificate authorities of a PEM text and nothing else of it, such as a key or comments. `None` where there is none, or
/// something that is none.
pub(crate) fn authorities(pem: &str) -> Option<String> {
    let certificates = certificates(pem)?;
    let text = certificates.iter().map(|certificate| text(&STANDARD.encode(certificate))).collect();
    let mut store = rustls::RootCertStore::empty();
    for certificate in certificates {
        store.add(certificate).ok()?;
    }
    Some(text)
}

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// As OpenSSL writes it; some readers take no longer lines.
const LINE: usize = 64;

fn text(body: &str) -> String {
    let mut text = format!("{BEGIN}\n");
    // ASCII only: every index is a character's.
    for start in (0..body.len()).step_by(LINE) {
        text.push_str(&body[start..body.len().min(start + LINE)]);
        text.push('\n');
    }
    text + END + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority() -> String {
        agentenv_net::Authority::new().unwrap().ca_pem().to_owned()
    }

    #[test]
    fn authorities_are_taken_and_nothing_else() {
        let (one, two) = (authority(), authority());
        let key = "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n";
        let taken = authorities(&format!("# Root of the company\n{one}{key}\r\n{two}")).unwrap();
        assert_eq!(bodies(&taken).unwrap(), [bodies(&one).unwrap(), bodies(&two).unwrap()].concat());
        assert!(!taken.contains("c2VjcmV0") && !taken.contains("company"));
        assert_eq!(authorities(&taken).unwrap(), taken);
    }

    #[test]
    fn what_is_no_bundle_is_refused() {
        let torn = authority().replace("-----END CERTIFICATE-----", "");
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for text in ["", "nonsense", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", garbage, &torn] {
            assert!(authorities(text).is_none(), "{text}");
        }
        assert!(authorities(&format!("{}{garbage}", authority())).is_none(), "one of several");
    }
}
