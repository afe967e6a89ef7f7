//! The server of `echo.test`: what its pages received, by `data/get`.

use std::{fs, path::Path, process::ExitCode};

use agentenv_sdk::{Error, Result, SignIn, Snapshot, Value, Website, from_data, json, website, website_methods};
use echo::{FOLDER, Log};
use serde::Deserialize;

/// The log and what was loaded.
#[website(domains = ["echo.test", "*.echo.test"])]
struct Echo {
    folder: Snapshot,
}

/// Which requests: those whose text contains this.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Selector {
    contains: String,
}

#[website_methods]
impl Website for Echo {
    fn open(_settings: (), data_dir: &Path) -> Result<Self> {
        let seed = |folder: &Path| Ok(fs::write(folder.join("loaded.json"), "[]")?);
        Ok(Self { folder: Snapshot::prepare(data_dir, FOLDER, seed)? })
    }

    /// Takes a list of anything and keeps it.
    fn load(&self, data: Value) -> Result<()> {
        let mut loaded = self.loaded()?;
        loaded.append(&mut from_data(data)?);
        Ok(fs::write(self.folder.path().join("loaded.json"), json!(loaded).to_string())?)
    }

    /// `{requests, loaded}`: the requests that the pages received, and what was loaded. A selector `{"contains": TEXT}`
    /// leaves out the requests without the text.
    fn get(&self, selector: Option<Value>) -> Result<Value> {
        let mut requests = Log::within(self.folder.path()).read()?;
        if let Some(selector) = selector {
            let Selector { contains } = from_data(selector)?;
            requests.retain(|request| request.text.contains(&contains));
        }
        Ok(json!({"requests": requests, "loaded": self.loaded()?}))
    }

    fn reset(&self) -> Result<()> {
        self.folder.restore()
    }

    /// Takes every name but the empty one; the page that proves it is the one that shows the cookies it received.
    fn sign_in(&self, user: Option<String>) -> Result<SignIn> {
        match user.unwrap_or_else(|| "somebody".to_owned()) {
            user if user.is_empty() => Err(Error::bad_request("the user has no name")),
            user => Ok(SignIn::new(user).verify("/", "echo_session=")),
        }
    }
}

impl Echo {
    fn loaded(&self) -> Result<Vec<Value>> {
        Ok(serde_json::from_slice(&fs::read(self.folder.path().join("loaded.json"))?)?)
    }
}

fn main() -> ExitCode {
    agentenv_sdk::serve::<Echo>()
}
