//! A running browser, as the supervisor holds it.

use std::{future::Future, io, sync::Arc, time::Duration};

use agentenv_protocol::Name;
use serde_json::json;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};

use super::{BrowserError, residue::Residue};
use crate::cdp::{Cdp, CdpError, Event, Events};

/// A running Chromium. Clones share its connection, which is the supervisor's own: clients have theirs.
#[derive(Clone, Debug)]
pub struct Browser {
    pub(super) name: Name,
    pub(super) cdp: Cdp,
    /// The tab that it started with.
    pub(super) first_tab: Arc<str>,
}

impl Browser {
    /// Connects to a browser that may still be starting, trying until the limit: until its first tab is there. A browser
    /// that holds a cookie or shows a page is refused: it is not new.
    pub async fn connect<F, R>(name: Name, dial: F, port: u16, limit: Duration) -> Result<Self, BrowserError>
    where
        F: Fn() -> R,
        R: Future<Output = io::Result<TcpStream>>,
    {
        let started = Instant::now();
        let connect = async {
            let cdp = Cdp::connect(dial, port, limit).await?;
            let rest = async {
                let first_tab = first_tab(&cdp).await?;
                Ok((first_tab, Residue::read(&cdp).await?))
            };
            let rest: Result<_, CdpError> =
                timeout_at(started + limit, rest).await.unwrap_or(Err(CdpError::NotAnswering { after: limit }));
            rest.map(|(first_tab, residue)| (cdp, first_tab, residue))
        };
        match connect.await {
            Ok((_, _, residue)) if !residue.is_clean(&[]) => {
                Err(BrowserError::NotNew { browser: name, holds: residue.to_string() })
            }
            Ok((cdp, first_tab, _)) => Ok(Self { name, cdp, first_tab }),
            Err(source) => Err(BrowserError::Cdp { browser: name, source }),
        }
    }

    /// Its product and version, such as `Chrome/156.0.8078.108`.
    pub fn product(&self) -> &str {
        self.cdp.product()
    }

    /// Tells of tabs that crash from now on.
    pub fn crashes(&self) -> Crashes {
        Crashes(self.cdp.events())
    }

    pub(super) fn failed(&self, source: CdpError) -> BrowserError {
        BrowserError::Cdp { browser: self.name.clone(), source }
    }
}

/// Waits for the first tab: DevTools may answer before it is there. From here on every target is announced, those that
/// exist first, so crashes are seen for the browser's life.
async fn first_tab(cdp: &Cdp) -> Result<Arc<str>, CdpError> {
    let mut events = cdp.events();
    cdp.call("Target.setDiscoverTargets", json!({ "discover": true })).await?;
    loop {
        let event = events.next().await?;
        if event.method == "Target.targetCreated" && event.text("/targetInfo/type") == "page" {
            return Ok(event.text("/targetInfo/targetId").into());
        }
    }
}

/// A tab whose renderer crashed. The browser lives on; the tab shows Chromium's page for this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TabCrash {
    /// The target.
    pub target: String,
    /// Such as `crashed`, `oom` or `killed`.
    pub status: String,
}

/// Crashes of a browser's tabs.
#[derive(Debug)]
pub struct Crashes(Events);

impl Crashes {
    /// Waits for the next one; `None` when the browser is gone.
    pub async fn next(&mut self) -> Option<TabCrash> {
        loop {
            match self.0.next().await {
                Ok(event) => {
                    if let Some(crash) = tab_crash(&event) {
                        return Some(crash);
                    }
                }
                // Among thousands of lost events one may have been a crash; the next is seen again.
                Err(CdpError::EventsLost { .. }) => {}
                Err(_) => return None,
            }
        }
    }
}

fn tab_crash(event: &Event) -> Option<TabCrash> {
    (event.method == "Target.targetCrashed")
        .then(|| TabCrash { target: event.text("/targetId").to_owned(), status: event.text("/status").to_owned() })
}
