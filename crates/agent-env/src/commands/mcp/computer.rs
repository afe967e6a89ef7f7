//! A computer's agent API, as a client of the gateway.

use std::time::Duration;

use agentenv_protocol::{ComputerAction, ComputerError, ComputerReply, Name};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use super::{failure::Failure, place::Place};

/// An action takes at most a minute, which is the longest wait, and what comes before and after it.
const ACT_LIMIT: Duration = Duration::from_secs(120);
/// A picture of a large screen full of noise, in base64.
const REPLY_BYTES: usize = 64 << 20;

/// A computer of the deploy.
pub(super) struct Desktop {
    pub(super) name: Name,
    place: Place,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Desktop {
    pub(super) fn new(name: Name, place: Place) -> Self {
        Self { name, place, client: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// Does an action; `query` says which picture comes with the answer.
    pub(super) async fn act(&self, action: &ComputerAction, query: &str) -> Result<ComputerReply, Failure> {
        match tokio::time::timeout(ACT_LIMIT, self.ask(action, query)).await {
            Ok(reply) => reply,
            Err(_) => Err(Failure::new("slow", format!("{} did not answer within {ACT_LIMIT:?}", self.name))),
        }
    }

    async fn ask(&self, action: &ComputerAction, query: &str) -> Result<ComputerReply, Failure> {
        let body = serde_json::to_vec(action).map_err(|error| Failure::argument(error.to_string()))?;
        let request = Request::post(self.place.url(&format!("/act?{query}")))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Failure::argument(error.to_string()))?;
        let away = |why: &str| Failure::new("away", format!("{}: {why}; the deploy may be closed", self.name));
        let response =
            self.client.request(request).await.map_err(|_| away("the gateway of the deploy does not answer"))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), REPLY_BYTES).collect().await;
        let body = body.map_err(|_| away("the answer of the gateway broke off"))?.to_bytes();
        if status == StatusCode::OK {
            return serde_json::from_slice(&body).map_err(|_| away("the gateway answered something else"));
        }
        Err(match serde_json::from_slice::<ComputerError>(&body) {
            Ok(error) => error.into(),
            Err(_) if matches!(status, StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE) => {
                Failure::argument(format!("the gateway refused the action: {status}"))
            }
            Err(_) => away(&format!("the gateway answered {status}")),
        })
    }
}
