//! What a site implements.

use std::{future::Future, path::Path, sync::Arc};

use agentenv_protocol::SessionState;
use axum::Router;
use serde_json::Value;

use crate::{Error, Result, Settings};

/// What `#[website(...)]` declares.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not declared as a website",
    note = "put `#[website(domains = [\"shop.test\"])]` on the struct"
)]
pub trait Declared {
    /// The site's name.
    const NAME: &'static str;
    /// The names it answers to: exact, or `*.suffix`.
    const DOMAINS: &'static [&'static str];
    /// Whether it is a real site.
    const LIVE: bool;
    /// Further hosts of a live site.
    const ALLOW_HOSTS: &'static [&'static str];
}

/// A website: the operations of `website/v1`, and its pages.
///
/// `load` and `reset` never run at the same time as each other, nor twice; `get`, `ready`, `sign_in` and pages run at
/// any time. Each operation runs to its end even if the caller goes away.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a website",
    note = "write `#[website_methods] impl Website for {Self}`"
)]
pub trait Website: Declared + Sized + Send + Sync + 'static {
    /// What `open` takes; `()` for a site without settings. `#[website_methods]` fills it in.
    type Settings: Settings;

    #[doc(hidden)]
    const HAS_PAGES: bool = false;
    #[doc(hidden)]
    const HAS_SESSION: bool = false;

    /// Makes the site, before the server listens. `data_dir` is empty at deploy, and after a restart of the service as it
    /// was left. An error ends the server with its message.
    fn open(settings: Self::Settings, data_dir: &Path) -> impl Future<Output = Result<Self>> + Send;

    /// Adds data in the site's own JSON, all of it or nothing. Refuses what it does not know ([`Error::bad_request`]).
    fn load(&self, data: Value) -> impl Future<Output = Result<()>> + Send;

    /// Answers the data in the site's own JSON: everything, or what the selector asks for.
    fn get(&self, selector: Option<Value>) -> impl Future<Output = Result<Value>> + Send;

    /// Goes back to the state at deploy: what was loaded, and what the agent did, is gone.
    fn reset(&self) -> impl Future<Output = Result<()>> + Send;

    /// Whether the site can be used; an error's message is the reason why not. Without it, a site that listens is ready.
    fn ready(&self) -> impl Future<Output = Result<()>> + Send {
        async { Ok(()) }
    }

    /// The site's pages, [`SignedIn`](crate::SignedIn) and [`Session`](crate::Session) included. A site without this
    /// method has its pages served by a frontend.
    fn pages(self: Arc<Self>) -> Router {
        Router::new()
    }

    /// Says whom `session` signs in when `user` is asked for (`None`: the site's default user), for sites whose cookie the
    /// SDK signs. Refuse a user that the site doesn't know with [`Error::not_found`]. Without it every name is taken.
    fn sign_in(&self, user: Option<String>) -> impl Future<Output = Result<SignIn>> + Send {
        async {
            user.map(SignIn::new)
                .ok_or_else(|| Error::bad_request("the site has no default user").hint("say which user to sign in"))
        }
    }

    /// The method marked `#[session_state]`.
    #[doc(hidden)]
    fn session(&self, user: Option<String>) -> impl Future<Output = Result<SessionState>> + Send {
        drop(user);
        async { Err(Error::internal("the site marks no session method")) }
    }
}

/// Who is signed in by `session`, and how to see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignIn {
    pub(crate) user: String,
    pub(crate) verify: Option<(String, String)>,
}

impl SignIn {
    /// Signs this user in; [`SignedIn`](crate::SignedIn) will hold the same text.
    pub fn new(user: impl Into<String>) -> Self {
        Self { user: user.into(), verify: None }
    }

    /// Says how to see it: the page at `path` (`/account`), once loaded, contains `text` only if the user is signed in.
    pub fn verify(mut self, path: impl Into<String>, text: impl Into<String>) -> Self {
        self.verify = Some((path.into(), text.into()));
        self
    }
}
