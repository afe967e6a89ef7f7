//! One module a family of commands.

pub(crate) mod capture;
pub(crate) mod cp;
pub(crate) mod deploys;
pub(crate) mod doctor;
pub(crate) mod env_records;
pub(crate) mod host;
pub(crate) mod launch;
pub(crate) mod mcp;
pub(crate) mod run;
pub(crate) mod secret;
pub(crate) mod task;
pub(crate) mod traffic;
pub(crate) mod view;
pub(crate) mod website;
