//! A deploy of the shop, and browsers that look at it.

use std::{path::Path, sync::Mutex};

use agentenv_sdk::{
    Environment, SiteKey, Value, app,
    axum::{
        Router,
        body::Body,
        http::{Request, StatusCode, header},
    },
    json,
};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::Shop;

const KEY: &str = "key";

pub(super) struct Deploy {
    pub(super) app: Router,
    pub(super) data: tempfile::TempDir,
}

impl Deploy {
    pub(super) async fn new(settings: Value) -> Self {
        let data = tempfile::tempdir().unwrap();
        let app = Self::start(data.path(), settings).await;
        Self { app, data }
    }

    /// A deploy with Ada, who has an address, and Grace, who has none.
    pub(super) async fn with_users() -> Self {
        let deploy = Self::new(json!({})).await;
        let users = json!({"users": [
            {"username": "ada", "password": "analytical", "name": "Ada Lovelace", "address": "12 St James Square"},
            {"username": "grace", "password": "nanosecond", "name": "Grace Hopper"},
        ]});
        assert_eq!(deploy.operate("data/load", json!({"data": users})).await.0, StatusCode::OK);
        deploy
    }

    pub(super) async fn start(data: &Path, settings: Value) -> Router {
        let environment = Environment {
            data_dir: data.to_owned(),
            key: Some(SiteKey::from_stored(KEY.to_owned())),
            settings: Some(settings.to_string()),
        };
        app::<Shop>(environment).await.unwrap()
    }

    pub(super) async fn operate(&self, operation: &str, body: Value) -> (StatusCode, Value) {
        let request = Request::post(format!("/api/{operation}")).header("agentenv-site-key", KEY);
        let response = self.app.clone().oneshot(request.body(Body::from(body.to_string())).unwrap()).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    pub(super) async fn data(&self, selector: Value) -> Value {
        let (status, mut answer) = self.operate("data/get", json!({"selector": selector})).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        answer["data"].take()
    }

    pub(super) fn browser(&self) -> Browser {
        Browser { app: self.app.clone(), cookies: Mutex::new(Vec::new()), json: false }
    }

    /// A browser that `session` signed in.
    pub(super) async fn signed_in(&self, user: &str) -> Browser {
        let (status, state) = self.operate("session", json!({"user": user})).await;
        assert_eq!(status, StatusCode::OK, "{state}");
        let browser = self.browser();
        let cookie = &state["cookies"][0];
        let (name, value) = (cookie["name"].as_str().unwrap(), cookie["value"].as_str().unwrap());
        browser.cookies.lock().unwrap().push((name.to_owned(), value.to_owned()));
        browser
    }
}

/// A browser with a cookie jar that follows redirects.
pub(super) struct Browser {
    pub(super) app: Router,
    pub(super) cookies: Mutex<Vec<(String, String)>>,
    /// Asks as the shop's script does.
    pub(super) json: bool,
}

pub(super) struct Page {
    pub(super) status: StatusCode,
    pub(super) path: String,
    pub(super) text: String,
}

impl Browser {
    pub(super) async fn get(&self, path: &str) -> Page {
        self.go("GET", path, String::new()).await
    }

    pub(super) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Page {
        let escape = |text: &str| -> String {
            text.bytes()
                .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
                .collect()
        };
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
        self.go("POST", path, body.join("&")).await
    }

    pub(super) async fn go(&self, method: &str, path: &str, body: String) -> Page {
        let (mut method, mut path, mut body) = (method.to_owned(), path.to_owned(), body);
        for _ in 0..5 {
            let response = self.send(&method, &path, body).await;
            for set in response.headers().get_all(header::SET_COOKIE) {
                let (name, value) = set.to_str().unwrap().split(';').next().unwrap().split_once('=').unwrap();
                let mut cookies = self.cookies.lock().unwrap();
                cookies.retain(|(other, _)| other != name);
                cookies.push((name.to_owned(), value.to_owned()));
            }
            let status = response.status();
            if !status.is_redirection() {
                let bytes = response.into_body().collect().await.unwrap().to_bytes();
                return Page { status, path, text: String::from_utf8(bytes.into()).unwrap() };
            }
            path = response.headers()[header::LOCATION].to_str().unwrap().to_owned();
            (method, body) = ("GET".to_owned(), String::new());
        }
        panic!("{path} redirects for ever");
    }

    pub(super) async fn send(&self, method: &str, path: &str, body: String) -> agentenv_sdk::axum::response::Response {
        let cookies: Vec<String> =
            self.cookies.lock().unwrap().iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::COOKIE, cookies.join("; "))
            .header(header::ACCEPT, if self.json { "application/json" } else { "text/html" })
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.app.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap()
    }
}
