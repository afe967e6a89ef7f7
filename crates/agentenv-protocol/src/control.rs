//! The control API of a running deploy: HTTP/1 with JSON over `control.sock` (SPEC §11), and what deploys print.
//!
//! | method and path | body | answer |
//! |---|---|---|
//! | GET `/status` | | [`DeployStatus`] |
//! | GET `/denied` | | `Vec<`[`DeniedEntry`]`>` |
//! | POST `/data/load` | [`LoadRequest`] | `{}` |
//! | POST `/data/get` | [`GetRequest`] | [`crate::DataReply`] |
//! | POST `/sign-in` | [`SignInRequest`] | [`SignInReport`] |
//! | POST `/reset` | | [`ResetReport`] |
//! | POST `/close` | [`CloseRequest`] | `{}`, when nothing is left |
//! | POST `/exec` | [`ExecRequest`] | 101, then [`ExecFrame`]s both ways |
//!
//! Errors are [`ControlError`] with a 4xx or 5xx status.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{DeployId, ErrorKind, ExitCode, HostPattern, Name, SandboxName, TrafficRing};

/// Where a deploy is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeployState {
    /// Its directory is written; things are being made.
    Starting,
    /// Every site is ready and every start tab loaded.
    Ready,
    /// A service or a browser is gone for good; the rest runs.
    Degraded,
    /// Things are being removed.
    Closing,
    /// Nothing is left but the record.
    Closed,
    /// It ended by itself or never got ready.
    Failed,
}

/// What `env deploy --json` prints, and what `AGENTENV_DEPLOY` holds. It never has the control token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DeployInfo {
    /// Id.
    pub deploy: DeployId,
    /// The unique name it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// The env that was deployed.
    pub env: Name,
    /// `sandbox`, `compose` or `process`.
    pub provider: String,
    /// Such as `http://127.0.0.1:40123`.
    pub gateway_url: String,
    /// PEM file of the deploy's certificate authority.
    pub ca_file: String,
    /// Whether a live site is part of it.
    pub live: bool,
    /// Its websites.
    pub websites: Vec<WebsiteInfo>,
    /// Its browsers.
    pub browsers: Vec<BrowserInfo>,
    /// Its computers.
    pub computers: Vec<BrowserInfo>,
    /// Its captures, as they were when it got ready: one ring a website, where it captures.
    pub captures: Vec<TrafficRing>,
    /// What people should know.
    pub warnings: Vec<String>,
    /// From the command to ready, in milliseconds.
    pub ready_ms: u64,
}

/// One website of a deploy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WebsiteInfo {
    /// Name within the deploy.
    pub name: Name,
    /// Its names as URLs: `https://shop.test/`.
    pub urls: Vec<String>,
    /// Its pages through the gateway, for people and scripts; a live site has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub browse_url: Option<String>,
    /// Whether it is a real site.
    pub live: bool,
}

/// One browser of a deploy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BrowserInfo {
    /// Name within the deploy.
    pub name: Name,
    /// What CDP clients connect to; holds the agent token.
    pub cdp_url: String,
}

/// Answer of `/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeployStatus {
    /// State.
    pub state: DeployState,
    /// What was printed when it got ready.
    pub info: DeployInfo,
    /// Services and browsers by sandbox name.
    pub services: BTreeMap<SandboxName, ServiceStatus>,
    /// Resets so far.
    pub resets: u64,
    /// Its captures, as they are.
    #[serde(default)]
    pub captures: Vec<TrafficRing>,
}

/// One service or browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// `starting`, `running`, `failed`.
    pub state: String,
    /// The host's pid of its pid 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Restarts since the deploy.
    pub restarts: u32,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One denied attempt (NET-7).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeniedEntry {
    /// RFC 3339, UTC.
    pub time: String,
    /// Where it was tried.
    pub sandbox: SandboxName,
    /// The host as it was asked for.
    pub host: String,
    /// 0 where there is none (DNS).
    pub port: u16,
    /// Why.
    pub reason: String,
}

/// Body of `/data/load`: data by website.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadRequest {
    /// Website to its own JSON.
    pub data: BTreeMap<Name, Value>,
}

/// Body of `/data/get`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GetRequest {
    /// Which website.
    pub website: Name,
    /// The site's own JSON.
    #[serde(default)]
    pub selector: Option<Value>,
}

/// Body of `/sign-in`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignInRequest {
    /// Website to user.
    pub users: BTreeMap<Name, String>,
    /// One browser; every browser without it.
    #[serde(default)]
    pub target: Option<Name>,
}

/// Answer of `/sign-in`: one entry for each website and browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInReport {
    /// What was put where.
    pub signed_in: Vec<SignedIn>,
}

/// One website's user in one browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedIn {
    /// Website.
    pub website: Name,
    /// User.
    pub user: String,
    /// Browser.
    pub browser: Name,
    /// Whether a page proved it (BR-2); otherwise every cookie and entry was read back.
    pub verified: bool,
}

/// Answer of `/reset`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResetReport {
    /// All of it, in milliseconds.
    pub total_ms: f64,
    /// The slowest site's `data/reset`, in milliseconds.
    pub data_ms: f64,
    /// Browsers stopped, started, start tabs open, in milliseconds.
    pub browser_ms: f64,
    /// Of these, opening and loading the start tabs; the slowest browser's.
    #[serde(default)]
    pub tabs_ms: f64,
    /// For each browser and computer `spare`, or `cold: ` and why.
    pub browsers: BTreeMap<Name, String>,
    /// The live sites: what was loaded is gone and the browsers are signed out, but what was changed on the real sites stays
    /// (LIVE-6).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_undone: Vec<Name>,
}

/// Body of `/close`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CloseRequest {
    /// Throw captures away instead of keeping them (CAP-7).
    #[serde(default)]
    pub discard_captures: bool,
}

/// Body of `/exec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecRequest {
    /// Where.
    pub sandbox: SandboxName,
    /// Program and arguments.
    pub command: Vec<String>,
}

/// One frame of an `exec` stream: a kind byte, a big-endian `u32` length, that many bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecFrame {
    /// Kind 0, to the command; an empty one closes its standard input.
    Stdin(Vec<u8>),
    /// Kind 1, from the command.
    Stdout(Vec<u8>),
    /// Kind 2, from the command.
    Stderr(Vec<u8>),
    /// Kind 3, last: the exit code as a big-endian `i32`; 128 + N for signal N.
    Exit(i32),
}

impl ExecFrame {
    /// The longest payload, so that a frame never grows a buffer without bound.
    pub const MAX_LEN: usize = 64 * 1024;

    /// The frame as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let exit;
        let (kind, payload): (u8, &[u8]) = match self {
            Self::Stdin(bytes) => (0, bytes),
            Self::Stdout(bytes) => (1, bytes),
            Self::Stderr(bytes) => (2, bytes),
            Self::Exit(code) => {
                exit = code.to_be_bytes();
                (3, &exit)
            }
        };
        let mut out = Vec::with_capacity(5 + payload.len());
        out.push(kind);
        out.extend_from_slice(&u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(payload);
        out
    }

    /// The frame of this kind and payload; `None` where there is no such frame.
    pub fn decode(kind: u8, payload: Vec<u8>) -> Option<Self> {
        match kind {
            0 => Some(Self::Stdin(payload)),
            1 => Some(Self::Stdout(payload)),
            2 => Some(Self::Stderr(payload)),
            3 => Some(Self::Exit(i32::from_be_bytes(payload.try_into().ok()?))),
            _ => None,
        }
    }
}

/// Why the deploy or one of its commands failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ControlError {
    /// How a command that fails so ends.
    pub exit: ExitCode,
    /// What went wrong: one sentence that names the thing.
    pub message: String,
    /// What to do about it.
    #[serde(default)]
    pub hint: String,
    /// The last log lines of the service that is to blame.
    #[serde(default)]
    pub log: Vec<String>,
    /// The kind of error that a website answered, where one did: tells `blocked_by_site` apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ErrorKind>,
}

impl ControlError {
    /// Makes an error without a hint.
    pub fn new(exit: ExitCode, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: String::new(), log: Vec::new(), kind: None }
    }

    /// Makes an error of the machine or a service.
    pub fn infrastructure(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Infrastructure, message)
    }

    /// Says what to do about it.
    #[must_use]
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }

    /// Adds the last log lines of who is to blame.
    #[must_use]
    pub fn log(self, log: Vec<String>) -> Self {
        Self { log, ..self }
    }

    /// Keeps the kind of error that a website answered.
    #[must_use]
    pub fn kind(self, kind: ErrorKind) -> Self {
        Self { kind: Some(kind), ..self }
    }
}

/// One website of a deploy as it was planned, for claims and the site table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteTableEntry {
    /// What it covers.
    pub pattern: HostPattern,
    /// The website that answers.
    pub website: Name,
}
