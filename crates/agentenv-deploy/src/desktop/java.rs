//! What Java needs to run and to trust the sites: its settings, and a store in its own format where Debian's JDKs look for one.

use std::{fs, path::PathBuf};

use sha1::{Digest as _, Sha1};

use crate::pem;

/// Where the store is, below `/etc`: `lib/security/cacerts` of a JDK from Debian is a link to it.
pub(crate) const TRUST_STORE: &str = "ssl/certs/java/cacerts";

/// The beginning of a JKS file, and its version.
const HEAD: [u32; 2] = [0xfeed_feed, 2];
/// An entry that is a certificate and has no key.
const TRUSTED: u32 = 2;
/// What a JDK's own store is sealed with; it keeps nothing secret.
const PASSWORD: &str = "changeit";
/// What Java mixes into the seal.
const WHITENER: &[u8] = b"Mighty Aphrodite";

/// The store of these authorities (PEM), as `sun.security.provider.JavaKeyStore` reads it: every JDK does. Nothing is in it where the
/// text is no PEM.
pub(crate) fn trust_store(authorities: &str) -> Vec<u8> {
    let certificates = pem::certificates(authorities).unwrap_or_default();
    let mut store = Vec::new();
    for word in HEAD.into_iter().chain([length(certificates.len())]) {
        store.extend(word.to_be_bytes());
    }
    for (number, certificate) in certificates.iter().enumerate() {
        store.extend(TRUSTED.to_be_bytes());
        text(&mut store, &format!("agent-env-{number}"));
        // When it was put in: never mind.
        store.extend(0_u64.to_be_bytes());
        text(&mut store, "X.509");
        store.extend(length(certificate.len()).to_be_bytes());
        store.extend(certificate.as_ref());
    }
    let mut seal = Sha1::new();
    for unit in PASSWORD.encode_utf16() {
        seal.update(unit.to_be_bytes());
    }
    seal.update(WHITENER);
    seal.update(&store);
    store.extend(seal.finalize());
    store
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a bundle of certificates is below 4 GiB")
}

/// A text as Java writes it: plain ASCII after two bytes of length.
fn text(store: &mut Vec<u8>, text: &str) {
    store.extend(u16::try_from(text.len()).expect("our own names are short").to_be_bytes());
    store.extend(text.as_bytes());
}

/// The settings of the JDKs of this machine, which Debian keeps outside `/usr` and without which they don't start.
pub(crate) fn settings() -> Vec<PathBuf> {
    let entries = fs::read_dir("/etc").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name();
            name.to_str().is_some_and(|name| name.starts_with("java-") && name.ends_with("-openjdk"))
        })
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_as_java_writes_it() {
        let pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        let store = trust_store(pem);
        let (entries, seal) = store.split_at(store.len() - 20);
        let mut expected = hex::decode("feedfeed000000020000000100000002").unwrap();
        expected.extend(b"\0\x0bagent-env-0\0\0\0\0\0\0\0\0\0\x05X.509\0\0\0\x03\x30\x82\x01");
        assert_eq!(entries, expected);
        let mut sealed = b"\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite".to_vec();
        sealed.extend(entries);
        assert_eq!(seal, Sha1::digest(sealed).as_slice());
        assert_eq!(trust_store("nonsense")[..12], [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 0]);
    }
}
