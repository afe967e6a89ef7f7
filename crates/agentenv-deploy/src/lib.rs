//! Turns a plan into a running deploy: providers, supervisor, reaper.
//!
//! [`start`] writes the intent to the deploy's folder and starts its supervisor, a process of its own ([`supervisor_main`]) that
//! makes everything, answers on `control.sock` ([`ControlClient`]) and takes everything down. What a dead supervisor left,
//! [`reap`] finds from the disk alone and removes.

mod accounts;
mod browser;
pub mod captures;
pub mod cdp;
mod client;
mod denied;
mod desktop;
mod host_settings;
mod logs;
mod mask;
mod names;
mod pem;
mod probe;
mod reaper;
mod record;
mod sandbox_net;
mod start;
mod static_files;
mod supervisor;
mod tools;

use agentenv_protocol::{DeployId, Home, Name};

pub use accounts::LiveAccount;
pub use browser::{PageError, load_page};
pub use client::ControlClient;
pub use desktop::{DESKTOP_COMMAND, desktop_main, missing_packages as missing_desktop_packages};
pub use host_settings::{HostSettings, HostSettingsError, UPSTREAM_PROXY_VARIABLE};
pub use probe::{PROBE_COMMAND, probe_main};
pub use reaper::{Reaped, reap};
pub use record::{DeployDir, DeployRecord, RecordError, RecordedCaptures, deploy_ids};
pub use start::{SUPERVISOR_COMMAND, StartRequest, start};
pub use static_files::{STATIC_COMMAND, static_main};
pub use supervisor::supervisor_main;

/// Finds the deploy that has a unique name.
pub fn deploy_named(home: &Home, name: &Name) -> Option<DeployId> {
    names::holder(home, name)
}
