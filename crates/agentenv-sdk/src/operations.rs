//! The operations of `website/v1`, and the card.

use std::{future::Future, io, path::PathBuf, sync::Arc};

use agentenv_protocol::{AGENT_CARD_PATH, AgentCard, ErrorKind, SITE_KEY_HEADER, SessionRequest, SiteKey, operation};
use agentenv_protocol::{DataGet, DataLoad, DataReply};
use axum::{
    Json, Router,
    body::{Body, Bytes, to_bytes},
    extract::{Query, Request, State},
    handler::Handler,
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Redirect, Response},
    routing::{MethodRouter, get, post},
};
use http::{Method, StatusCode, header};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use tokio::sync::{Mutex, OnceCell};

use crate::{Error, Result, SettingsError, Website, error::log, session::Sessions, snapshot};

/// The largest body of `data/load`: a whole site's data with pictures, and still a fraction of `/data`.
pub const MAX_LOAD_BYTES: usize = 64 * 1024 * 1024;
/// The largest body of the other operations: a selector or a user.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// One site as it is served.
pub(crate) struct Served<W> {
    pub(crate) site: Arc<W>,
    pub(crate) sessions: Sessions,
    /// One change at a time: a load that ran into a reset would survive it.
    change: Mutex<()>,
    data_dir: PathBuf,
    /// Whether the state at deploy was taken: at the first ready.
    sealed: OnceCell<()>,
}

impl<W> Served<W> {
    pub(crate) fn new(site: W, sessions: Sessions, data_dir: PathBuf) -> Self {
        Self { site: Arc::new(site), sessions, change: Mutex::new(()), data_dir, sealed: OnceCell::new() }
    }

    async fn seal(&self) -> Result<()> {
        let take = || async {
            let data_dir = self.data_dir.clone();
            Ok(tokio::task::spawn_blocking(move || snapshot::seal(&data_dir)).await.map_err(io::Error::other)??)
        };
        self.sealed.get_or_try_init(take).await.copied()
    }
}

/// Who may call the operations.
#[derive(Clone)]
struct Gate {
    key: Option<Arc<SiteKey>>,
    /// Whether GET `/api/session` is a page.
    session_page: bool,
}

/// The operations of a site, behind its key, and its card.
pub(crate) fn routes<W: Website>(served: Arc<Served<W>>, key: Option<SiteKey>, card: &AgentCard) -> Router {
    let mut session = post(session::<W>);
    if !W::HAS_SESSION {
        session = session.get(follow_link::<W>);
    }
    let router = Router::new()
        .route(operation::READY, get(ready::<W>).fallback(wrong_method))
        .route(operation::DATA_LOAD, operation_of(load::<W>))
        .route(operation::DATA_GET, operation_of(data_get::<W>))
        .route(operation::DATA_RESET, operation_of(reset::<W>))
        .route(operation::SESSION, session.fallback(wrong_method))
        .with_state(served);
    behind(router, key, !W::HAS_SESSION, card)
}

/// The operations of a site whose settings don't fit: none can be used, and `ready` says why.
pub(crate) fn misfit(error: &SettingsError, key: Option<SiteKey>, card: &AgentCard) -> Router {
    let error = Error::not_ready(error.to_string())
        .hint("settings are given as `--setting`, `--secret-setting` or in env.toml");
    let mut router = Router::new();
    for path in [operation::READY, operation::DATA_LOAD, operation::DATA_GET, operation::DATA_RESET, operation::SESSION]
    {
        let error = error.clone();
        router = router.route(path, axum::routing::any(async move || answer_error(&error)));
    }
    behind(router, key, false, card)
}

fn operation_of<H, T, S>(handler: H) -> MethodRouter<S>
where
    H: Handler<T, S>,
    T: 'static,
    S: Clone + Send + Sync + 'static,
{
    post(handler).fallback(wrong_method)
}

fn behind(operations: Router, key: Option<SiteKey>, session_page: bool, card: &AgentCard) -> Router {
    let gate = Gate { key: key.map(Arc::new), session_page };
    let card = json!(card).to_string();
    let card = async move || ([(header::CONTENT_TYPE, "application/json")], card.clone());
    operations.layer(from_fn_with_state(gate, guard)).route(AGENT_CARD_PATH, get(card))
}

/// PR-8: without the key there is nothing here, whatever the method.
async fn guard(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let page = gate.session_page && request.method() == Method::GET && request.uri().path() == operation::SESSION;
    let mut keys = request.headers().get_all(SITE_KEY_HEADER).iter();
    let opened = match (&gate.key, keys.next(), keys.next()) {
        (Some(key), Some(given), None) => key.matches(given.as_bytes()),
        _ => false,
    };
    if page || opened { next.run(request).await } else { not_found() }
}

fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "Not found.\n").into_response()
}

async fn wrong_method(method: Method) -> Response {
    let error = Error::bad_request(format!("this operation is not called by {method}"))
        .hint("`ready` is called by GET, the others by POST");
    let mut response = answer_error(&error);
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response
}

async fn ready<W: Website>(State(served): State<Arc<Served<W>>>) -> Response {
    let ready = async move {
        served.site.ready().await?;
        served.seal().await
    };
    match run(ready).await {
        Ok(()) => Json(json!({})).into_response(),
        // Whatever the reason is, this is how a site that is not ready answers.
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, Json(error.body())).into_response(),
    }
}

async fn load<W: Website>(State(served): State<Arc<Served<W>>>, body: Body) -> Response {
    let result = async {
        let DataLoad { data } = read(body, MAX_LOAD_BYTES).await?;
        run(async move {
            let _alone = served.change.lock().await;
            served.site.load(data).await
        })
        .await
    };
    answer(result.await.map(|()| json!({})))
}

async fn data_get<W: Website>(State(served): State<Arc<Served<W>>>, body: Body) -> Response {
    let result = async {
        let DataGet { selector } = read(body, MAX_BODY_BYTES).await?;
        run(async move { served.site.get(selector).await }).await
    };
    answer(result.await.map(|data| DataReply { data }))
}

async fn reset<W: Website>(State(served): State<Arc<Served<W>>>) -> Response {
    let result = run(async move {
        let _alone = served.change.lock().await;
        // First, so that no session outlives a reset that fails halfway.
        served.sessions.raise_generation()?;
        served.site.reset().await?;
        served.sessions.keep_generation()
    });
    answer(result.await.map(|()| json!({})))
}

async fn session<W: Website>(State(served): State<Arc<Served<W>>>, body: Body) -> Response {
    let result = async {
        let SessionRequest { user } = read(body, MAX_BODY_BYTES).await?;
        run(async move {
            if W::HAS_SESSION {
                return served.site.session(user).await;
            }
            let sign_in = served.site.sign_in(user).await?;
            Ok(served.sessions.state(&sign_in))
        })
        .await
    };
    answer(result.await)
}

#[derive(Deserialize)]
struct LinkQuery {
    link: Option<String>,
}

/// The page route of PR-3: a signed link signs the browser in, anything else finds nothing.
async fn follow_link<W: Website>(State(served): State<Arc<Served<W>>>, query: Query<LinkQuery>) -> Response {
    match query.0.link.as_deref().and_then(|link| served.sessions.follow(link)) {
        Some((cookie, path)) => (cookie, [(header::CACHE_CONTROL, "no-store")], Redirect::to(&path)).into_response(),
        None => not_found(),
    }
}

/// Runs an operation to its end, also when the caller goes away, and makes an error of a panic.
async fn run<T: Send + 'static>(operation: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    match tokio::spawn(operation).await {
        Ok(result) => result,
        // The panic's own text is in the log, where the runtime wrote it.
        Err(_) => Err(Error::internal("the site panicked").hint("its log says where")),
    }
}

async fn read<T: DeserializeOwned>(body: Body, limit: usize) -> Result<T> {
    let bytes: Bytes = to_bytes(body, limit)
        .await
        .map_err(|_| Error::bad_request(format!("the body is longer than {limit} bytes, or ended early")))?;
    // No body is an empty one.
    let text: &[u8] = if bytes.trim_ascii().is_empty() { b"{}" } else { &bytes };
    serde_json::from_slice(text).map_err(|error| Error::bad_request(format!("the body does not fit: {error}")))
}

fn answer<T: serde::Serialize>(result: Result<T>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(error) => {
            if error.kind() == ErrorKind::Internal {
                log(format_args!("an operation failed: {error}"));
            }
            answer_error(&error)
        }
    }
}

fn answer_error(error: &Error) -> Response {
    (error.status(), Json(error.body())).into_response()
}
