//! The live site `github.com`: the real one, at its own name, beside synthetic sites.
//!
//! This server serves none of its pages. It says whether the account works, signs it in, and reads repositories and issues
//! through the API for checks. What is loaded stays here: nothing is ever written to GitHub.

mod api;

use std::{fs, path::Path, process::ExitCode};

use agentenv_sdk::{
    Cookie, Error, ExposeSecret as _, Result, SameSite, SecretString, SessionState, Settings, Snapshot, Value, Verify,
    Website, from_data, json, website, website_methods,
};
use serde::Deserialize;

use crate::api::Api;

/// The account: its access token, and the session of a browser that it is signed in with.
#[derive(Settings)]
struct Account {
    token: SecretString,
    user_session: SecretString,
}

/// GitHub as one deploy uses it.
#[website(
    name = "github",
    domains = ["github.com"],
    live = true,
    allow_hosts = ["*.github.com", "*.githubassets.com", "*.githubusercontent.com"],
)]
struct GitHub {
    settings: Account,
    api: Api,
    loaded: Snapshot,
}

/// What `get` answers for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Selector {
    /// Such as `octocat/Hello-World`.
    repository: String,
}

/// Where what was loaded is kept: one JSON value a line.
const LOADED: &str = "loaded.jsonl";

#[website_methods]
impl Website for GitHub {
    fn open(settings: Account, data_dir: &Path) -> Result<Self> {
        let loaded = Snapshot::prepare(data_dir, "loaded", |folder| Ok(fs::write(folder.join(LOADED), "")?))?;
        let api = Api::new(&settings.token);
        Ok(Self { settings, api, loaded })
    }

    /// The account works.
    async fn ready(&self) -> Result<()> {
        self.api.login().await.map(drop)
    }

    /// Keeps any JSON, for `get` to give back. GitHub itself is not changed.
    fn load(&self, data: Value) -> Result<()> {
        let path = self.loaded.path().join(LOADED);
        let text = fs::read_to_string(&path)? + &data.to_string() + "\n";
        Ok(fs::write(path, text)?)
    }

    /// `{loaded: [...]}`; with a selector `{"repository": "octocat/Hello-World"}`, or that name alone, also `repository` and `issues`
    /// as the API has them.
    async fn get(&self, selector: Option<Value>) -> Result<Value> {
        let text = fs::read_to_string(self.loaded.path().join(LOADED))?;
        let loaded = text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
        let Some(selector) = selector else { return Ok(json!({ "loaded": loaded })) };
        let Selector { repository } = match selector {
            Value::String(repository) => Selector { repository },
            other => from_data(other)?,
        };
        let path = repository_path(&repository)?;
        let (repository, issues) = (self.api.get(&path).await?, self.api.get(&format!("{path}/issues")).await?);
        Ok(json!({ "loaded": loaded, "repository": repository, "issues": issues }))
    }

    /// Forgets what was loaded.
    fn reset(&self) -> Result<()> {
        self.loaded.restore()
    }

    /// Signs in the account; there is no other user.
    #[session_state]
    async fn session(&self, user: Option<String>) -> Result<SessionState> {
        let login = self.api.login().await?;
        if let Some(user) = user
            && user != login
        {
            return Err(Error::not_found(format!("the account is `{login}`, not `{user}`")).hint("leave the user out"));
        }
        let cookie = Cookie {
            name: "user_session".to_owned(),
            value: self.settings.user_session.expose_secret().to_owned(),
            domain: "github.com".to_owned(),
            path: "/".to_owned(),
            expires: -1.0,
            http_only: true,
            secure: true,
            same_site: SameSite::Lax,
        };
        let verify = Verify {
            url: "https://github.com/".to_owned(),
            contains: format!("<meta name=\"user-login\" content=\"{login}\">"),
        };
        Ok(SessionState { cookies: vec![cookie], origins: vec![], verify: Some(verify) })
    }
}

/// `owner/name` as a path of the API.
fn repository_path(repository: &str) -> Result<String> {
    let plain = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            && part != "."
            && part != ".."
    };
    match repository.split_once('/') {
        Some((owner, name)) if plain(owner) && plain(name) => Ok(format!("/repos/{owner}/{name}")),
        _ => Err(Error::bad_request(format!("`{repository}` is no repository")).hint("such as `octocat/Hello-World`")),
    }
}

fn main() -> ExitCode {
    agentenv_sdk::serve::<GitHub>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_an_owner_and_a_name_and_nothing_else() {
        assert_eq!(repository_path("octocat/Hello-World").unwrap(), "/repos/octocat/Hello-World");
        for bad in ["", "octocat", "octocat/", "/x", "a/b/c", "../x", "a/..", "a/b?c", "a/b%2f", "a b/c"] {
            assert!(repository_path(bad).is_err(), "{bad}");
        }
    }

    #[tokio::test]
    async fn what_is_loaded_is_given_back_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let account = Account { token: "t".into(), user_session: "s".into() };
        let site = <GitHub as Website>::open(account, folder.path()).await.unwrap();
        Website::load(&site, json!({"note": "first\nline"})).await.unwrap();
        Website::load(&site, json!([1])).await.unwrap();
        assert_eq!(Website::get(&site, None).await.unwrap(), json!({"loaded": [{"note": "first\nline"}, [1]]}));
        assert!(Website::get(&site, Some(json!({"repo": "a/b"}))).await.is_err());
    }
}
