//! Watches one capture: what was missed is on record, and another is started, three times a minute (CAP-4).

use std::{pin::pin, sync::Arc, time::Duration};

use agentenv_protocol::control::DeployState;
use tokio::task::spawn_blocking;

use super::ring::Ring;
use crate::supervisor::{
    ledger::Ledger,
    service::{RESTART_LIMIT, Restarts, readable},
};

/// Before another try where one failed: a disk that is full now may not be in a moment.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How often a capture is looked at that does not say that it ended: it may hang.
const LOOK: Duration = Duration::from_secs(1);

/// Keeps the capture going until the deploy ends, or it can't be kept.
pub(super) async fn keep(ring: Arc<Ring>, ledger: Arc<Ledger>) {
    let mut budget = Restarts::default();
    loop {
        let reason = ended(&ring).await;
        tracing::error!(website = %ring.website(), reason, "packets are missed");
        note(&ring, &ledger, reason).await;
        if let Err(reason) = again(&ring, &mut budget).await {
            tracing::error!(website = %ring.website(), reason, "nothing is captured any more");
            blocking(move || ring.given_up(&reason)).await;
            return;
        }
    }
}

/// Starts a new capture, or says why there is none any more.
async fn again(ring: &Arc<Ring>, budget: &mut Restarts) -> Result<(), String> {
    let mut reason = None;
    loop {
        if !budget.another() {
            let limit = format!("it was started again {RESTART_LIMIT} times within a minute");
            return Err(reason.map_or(limit.clone(), |reason| format!("{limit}: {reason}")));
        }
        let started = Arc::clone(ring);
        match blocking(move || started.record().map(|()| started.resumed())).await {
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) => reason = Some(error),
            None => {}
        }
        tracing::error!(website = %ring.website(), reason, "a capture cannot be started again");
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

/// Waits for the capture's end, or until it hangs, and says why.
async fn ended(ring: &Ring) -> String {
    let fd = ring.ended();
    let mut end = pin!(async {
        match &fd {
            Some(fd) if readable(std::os::fd::AsFd::as_fd(fd)).await.is_ok() => {}
            // Looking at it has to do.
            _ => std::future::pending().await,
        }
    });
    loop {
        let over = tokio::select! {
            () = &mut end => true,
            () = tokio::time::sleep(LOOK) => false,
        };
        match ring.trouble() {
            Some(reason) => return reason,
            None if over => return "the capture ended".to_owned(),
            None => {}
        }
    }
}

/// Opens the gap, and marks the deploy as degraded: it stays so, since the gap stays.
async fn note(ring: &Arc<Ring>, ledger: &Arc<Ledger>, reason: String) {
    let (ring, ledger) = (Arc::clone(ring), Arc::clone(ledger));
    blocking(move || {
        ring.missing(&reason);
        ledger.note(|record| {
            if record.state == DeployState::Ready {
                record.state = DeployState::Degraded;
            }
        });
    })
    .await;
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    spawn_blocking(work).await.inspect_err(|error| tracing::error!(%error, "capture")).ok()
}
