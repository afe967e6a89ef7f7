//! The plan of a deploy: plain data that a provider makes real. All rules are here, and no I/O.

mod captures;
mod computer;
mod make;
mod settings;

use std::collections::{BTreeMap, BTreeSet};

use agentenv_protocol::{Digest, HostPattern, Name, control::SiteTableEntry};
use serde::{Deserialize, Serialize};

use crate::{EnvVersion, Reach, SettingName, SettingValue, Size, StartTab};

pub use captures::CaptureOptions;
pub use computer::{ComputerSettings, PlannedComputer, computer_settings};
pub use make::plan;
pub use settings::{hidden_values, resolve_settings};

/// What a plan is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanInput {
    /// The env to deploy.
    pub env: EnvVersion,
    /// The envs that it names, in the pinned versions, or the latest where none is pinned.
    pub members: Vec<EnvVersion>,
    /// What the provider can do.
    pub abilities: Abilities,
    /// How every packet of the websites is to be recorded, where it is (CAP-1).
    pub capture_traffic: Option<CaptureOptions>,
}

/// What a provider can do: each difference between providers, by name (PV-4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// The provider.
    pub provider: String,
    /// Website envs that are images.
    pub images: bool,
    /// Captures: websites have network namespaces of their own.
    pub captures: bool,
    /// Live sites.
    pub live_sites: bool,
    /// Computers.
    pub computers: bool,
    /// A `network` other than `sites`.
    pub networks: bool,
    /// `secret:` references.
    pub secrets: bool,
}

impl Abilities {
    /// The `sandbox` provider's.
    pub fn sandbox() -> Self {
        Self {
            provider: "sandbox".to_owned(),
            images: false,
            captures: true,
            live_sites: true,
            computers: true,
            networks: true,
            secrets: true,
        }
    }
}

/// A deploy that can be started. It holds references, never the value of a secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The env.
    pub env: Name,
    /// Its version.
    pub version: u64,
    /// Who makes it real.
    pub provider: String,
    /// Every version of an env that it runs, this one first.
    pub versions: Vec<(Name, u64)>,
    /// Websites, in the order of the env.
    pub websites: Vec<PlannedWebsite>,
    /// Browsers, in the order of the env.
    pub browsers: Vec<PlannedBrowser>,
    /// Computers, in the order of the env.
    #[serde(default)]
    pub computers: Vec<PlannedComputer>,
    /// The names of the synthetic sites that store some, who wins first. Sites that take their card's are added at deploy.
    pub site_table: Vec<SiteTableEntry>,
    /// The names of live sites that no synthetic site is known to cover (NET-4).
    pub live_hosts: Vec<HostPattern>,
    /// How every packet of the websites is recorded, where it is.
    pub captures: Option<CaptureOptions>,
    /// What people should know.
    pub warnings: Vec<String>,
}

/// One website: a pod of services.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedWebsite {
    /// Name within the deploy.
    pub name: Name,
    /// The env that it is.
    pub env: Name,
    /// Its version.
    pub version: u64,
    /// What `/site` is.
    pub tree: Digest,
    /// Its names; a synthetic site without any takes its card's.
    pub domains: Vec<HostPattern>,
    /// Whether it is a real site.
    pub live: bool,
    /// Further hosts of a live site.
    pub allow_hosts: Vec<HostPattern>,
    /// What its server reaches on the real network (NET-8): nothing, unless the site is live.
    pub reach: Vec<HostPattern>,
    /// In the order of their start: further services, server, frontend (RUN-6).
    pub services: Vec<PlannedService>,
    /// Settings of the server.
    pub settings: BTreeMap<SettingName, SettingValue>,
    /// Which of them are secret.
    pub secret_settings: BTreeSet<SettingName>,
    /// How long it may take to be ready, in seconds.
    pub ready_timeout_s: u32,
}

impl PlannedWebsite {
    /// The service of a role; there is always a server.
    pub fn service(&self, role: Role) -> Option<&PlannedService> {
        self.services.iter().find(|service| service.role == role)
    }

    /// The service whose pages people see.
    pub fn pages(&self) -> Option<&PlannedService> {
        self.service(Role::Frontend).or_else(|| self.service(Role::Server))
    }
}

/// What a service is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A database, a worker.
    Further,
    /// Speaks `website/v1`; the only one that gets settings and the site key.
    Server,
    /// Serves the pages in the server's place.
    Frontend,
}

/// One service of a website.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedService {
    /// `server`, `frontend`, or its own name.
    pub name: Name,
    /// What it is for.
    pub role: Role,
    /// What runs.
    pub program: Program,
    /// Where it listens; also its `PORT`.
    pub port: u16,
}

/// What a service runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// Program and arguments, in `/site`.
    Command(Vec<String>),
    /// Our file server, for this folder of `/site`.
    StaticFolder(String),
}

/// One browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedBrowser {
    /// Name within the deploy.
    pub name: Name,
    /// The env that it is.
    pub env: Name,
    /// Its version.
    pub version: u64,
    /// Pages that are open when the deploy is ready.
    pub start_tabs: Vec<StartTab>,
    /// What it reaches on the real network, beside the deploy's synthetic sites (NET-4).
    pub network: Reach,
    /// Size of its pages.
    pub viewport: Size,
}
