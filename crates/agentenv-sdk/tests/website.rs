//! A site of each kind, called the way a deploy and a browser call it.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use agentenv_protocol::{AgentCard, SessionState, SiteKey};
use agentenv_sdk::{
    Environment, Error, ErrorKind, Result, SecretString, Session, Settings, SignIn, SignedIn, Value, Website, app,
    axum::{
        Router,
        body::Body,
        extract::Path as UrlPath,
        response::{Html, IntoResponse, Redirect},
        routing::get,
    },
    from_data, json, website, website_methods,
};
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use tower::ServiceExt;

const KEY: &str = "0123456789abcdef";

#[derive(Settings)]
struct ClubSettings {
    #[setting(default = "Club")]
    title: String,
    door_code: Option<SecretString>,
    #[setting(default)]
    seats: u16,
}

#[website(domains = ["club.test", "www.club.test", "*.club.test"])]
struct Club {
    settings: ClubSettings,
    members: Mutex<Vec<String>>,
}

#[website_methods]
impl Website for Club {
    fn open(settings: ClubSettings, _data_dir: &Path) -> Result<Self> {
        Ok(Self { settings, members: Mutex::new(vec!["ada".to_owned()]) })
    }

    async fn load(&self, data: Value) -> Result<()> {
        if data == json!("panic") {
            panic!("told to");
        }
        tokio::task::yield_now().await;
        let mut added: Vec<String> = from_data(data)?;
        self.members.lock()?.append(&mut added);
        Ok(())
    }

    async fn get(&self, selector: Option<Value>) -> Result<Value> {
        match selector {
            None => Ok(json!(*self.members.lock()?)),
            Some(Value::String(name)) if self.members.lock()?.contains(&name) => Ok(json!([name])),
            Some(other) => Err(Error::not_found(format!("no member {other}")).hint("name a member")),
        }
    }

    fn reset(&self) -> Result<()> {
        *self.members.lock()? = vec!["ada".to_owned()];
        Ok(())
    }

    fn pages(self: Arc<Self>) -> Router {
        let title = self.settings.title.clone();
        let seats = self.settings.seats;
        assert!(self.settings.door_code.is_none());
        // The greediest of all routers: whatever path, it has a page.
        Router::new()
            .route("/title", get(async move || format!("{title} {seats}")))
            .route("/me", get(async |SignedIn(user): SignedIn| Html(format!("<p>{user}"))))
            .route("/maybe", get(async |user: Option<SignedIn>| format!("{user:?}")))
            .route("/in/{user}", get(async |session: Session, user: UrlPath<String>| session.sign_in(&user)))
            .route("/out", get(async |session: Session| (session.sign_out(), Redirect::to("/"))))
            .route(
                "/link/{user}",
                get(async |session: Session, user: UrlPath<String>| session.sign_in_link(&user, "/me")),
            )
            .route("/broken", get(async || Err::<(), _>(Error::internal("the password is hunter2"))))
            .fallback(async || "a page".into_response())
    }

    async fn sign_in(&self, user: Option<String>) -> Result<SignIn> {
        let user = user.unwrap_or_else(|| "ada".to_owned());
        if !self.members.lock()?.contains(&user) {
            return Err(Error::not_found(format!("no member `{user}`")));
        }
        Ok(SignIn::new(&user).verify("/me", user))
    }
}

#[website(name = "hub", domains = ["hub.test"], live = true, allow_hosts = ["cdn.hub.test"])]
struct Real;

#[website_methods]
impl Website for Real {
    fn open(_settings: (), _data_dir: &Path) -> Result<Self> {
        Ok(Self)
    }
    fn load(&self, _data: Value) -> Result<()> {
        Ok(())
    }
    fn get(&self, _selector: Option<Value>) -> Result<Value> {
        Ok(Value::Null)
    }
    fn reset(&self) -> Result<()> {
        Ok(())
    }
    fn ready(&self) -> Result<()> {
        Err(Error::blocked_by_site("a captcha"))
    }
    #[session_state]
    async fn account(&self, user: Option<String>) -> Result<SessionState> {
        Err(Error::not_found(format!("no account {user:?}")))
    }
}

struct Called {
    status: StatusCode,
    cookies: Vec<String>,
    location: Option<String>,
    text: String,
}

impl Called {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }
}

struct Site {
    app: Router,
    data: tempfile::TempDir,
}

impl Site {
    async fn open<W: Website>(settings: Option<&str>) -> Self {
        let data = tempfile::tempdir().unwrap();
        let app = Self::app::<W>(data.path(), settings).await;
        Self { app, data }
    }

    async fn app<W: Website>(data: &Path, settings: Option<&str>) -> Router {
        let environment = Environment {
            data_dir: data.to_owned(),
            key: Some(SiteKey::from_stored(KEY.to_owned())),
            settings: settings.map(str::to_owned),
        };
        app::<W>(environment).await.unwrap()
    }

    async fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Value) -> Called {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.app.clone().oneshot(request.body(body).unwrap()).await.unwrap();
        let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
        Called {
            status: response.status(),
            cookies: response.headers().get_all(header::SET_COOKIE).iter().map(text).collect(),
            location: response.headers().get(header::LOCATION).map(text),
            text: String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().into()).unwrap(),
        }
    }

    /// As the supervisor, with the key.
    async fn operate(&self, method: &str, path: &str, body: Value) -> Called {
        self.call(method, path, &[("agentenv-site-key", KEY)], body).await
    }

    /// As a browser with this cookie.
    async fn page(&self, path: &str, cookie: &str) -> Called {
        self.call("GET", path, &[("cookie", cookie)], Value::Null).await
    }

    /// The cookie of `session`, as a browser sends it.
    async fn cookie(&self, user: &str) -> String {
        let called = self.operate("POST", "/api/session", json!({"user": user})).await;
        let state: SessionState = serde_json::from_value(called.json()).unwrap();
        format!("{}={}", state.cookies[0].name, state.cookies[0].value)
    }
}

const OPERATIONS: [(&str, &str); 5] = [
    ("GET", "/api/ready"),
    ("POST", "/api/data/load"),
    ("POST", "/api/data/get"),
    ("POST", "/api/data/reset"),
    ("POST", "/api/session"),
];

#[tokio::test]
async fn row_96_without_the_site_key_every_operation_answers_404() {
    let site = Site::open::<Club>(None).await;
    for (_, path) in OPERATIONS {
        for method in [Method::GET, Method::POST, Method::HEAD, Method::PUT, Method::DELETE, Method::OPTIONS] {
            for headers in [
                &[][..],
                &[("agentenv-site-key", "")],
                &[("agentenv-site-key", "0123456789abcdeF")],
                &[("agentenv-site-key", KEY), ("agentenv-site-key", "x")],
                &[("authorization", KEY), ("cookie", "agentenv-site-key=0123456789abcdef")],
            ] {
                let called = site.call(method.as_str(), path, headers, json!({"data": []})).await;
                assert_eq!(called.status, StatusCode::NOT_FOUND, "{method} {path} {headers:?}");
                assert!(!called.text.contains(KEY));
            }
        }
        // Other spellings are pages of the site, never operations.
        for spelling in [format!("{path}/"), path.replacen("api", "%61pi", 1), format!("/{path}"), path.to_uppercase()]
        {
            let called = site.operate("POST", &spelling, Value::Null).await;
            assert_eq!(called.text, "a page", "{spelling}");
        }
    }
    assert_eq!(site.operate("POST", "/api/data/get", Value::Null).await.json()["data"], json!(["ada"]));
}

#[tokio::test]
async fn without_a_key_of_its_own_a_site_opens_to_nobody() {
    let data = tempfile::tempdir().unwrap();
    let environment = Environment { data_dir: data.path().to_owned(), key: None, settings: None };
    let site = Site { app: app::<Club>(environment).await.unwrap(), data };
    for (method, path) in OPERATIONS {
        assert_eq!(site.operate(method, path, json!({"data": []})).await.status, StatusCode::NOT_FOUND);
        assert_eq!(site.call(method, path, &[("agentenv-site-key", "")], Value::Null).await.status, 404);
    }
    assert_eq!(site.page("/title", "").await.text, "Club 0");
}

#[tokio::test]
async fn data_is_loaded_read_and_reset() {
    let site = Site::open::<Club>(None).await;
    assert_eq!(site.operate("GET", "/api/ready", Value::Null).await.status, 200);
    assert_eq!(site.operate("POST", "/api/data/load", json!({"data": ["bob"]})).await.json(), json!({}));
    assert_eq!(site.operate("POST", "/api/data/get", json!({})).await.json(), json!({"data": ["ada", "bob"]}));
    let selected = site.operate("POST", "/api/data/get", json!({"selector": "bob"})).await;
    assert_eq!(selected.json(), json!({"data": ["bob"]}));
    assert_eq!(site.operate("POST", "/api/data/reset", json!({})).await.json(), json!({}));
    assert_eq!(site.operate("POST", "/api/data/get", Value::Null).await.json(), json!({"data": ["ada"]}));
}

#[tokio::test]
async fn errors_are_kind_message_and_hint() {
    let site = Site::open::<Club>(None).await;
    for (method, path, body, status, kind, part) in [
        ("POST", "/api/data/load", json!({"data": [1]}), 400, "bad_request", "string"),
        ("POST", "/api/data/load", json!({"dta": []}), 400, "bad_request", "dta"),
        ("POST", "/api/data/load", Value::Null, 400, "bad_request", "data"),
        ("POST", "/api/data/load", json!({"data": "panic"}), 500, "internal", "panicked"),
        ("POST", "/api/data/get", json!({"selector": "eve"}), 404, "not_found", "eve"),
        ("POST", "/api/session", json!({"user": "eve"}), 404, "not_found", "eve"),
        ("GET", "/api/data/get", Value::Null, 405, "bad_request", "GET"),
        ("DELETE", "/api/session", Value::Null, 405, "bad_request", "DELETE"),
    ] {
        let called = site.operate(method, path, body).await;
        assert_eq!(called.status, status, "{method} {path}: {}", called.text);
        let error = called.json();
        assert_eq!(error["kind"], kind);
        assert!(error["message"].as_str().unwrap().contains(part), "{error}");
        assert!(error["hint"].is_string());
    }
    let called = site.page("/broken", "").await;
    assert!(called.status == 500 && !called.text.contains("hunter2"), "{}", called.text);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_a_large_one_is_not() {
    let site = Site::open::<Club>(None).await;
    let large = "x".repeat(20 * 1024 * 1024);
    assert_eq!(site.operate("POST", "/api/data/load", json!({"data": [large]})).await.status, 200);
    let called = site.operate("POST", "/api/session", json!({"user": "x".repeat(2 * 1024 * 1024)})).await;
    assert!(called.status == 400 && called.text.contains("longer than 1048576 bytes"), "{}", called.text);
}

#[tokio::test]
async fn the_card_says_what_the_declaration_says() {
    let site = Site::open::<Club>(None).await;
    let called = site.page("/.well-known/agent-card.json", "").await;
    let card: AgentCard = serde_json::from_value(called.json()).unwrap();
    assert_eq!(card.supported_interfaces[0].url, "https://club.test/");
    let public: a2a::AgentCard = serde_json::from_str(&called.text).expect("the public A2A SDK reads the card");
    let extension = &public.capabilities.extensions.as_ref().unwrap()[0];
    assert_eq!(extension.uri, "urn:agentenv:website/v1");
    assert_eq!(extension.params.as_ref().unwrap()["domains"][0], "club.test");
    assert_eq!((public.supported_interfaces[0].protocol_version.as_str(), public.skills.len()), ("1.0", 0));
    let params = json!(card.website().unwrap().unwrap());
    assert_eq!(
        params,
        json!({"name": "club", "domains": ["club.test", "www.club.test", "*.club.test"], "live": false,
            "allow_hosts": [], "routes": ["/"]})
    );
    let real = Site::open::<Real>(None).await;
    let params =
        real.page("/.well-known/agent-card.json", "").await.json()["capabilities"]["extensions"][0]["params"].clone();
    assert_eq!(
        params,
        json!({"name": "hub", "domains": ["hub.test"], "live": true, "allow_hosts": ["cdn.hub.test"], "routes": []})
    );
}

#[tokio::test]
async fn session_signs_a_known_user_in_and_says_how_to_see_it() {
    let site = Site::open::<Club>(None).await;
    let state = site.operate("POST", "/api/session", Value::Null).await.json();
    let domains: Vec<_> = state["cookies"].as_array().unwrap().iter().map(|cookie| cookie["domain"].clone()).collect();
    assert_eq!(domains, ["club.test", "www.club.test"], "each exact name for itself");
    let cookie = &state["cookies"][0];
    assert_eq!((&cookie["httpOnly"], &cookie["sameSite"], &cookie["path"]), (&json!(true), &json!("Lax"), &json!("/")));
    assert_eq!(state["origins"], json!([]));
    assert_eq!(state["verify"], json!({"url": "https://club.test/me", "contains": "ada"}));
    let cookie = site.cookie("ada").await;
    assert_eq!(site.page("/me", &cookie).await.text, "<p>ada");
    assert_eq!(site.page("/me", &format!("other=1; {cookie}; more=2")).await.text, "<p>ada");
    assert_eq!(site.page("/me", "").await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(site.page("/me", &cookie.replace("_session=c.0", "_session=c.1")).await.status, 401);
    assert_eq!(site.page("/maybe", "").await.text, "None");
}

#[tokio::test]
async fn a_page_signs_in_and_out() {
    let site = Site::open::<Club>(None).await;
    let called = site.page("/in/bob%20%22;%0d%0a", "").await;
    let [set] = &called.cookies[..] else { panic!("{:?}", called.cookies) };
    assert!(set.starts_with("club_session=") && set.ends_with("; Path=/; HttpOnly; SameSite=Lax"), "{set}");
    let cookie = set.split(';').next().unwrap();
    assert_eq!(site.page("/me", cookie).await.text, "<p>bob \";\r\n");
    let out = site.page("/out", cookie).await;
    assert_eq!(out.cookies, ["club_session=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0"]);
}

#[tokio::test]
async fn row_97_a_session_of_the_last_episode_is_refused_after_a_reset() {
    let site = Site::open::<Club>(None).await;
    let cookie = site.cookie("ada").await;
    let link = site.page("/link/ada", "").await.text;
    assert_eq!(site.operate("POST", "/api/data/reset", Value::Null).await.status, 200);
    assert_eq!(site.page("/me", &cookie).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(site.page(&link, "").await.status, StatusCode::NOT_FOUND);
    let newer = site.cookie("ada").await;
    assert_eq!(site.page("/me", &newer).await.status, StatusCode::OK);
    // The service restarts: the generation comes from the data directory, the key from the deploy.
    let app = Site::app::<Club>(site.data.path(), None).await;
    let restarted = Site { app, data: site.data };
    assert_eq!(restarted.page("/me", &cookie).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(restarted.page("/me", &newer).await.status, StatusCode::OK);
    // Another deploy: another key, a data directory of its own.
    let other = Site::open::<Club>(None).await;
    assert_eq!(other.page("/me", &site_cookie_of_another_key().await).await.status, StatusCode::UNAUTHORIZED);
}

async fn site_cookie_of_another_key() -> String {
    let data = tempfile::tempdir().unwrap();
    let environment = Environment { data_dir: data.path().to_owned(), key: None, settings: None };
    let site = Site { app: app::<Club>(environment).await.unwrap(), data };
    site.page("/in/ada", "").await.cookies[0].split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn only_a_signed_link_signs_a_browser_in() {
    let site = Site::open::<Club>(None).await;
    let link = site.page("/link/ada", "").await.text;
    let called = site.page(&link, "").await;
    assert_eq!((called.status, called.location.as_deref()), (StatusCode::SEE_OTHER, Some("/me")));
    let cookie = called.cookies[0].split(';').next().unwrap();
    assert_eq!(site.page("/me", cookie).await.text, "<p>ada");
    let token = cookie.split_once('=').unwrap().1;
    for path in [
        "/api/session".to_owned(),
        "/api/session?user=ada".to_owned(),
        "/api/session?link=".to_owned(),
        format!("/api/session?link={token}"),
        format!("{link}0"),
    ] {
        let called = site.page(&path, "").await;
        assert_eq!(called.status, StatusCode::NOT_FOUND, "{path}");
        assert!(called.cookies.is_empty());
    }
    let link_as_cookie = format!("club_session={}", link.split_once('=').unwrap().1);
    assert_eq!(site.page("/me", &link_as_cookie).await.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_site_with_a_session_method_has_no_session_page() {
    let site = Site::open::<Real>(None).await;
    assert_eq!(site.page("/api/session?link=x", "").await.status, StatusCode::NOT_FOUND);
    let called = site.operate("POST", "/api/session", json!({"user": "me"})).await;
    assert!(called.status == 404 && called.text.contains("no account Some"), "{}", called.text);
    assert_eq!(site.page("/", "").await.status, StatusCode::NOT_FOUND, "it serves no pages");
    let ready = site.operate("GET", "/api/ready", Value::Null).await;
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ready.json()["kind"], json!(ErrorKind::BlockedBySite));
}

#[tokio::test]
async fn settings_are_read_and_misfits_fail_ready_by_name_without_the_value() {
    let site = Site::open::<Club>(Some(r#"{"title": "Chess", "seats": "12"}"#)).await;
    assert_eq!(site.page("/title", "").await.text, "Chess 12");
    let site = Site::open::<Club>(Some(r#"{"seats": "hunter2", "dor_code": "hunter2"}"#)).await;
    for (method, path) in OPERATIONS {
        let called = site.operate(method, path, json!({"data": []})).await;
        assert_eq!((called.status, &called.json()["kind"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("not_ready")));
        assert_eq!(called.json()["message"], "the setting `seats` is not a `u16`; the site has no setting `dor_code`");
        assert!(!called.text.contains("hunter2"));
        assert_eq!(site.call(method, path, &[], Value::Null).await.status, StatusCode::NOT_FOUND);
    }
    assert_eq!(site.page("/.well-known/agent-card.json", "").await.status, StatusCode::OK);
}
