//! Commands on stored envs.

mod describe;

use std::path::PathBuf;

use agentenv_model::{Claim, ClaimKind, EnvRef, EnvSpec, EnvVersion, claims_of, site_table, winner_of};
use agentenv_protocol::{
    Home, HostPattern, Name,
    control::{ControlError, SiteTableEntry},
};
use agentenv_store::{Store, StoredEnv};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use self::describe::{described, names};
use crate::{
    output::{Output, columns},
    progress::Activity,
    put::{Put, Putter, env_version, latest_versions, store_error},
};

/// Arguments of `website put`.
#[derive(Args, Debug)]
pub(crate) struct WebsitePutArgs {
    /// The bundle's folder; an image needs none
    #[arg(required_unless_present = "image")]
    dir: Option<PathBuf>,
    /// The env's name
    #[arg(long)]
    name: Option<String>,
    /// It is a real site
    #[arg(long, overrides_with = "no_live")]
    live: bool,
    /// It is a synthetic site
    #[arg(long, overrides_with = "live")]
    no_live: bool,
    /// A name that the site answers to: `shop.test`, or `*.shop.test` (repeatable)
    #[arg(long = "domain", value_name = "PATTERN")]
    domains: Vec<String>,
    /// A further host of a live site (repeatable)
    #[arg(long = "allow-host", value_name = "PATTERN")]
    allow_hosts: Vec<String>,
    /// A setting; the value may be a reference such as `env:NAME` (repeatable)
    #[arg(long = "setting", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// A setting whose value has to be a bare reference (repeatable)
    #[arg(long = "secret-setting", value_name = "NAME")]
    secret_settings: Vec<String>,
    /// An image from a registry, in place of services
    #[arg(long)]
    image: Option<String>,
}

impl WebsitePutArgs {
    fn flags(self) -> (Option<PathBuf>, agentenv_model::Flags) {
        let live = match (self.live, self.no_live) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        };
        let flags = agentenv_model::Flags {
            name: self.name,
            live,
            domains: self.domains,
            allow_hosts: self.allow_hosts,
            settings: self.settings,
            secret_settings: self.secret_settings,
            image: self.image,
        };
        (self.dir, flags)
    }
}

/// Arguments of `env put`.
#[derive(Args, Debug)]
pub(crate) struct EnvPutArgs {
    /// A bundle's folder, or an env file
    path: PathBuf,
    /// Do not pin the versions of a multi env's members: deploys take the latest
    #[arg(long)]
    latest: bool,
}

/// Arguments of `env list`.
#[derive(Args, Debug)]
pub(crate) struct EnvListArgs {
    /// Show every version of this env
    name: Option<Name>,
}

/// Arguments of `env show`.
#[derive(Args, Debug)]
pub(crate) struct EnvShowArgs {
    /// The env: `shop`, or `shop@3` for version 3
    env: EnvRef,
}

/// Arguments of `env rm`.
#[derive(Args, Debug)]
pub(crate) struct EnvRmArgs {
    /// The env: `shop` for every version, or `shop@3` for version 3
    env: EnvRef,
}

/// Arguments of `store gc`.
#[derive(Args, Debug)]
pub(crate) struct StoreGcArgs {}

async fn open(home: &Home) -> Result<Store, ControlError> {
    Store::open(home).await.map_err(store_error)
}

/// `website put`.
pub(crate) async fn website_put(home: &Home, output: Output, args: WebsitePutArgs) -> Result<(), ControlError> {
    let (folder, flags) = args.flags();
    let what = folder.as_ref().map_or("the image".to_owned(), |folder| folder.display().to_string());
    let activity = Activity::start(output, format!("storing {what}"));
    let store = open(home).await?;
    let progress = |line: &str| activity.say(line);
    let put = Putter { home, store: &store, progress: &progress }.website(folder.as_deref(), &flags).await?;
    activity.finish();
    show_put(output, &put)
}

/// `env put`.
pub(crate) async fn env_put(home: &Home, output: Output, args: EnvPutArgs) -> Result<(), ControlError> {
    let activity = Activity::start(output, format!("storing {}", args.path.display()));
    let store = open(home).await?;
    let progress = |line: &str| activity.say(line);
    let put = Putter { home, store: &store, progress: &progress }.env(&args.path, args.latest).await?;
    activity.finish();
    show_put(output, &put)
}

fn show_put(output: Output, put: &Put) -> Result<(), ControlError> {
    let line = |put: &Put| {
        let what = if put.stored { "stored" } else { "is stored already" };
        let warnings = put.warnings.iter().map(|warning| format!("\n  warning: {warning}")).collect::<String>();
        format!("{} env {}@{} {what}{warnings}", put.kind, put.name, put.version)
    };
    output.result(put, || put.members.iter().chain([put]).map(line).collect::<Vec<_>>().join("\n"))
}

/// `env list`.
pub(crate) async fn env_list(home: &Home, output: Output, args: EnvListArgs) -> Result<(), ControlError> {
    let store = open(home).await?;
    let envs = store.list_envs(args.name.as_ref()).await.map_err(store_error)?;
    let mut rows = vec![["NAME", "VERSION", "KIND", "STORED", "NAMES"].map(str::to_owned).to_vec()];
    for env in &envs {
        let version = format!("{}{}", env.version, if env.latest && args.name.is_some() { " (latest)" } else { "" });
        let names = env_version(env).map(|version| names(&version.spec)).unwrap_or_else(|_| "(damaged)".to_owned());
        rows.push(vec![env.name.to_string(), version, env.kind.clone(), env.created_at.clone(), names]);
    }
    let list: Vec<Value> = envs.iter().map(summary).collect();
    output.result(&list, || if envs.is_empty() { "nothing is stored".to_owned() } else { columns(&rows) })
}

fn summary(env: &StoredEnv) -> Value {
    json!({
        "name": env.name,
        "version": env.version,
        "latest": env.latest,
        "kind": env.kind,
        "digest": env.digest,
        "created_at": env.created_at,
    })
}

/// `env show`.
pub(crate) async fn env_show(home: &Home, output: Output, args: EnvShowArgs) -> Result<(), ControlError> {
    let store = open(home).await?;
    let stored = store.get_env(&args.env.name, args.env.version).await.map_err(store_error)?;
    let version = env_version(&stored)?;
    let used_by = store.references_to(&stored.name, stored.version).await.map_err(store_error)?;
    let members = members(&store, &version).await?;
    let claims = claims(&version, &members);
    let table = site_table(&claims);
    let names = whose(&claims, &table);
    let mut object = summary(&stored);
    if let Value::Object(map) = &mut object {
        map.insert("source".to_owned(), json!(stored.source));
        map.insert("tree".to_owned(), json!(stored.tree));
        map.insert("env".to_owned(), stored.record.get("env").cloned().unwrap_or(Value::Null));
        map.insert("site_table".to_owned(), json!(table));
        map.insert("names".to_owned(), json!(names));
        map.insert("used_by".to_owned(), json!(used_by));
    }
    let text = || {
        let latest = if stored.latest { ", the latest" } else { "" };
        let mut lines = vec![format!(
            "{} env {}, version {}{latest}, stored {}",
            stored.kind, stored.name, stored.version, stored.created_at
        )];
        lines.extend(described(&version.spec));
        lines.extend(names.iter().map(NameRow::line));
        lines.extend(used_by.iter().map(|holder| format!("  used by   {holder}")));
        lines.join("\n")
    };
    output.result(&object, text)
}

/// One name of an env's websites, and who wins it (LIVE-2).
#[derive(Debug, Serialize)]
struct NameRow {
    name: HostPattern,
    /// The website that claims it.
    claimed_by: Name,
    /// The website that has it.
    website: Name,
    /// Whether the real site answers.
    live: bool,
}

impl NameRow {
    fn line(&self) -> String {
        let who = if self.live { format!("the real site, as `{}`", self.website) } else { self.website.to_string() };
        let instead = match self.claimed_by == self.website {
            true => String::new(),
            false => format!(", which wins it from `{}`", self.claimed_by),
        };
        format!("  name      {} -> {who}{instead}", self.name)
    }
}

/// Who wins each name: the synthetic ones first, as the site table has them.
fn whose(claims: &[Claim], table: &[SiteTableEntry]) -> Vec<NameRow> {
    let row = |(pattern, owner): (&HostPattern, &Name)| {
        let winner = winner_of(claims, pattern)?;
        Some(NameRow {
            name: pattern.clone(),
            claimed_by: owner.clone(),
            website: winner.owner.clone(),
            live: winner.kind != ClaimKind::Synthetic,
        })
    };
    let synthetic = table.iter().map(|entry| (&entry.pattern, &entry.website));
    let live = claims.iter().filter(|claim| claim.kind != ClaimKind::Synthetic && claim.kind.is_of_website());
    synthetic.chain(live.map(|claim| (&claim.pattern, &claim.owner))).filter_map(row).collect()
}

/// The stored envs that a multi env names, as far as they are there.
async fn members(store: &Store, env: &EnvVersion) -> Result<Vec<(Name, EnvVersion)>, ControlError> {
    let EnvSpec::Multi(multi) = &env.spec else { return Ok(Vec::new()) };
    let latest = latest_versions(store).await?;
    let mut found = Vec::new();
    for member in multi.members() {
        let version = match member.version {
            Some(version) => {
                store.get_env(&member.env, Some(version)).await.ok().map(|env| env_version(&env)).transpose()?
            }
            None => latest.iter().find(|env| env.name == member.env).cloned(),
        };
        found.extend(version.map(|version| (member.name.clone(), version)));
    }
    Ok(found)
}

fn claims(env: &EnvVersion, members: &[(Name, EnvVersion)]) -> Vec<agentenv_model::Claim> {
    let of = |name: &Name, spec: &EnvSpec| match spec {
        EnvSpec::Website(site) => claims_of(name, site.live, &site.domains, &site.allow_hosts),
        _ => Vec::new(),
    };
    let mut claims = of(&env.name, &env.spec);
    claims.extend(members.iter().flat_map(|(name, member)| of(name, &member.spec)));
    claims
}

/// `env rm`.
pub(crate) async fn env_rm(home: &Home, output: Output, args: EnvRmArgs) -> Result<(), ControlError> {
    let store = open(home).await?;
    let removed = store.remove_env(&args.env.name, args.env.version).await.map_err(store_error)?;
    let object = json!({ "name": args.env.name, "version": args.env.version, "removed": removed });
    let versions = if removed == 1 { "version" } else { "versions" };
    output.result(&object, || format!("{removed} {versions} of {} removed", args.env.name))
}

/// `store gc`.
pub(crate) async fn store_gc(home: &Home, output: Output, _args: StoreGcArgs) -> Result<(), ControlError> {
    let store = open(home).await?;
    let report = store.gc().await.map_err(store_error)?;
    output.result(&report, || {
        format!(
            "{} files ({} bytes), {} folders and {} remembered builds removed",
            report.blobs, report.bytes, report.folders, report.builds
        )
    })
}
