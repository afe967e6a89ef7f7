//! What one episode leaves to the next: nothing, also where a site's own reset fails, forgets or comes at a bad moment.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use agentenv_protocol::SiteKey;
use agentenv_sdk::{
    Environment, Error, Result, Session, SignIn, SignedIn, Snapshot, Value, Website, app,
    axum::{Router, body::Body, extract::Path as UrlPath, routing::get},
    json, website, website_methods,
};
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tower::ServiceExt;

const KEY: &str = "0123456789abcdef";

/// A site whose every operation can be held up or broken by the file of that name in its data directory.
#[website(domains = ["diary.test"])]
struct Diary {
    data_dir: PathBuf,
    pages: Snapshot,
    /// Where a load stands still until it is told to go on.
    stands: Notify,
    goes_on: Notify,
}

impl Diary {
    fn is_told(&self, word: &str) -> bool {
        self.data_dir.join(word).exists()
    }
}

#[website_methods]
impl Website for Diary {
    fn open(_settings: (), data_dir: &Path) -> Result<Self> {
        let pages = Snapshot::prepare(data_dir, "pages", |folder| Ok(fs::write(folder.join("first"), "seeded")?))?;
        let (stands, goes_on) = (Notify::new(), Notify::new());
        Ok(Self { data_dir: data_dir.to_owned(), pages, stands, goes_on })
    }

    async fn load(&self, data: Value) -> Result<()> {
        if self.is_told("stand") {
            self.stands.notify_one();
            self.goes_on.notified().await;
        }
        Ok(fs::write(self.pages.path().join("loaded"), data.to_string())?)
    }

    async fn get(&self, selector: Option<Value>) -> Result<Value> {
        if selector == Some(json!("stands")) {
            self.stands.notified().await;
        }
        if selector == Some(json!("go on")) {
            self.goes_on.notify_one();
        }
        let mut names: Vec<String> = fs::read_dir(self.pages.path())?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<std::io::Result<_>>()?;
        names.sort();
        Ok(json!(names))
    }

    fn reset(&self) -> Result<()> {
        if self.is_told("fail") {
            return Err(Error::internal("the disk is gone"));
        }
        if self.is_told("forget") {
            // As a site does that empties its whole data directory.
            return Ok(fs::remove_file(self.data_dir.join(".agentenv/generation"))?);
        }
        self.pages.restore()
    }

    fn pages(self: Arc<Self>) -> Router {
        Router::new()
            .route("/me", get(async |SignedIn(user): SignedIn| user))
            .route("/link/{*to}", get(async |session: Session, to: UrlPath<String>| session.sign_in_link("ada", &to.0)))
    }

    fn sign_in(&self, user: Option<String>) -> Result<SignIn> {
        Ok(SignIn::new(user.unwrap_or_default()))
    }
}

struct Site {
    app: Router,
    data: tempfile::TempDir,
}

impl Site {
    async fn open() -> Self {
        Self::on(tempfile::tempdir().unwrap()).await
    }

    async fn on(data: tempfile::TempDir) -> Self {
        let key = Some(SiteKey::from_stored(KEY.to_owned()));
        let environment = Environment { data_dir: data.path().to_owned(), key, settings: None };
        Self { app: app::<Diary>(environment).await.unwrap(), data }
    }

    /// The service again, with what its data directory holds.
    async fn restarted(self) -> Self {
        let Self { app, data } = self;
        drop(app);
        Self::on(data).await
    }

    fn tell(&self, word: &str) {
        fs::write(self.data.path().join(word), "").unwrap();
    }

    async fn ask(app: Router, request: Request<Body>) -> (StatusCode, String) {
        let response = app.oneshot(request).await.unwrap();
        let status = response.status();
        (status, String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().into()).unwrap())
    }

    fn operate(&self, path: &str, body: &Value) -> impl Future<Output = (StatusCode, Value)> + use<> {
        let method = if path.ends_with("ready") { "GET" } else { "POST" };
        let request = Request::builder().method(method).uri(path).header("agentenv-site-key", KEY);
        let asked = Self::ask(self.app.clone(), request.body(Body::from(body.to_string())).unwrap());
        async {
            let (status, text) = asked.await;
            (status, serde_json::from_str(&text).unwrap_or_default())
        }
    }

    async fn reset(&self) -> StatusCode {
        self.operate("/api/data/reset", &json!({})).await.0
    }

    async fn pages(&self) -> Value {
        self.operate("/api/data/get", &json!({})).await.1["data"].clone()
    }

    async fn cookie(&self) -> String {
        let state = self.operate("/api/session", &json!({"user": "ada"})).await.1;
        let text = |field: &str| state["cookies"][0][field].as_str().unwrap().to_owned();
        format!("{}={}", text("name"), text("value"))
    }

    async fn is_signed_in(&self, cookie: &str) -> bool {
        let request = Request::builder().uri("/me").header(header::COOKIE, cookie).body(Body::empty()).unwrap();
        Self::ask(self.app.clone(), request).await.0 == StatusCode::OK
    }
}

#[tokio::test]
async fn row_97_every_reset_is_on_disk_before_the_service_restarts() {
    let site = Site::open().await;
    let mut cookies = Vec::new();
    for _ in 0..3 {
        cookies.push(site.cookie().await);
        assert_eq!(site.reset().await, StatusCode::OK);
    }
    let site = site.restarted().await;
    for cookie in &cookies {
        assert!(!site.is_signed_in(cookie).await, "{cookie}");
    }
    assert!(site.is_signed_in(&site.cookie().await).await);
}

#[tokio::test]
async fn row_97_a_reset_that_empties_the_data_directory_brings_no_session_back() {
    let site = Site::open().await;
    let cookie = site.cookie().await;
    site.tell("forget");
    assert_eq!(site.reset().await, StatusCode::OK);
    assert!(!site.restarted().await.is_signed_in(&cookie).await);
}

#[tokio::test]
async fn row_97_a_reset_that_fails_has_ended_the_sessions() {
    let site = Site::open().await;
    let cookie = site.cookie().await;
    site.tell("fail");
    assert_eq!(site.reset().await, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!site.is_signed_in(&cookie).await);
}

/// On one thread, so that what can go on has gone on after some turns.
#[tokio::test(flavor = "current_thread")]
async fn row_82_a_reset_waits_for_a_load_that_is_under_way() {
    let site = Site::open().await;
    assert_eq!(site.operate("/api/ready", &json!({})).await.0, StatusCode::OK);
    site.tell("stand");
    let load = tokio::spawn(site.operate("/api/data/load", &json!({"data": "of the last episode"})));
    site.operate("/api/data/get", &json!({"selector": "stands"})).await;
    let reset = tokio::spawn(site.operate("/api/data/reset", &json!({})));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!reset.is_finished(), "the load would outlive it");
    site.operate("/api/data/get", &json!({"selector": "go on"})).await;
    assert_eq!(load.await.unwrap().0, StatusCode::OK);
    assert_eq!(reset.await.unwrap().0, StatusCode::OK);
    assert_eq!(site.pages().await, json!(["first"]));
}

#[tokio::test]
async fn the_first_ready_takes_the_state_at_deploy() {
    let site = Site::open().await;
    let folder = site.data.path().join("pages");
    // What an application beside the server writes while it starts.
    fs::write(folder.join("tables"), "made").unwrap();
    for _ in 0..2 {
        assert_eq!(site.operate("/api/ready", &json!({})).await.0, StatusCode::OK);
        assert_eq!(site.operate("/api/data/load", &json!({"data": 1})).await.0, StatusCode::OK);
        assert_eq!(site.pages().await, json!(["first", "loaded", "tables"]));
        assert_eq!(site.reset().await, StatusCode::OK);
        assert_eq!(site.pages().await, json!(["first", "tables"]));
    }
}

#[tokio::test]
async fn a_sign_in_link_leads_to_the_site_itself() {
    let site = Site::open().await;
    let link = async |to: &str| {
        let request = Request::builder().uri(format!("/link/{to}")).body(Body::empty()).unwrap();
        Site::ask(site.app.clone(), request).await
    };
    // The route's parameter comes without the first slash.
    for (to, status) in [
        ("%2Fme", StatusCode::OK),
        ("me", StatusCode::INTERNAL_SERVER_ERROR),
        ("%2F%2Fevil.test", StatusCode::INTERNAL_SERVER_ERROR),
        ("%2F%5Cevil.test", StatusCode::INTERNAL_SERVER_ERROR),
        ("https:%2F%2Fevil.test", StatusCode::INTERNAL_SERVER_ERROR),
        ("%2Fa%0D%0ALocation:x", StatusCode::INTERNAL_SERVER_ERROR),
    ] {
        assert_eq!(link(to).await.0, status, "{to}");
    }
}
