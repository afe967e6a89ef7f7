//! A running browser, as the supervisor holds it.

use std::{future::Future, io, sync::Arc, time::Duration};

use agentenv_protocol::Name;
use serde_json::json;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};

use super::{BrowserError, residue::Residue};
use crate::cdp::{Cdp, CdpError, Events};

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
        match Self::connect_any(name, dial, port, limit).await? {
            (this, residue) if !residue.is_clean(&[]) => {
                Err(BrowserError::NotNew { browser: this.name, holds: residue.to_string() })
            }
            (this, _) => Ok(this),
        }
    }

    /// Connects to a browser that has been in use: one that an agent closed and opened again, on a desktop.
    pub async fn connect_again<F, R>(name: Name, dial: F, port: u16, limit: Duration) -> Result<Self, BrowserError>
    where
        F: Fn() -> R,
        R: Future<Output = io::Result<TcpStream>>,
    {
        Self::connect_any(name, dial, port, limit).await.map(|(this, _)| this)
    }

    /// Whether it still answers here: not once it was closed.
    pub fn is_open(&self) -> bool {
        self.cdp.is_open()
    }

    async fn connect_any<F, R>(name: Name, dial: F, port: u16, limit: Duration) -> Result<(Self, Residue), BrowserError>
    where
        F: Fn() -> R,
        R: Future<Output = io::Result<TcpStream>>,
    {
        let started = Instant::now();
        let connect = async {
            let cdp = Cdp::connect(dial, port, limit).await?;
            let rest = async {
                let events = cdp.events();
                let first_tab = first_tab(&cdp).await?;
                Ok((events, first_tab, Residue::read(&cdp).await?))
            };
            let rest: Result<_, CdpError> =
                timeout_at(started + limit, rest).await.unwrap_or(Err(CdpError::NotAnswering { after: limit }));
            rest.map(|(events, first_tab, residue)| (cdp, events, first_tab, residue))
        };
        match connect.await {
            Ok((cdp, events, first_tab, residue)) => {
                tokio::spawn(report_crashes(events, name.clone()));
                Ok((Self { name, cdp, first_tab }, residue))
            }
            Err(source) => Err(BrowserError::Cdp { browser: name, source }),
        }
    }

    /// Its product and version, such as `Chrome/156.0.8078.108`.
    pub fn product(&self) -> &str {
        self.cdp.product()
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

/// Writes tabs whose renderer crashed to the log, until the browser is gone. The browser lives on; the tab shows Chromium's
/// page for this, and an agent's client is told too.
async fn report_crashes(mut events: Events, browser: Name) {
    loop {
        match events.next().await {
            Ok(event) if event.method == "Target.targetCrashed" => {
                tracing::warn!(%browser, target = event.text("/targetId"), status = event.text("/status"), "a tab crashed");
            }
            Ok(_) | Err(CdpError::EventsLost { .. }) => {}
            Err(_) => return,
        }
    }
}
