//! The server of `tracker.test`: loads, reads and resets the data of a Roundup issue tracker and signs its users in.
//!
//! The pages are Roundup's own, served by the frontend. Both work on `/data/tracker`: this side through
//! `roundup_data.py`, which uses Roundup's classes, so that neither has to know how Roundup stores things.

mod roundup;

use std::path::Path;
use std::process::ExitCode;

use agentenv_sdk::{
    Cookie, Error, Result, SameSite, SessionState, Snapshot, Value, Verify, Website, json, website, website_methods,
};

use crate::roundup::{Roundup, copy_folder, link_home};

/// Where the frontend serves the tracker; its cookies are for this path.
const TRACKER_PATH: &str = "/issues/";

/// The tracker of one deploy.
#[website(domains = ["tracker.test"])]
struct Tracker {
    roundup: Roundup,
    database: Snapshot,
}

#[website_methods]
impl Website for Tracker {
    fn open(_settings: (), data_dir: &Path) -> Result<Self> {
        let site = std::env::current_dir()?;
        let (built, home) = (site.join("tracker"), data_dir.join("tracker"));
        if !built.is_dir() {
            let hint = "`agent-env website put` builds it with build.py; the server runs in the built folder";
            return Err(Error::internal(format!("there is no tracker at {}", built.display())).hint(hint));
        }
        link_home(&built, &home)?;
        let database = Snapshot::prepare(&home, "db", |folder| Ok(copy_folder(&built.join("db"), folder)?))?;
        Ok(Self { roundup: Roundup::new(site.join("roundup_data.py"), home), database })
    }

    /// `{users: [{username, password, roles?}], issues: [{title, status?, assignedto?, priority?, creator?,
    /// messages?: [text]}]}`: adds all of it, or nothing.
    async fn load(&self, data: Value) -> Result<()> {
        self.ask(json!({"do": "load", "data": data})).await.map(drop)
    }

    /// `{users: [{username, roles}], issues: [{id, title, status, priority, assignedto, creator, messages: [text]}]}`, in
    /// the order they were made.
    ///
    /// A selector names the lists it wants and the fields that their items must have: `{"issues": {"creator": "mara",
    /// "title_contains": "Order"}}`.
    async fn get(&self, selector: Option<Value>) -> Result<Value> {
        self.ask(json!({"do": "get", "selector": selector})).await
    }

    async fn reset(&self) -> Result<()> {
        self.roundup.quietly(|| self.database.restore()).await
    }

    /// Signs in any user of the tracker, `admin` by default, as Roundup does after it has checked a password.
    #[session_state]
    async fn session(&self, user: Option<String>) -> Result<SessionState> {
        let session = self.ask(json!({"do": "session", "user": user})).await?;
        let text = |key: &str| session[key].as_str().unwrap_or_default().to_owned();
        Ok(SessionState {
            cookies: vec![Cookie {
                name: text("name"),
                value: text("value"),
                domain: "tracker.test".to_owned(),
                path: TRACKER_PATH.to_owned(),
                expires: -1.0,
                http_only: true,
                secure: true,
                same_site: SameSite::Lax,
            }],
            origins: vec![],
            verify: Some(Verify {
                url: format!("https://tracker.test{TRACKER_PATH}"),
                // With the tag, so that the greeting of a longer name doesn't contain it.
                contains: format!("Hello, {}</b>", text("user")),
            }),
        })
    }
}

impl Tracker {
    async fn ask(&self, request: Value) -> Result<Value> {
        let mut answer = self.roundup.ask(&request).await?;
        if let Some(done) = answer.get_mut("ok") {
            return Ok(done.take());
        }
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        let error = match answer["kind"].as_str() {
            Some("bad_request") => Error::bad_request(text("message")),
            Some("not_found") => Error::not_found(text("message")),
            _ => Error::internal(text("message")),
        };
        Err(error.hint(text("hint")))
    }
}

fn main() -> ExitCode {
    agentenv_sdk::serve::<Tracker>()
}
