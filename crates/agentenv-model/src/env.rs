//! What is stored of an env (ENV-1).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use agentenv_protocol::{Digest, HostPattern, Name};
use serde::{Deserialize, Serialize};

use crate::{SettingName, SettingValue, StartTab};

/// The newest format of env.toml and of records.
pub(crate) const FORMAT: u32 = 1;
/// How long a site may take to be ready where it does not say (SPEC §11).
pub const DEFAULT_READY_TIMEOUT_S: u32 = 60;

/// The document of a stored env.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnvRecord {
    /// Format of the document.
    pub format: u32,
    /// What it defines.
    pub env: EnvSpec,
}

impl EnvRecord {
    /// Takes a definition, in the newest format.
    pub fn new(env: EnvSpec) -> Self {
        Self { format: FORMAT, env }
    }
}

/// One version of a stored env, as planning takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvVersion {
    /// Name.
    pub name: Name,
    /// Version, from 1.
    pub version: u64,
    /// What it defines.
    pub spec: EnvSpec,
    /// The bundle as it was built; a website has one unless it is an image.
    pub tree: Option<Digest>,
}

/// An env as commands name it: `shop`, or `shop@3`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvRef {
    /// Name.
    pub name: Name,
    /// Version; the latest without one.
    pub version: Option<u64>,
}

/// Why a text does not name an env.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not name an env: write `shop`, or `shop@3` for version 3")]
pub struct EnvRefError(String);

impl FromStr for EnvRef {
    type Err = EnvRefError;
    fn from_str(text: &str) -> Result<Self, EnvRefError> {
        let bad = || EnvRefError(text.to_owned());
        let (name, version) = match text.split_once('@') {
            Some((name, version)) if version.bytes().all(|b| b.is_ascii_digit()) => {
                // SQLite's integers are signed.
                let version = version.parse().ok().filter(|version| (1..=i64::MAX.unsigned_abs()).contains(version));
                (name, Some(version.ok_or_else(bad)?))
            }
            Some(_) => return Err(bad()),
            None => (text, None),
        };
        Ok(Self { name: Name::parse(name).map_err(|_| bad())?, version })
    }
}

impl fmt::Display for EnvRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        self.version.map_or(Ok(()), |version| write!(f, "@{version}"))
    }
}

/// Kinds of envs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EnvKind {
    /// One site.
    Website,
    /// A browser.
    Browser,
    /// A desktop.
    Computer,
    /// Several of those behind one gateway.
    Multi,
}

impl EnvKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Website, Self::Browser, Self::Computer, Self::Multi];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Website => "website",
            Self::Browser => "browser",
            Self::Computer => "computer",
            Self::Multi => "multi",
        }
    }
}

/// What an env defines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EnvSpec {
    /// One site.
    Website(WebsiteSpec),
    /// A browser.
    Browser(BrowserSpec),
    /// A desktop.
    Computer(ComputerSpec),
    /// Several of those behind one gateway.
    Multi(MultiSpec),
}

impl EnvSpec {
    /// Its kind.
    pub fn kind(&self) -> EnvKind {
        match self {
            Self::Website(_) => EnvKind::Website,
            Self::Browser(_) => EnvKind::Browser,
            Self::Computer(_) => EnvKind::Computer,
            Self::Multi(_) => EnvKind::Multi,
        }
    }
}

/// One site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebsiteSpec {
    /// The names that it answers to; a synthetic site without any takes its card's (ENV-11).
    pub domains: Vec<HostPattern>,
    /// Whether it is a real site.
    pub live: bool,
    /// Further hosts of a live site.
    pub allow_hosts: Vec<HostPattern>,
    /// What runs.
    pub source: WebsiteSource,
    /// Settings of its server.
    pub settings: BTreeMap<SettingName, SettingValue>,
    /// Settings whose value is never stored; they need not have one.
    pub secret_settings: BTreeSet<SettingName>,
    /// How long it may take to be ready, in seconds.
    pub ready_timeout_s: u32,
}

/// What runs a site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebsiteSource {
    /// An image from a registry.
    Image(String),
    /// Services from the bundle.
    Bundle {
        /// Speaks `website/v1`.
        server: ServiceSpec,
        /// Serves its pages; the server does without one.
        frontend: Option<FrontendSpec>,
        /// A database, a worker.
        services: BTreeMap<Name, ServiceSpec>,
    },
}

/// One program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSpec {
    /// Program and arguments, run in `/site` without a shell.
    pub command: Vec<String>,
    /// Where it listens.
    pub port: u16,
    /// What `put` runs.
    pub build: Option<Vec<String>>,
}

/// What serves a site's pages in its server's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrontendSpec {
    /// A program.
    Command(ServiceSpec),
    /// A folder of the bundle.
    Static {
        /// The folder, relative to the bundle.
        folder: String,
        /// What `put` runs.
        build: Option<Vec<String>>,
    },
}

impl WebsiteSource {
    /// What `put` runs, in order: further services, server, frontend.
    pub fn builds(&self) -> Vec<&Vec<String>> {
        let Self::Bundle { server, frontend, services } = self else { return Vec::new() };
        let frontend = frontend.as_ref().and_then(|frontend| match frontend {
            FrontendSpec::Command(service) => service.build.as_ref(),
            FrontendSpec::Static { build, .. } => build.as_ref(),
        });
        services.values().filter_map(|service| service.build.as_ref()).chain(&server.build).chain(frontend).collect()
    }
}

/// A width and a height in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Size {
    /// Pixels.
    pub width: u32,
    /// Pixels.
    pub height: u32,
}

/// What a browser or computer may reach (NET-4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkSpec {
    /// The deploy's sites.
    Sites,
    /// Those, and these names.
    Allowlist(Vec<HostPattern>),
    /// Any public name.
    Open,
}

/// A browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrowserSpec {
    /// Pages that are open when the deploy is ready.
    pub start_tabs: Vec<StartTab>,
    /// What it may reach.
    pub network: NetworkSpec,
    /// Size of its pages.
    pub viewport: Size,
}

/// A desktop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComputerSpec {
    /// Pages that are open when the deploy is ready.
    pub start_tabs: Vec<StartTab>,
    /// What it may reach.
    pub network: NetworkSpec,
    /// Size of its screen.
    pub resolution: Size,
    /// Whether the deploy's sites are routed in it.
    pub route_sites: bool,
    /// Its settings.
    pub settings: BTreeMap<SettingName, SettingValue>,
    /// Settings whose value is never stored.
    pub secret_settings: BTreeSet<SettingName>,
}

/// Several envs behind one gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MultiSpec {
    /// Sites.
    pub websites: Vec<Member>,
    /// Desktops.
    pub computers: Vec<Member>,
    /// Browsers.
    pub browsers: Vec<Member>,
}

impl MultiSpec {
    /// Every member.
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.websites.iter().chain(&self.computers).chain(&self.browsers)
    }
}

/// One env of a multi env.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its name within the deploy.
    pub name: Name,
    /// The stored env.
    pub env: Name,
    /// Its pinned version; the latest at deploy without one.
    pub version: Option<u64>,
}
