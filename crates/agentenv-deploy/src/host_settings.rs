//! How this machine reaches the real network (GW-6): settings of the host, taken by the command that deploys.

use std::{
    fs::File,
    io::{self, Read as _},
    net::SocketAddr,
    path::{Path, PathBuf},
};

use agentenv_net::{HostNetwork, UpstreamProxy, UpstreamProxyError};
use agentenv_protocol::{ExitCode, control::ControlError};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use crate::pem;

/// The variable that may hold the upstream proxy; it never reaches the supervisor's environment, which lies open to the user's
/// other processes.
pub const UPSTREAM_PROXY_VARIABLE: &str = "AGENTENV_UPSTREAM_PROXY";
/// The longest bundle taken: the public authorities are 220 KiB.
const MAX_BUNDLE_BYTES: u64 = 8 << 20;
/// Where machines have their public authorities: Debian's, Fedora's, Alpine's.
const PUBLIC_BUNDLES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// How this machine reaches real sites. Shows no password of a proxy.
#[derive(Clone, Debug, Default)]
pub struct HostSettings {
    dns_servers: Vec<SocketAddr>,
    /// PEM, beside the public ones.
    authorities: String,
    proxy: Option<SecretString>,
}

/// Why a setting of the host is refused.
#[derive(Debug, thiserror::Error)]
pub enum HostSettingsError {
    /// The bundle can't be read.
    #[error("the CA bundle {path} cannot be read: {source}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
    /// What was read is no bundle.
    #[error("the CA bundle {0} is not one or more certificates of authorities in PEM")]
    NoBundle(PathBuf),
    /// The proxy is no proxy.
    #[error(transparent)]
    Proxy(#[from] UpstreamProxyError),
}

impl HostSettingsError {
    /// The same, as commands report it.
    pub fn control(&self) -> ControlError {
        let (exit, hint) = match self {
            Self::Unreadable { .. } | Self::NoBundle(_) => (
                ExitCode::Refused,
                "`--ca-bundle` and AGENTENV_CA_BUNDLE name a file of certificates, such as a company's root",
            ),
            Self::Proxy(_) => (ExitCode::Usage, "it is what `--upstream-proxy` or AGENTENV_UPSTREAM_PROXY says"),
        };
        ControlError::new(exit, self.to_string()).hint(hint)
    }
}

impl HostSettings {
    /// Takes what flags and variables say: name servers instead of the machine's, authorities beside the public ones, and a proxy.
    pub fn new(
        dns_servers: Vec<SocketAddr>,
        ca_bundle: Option<&Path>,
        proxy: Option<SecretString>,
    ) -> Result<Self, HostSettingsError> {
        if let Some(proxy) = &proxy {
            proxy.expose_secret().parse::<UpstreamProxy>()?;
        }
        let authorities = ca_bundle.map(bundle).transpose()?.unwrap_or_default();
        Ok(Self { dns_servers, authorities, proxy })
    }

    /// The certificates that are trusted beside the public ones, in PEM.
    pub(crate) fn authorities(&self) -> &str {
        &self.authorities
    }

    /// The public authorities of this machine, and those beside them.
    pub(crate) fn all_authorities(&self) -> String {
        let public = PUBLIC_BUNDLES.iter().find_map(|path| read(Path::new(path)).ok());
        let public = public.unwrap_or_default();
        let end = if public.is_empty() || public.ends_with('\n') { "" } else { "\n" };
        format!("{public}{end}{}", self.authorities)
    }

    /// The same for the network.
    pub(crate) fn network(&self) -> Result<HostNetwork, HostSettingsError> {
        let proxy = self.proxy.as_ref().map(|proxy| proxy.expose_secret().parse()).transpose()?;
        Ok(HostNetwork { dns_servers: self.dns_servers.clone(), proxy })
    }

    /// As the supervisor reads it from its starter's pipe, the password included.
    pub(crate) fn to_input(&self) -> HostInput {
        HostInput {
            dns_servers: self.dns_servers.clone(),
            authorities: self.authorities.clone(),
            proxy: self.proxy.as_ref().map(|proxy| proxy.expose_secret().to_owned()),
        }
    }
}

/// [`HostSettings`] on their way to the supervisor.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostInput {
    dns_servers: Vec<SocketAddr>,
    authorities: String,
    proxy: Option<String>,
}

impl HostInput {
    /// What no log or error may show: the proxy's password, and what it is written in.
    pub(crate) fn secrets(&self) -> Vec<SecretString> {
        let user = self.proxy.iter().filter_map(|proxy| Some(proxy.rsplit_once('@')?.0.rsplit_once('/')?.1));
        let all = user.flat_map(|user| [Some(user), user.split_once(':').map(|(_, password)| password)]);
        all.flatten().map(|secret| secret.to_owned().into()).collect()
    }
}

impl From<HostInput> for HostSettings {
    fn from(input: HostInput) -> Self {
        let HostInput { dns_servers, authorities, proxy } = input;
        Self { dns_servers, authorities, proxy: proxy.map(SecretString::from) }
    }
}

fn bundle(path: &Path) -> Result<String, HostSettingsError> {
    let text = read(path).map_err(|source| match source.kind() {
        io::ErrorKind::InvalidData => HostSettingsError::NoBundle(path.to_owned()),
        _ => HostSettingsError::Unreadable { path: path.to_owned(), source },
    })?;
    pem::authorities(&text).ok_or_else(|| HostSettingsError::NoBundle(path.to_owned()))
}

/// Reads a file of text; a pipe or a device would be waited for.
fn read(path: &Path) -> io::Result<String> {
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    let mut text = String::new();
    let length = File::open(path)?.take(MAX_BUNDLE_BYTES + 1).read_to_string(&mut text)?;
    if length as u64 > MAX_BUNDLE_BYTES {
        return Err(io::Error::other(format!("it is longer than {} MiB", MAX_BUNDLE_BYTES >> 20)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_bundle_is_read_or_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let ca = agentenv_net::Authority::new().unwrap().ca_pem().to_owned();
        let settings = HostSettings::new(Vec::new(), Some(&file("good.pem", ca.as_bytes())), None).unwrap();
        assert_eq!(pem::bodies(settings.authorities()), pem::bodies(&ca));
        assert!(settings.all_authorities().ends_with(settings.authorities()));
        for (path, says) in [
            (folder.path().join("missing.pem"), "cannot be read"),
            (folder.path().to_owned(), "not a plain file"),
            (file("text.pem", b"nonsense"), "is not one or more certificates"),
            (file("binary.pem", &[0xff, 0xfe]), "is not one or more certificates"),
            (file("empty.pem", b""), "is not one or more certificates"),
        ] {
            let error = HostSettings::new(Vec::new(), Some(&path), None).unwrap_err().control();
            assert_eq!(error.exit, ExitCode::Refused, "{error}");
            assert!(error.message.contains(says) && error.message.contains(&*path.to_string_lossy()), "{error}");
        }
    }

    #[test]
    fn a_proxys_password_is_in_no_error_and_no_debug_text() {
        let proxy = |text: &str| HostSettings::new(Vec::new(), None, Some(text.into()));
        let good = proxy("http://ada:canary@proxy.corp:3128").unwrap();
        assert!(!format!("{good:?}").contains("canary"));
        let secrets: Vec<_> =
            good.to_input().secrets().iter().map(|secret| secret.expose_secret().to_owned()).collect();
        assert_eq!(secrets, ["ada:canary", "canary"]);
        let again = HostSettings::from(good.to_input());
        assert_eq!(format!("{:?}", again.network().unwrap().proxy), "Some(http://proxy.corp:3128)");
        let error = proxy("socks5://ada:canary@proxy.corp").unwrap_err();
        assert_eq!(error.control().exit, ExitCode::Usage);
        assert!(!format!("{error:?} {error} {:?}", error.control()).contains("canary"), "{error}");
    }
}
