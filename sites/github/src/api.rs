//! GitHub's API, as far as this site needs it.

use std::time::Duration;

use agentenv_sdk::{Error, ExposeSecret as _, Result, SecretString, Value};
use ureq::{Agent, http::StatusCode};

const ADDRESS: &str = "https://api.github.com";
/// The longest wait for an answer, so that `ready` tells of a site that hangs.
const LIMIT: Duration = Duration::from_secs(10);
/// The longest answer taken: a page of issues is some hundred KiB.
const ANSWER_BYTES: u64 = 8 << 20;

/// A client of the API, with the account's token. It reaches GitHub through the sandbox's proxy and trusts its certificates: both are
/// told by the usual variables.
#[derive(Clone)]
pub struct Api {
    agent: Agent,
    token: SecretString,
}

impl Api {
    /// Makes a client; nothing is sent yet.
    pub fn new(token: &SecretString) -> Self {
        let tls = ureq::tls::TlsConfig::builder().root_certs(ureq::tls::RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(LIMIT))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent("agent-env")
            .build();
        Self { agent: config.into(), token: token.clone() }
    }

    /// The account's name: it works.
    pub async fn login(&self) -> Result<String> {
        let user = self.get("/user").await?;
        let login = user["login"].as_str().ok_or_else(|| Error::internal("GitHub named no account"))?;
        Ok(login.to_owned())
    }

    /// Asks for a path.
    pub async fn get(&self, path: &str) -> Result<Value> {
        let (api, path) = (self.clone(), path.to_owned());
        // The client blocks.
        tokio::task::spawn_blocking(move || api.get_now(&path)).await?
    }

    fn get_now(&self, path: &str) -> Result<Value> {
        let request = self
            .agent
            .get(format!("{ADDRESS}{path}"))
            .header("Accept", "application/vnd.github+json")
            .header("Authorization", format!("Bearer {}", self.token.expose_secret()));
        let mut answer = request.call().map_err(|error| {
            Error::not_ready(format!("GitHub can't be reached: {error}"))
                .hint("see `agent-env env denied`, and the network of this machine")
        })?;
        let status = answer.status();
        let kind =
            answer.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default().to_owned();
        let text = answer.body_mut().with_config().limit(ANSWER_BYTES).read_to_string()?;
        judge(path, status, &kind, &text)
    }
}

/// What an answer means. The API speaks JSON: a page of HTML is for people, to prove that they are.
fn judge(path: &str, status: StatusCode, kind: &str, text: &str) -> Result<Value> {
    if !kind.starts_with("application/json") {
        return Err(Error::blocked_by_site(format!("GitHub answered {status} with a page for people instead of data"))
            .hint("sign in by hand from this network once, or wait"));
    }
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let message =
                serde_json::from_str::<Value>(text).ok().and_then(|body| body["message"].as_str().map(str::to_owned));
            let message = message.unwrap_or_else(|| status.to_string());
            Err(Error::not_ready(format!("GitHub refuses the account: {message}"))
                .hint("set a new token: `agent-env secret set github/token`"))
        }
        StatusCode::NOT_FOUND => Err(Error::not_found(format!("GitHub has no `{path}` that the account may see"))),
        status if status.is_success() => Ok(serde_json::from_str(text)?),
        status => Err(Error::not_ready(format!("GitHub answered {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use agentenv_sdk::ErrorKind;

    use super::*;

    #[test]
    fn every_answer_has_its_meaning() {
        let json = "application/json; charset=utf-8";
        assert_eq!(judge("/user", StatusCode::OK, json, r#"{"login": "octocat"}"#).unwrap()["login"], "octocat");
        for (status, kind, text, expected) in [
            (StatusCode::UNAUTHORIZED, json, r#"{"message": "Bad credentials"}"#, ErrorKind::NotReady),
            (StatusCode::FORBIDDEN, json, "{}", ErrorKind::NotReady),
            (StatusCode::FORBIDDEN, "text/html", "Please verify that you are human", ErrorKind::BlockedBySite),
            (StatusCode::OK, "text/html", "<title>Verify</title>", ErrorKind::BlockedBySite),
            (StatusCode::NOT_FOUND, json, "{}", ErrorKind::NotFound),
            (StatusCode::BAD_GATEWAY, json, "{}", ErrorKind::NotReady),
            (StatusCode::OK, json, "{", ErrorKind::Internal),
        ] {
            assert_eq!(judge("/x", status, kind, text).unwrap_err().kind(), expected, "{status} {kind} {text}");
        }
    }
}
