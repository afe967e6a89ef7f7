//! What a site author uses to write a website env in Rust.
//!
//! A website env is a web server that an AI agent's browser reaches at names like `shop.test`, and whose data can be
//! loaded, read and reset from outside. This is a whole one:
//!
//! ```no_run
//! use agentenv_sdk::axum::{Form, Router, extract::State, response::Redirect, routing::get};
//! use agentenv_sdk::{Result, Snapshot, Value, Website, from_data, json, website, website_methods};
//! use std::{fs, path::Path, process::ExitCode, sync::Arc};
//!
//! #[website(domains = ["notes.test"])]
//! struct Notes(Snapshot); // a folder that goes back to the state at deploy
//!
//! #[website_methods]
//! impl Website for Notes {
//!     fn open(_settings: (), data_dir: &Path) -> Result<Self> {
//!         Snapshot::prepare(data_dir, "notes", |folder| Ok(fs::write(folder.join("all.txt"), "")?)).map(Self)
//!     }
//!     fn load(&self, data: Value) -> Result<()> {
//!         let added = from_data::<Vec<String>>(data)?.join("\n") + "\n";
//!         Ok(fs::write(self.0.path().join("all.txt"), fs::read_to_string(self.0.path().join("all.txt"))? + &added)?)
//!     }
//!     fn get(&self, _selector: Option<Value>) -> Result<Value> {
//!         Ok(json!(fs::read_to_string(self.0.path().join("all.txt"))?.lines().collect::<Vec<_>>()))
//!     }
//!     fn reset(&self) -> Result<()> {
//!         self.0.restore()
//!     }
//!     fn pages(self: Arc<Self>) -> Router {
//!         let list = async |State(site): State<Arc<Self>>| site.get(None).await.map(|notes| format!("{notes:#}"));
//!         let add = async |State(site): State<Arc<Self>>, Form(form): Form<Vec<(String, String)>>| {
//!             site.load(form.into_iter().map(|(_, note)| note).collect()).await.map(|()| Redirect::to("/"))
//!         };
//!         Router::new().route("/", get(list).post(add)).with_state(self)
//!     }
//! }
//!
//! fn main() -> ExitCode {
//!     agentenv_sdk::serve::<Notes>()
//! }
//! ```
//!
//! `agent-env website new NAME` writes such a site with its `env.toml`, `agent-env website check DIR` tests it.
//!
//! # The parts
//!
//! - [`website`](macro@website) declares the site on the struct that holds its state: `domains`, and optionally `name`,
//!   `live`, `allow_hosts`.
//! - [`website_methods`] completes `impl Website for ...`; [`Website`] says what each method does. Methods may be `async`
//!   or not; `Settings` is the type that `open` takes. A site without `pages` has its pages served by a frontend.
//! - [`derive(Settings)`](derive@Settings) makes a struct of the deploy's settings. [`serve()`] reads it and hands it to
//!   [`Website::open`], which keeps it in the site's `settings` field; [`Settings::load`] returns the same anywhere else.
//!   Settings that don't fit fail `ready` with the field's name.
//! - [`Snapshot`] takes a folder back to the state at deploy by renaming a prepared copy into place.
//! - [`SignedIn`] and [`Session`] are extractors for pages: who is signed in, signing in and out. The cookie is signed
//!   with a key made per deploy and ends with `data/reset`. [`Website::sign_in`] says whom `session` may sign in.
//! - [`Error`] is what every method returns; any `std::error::Error` becomes one by `?`.
//!
//! # Where things are
//!
//! In a deploy the server listens at `PORT` on 127.0.0.1 and keeps what it has under `/data`, which is empty at deploy and
//! survives a restart of the service. By hand:
//!
//! ```sh
//! PORT=8000 AGENTENV_DATA_DIR=$(mktemp -d) AGENTENV_SITE_KEY=key cargo run &
//! curl -H 'Agentenv-Site-Key: key' localhost:8000/api/ready
//! ```
//!
//! Everything under `/api/` that belongs to `website/v1` answers 404 without the key: the agent must not reach it.

mod environment;
mod error;
mod operations;
mod server;
mod session;
mod settings;
mod sign;
mod snapshot;
mod website;

pub use agentenv_macros::{Settings, session_state, website, website_methods};
pub use agentenv_protocol::{
    Cookie, ErrorKind, LocalStorageItem, OriginState, SameSite, SessionState, SiteKey, Verify,
};
pub use axum;
pub use environment::Environment;
pub use error::{Error, Result, from_data};
pub use operations::MAX_LOAD_BYTES;
pub use secrecy::{ExposeSecret, SecretString};
pub use serde_json::{Value, json};
pub use server::{app, serve};
pub use session::{Session, SetCookie, SignedIn};
pub use settings::{SettingProblem, Settings, SettingsError, SettingsReader};
pub use snapshot::Snapshot;
pub use website::{Declared, SignIn, Website};
