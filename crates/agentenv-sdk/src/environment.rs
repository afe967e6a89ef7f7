//! What a deploy tells a server by environment variables.

use std::path::PathBuf;

use agentenv_protocol::{SITE_KEY_ENV, SiteKey, WEBSITE_SETTINGS_ENV};

use crate::{Error, Result};

/// The variable that moves the data directory, for runs outside of a deploy.
const DATA_DIR_ENV: &str = "AGENTENV_DATA_DIR";
/// Where a deploy keeps a website's data.
const DATA_DIR: &str = "/data";

/// Where a server runs and what it was handed; tests make one themselves, for [`app`](crate::app).
#[derive(Clone, Debug)]
pub struct Environment {
    /// Where the site keeps its data.
    pub data_dir: PathBuf,
    /// Opens the operations (PR-8); without one they all answer 404.
    pub key: Option<SiteKey>,
    /// The settings as JSON; none is the same as `{}`.
    pub settings: Option<String>,
}

impl Environment {
    /// Reads the process's environment.
    ///
    /// # Errors
    /// The data directory doesn't exist, or a variable is not UTF-8.
    pub fn from_process() -> Result<Self> {
        let moved = variable(DATA_DIR_ENV)?;
        let data_dir = PathBuf::from(moved.as_deref().unwrap_or(DATA_DIR));
        if moved.is_some() {
            std::fs::create_dir_all(&data_dir)?;
        } else if !data_dir.is_dir() {
            return Err(Error::internal(format!("{DATA_DIR} is missing"))
                .hint(format!("outside of a deploy, name a data directory in {DATA_DIR_ENV}")));
        }
        Ok(Self {
            data_dir,
            key: variable(SITE_KEY_ENV)?.filter(|key| !key.is_empty()).map(SiteKey::from_stored),
            settings: variable(WEBSITE_SETTINGS_ENV)?,
        })
    }

    /// The port to listen at.
    pub(crate) fn port() -> Result<u16> {
        let text = variable("PORT")?
            .ok_or_else(|| Error::internal("PORT is not set").hint("outside of a deploy, start with PORT=8000"))?;
        text.parse().map_err(|_| Error::internal(format!("PORT is `{text}`, not a port")))
    }
}

fn variable(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(Error::internal(format!("{name} is not UTF-8"))),
    }
}
