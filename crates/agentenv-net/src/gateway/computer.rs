//! `/agent/TOKEN/COMPUTER/...`: a computer's picture, mouse and keyboard for agents, and its screen for people (BR-3).
//!
//! | method and path | body | answer |
//! |---|---|---|
//! | GET `screenshot` | | the screen as PNG |
//! | POST `act` | [`ComputerAction`] | [`ComputerReply`] |
//! | GET `vnc` | | a WebSocket with the bytes of a VNC connection; at a reset it is closed with 1012 |
//! | GET `view/` | | a page that shows it |
//!
//! `screenshot` takes `scale` (0.25) and `region` (`x,y,width,height`); so does `act`, with `screenshot=true`. Everything else is the
//! browser's of the computer, as for a browser alone.

use std::{collections::BTreeMap, sync::Arc};

use agentenv_protocol::{ComputerAction, ComputerError, ComputerErrorKind, ComputerReply, Name, Region};
use base64::Engine as _;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;

use crate::{
    Sites,
    body::{self, Body},
    cdp::CdpGate,
    error::ProxyError,
    headers::is_read,
    life::Life,
    limits::ACTION_BYTES,
};

mod viewer;

/// The page for people, and its script.
const VIEW_PAGE: &str = include_str!("computer/view.html");
const VIEW_SCRIPT: &str = include_str!("computer/view.js");

/// A computer's desktop, which somebody else is connected to.
pub trait Computer: Send + Sync {
    /// The screen, or a part of it, as PNG; scaled by a factor above 0 and at most 1.
    fn screenshot(&self, region: Option<Region>, scale: Option<f64>) -> BoxFuture<'_, Result<Vec<u8>, ComputerError>>;

    /// Does an action, one after the other, and says where the cursor is then.
    fn act(&self, action: ComputerAction) -> BoxFuture<'_, Result<[i32; 2], ComputerError>>;
}

/// The computers of a deploy.
pub(super) struct Computers {
    desktops: BTreeMap<Name, Arc<dyn Computer>>,
    sites: Arc<Sites>,
}

impl Computers {
    pub(super) fn new(desktops: BTreeMap<Name, Arc<dyn Computer>>, sites: Arc<Sites>) -> Self {
        Self { desktops, sites }
    }

    /// Answers a request that is for a desktop; gives back one that is for a browser.
    pub(super) async fn serve(
        &self,
        gate: &CdpGate,
        life: &Life,
        name: &Name,
        rest: &str,
        request: Request<Incoming>,
    ) -> Result<Result<Response<Body>, ProxyError>, Request<Incoming>> {
        let Some(desktop) = self.desktops.get(name) else { return Err(request) };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let answer = match path {
            "/screenshot" if *request.method() == Method::GET => screenshot(desktop, query).await,
            "/act" => act(desktop, query, request).await,
            "/vnc" => viewer::serve(gate, life, &self.sites, name, request).await,
            "/view/" if is_read(request.method()) => page(VIEW_PAGE, "text/html; charset=utf-8"),
            "/view/view.js" if is_read(request.method()) => page(VIEW_SCRIPT, "text/javascript"),
            "/screenshot" | "/view/" | "/view/view.js" => Err(ProxyError::Method),
            _ => return Err(request),
        };
        Ok(answer)
    }
}

/// What is asked for about a picture.
#[derive(Debug, Default, PartialEq)]
struct Wish {
    screenshot: bool,
    scale: Option<f64>,
    region: Option<Region>,
}

impl Wish {
    fn parse(query: &str) -> Result<Self, ProxyError> {
        let mut wish = Self::default();
        for (key, value) in
            query.split('&').filter(|part| !part.is_empty()).map(|part| part.split_once('=').unwrap_or((part, "")))
        {
            match key {
                "screenshot" if matches!(value, "true" | "false") => wish.screenshot = value == "true",
                "scale" => {
                    let scale = value.parse().ok().filter(|scale| *scale > 0.0 && *scale <= 1.0);
                    wish.scale = Some(scale.ok_or(ProxyError::BadRequest("`scale` is a number above 0, at most 1"))?);
                }
                "region" => {
                    let numbers: Option<Vec<i32>> = value.split([',']).map(|number| number.parse().ok()).collect();
                    let region = match numbers.as_deref() {
                        Some(&[x, y, width, height]) => u32::try_from(width)
                            .ok()
                            .zip(u32::try_from(height).ok())
                            .map(|(width, height)| Region { x, y, width, height }),
                        _ => None,
                    };
                    wish.region =
                        Some(region.ok_or(ProxyError::BadRequest("`region` is `x,y,width,height`, in pixels"))?);
                }
                _ => {
                    return Err(ProxyError::BadRequest(
                        "accepted: `scale`, `region`, and with `act` `screenshot=true`",
                    ));
                }
            }
        }
        Ok(wish)
    }
}

async fn screenshot(desktop: &Arc<dyn Computer>, query: &str) -> Result<Response<Body>, ProxyError> {
    let wish = Wish::parse(query)?;
    match desktop.screenshot(wish.region, wish.scale).await {
        Ok(png) => {
            let mut response = Response::new(body::full(png));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("image/png"));
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            Ok(response)
        }
        Err(error) => Ok(refused(&error)),
    }
}

async fn act(
    desktop: &Arc<dyn Computer>,
    query: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, ProxyError> {
    if request.method() != Method::POST {
        return Err(ProxyError::Method);
    }
    let wish = Wish::parse(query)?;
    let body = Limited::new(request.into_body(), ACTION_BYTES).collect().await;
    let body = body.map_err(|error| ProxyError::ClientBody(error.to_string()))?.to_bytes();
    let action: ComputerAction = match serde_json::from_slice(&body) {
        Ok(action) => action,
        Err(error) => {
            return Ok(refused(&ComputerError { kind: ComputerErrorKind::BadRequest, message: error.to_string() }));
        }
    };
    let wanted = wish.screenshot || matches!(action, ComputerAction::Screenshot {});
    let done = async {
        let cursor = desktop.act(action).await?;
        let picture = if wanted { Some(desktop.screenshot(wish.region, wish.scale).await?) } else { None };
        let screenshot = picture.map(|png| base64::engine::general_purpose::STANDARD.encode(png));
        Ok::<_, ComputerError>(ComputerReply { cursor, screenshot })
    };
    match done.await {
        Ok(reply) => json(StatusCode::OK, &reply),
        Err(error) => Ok(refused(&error)),
    }
}

/// An error in the terms of the agent API, for programs.
fn refused(error: &ComputerError) -> Response<Body> {
    let status = match error.kind {
        ComputerErrorKind::Away => StatusCode::SERVICE_UNAVAILABLE,
        ComputerErrorKind::Slow => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_REQUEST,
    };
    json(status, error).unwrap_or_else(|error| error.answer())
}

fn json(status: StatusCode, value: &impl serde::Serialize) -> Result<Response<Body>, ProxyError> {
    let bytes = serde_json::to_vec(value).expect("a reply holds texts and numbers");
    let mut response = Response::builder().status(status).body(body::full(bytes))?;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

fn page(text: &'static str, kind: &'static str) -> Result<Response<Body>, ProxyError> {
    let mut response = Response::new(body::full(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // The address of the page holds the agent token.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let policy = "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wished_of_a_picture() {
        let region = Some(Region { x: 1, y: -2, width: 30, height: 40 });
        for (query, wish) in [
            ("", Wish::default()),
            ("scale=0.5", Wish { scale: Some(0.5), ..Wish::default() }),
            ("region=1,-2,30,40&screenshot=true", Wish { region, screenshot: true, ..Wish::default() }),
        ] {
            assert_eq!(Wish::parse(query).ok(), Some(wish), "{query}");
        }
        for query in [
            "scale=0",
            "scale=2",
            "scale=NaN",
            "scale=",
            "region=1,2,3",
            "region=1,2,-3,4",
            "region=a",
            "size=1",
            "screenshot=yes",
        ] {
            assert!(Wish::parse(query).is_err(), "{query}");
        }
    }
}
