//! What the sandboxes of a plan are made of: pure, so that what a service sees is tested without one.

use std::{collections::BTreeMap, ops::RangeInclusive, path::PathBuf};

use agentenv_model::{PlannedService, PlannedWebsite, Program};
use agentenv_protocol::{SITE_KEY_ENV, SandboxName, SiteKey, TrafficService, WEBSITE_SETTINGS_ENV};
use agentenv_sandbox::{Limits, Mount, SeccompProfile, ServiceSpec, split_client_ports};
use secrecy::SecretString;

use crate::{
    browser::Launch,
    desktop::{self, DESKTOP_COMMAND},
    probe::{FORWARD_PORT_FLAG, OPEN_FLAG, PROBE_COMMAND},
    sandbox_net::{DNS, FORWARD_PORT},
    static_files::STATIC_COMMAND,
    tools::{self, PATH, SITE, ToolError},
};

/// A pod's `/data`: what a site's data may grow to.
pub(crate) const DATA_BYTES: u64 = 512 << 20;
/// A service's `/tmp`.
const TMP_BYTES: u64 = 256 << 20;
/// A service's `/dev/shm`.
const SHM_BYTES: u64 = 64 << 20;
/// A browser's `/dev/shm`: pages with large canvases and videos take hundreds of MiB.
const BROWSER_SHM_BYTES: u64 = 1 << 30;
/// A browser's home: profile, cache and downloads of one episode.
const BROWSER_HOME_BYTES: u64 = 2 << 30;
/// Processes and threads of a browser: 120 idle, some 10 a tab.
const BROWSER_TASKS: u64 = 4096;
/// Where our own program is in the sandboxes that run a part of it.
const OWN_PROGRAM: &str = "/opt/agent-env/agent-env";

/// Where things are on the host.
pub(crate) struct Host {
    /// The built trees, by digest.
    pub(crate) trees: BTreeMap<String, PathBuf>,
    /// Our own program.
    pub(crate) program: PathBuf,
    /// Whom visitors of real sites trust, in PEM; empty where nothing reaches one.
    pub(crate) authorities: String,
}

/// What a service gets beside its command.
pub(crate) type Variables = Vec<(String, SecretString)>;

/// Plans the sandbox of one service of a website; whether its packets are captured.
pub(crate) fn service(
    website: &PlannedWebsite,
    service: &PlannedService,
    host: &Host,
    captured: bool,
) -> Result<ServiceSpec, ToolError> {
    let tree = host.trees.get(website.tree.as_str()).cloned().unwrap_or_default();
    let mut mounts = vec![Mount::ReadOnly { source: tree.clone(), target: SITE.into() }];
    let command = match &service.program {
        Program::Command(command) => {
            mounts.extend(tools::mounts_for(command.first().map_or("", String::as_str), &tree)?);
            command.clone()
        }
        Program::StaticFolder(folder) => {
            mounts.push(own_program(host));
            vec![OWN_PROGRAM.to_owned(), STATIC_COMMAND.to_owned(), format!("{SITE}/{folder}")]
        }
    };
    let names: Vec<&str> = website.services.iter().map(|service| service.name.as_str()).collect();
    // Services find each other by name (NET-8); nothing else has one, but for what a live site reaches.
    let mut etc = vec![("hosts".to_owned(), format!("127.0.0.1 localhost {}\n", names.join(" ")).into_bytes())];
    if !website.reach.is_empty() {
        etc.extend(network_etc(&host.authorities));
    }
    Ok(ServiceSpec {
        name: SandboxName::of_service(&website.name, &service.name),
        command,
        cwd: SITE.into(),
        mounts,
        etc,
        hostname: website.name.to_string(),
        data: true,
        tmp_bytes: TMP_BYTES,
        shm_bytes: SHM_BYTES,
        home_bytes: None,
        seccomp: SeccompProfile::Service,
        limits: Limits::default(),
        client_ports: if captured { client_ports(website, service) } else { None },
    })
}

/// The ports that a service's own connections come from, where packets would not tell it from the website's others.
fn client_ports(website: &PlannedWebsite, service: &PlannedService) -> Option<RangeInclusive<u16>> {
    let count = u16::try_from(website.services.len()).ok().filter(|count| *count > 1)?;
    let place = website.services.iter().position(|other| other.name == service.name)?;
    split_client_ports(count).get(place).cloned()
}

/// A website's services as listings of captures name them, before any of them runs.
pub(crate) fn traffic_services(website: &PlannedWebsite) -> Vec<TrafficService> {
    let service = |service: &PlannedService| TrafficService {
        name: service.name.clone(),
        port: service.port,
        client_ports: None,
    };
    website.services.iter().map(service).collect()
}

/// The variables that every service gets.
pub(crate) fn variables(website: &PlannedWebsite, service: &PlannedService) -> Variables {
    let variables = [
        ("PATH", PATH.to_owned()),
        ("HOME", "/tmp".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        ("PORT", service.port.to_string()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.into()));
    variables.into_iter().chain(reach_variables(website)).collect()
}

/// What programs in a live site's pod find their way to the real site by: the forward port, and whom they trust. The two spellings are
/// those that programs read; the pod's own services are reached as they are.
fn reach_variables(website: &PlannedWebsite) -> Variables {
    if website.reach.is_empty() {
        return Vec::new();
    }
    let proxy = format!("http://{FORWARD_PORT}");
    let services = website.services.iter().map(|service| service.name.as_str());
    let own = ["localhost", "127.0.0.1"].into_iter().chain(services).collect::<Vec<_>>().join(",");
    let proxies = ["HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"].map(|name| (name, proxy.as_str()));
    let own = ["NO_PROXY", "no_proxy"].map(|name| (name, own.as_str()));
    let all = proxies.into_iter().chain(own).chain(TRUST);
    all.map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// The variables that only a website's server gets (PR-6, PR-8).
pub(crate) fn server_variables(settings: SecretString, key: &SiteKey) -> Variables {
    vec![(WEBSITE_SETTINGS_ENV.to_owned(), settings), (SITE_KEY_ENV.to_owned(), key.expose().into())]
}

/// Plans the sandbox of a browser.
pub(crate) fn browser(name: &SandboxName, launch: &Launch, authorities: &str) -> ServiceSpec {
    ServiceSpec {
        name: name.clone(),
        command: launch.command.clone(),
        cwd: launch.cwd.clone(),
        mounts: Vec::new(),
        etc: network_etc(authorities).into_iter().chain(launch.etc.iter().cloned()).collect(),
        hostname: name.to_string(),
        data: false,
        tmp_bytes: TMP_BYTES,
        shm_bytes: BROWSER_SHM_BYTES,
        home_bytes: Some(BROWSER_HOME_BYTES),
        seccomp: SeccompProfile::Browser,
        limits: Limits { nproc: BROWSER_TASKS, ..Limits::default() },
        client_ports: None,
    }
}

/// Plans the sandbox of a computer, which runs our own program.
pub(crate) fn computer(name: &SandboxName, launch: &Launch, authorities: &str, host: &Host) -> ServiceSpec {
    let mut spec = browser(name, launch, authorities);
    spec.command = vec![OWN_PROGRAM.to_owned(), DESKTOP_COMMAND.to_owned()];
    spec.mounts = vec![own_program(host), Mount::Terminals];
    let java = desktop::java_settings().into_iter();
    spec.mounts.extend(java.map(|folder| Mount::ReadOnly { source: folder.clone(), target: folder }));
    spec.etc.push((desktop::JAVA_TRUST_STORE.to_owned(), desktop::java_trust_store(authorities)));
    spec
}

/// The variables of what is launched.
pub(crate) fn launch_variables(launch: &Launch) -> Variables {
    launch.environment.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect()
}

/// The variables that every program of a computer gets, but for those of its settings.
pub(crate) fn computer_variables(launch: &Launch) -> Variables {
    let trust = TRUST.map(|(name, value)| (name.to_owned(), value.into()));
    launch_variables(launch).into_iter().chain(trust).collect()
}

/// What programs without a proxy setting need: the placed name server, and whom they trust, in PEM. In a browser's sandbox that is the
/// deploy's authority, and the public ones only where it reaches real sites.
fn network_etc(authorities: &str) -> Vec<(String, Vec<u8>)> {
    vec![
        ("resolv.conf".to_owned(), format!("nameserver {}\noptions timeout:5 attempts:1\n", DNS.ip()).into_bytes()),
        (CA_BUNDLE.trim_start_matches("/etc/").to_owned(), authorities.as_bytes().to_vec()),
    ]
}

/// Debian's path of the bundle, which curl and OpenSSL know.
const CA_BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// What each family of programs is told by whom it trusts.
const TRUST: [(&str, &str); 4] = [
    ("SSL_CERT_FILE", CA_BUNDLE),
    ("CURL_CA_BUNDLE", CA_BUNDLE),
    ("REQUESTS_CA_BUNDLE", CA_BUNDLE),
    ("NODE_EXTRA_CA_CERTS", CA_BUNDLE),
];

/// The variables of a command that runs beside a browser, or beside a service of a website: it is on the network as they are, without
/// their settings.
pub(crate) fn exec_variables(website: Option<&PlannedWebsite>) -> Variables {
    let mut variables = vec![("PATH", PATH), ("HOME", "/tmp"), ("LANG", "C.UTF-8")];
    if website.is_none() {
        variables[1] = ("HOME", crate::browser::HOME);
        variables.extend(TRUST);
    }
    let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value.into()));
    variables.chain(website.map(reach_variables).unwrap_or_default()).collect()
}

/// What a probe is told of its sandbox.
#[derive(Clone, Copy)]
pub(crate) struct Probed<'a> {
    /// Whether it has our forward port.
    pub(crate) forward_port: bool,
    /// Whether it may reach any public name.
    pub(crate) open: bool,
    /// Names that it reaches.
    pub(crate) names: &'a [String],
}

/// Plans the probe of a sandbox (NET-6): the same isolation as what runs there, and our own program.
pub(crate) fn probe(like: &ServiceSpec, host: &Host, probed: Probed<'_>) -> ServiceSpec {
    let mut command = vec![OWN_PROGRAM.to_owned(), PROBE_COMMAND.to_owned()];
    let flags = [(FORWARD_PORT_FLAG, probed.forward_port), (OPEN_FLAG, probed.open)];
    command.extend(flags.into_iter().filter(|(_, told)| *told).map(|(flag, _)| flag.to_owned()));
    command.extend_from_slice(probed.names);
    ServiceSpec { command, cwd: "/".into(), mounts: vec![own_program(host)], data: false, ..like.clone() }
}

fn own_program(host: &Host) -> Mount {
    Mount::ReadOnly { source: host.program.clone(), target: OWN_PROGRAM.into() }
}

#[cfg(test)]
mod tests;
