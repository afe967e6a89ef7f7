//! The launch plan of a Chromium inside its sandbox: plain data, no I/O.
//!
//! Each reset launches the same plan on an empty home, so nothing of an episode can stay.

use std::{
    net::SocketAddrV4,
    path::{Path, PathBuf},
};

use super::{BrowserError, flags, fonts, policy};
use crate::pem;

/// The writable home inside the sandbox; empty at each start.
pub const HOME: &str = "/home/agent";

/// Debian's, Ubuntu's deb, Fedora's. The programs in `/usr/bin` are shell scripts that read `/etc/chromium.d`.
const CANDIDATES: [&str; 3] = [
    "/usr/lib/chromium/chromium",
    "/usr/lib/chromium-browser/chromium-browser",
    "/usr/lib64/chromium-browser/chromium-browser",
];

/// The size of a page's viewport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Viewport {
    /// CSS pixels.
    pub width: u32,
    /// CSS pixels.
    pub height: u32,
}

impl Default for Viewport {
    fn default() -> Self {
        Self { width: 1280, height: 720 }
    }
}

/// How the browser reaches the sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// By the sandbox's forward port, for every host and address.
    Forward(SocketAddrV4),
    /// By names and addresses, as programs without a proxy setting do.
    None,
}

/// What varies between browsers.
#[derive(Clone, Debug, PartialEq)]
pub struct BrowserSpec {
    /// Size of the pages.
    pub viewport: Viewport,
    /// Way to the sites.
    pub proxy: Proxy,
    /// BCP 47, such as `en-US`.
    pub language: String,
    /// IANA name, such as `UTC` or `Europe/Berlin`.
    pub time_zone: String,
    /// In a window of a desktop, at this scale; without one there is no window at all.
    pub desktop: Option<f64>,
}

impl BrowserSpec {
    /// A browser in English and UTC that uses the forward port.
    pub fn forward(port: SocketAddrV4, viewport: Viewport) -> Self {
        Self {
            viewport,
            proxy: Proxy::Forward(port),
            language: "en-US".to_owned(),
            time_zone: "UTC".to_owned(),
            desktop: None,
        }
    }
}

/// What a provider starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Working directory inside.
    pub cwd: PathBuf,
    /// Environment; nothing is inherited.
    pub environment: Vec<(String, String)>,
    /// Files of the generated `/etc`, by path below it.
    pub etc: Vec<(String, Vec<u8>)>,
}

/// Finds Chromium's own binary, below `/usr` so that sandboxes have it.
pub fn find_chromium() -> Result<PathBuf, BrowserError> {
    CANDIDATES
        .iter()
        .map(Path::new)
        .find(|path| path.is_file())
        .map(Path::to_path_buf)
        .ok_or_else(|| BrowserError::NotInstalled { looked: CANDIDATES.join(", ") })
}

/// Plans a browser: `authorities`, in PEM, are those that it trusts besides the public ones, `font_cache` is [`super::font_cache`]'s.
pub fn chromium(
    binary: &Path,
    spec: &BrowserSpec,
    authorities: &str,
    font_cache: &[(String, Vec<u8>)],
) -> Result<Launch, BrowserError> {
    let authorities = pem::bodies(authorities).ok_or(BrowserError::BadAuthority)?;
    let mut command = vec![binary.display().to_string()];
    command.extend(flags::of(spec));
    // One tab at start; the first start tab takes its place.
    command.push("about:blank".to_owned());
    let mut etc = vec![
        (policy::FILE.to_owned(), policy::managed(&authorities)),
        ("fonts/fonts.conf".to_owned(), fonts::configuration().into_bytes()),
    ];
    etc.extend_from_slice(font_cache);
    Ok(Launch { command, cwd: HOME.into(), environment: environment(spec), etc })
}

fn environment(spec: &BrowserSpec) -> Vec<(String, String)> {
    [
        ("HOME", HOME),
        ("PATH", "/usr/bin:/bin"),
        ("TMPDIR", "/tmp"),
        ("TZ", &spec.time_zone),
        // Any UTF-8 locale; what pages see is LANGUAGE.
        ("LANG", "C.UTF-8"),
        ("LANGUAGE", &spec.language.replace('-', "_")),
        // There is no bus; without the address Chromium looks for one and logs that it failed.
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent"),
        ("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}
