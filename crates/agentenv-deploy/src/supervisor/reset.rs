//! Reset, in the order of RUN-7.

use std::{
    collections::BTreeMap,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use agentenv_protocol::{
    Name,
    control::{ControlError, ResetReport},
};
use futures_util::future::{join_all, try_join_all};

use super::deploy::Deploy;

/// RFC 6455: service restart.
const RESTART_CODE: u16 = 1012;
/// What CDP clients are told.
const RESET_REASON: &str = "the deploy is being reset";

impl Deploy {
    /// Brings every site back to its state at deploy and every browser to a new one, start tabs open.
    pub(crate) async fn reset(&self) -> Result<ResetReport, ControlError> {
        let _turn = self.turn.lock().await;
        let began = Instant::now();
        let gate = self.gateway.cdp();
        // New clients wait until the holds are dropped, when the browsers are there again.
        let names = self.machines.iter().map(|machine| machine.name());
        let holds = join_all(names.map(|name| gate.close_all(name, RESTART_CODE, RESET_REASON))).await;
        let browsers_began = Instant::now();
        join_all(self.machines.iter().map(|machine| machine.stop())).await;
        let stopping = browsers_began.elapsed();
        self.sites.cut_all();
        let data = try_join_all(self.pods.values().map(|pod| async {
            let began = Instant::now();
            pod.client.reset().await.map_err(|error| pod.failed(&error))?;
            Ok::<Duration, ControlError>(began.elapsed())
        }));
        let data = data.await?.into_iter().max().unwrap_or_default();
        let starting = Instant::now();
        let machines = try_join_all(self.machines.iter().map(|machine| async {
            let how = machine.start_again(&self.context).await?;
            let began = Instant::now();
            machine.open_tabs().await?;
            Ok::<_, ControlError>((began.elapsed(), (machine.name().clone(), how)))
        }));
        let (tabs, browsers): (Vec<Duration>, BTreeMap<Name, String>) = machines.await?.into_iter().unzip();
        drop(holds);
        // Who reset once is likely to do it again.
        self.foresee_reset().await;
        self.resets.fetch_add(1, Ordering::Relaxed);
        Ok(ResetReport {
            total_ms: milliseconds(began.elapsed()),
            data_ms: milliseconds(data),
            browser_ms: milliseconds(stopping + starting.elapsed()),
            tabs_ms: milliseconds(tabs.into_iter().max().unwrap_or_default()),
            browsers,
            not_undone: self.pods.values().filter(|pod| pod.website.live).map(|pod| pod.name().clone()).collect(),
        })
    }

    /// Has every browser and computer get a spare for the next reset.
    pub(crate) async fn foresee_reset(&self) {
        join_all(self.machines.iter().map(|machine| machine.foresee(&self.context))).await;
    }
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
