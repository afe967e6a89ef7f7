//! The certificate authority of a deploy (NET-1).

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use agentenv_protocol::HostName;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, SerialNumber, string::Ia5String,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    sign::CertifiedKey,
};

use crate::limits::WILDCARD_NAMES;

/// Certificates begin two days ago, for clocks that differ, and end after a year: longer than a deploy lives.
const SINCE: Duration = Duration::from_secs(2 * 86_400);
const FOR: Duration = Duration::from_secs(365 * 86_400);

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A key or a certificate could not be made.
    #[error("can't make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// rustls takes the key or the certificate not.
    #[error("can't use a certificate: {0}")]
    Tls(#[from] rustls::Error),
    /// Not a name that a certificate can hold.
    #[error("`{0}` can't be in a certificate")]
    Name(HostName),
}

/// A certificate authority, made for one deploy and trusted only inside its sandboxes. The key never leaves the process.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    ca: CertificateDer<'static>,
    ca_pem: String,
    leaf_key: KeyPair,
    provider: Arc<rustls::crypto::CryptoProvider>,
    leaves: Mutex<HashMap<HostName, Arc<ServerConfig>>>,
}

impl Authority {
    /// Makes an authority: its key, its certificate, and the one key of all its leaves.
    pub fn new() -> Result<Self, AuthorityError> {
        let mut params = validity(CertificateParams::default());
        params.distinguished_name.push(DnType::CommonName, "agent-env deploy");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            ca: certificate.der().clone(),
            ca_pem: certificate.pem(),
            issuer: Issuer::new(params, key),
            leaf_key: KeyPair::generate()?,
            provider: Arc::new(rustls::crypto::aws_lc_rs::default_provider()),
            leaves: Mutex::default(),
        })
    }

    /// The authority's certificate as PEM, for the sandboxes' trust stores.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The configuration of a TLS server that is exactly this name, over HTTP/2 and HTTP/1.1. Minted once, then kept.
    pub(crate) fn server_config(&self, name: &HostName) -> Result<Arc<ServerConfig>, AuthorityError> {
        if let Some(config) = self.leaves.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Ok(config.clone());
        }
        let config = Arc::new(self.mint(name)?);
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if leaves.len() >= 2 * WILDCARD_NAMES {
            // Only a flood of made-up names gets here; minting again costs half a millisecond.
            leaves.clear();
        }
        Ok(leaves.entry(name.clone()).or_insert(config).clone())
    }

    fn mint(&self, name: &HostName) -> Result<ServerConfig, AuthorityError> {
        let dns = Ia5String::try_from(name.as_str()).map_err(|_| AuthorityError::Name(name.clone()))?;
        let mut params = validity(CertificateParams::default());
        params.distinguished_name.push(DnType::CommonName, "agent-env site");
        params.subject_alt_names = vec![SanType::DnsName(dns)];
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let leaf = params.signed_by(&self.leaf_key, &self.issuer)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.leaf_key.serialized_der().to_vec()));
        let chain = vec![leaf.der().clone(), self.ca.clone()];
        let certified = CertifiedKey::from_der(chain, key, &self.provider)?;
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

/// Dates, and a serial number of its own: rcgen derives one from the key, which all leaves share, and NSS refuses two
/// certificates of one issuer and serial.
fn validity(mut params: CertificateParams) -> CertificateParams {
    let now = SystemTime::now();
    params.not_before = (now - SINCE).into();
    params.not_after = (now + FOR).into();
    params.distinguished_name = rcgen::DistinguishedName::new();
    let mut serial = rand::random::<[u8; 16]>();
    // Positive, and without a leading zero byte, in DER's eyes.
    serial[0] = serial[0] & 0x7f | 0x40;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params
}
