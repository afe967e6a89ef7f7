//! Deploys of this machine: made by the program that joins store, model and providers, commanded over their control
//! sockets.

use std::{sync::Arc, time::Duration};

use agentenv_deploy::{ControlClient, DeployDir, RecordError, captures};
use agentenv_protocol::{
    DataReply, DeployId, Home,
    control::{
        CloseRequest, ControlError, DeployInfo, DeployState, GetRequest, LoadRequest, ResetReport, SignInReport,
        SignInRequest,
    },
};
use tokio::time::{Instant, sleep};

use crate::{
    action::DeployEnv,
    deploys::{DeployRequest, Deploys, PlannedDeploy},
    event::{Answer, Work},
    traffic::{CaptureSource, TrafficCaptures, open_captures},
};

/// How long a deploy that does not answer is waited for: it may be starting, or undoing itself because nobody waits for
/// it any more, which ends within its own TERM, grace and KILL.
const END_LIMIT: Duration = Duration::from_secs(90);
/// How often it is looked at meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Makes deploys of stored envs.
pub trait MakeDeploys: Send + Sync {
    /// As [`Deploys::plan`].
    fn plan<'a>(&'a self, step: &'a DeployEnv) -> Answer<'a, PlannedDeploy>;

    /// As [`Deploys::deploy`].
    fn deploy(&self, request: DeployRequest) -> Answer<'_, DeployInfo>;

    /// Removes what dead deploys left, and touches none that lives.
    fn reap(&self) -> Work<'_, ()>;
}

/// Deploys of this machine.
#[derive(Clone)]
pub struct ControlDeploys {
    home: Home,
    maker: Arc<dyn MakeDeploys>,
}

impl ControlDeploys {
    /// Takes the home and who makes deploys in it.
    pub fn new(home: Home, maker: Arc<dyn MakeDeploys>) -> Self {
        Self { home, maker }
    }

    fn client(&self, deploy: &DeployId) -> ControlClient {
        ControlClient::new(self.home.deploy(deploy))
    }

    /// Whether nothing of the deploy should be left.
    fn is_over(&self, deploy: &DeployId) -> bool {
        let dir = DeployDir::new(self.home.deploy(deploy));
        match dir.load() {
            Ok(record) => record.is_over(),
            // Never begun, or begun and removed whole.
            Err(RecordError::Io { .. }) => !dir.path().exists(),
            Err(_) => false,
        }
    }

    async fn end(&self, deploy: &DeployId) -> Result<(), ControlError> {
        let until = Instant::now() + END_LIMIT;
        loop {
            if self.is_over(deploy) {
                return Ok(());
            }
            let Err(error) = self.client(deploy).close(&CloseRequest::default()).await else { return Ok(()) };
            // It is dead, or not yet or no longer commanded.
            self.maker.reap().await;
            if self.is_over(deploy) {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(error);
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}

impl std::fmt::Debug for ControlDeploys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ControlDeploys").field("home", &self.home).finish_non_exhaustive()
    }
}

impl Deploys for ControlDeploys {
    fn plan<'a>(&'a self, step: &'a DeployEnv) -> Answer<'a, PlannedDeploy> {
        self.maker.plan(step)
    }

    fn deploy(&self, request: DeployRequest) -> Answer<'_, DeployInfo> {
        self.maker.deploy(request)
    }

    fn load<'a>(&'a self, deploy: &'a DeployId, request: LoadRequest) -> Answer<'a, ()> {
        Box::pin(async move { self.client(deploy).load(&request).await })
    }

    fn get<'a>(&'a self, deploy: &'a DeployId, request: GetRequest) -> Answer<'a, DataReply> {
        Box::pin(async move { self.client(deploy).get(&request).await })
    }

    fn sign_in<'a>(&'a self, deploy: &'a DeployId, request: SignInRequest) -> Answer<'a, SignInReport> {
        Box::pin(async move { self.client(deploy).sign_in(&request).await })
    }

    fn reset<'a>(&'a self, deploy: &'a DeployId) -> Answer<'a, ResetReport> {
        Box::pin(async move { self.client(deploy).reset().await })
    }

    fn state<'a>(&'a self, deploy: &'a DeployId) -> Answer<'a, DeployState> {
        Box::pin(async move { self.client(deploy).status().await.map(|status| status.state) })
    }

    fn captures<'a>(&'a self, deploy: &'a DeployId) -> Answer<'a, Box<dyn CaptureSource>> {
        Box::pin(async move { open_captures(&self.home, deploy) })
    }

    fn discard_captures<'a>(&'a self, deploy: &'a DeployId, stored: &'a TrafficCaptures) -> Answer<'a, ()> {
        let (dir, stored) = (DeployDir::new(self.home.deploy(deploy)), stored.clone());
        Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || discard(&dir, &stored)).await;
            done.unwrap_or_else(|_| Err(ControlError::infrastructure("the removal was cut short")))
        })
    }

    fn close<'a>(&'a self, deploy: &'a DeployId) -> Answer<'a, ()> {
        Box::pin(self.end(deploy))
    }
}

/// Removes the rings all of whose files are stored.
fn discard(dir: &DeployDir, stored: &TrafficCaptures) -> Result<(), ControlError> {
    let failed = |error: &dyn std::fmt::Display| ControlError::infrastructure(error.to_string());
    if !dir.load().is_ok_and(|record| record.is_over()) {
        return Ok(());
    }
    // Looked at again: what was stored while it ran may have grown since. Now it is over, and nothing grows.
    let listing = captures::listing(dir).map_err(|error| failed(&error))?;
    for ring in &listing.rings {
        let mut files = listing.captures.iter().filter(|capture| capture.website == ring.website);
        if files.all(|capture| stored.has_whole(capture)) {
            captures::discard(dir, Some(&ring.website)).map_err(|error| failed(&error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
