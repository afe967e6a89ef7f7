//! Turns a plan into a running deploy: providers, supervisor, reaper.

mod browser;
mod cdp;
mod client;
mod record;

pub use client::ControlClient;
pub use record::{DeployDir, DeployRecord, RecordError};
