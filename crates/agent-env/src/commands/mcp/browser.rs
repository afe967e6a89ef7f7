//! A browser over CDP: one connection, made when it is needed and made anew after it was closed.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use agentenv_deploy::cdp::{Cdp, CdpError, Event, Events, Session};
use agentenv_protocol::Name;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{
    failure::{Failure, cut},
    page::{self, BrowserAction},
    place::Place,
};

/// While a deploy is being reset the gateway keeps a new connection waiting.
const CONNECT_LIMIT: Duration = Duration::from_secs(60);
/// Dialogs that are told of; a page may open them without end.
const DIALOGS: usize = 10;
/// What is told of a tab's URL and title; a `data:` URL is as long as its page.
const TAB_CHARACTERS: usize = 1000;
/// What is told of a dialog's text.
const DIALOG_CHARACTERS: usize = 500;

/// A browser of the deploy, or the Chromium of a computer.
pub(super) struct Browser {
    pub(super) name: Name,
    place: Place,
    /// One action after the other.
    connection: tokio::sync::Mutex<Option<Connection>>,
}

/// What an action answers.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) value: Value,
    /// PNG in base64.
    pub(super) picture: Option<String>,
}

struct Connection {
    cdp: Cdp,
    shared: Arc<Mutex<Shared>>,
    /// The tab that is used where none is named.
    current: Option<String>,
    watcher: JoinHandle<()>,
}

/// What the watcher of a connection's events works on, too.
#[derive(Default)]
struct Shared {
    /// Attached tabs, by their ids.
    sessions: HashMap<String, Session>,
    dialogs: Vec<String>,
}

struct Tab {
    id: String,
    url: String,
    title: String,
}

impl Browser {
    pub(super) fn new(name: Name, place: Place) -> Self {
        Self { name, place, connection: tokio::sync::Mutex::new(None) }
    }

    /// Does an action, and takes a picture of the tab after it where one is wanted.
    pub(super) async fn act(&self, action: &BrowserAction, picture: bool) -> Result<Answer, Failure> {
        let mut held = self.connection.lock().await;
        let (mut connection, tabs) = self.connected(held.take()).await?;
        let done = connection.act(tabs, action, picture).await;
        if connection.cdp.is_open() {
            *held = Some(connection);
            return done;
        }
        done.map_err(|failure| match failure.kind.as_str() {
            "away" => self.closed(&connection.cdp),
            _ => failure,
        })
    }

    /// The connection there is, or a new one; and the tabs, whose list proves that it works: nothing was done yet, so
    /// one that is dead may be made anew.
    async fn connected(&self, old: Option<Connection>) -> Result<(Connection, Vec<Tab>), Failure> {
        if let Some(connection) = old
            && let Ok(tabs) = connection.tabs().await
        {
            return Ok((connection, tabs));
        }
        let dial = || self.place.dial();
        let cdp = Cdp::connect_below(dial, self.place.port(), self.place.path(), CONNECT_LIMIT).await;
        let cdp = cdp.map_err(|error| {
            tracing::debug!(browser = %self.name, ?error, "no CDP connection");
            Failure::new("away", format!("the browser of {} is not there: {error}; it may have been closed or have died, or the deploy is closed", self.name))
        })?;
        let connection = Connection::new(cdp);
        match connection.tabs().await {
            Ok(tabs) => Ok((connection, tabs)),
            Err(CdpError::Closed) => Err(self.closed(&connection.cdp)),
            Err(error) => Err(error.into()),
        }
    }

    fn closed(&self, cdp: &Cdp) -> Failure {
        let why = cdp.close_reason().unwrap_or("it gave no reason");
        let message = format!(
            "the connection to the browser {} was closed: {why}. Whether the action was done is unknown; the next call connects again",
            self.name
        );
        Failure::new("closed", message)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.watcher.abort();
        lock(&self.shared).sessions.clear();
    }
}

impl Connection {
    fn new(cdp: Cdp) -> Self {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let watcher = tokio::spawn(watch(cdp.events(), Arc::clone(&shared)));
        Self { cdp, shared, current: None, watcher }
    }

    async fn tabs(&self) -> Result<Vec<Tab>, CdpError> {
        let answer = self.cdp.call("Target.getTargets", json!({})).await?;
        let targets = answer["targetInfos"].as_array().into_iter().flatten();
        let text = |target: &Value, key: &str| cut(target[key].as_str().unwrap_or_default(), TAB_CHARACTERS);
        let pages = targets.filter(|target| target["type"] == "page");
        let tabs = pages.map(|target| Tab {
            id: text(target, "targetId"),
            url: text(target, "url"),
            title: text(target, "title"),
        });
        Ok(tabs.collect())
    }

    async fn act(&mut self, tabs: Vec<Tab>, action: &BrowserAction, picture: bool) -> Result<Answer, Failure> {
        lock(&self.shared).dialogs.clear();
        let page = match action {
            BrowserAction::Tabs {} => return Ok(self.listed(&tabs)),
            BrowserAction::CloseTab { tab } => {
                let id = self.choose(&tabs, tab.as_deref())?;
                if tabs.len() == 1 {
                    let message = "`tab` is the last one, and the browser would end with it: navigate to another page";
                    return Err(Failure::new("refused", message));
                }
                self.cdp.call("Target.closeTarget", json!({ "targetId": id })).await?;
                return Ok(Answer { value: json!({ "closed": id }), picture: None });
            }
            BrowserAction::Open { .. } => self.open().await?,
            BrowserAction::Navigate { tab, .. }
            | BrowserAction::Screenshot { tab }
            | BrowserAction::Click { tab, .. }
            | BrowserAction::Type { tab, .. }
            | BrowserAction::Key { tab, .. }
            | BrowserAction::Scroll { tab, .. }
            | BrowserAction::Evaluate { tab, .. }
            | BrowserAction::Text { tab, .. } => {
                let id = self.choose(&tabs, tab.as_deref())?;
                self.page(&id).await?
            }
        };
        // A tab behind another one takes no input and is not drawn.
        page.call("Page.bringToFront", json!({})).await?;
        self.current = Some(page.target().to_owned());
        let value = match action {
            BrowserAction::Open { url } => page::navigate(&page, url).await?,
            other => page::act(&page, other).await?,
        };
        let pictured = picture || matches!(action, BrowserAction::Screenshot { .. });
        let picture = if pictured { Some(page::picture(&page).await?) } else { None };
        Ok(Answer { value: self.described(page.target(), value).await?, picture })
    }

    fn listed(&self, tabs: &[Tab]) -> Answer {
        let current = self.current_of(tabs);
        let each = tabs.iter().map(|tab| {
            json!({ "id": tab.id, "url": tab.url, "title": tab.title, "current": Some(&tab.id) == current.as_ref() })
        });
        Answer { value: json!({ "tabs": each.collect::<Vec<_>>() }), picture: None }
    }

    /// The tab's own facts, and the dialogs that were answered meanwhile, after what the action says.
    async fn described(&self, target: &str, said: Value) -> Result<Value, Failure> {
        let tabs = self.tabs().await?;
        let mut value = json!({ "tab": target });
        if let Some(tab) = tabs.iter().find(|tab| tab.id == target) {
            value["url"] = json!(tab.url);
            value["title"] = json!(tab.title);
        }
        let dialogs = std::mem::take(&mut lock(&self.shared).dialogs);
        if !dialogs.is_empty() {
            value["dialogs"] = json!(dialogs);
        }
        if let (Value::Object(value), Value::Object(said)) = (&mut value, said) {
            value.extend(said);
        }
        Ok(value)
    }

    fn current_of(&self, tabs: &[Tab]) -> Option<String> {
        let used = self.current.as_ref().filter(|id| tabs.iter().any(|tab| tab.id == **id));
        used.or_else(|| tabs.first().map(|tab| &tab.id)).cloned()
    }

    fn choose(&self, tabs: &[Tab], wanted: Option<&str>) -> Result<String, Failure> {
        match wanted {
            Some(id) if tabs.iter().any(|tab| tab.id == id) => Ok(id.to_owned()),
            Some(id) => Err(Failure::argument(format!("`tab`: there is no tab `{id}`; `browser_tabs` lists them"))),
            None => {
                self.current_of(tabs).ok_or_else(|| Failure::new("no_tab", "no tab is open; `browser_open` opens one"))
            }
        }
    }

    async fn open(&self) -> Result<Session, Failure> {
        const METHOD: &str = "Target.createTarget";
        let answer = self.cdp.call(METHOD, json!({ "url": "about:blank" })).await?;
        let id = answer["targetId"].as_str().ok_or(CdpError::MissingField { method: METHOD, field: "targetId" })?;
        self.page(id).await
    }

    /// A session with a tab. It stays, so that a dialog never waits for an answer.
    async fn page(&self, id: &str) -> Result<Session, Failure> {
        let attached = lock(&self.shared).sessions.get(id).cloned();
        if let Some(session) = attached {
            return Ok(session);
        }
        let session = self.cdp.attach(id).await?;
        // Known before its events come.
        lock(&self.shared).sessions.insert(id.to_owned(), session.clone());
        session.call("Page.enable", json!({})).await?;
        Ok(session)
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sees to what happens by itself: tabs that go, dialogs that hold a page up.
async fn watch(mut events: Events, shared: Arc<Mutex<Shared>>) {
    loop {
        match events.next().await {
            Ok(event) if event.method == "Target.detachedFromTarget" => {
                let gone = event.text("/sessionId");
                lock(&shared).sessions.retain(|_, session| session.id() != gone);
            }
            Ok(event) if event.method == "Page.javascriptDialogOpening" => dismiss(&event, &shared).await,
            Ok(_) | Err(CdpError::EventsLost { .. }) => {}
            Err(_) => return,
        }
    }
}

/// Answers a dialog with no, but for the one that asks whether to leave a page.
async fn dismiss(event: &Event, shared: &Mutex<Shared>) {
    let (kind, message) = (event.text("/type"), event.text("/message"));
    let leave = kind == "beforeunload";
    let session = {
        let mut shared = lock(shared);
        let session = shared.sessions.values().find(|session| Some(session.id()) == event.session.as_deref()).cloned();
        if session.is_some() && !leave && shared.dialogs.len() < DIALOGS {
            shared.dialogs.push(format!("{kind} was dismissed: {}", cut(message, DIALOG_CHARACTERS)));
        }
        session
    };
    if let Some(session) = session {
        // The loading of a page may have answered it first.
        let _ = session.call("Page.handleJavaScriptDialog", json!({ "accept": leave })).await;
    }
}
