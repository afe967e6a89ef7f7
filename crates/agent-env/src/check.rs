//! `website check`: runs a site alone and tests every rule of `website/v1` against it (PR-7).

use std::time::Duration;

use agentenv_protocol::{
    AGENT_CARD_PATH, AgentCard, DataReply, ErrorBody, Name, SessionState, WebsiteParams,
    control::{ControlError, WebsiteInfo},
    operation,
};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::{Value, json};

/// What one answer may hold.
const ANSWER_LIMIT: usize = 64 << 20;
/// How long one answer may take.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// One rule and how the site keeps it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Rule {
    /// The requirement's id.
    pub(crate) id: &'static str,
    /// The rule.
    pub(crate) rule: &'static str,
    /// What was seen instead; `None` where the rule holds.
    pub(crate) broken: Option<String>,
}

/// A site that runs, as the checks reach it.
pub(crate) struct Site {
    client: Client<hyper_util::client::legacy::connect::HttpConnector, Full<Bytes>>,
    gateway: String,
    token: SecretString,
    name: Name,
    domains: Vec<String>,
}

struct Answer {
    status: StatusCode,
    body: Bytes,
}

impl Answer {
    fn json<T: serde::de::DeserializeOwned>(&self, what: &str) -> Result<T, String> {
        self.is(StatusCode::OK)?;
        serde_json::from_slice(&self.body).map_err(|error| format!("the body is not {what}: {error}: {}", self.start()))
    }

    fn is(&self, status: StatusCode) -> Result<(), String> {
        if self.status == status {
            Ok(())
        } else {
            Err(format!("{} instead of {status}: {}", self.status, self.start()))
        }
    }

    fn is_error(&self) -> Result<(), String> {
        if !self.status.is_client_error() {
            return Err(format!("{} instead of a 4xx status: {}", self.status, self.start()));
        }
        let body = serde_json::from_slice::<ErrorBody>(&self.body);
        body.map(drop).map_err(|error| format!("the body is not {{kind, message, hint}}: {error}: {}", self.start()))
    }

    fn start(&self) -> String {
        String::from_utf8_lossy(&self.body).chars().take(200).collect()
    }
}

impl Site {
    pub(crate) fn new(gateway: &str, token: SecretString, website: &WebsiteInfo) -> Self {
        let hosts = website.urls.iter().filter_map(|url| url.split("://").nth(1));
        Self {
            client: Client::builder(TokioExecutor::new()).build_http(),
            gateway: gateway.trim_end_matches('/').to_owned(),
            token,
            name: website.name.clone(),
            domains: hosts.map(|host| host.trim_end_matches('/').to_owned()).collect(),
        }
    }

    /// Tests every rule; an error is one of the machine.
    pub(crate) async fn check(&self) -> Result<Vec<Rule>, ControlError> {
        let at_deploy = self.data(json!({})).await;
        Ok(vec![
            rule("PR-1", "the server serves its agent card, with the website extension", self.card().await),
            rule("PR-2", "`ready` answers 200", self.ready().await),
            rule("PR-2", "`data/get` answers `{data}`", at_deploy.clone().map(drop)),
            rule(
                "PR-2",
                "what is not `{data}` is refused by `data/load` with `{kind, message, hint}`",
                self.bad_load().await,
            ),
            rule(
                "PR-2",
                "an unknown member is refused by `data/get` with `{kind, message, hint}`",
                self.bad_get().await,
            ),
            rule(
                "PR-2",
                "`data/reset` brings the state at deploy back, twice is harmless",
                self.reset(at_deploy).await,
            ),
            rule(
                "PR-2",
                "`session` answers cookies of the site's own names, or `{kind, message, hint}`",
                self.session().await,
            ),
            rule(
                "PR-2",
                "`session` of a user that is not there answers `{kind, message, hint}`, unless the site takes every name",
                self.no_user().await,
            ),
            rule("PR-3", "GET `/api/session` signs nobody in without a signed link", self.no_link().await),
            rule("PR-8", "without its key every operation answers 404", self.no_key().await),
        ])
    }

    async fn card(&self) -> Result<(), String> {
        let card: AgentCard = self.server(Method::GET, AGENT_CARD_PATH, None).await?.json("an agent card")?;
        let params: WebsiteParams = card
            .website()
            .ok_or("the card has no `urn:agentenv:website/v1` extension")?
            .map_err(|error| format!("the extension's parameters: {error}"))?;
        for interface in &card.supported_interfaces {
            if interface.protocol_version != "1.0" {
                return Err(format!("protocolVersion is {}, not 1.0", interface.protocol_version));
            }
        }
        if params.live && !params.routes.is_empty() {
            return Err("a live site names no routes".to_owned());
        }
        Ok(())
    }

    async fn ready(&self) -> Result<(), String> {
        self.server(Method::GET, operation::READY, None).await?.is(StatusCode::OK)
    }

    async fn data(&self, body: Value) -> Result<Value, String> {
        let reply: DataReply = self.server(Method::POST, operation::DATA_GET, Some(body)).await?.json("`{data}`")?;
        Ok(reply.data)
    }

    async fn bad_load(&self) -> Result<(), String> {
        self.server(Method::POST, operation::DATA_LOAD, Some(json!({ "no-such-member": 1 }))).await?.is_error()
    }

    async fn bad_get(&self) -> Result<(), String> {
        self.server(Method::POST, operation::DATA_GET, Some(json!({ "no-such-member": 1 }))).await?.is_error()
    }

    async fn reset(&self, at_deploy: Result<Value, String>) -> Result<(), String> {
        let at_deploy = at_deploy?;
        for _ in 0..2 {
            let answer = self.server(Method::POST, operation::DATA_RESET, None).await?;
            if !answer.status.is_success() {
                return Err(format!("{}: {}", answer.status, answer.start()));
            }
            if self.data(json!({})).await? != at_deploy {
                return Err("`data/get` answers something else after it than at deploy".to_owned());
            }
        }
        Ok(())
    }

    async fn session(&self) -> Result<(), String> {
        let answer = self.server(Method::POST, operation::SESSION, Some(json!({}))).await?;
        if answer.status != StatusCode::OK {
            return answer.is_error();
        }
        let state: SessionState = answer.json("`{cookies, origins, verify?}`")?;
        let own = |domain: &str| {
            let domain = domain.trim_start_matches('.');
            self.domains.iter().any(|own| own == domain || own.ends_with(&format!(".{domain}")))
        };
        match state.cookies.iter().find(|cookie| !own(&cookie.domain)) {
            Some(cookie) => {
                Err(format!("the cookie `{}` is for {}, not for a name of the site", cookie.name, cookie.domain))
            }
            None => Ok(()),
        }
    }

    async fn no_user(&self) -> Result<(), String> {
        let body = json!({ "user": "no-such-user-5d41" });
        let answer = self.server(Method::POST, operation::SESSION, Some(body)).await?;
        // A site without accounts takes every name (PR-3).
        if answer.status == StatusCode::OK {
            return answer.json::<SessionState>("`{cookies, origins, verify?}`").map(drop);
        }
        answer.is_error()
    }

    async fn no_link(&self) -> Result<(), String> {
        for path in [operation::SESSION.to_owned(), format!("{}?link=forged", operation::SESSION)] {
            let answer = self.page(Method::GET, &path).await?;
            if !answer.status.is_client_error() {
                return Err(format!("GET {path} answers {}", answer.status));
            }
        }
        Ok(())
    }

    async fn no_key(&self) -> Result<(), String> {
        let posts = [operation::DATA_LOAD, operation::DATA_GET, operation::DATA_RESET, operation::SESSION];
        let tries = posts.map(|path| (Method::POST, path)).into_iter().chain([(Method::GET, operation::READY)]);
        for (method, path) in tries {
            let answer = self.page(method.clone(), path).await?;
            if answer.status != StatusCode::NOT_FOUND {
                return Err(format!("{method} {path} answers {}", answer.status));
            }
        }
        Ok(())
    }

    async fn server(&self, method: Method, path: &str, body: Option<Value>) -> Result<Answer, String> {
        self.send(method, &format!("/svc/{}{path}", self.name), body, true).await
    }

    async fn page(&self, method: Method, path: &str) -> Result<Answer, String> {
        self.send(method, &format!("/website/{}{path}", self.name), None, false).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<Value>, control: bool) -> Result<Answer, String> {
        let mut request = Request::builder().method(method.clone()).uri(format!("{}{path}", self.gateway));
        if control {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", self.token.expose_secret()));
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let bytes = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let request = request.body(Full::new(bytes)).map_err(|error| error.to_string())?;
        let answer = async {
            let response = self.client.request(request).await.map_err(|error| error.to_string())?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_LIMIT).collect().await;
            Ok(Answer { status, body: body.map_err(|error| error.to_string())?.to_bytes() })
        };
        let late = |_| format!("{method} {path} was not answered within {} s", ANSWER_TIME.as_secs());
        tokio::time::timeout(ANSWER_TIME, answer).await.map_err(late)?
    }
}

fn rule(id: &'static str, rule: &'static str, result: Result<(), String>) -> Rule {
    Rule { id, rule, broken: result.err() }
}
