//! `/agent/TOKEN/BROWSER/...`: a browser's DevTools, behind the agent token.

use agentenv_protocol::{AgentToken, Name};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, upgrade::OnUpgrade};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{handshake::derive_accept_key, protocol::Role},
};

use crate::{
    Upstream,
    body::{self, Body},
    cdp::{self, CdpGate, DEVTOOLS_HOST},
    error::ProxyError,
    headers::{is_websocket, set_websocket},
    life::Life,
};

/// Answers a request whose token was right. `host` is what the client calls this gateway.
pub(super) async fn serve(
    gate: &CdpGate,
    life: &Life,
    token: &AgentToken,
    host: &str,
    browser: &Name,
    rest: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    if is_websocket(&request) {
        return websocket(gate, life, browser, rest, request).await;
    }
    let path = rest.split('?').next().unwrap_or_default();
    if path != "/json" && !path.starts_with("/json/") && !path.starts_with("/devtools/") {
        return Err(ProxyError::NoRoute);
    }
    // `json/new` takes PUT; nothing of DevTools takes a body.
    if !matches!(*request.method(), Method::GET | Method::PUT | Method::HEAD) {
        return Err(ProxyError::Method);
    }
    let answer = gate.ask(browser, request.method().clone(), rest).await?;
    let base = format!("{host}/agent/{}/{browser}", token.expose());
    let mut response =
        Response::new(body::full(rewritten(answer.body(), &base).unwrap_or_else(|| answer.body().to_vec())));
    *response.status_mut() = answer.status();
    if let Some(kind) = answer.headers().get(header::CONTENT_TYPE) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
    }
    // The answer holds the token.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The answer with this gateway's URLs in place of DevTools' own; `None` where there are none.
fn rewritten(body: &[u8], base: &str) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(body).ok()?;
    let entries = match &mut value {
        Value::Array(entries) => entries.iter_mut().collect(),
        entry => vec![entry],
    };
    let mut changed = false;
    for entry in entries.into_iter().filter_map(Value::as_object_mut) {
        for (key, member) in entry.iter_mut() {
            if let (true, Value::String(text)) =
                (key == "webSocketDebuggerUrl" || key.starts_with("devtoolsFrontendUrl"), member)
            {
                *text = gateway_url(text, base);
                changed = true;
            }
        }
    }
    if changed { serde_json::to_vec_pretty(&value).ok() } else { None }
}

/// `ws://ADDRESS/devtools/...` and `...?ws=ADDRESS/devtools/...`, by way of the gateway. The page that shows DevTools may be
/// the browser's own, which is a path, or one on the web.
fn gateway_url(text: &str, base: &str) -> String {
    let text = text.replace(&format!("{DEVTOOLS_HOST}/"), &format!("{base}/"));
    match text.strip_prefix("/devtools/") {
        Some(page) => format!("http://{base}/devtools/{page}"),
        None => text,
    }
}

async fn websocket(
    gate: &CdpGate,
    life: &Life,
    browser: &Name,
    rest: &str,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    let path = rest.split('?').next().unwrap_or_default();
    if path != "/" && !path.starts_with("/devtools/") {
        return Err(ProxyError::NoRoute);
    }
    let (session, devtools) = gate.connect(browser, path).await?;
    let (upgrade, response) = switching(&mut request)?;
    let draining = life.clone();
    let upstream = Upstream::DevTools { browser: browser.clone() };
    life.spawn(async move {
        match upgrade.await {
            Ok(client) => {
                let config = Some(cdp::websocket_config());
                let client = WebSocketStream::from_raw_socket(TokioIo::new(client), Role::Server, config).await;
                tracing::debug!(%upstream, "CDP client connected");
                cdp::relay(client, devtools, session, draining.draining()).await;
                tracing::debug!(%upstream, "CDP client gone");
            }
            Err(error) => tracing::debug!(%error, %upstream, "CDP client gone before it was connected"),
        }
    });
    Ok(response)
}

/// The client's end of a WebSocket, and the answer that gives it one.
pub(super) fn switching(request: &mut Request<Incoming>) -> Result<(OnUpgrade, Response<Body>), ProxyError> {
    let headers = request.headers();
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err(ProxyError::BadRequest("only WebSocket version 13"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or(ProxyError::BadRequest("no Sec-WebSocket-Key"))?;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).map_err(http::Error::from)?;
    let mut response = Response::new(body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    set_websocket(headers);
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    Ok((hyper::upgrade::on(request), response))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devtools_urls_lead_through_the_gateway() {
        let base = "127.0.0.1:4000/agent/t/browser";
        for (text, rewritten) in [
            ("ws://127.0.0.1:9222/devtools/browser/abc", "ws://127.0.0.1:4000/agent/t/browser/devtools/browser/abc"),
            (
                "/devtools/inspector.html?ws=127.0.0.1:9222/devtools/page/1",
                "http://127.0.0.1:4000/agent/t/browser/devtools/inspector.html?ws=127.0.0.1:4000/agent/t/browser/devtools/page/1",
            ),
            (
                "https://x.example/inspector.html?ws=127.0.0.1:9222/devtools/page/1",
                "https://x.example/inspector.html?ws=127.0.0.1:4000/agent/t/browser/devtools/page/1",
            ),
        ] {
            assert_eq!(gateway_url(text, base), rewritten);
        }
        let listing =
            br#"[{"title": "127.0.0.1:9222/", "webSocketDebuggerUrl": "ws://127.0.0.1:9222/devtools/page/1"}]"#;
        let rewritten: Value = serde_json::from_slice(&rewritten(listing, base).unwrap()).unwrap();
        assert_eq!(rewritten[0]["title"], "127.0.0.1:9222/");
        assert_eq!(rewritten[0]["webSocketDebuggerUrl"], "ws://127.0.0.1:4000/agent/t/browser/devtools/page/1");
    }
}
