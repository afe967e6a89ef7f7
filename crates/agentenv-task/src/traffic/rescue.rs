//! `traffic rescue`: stores what is still on disk, of deploys of runs and of others, and completes what is on record (CAP-7).

use std::io;

use agentenv_protocol::{DeployId, ExitCode, RunId, control::ControlError};
use agentenv_store::Holder;

use super::{Collected, Collection, DeployLedger, RunLedger, TrafficCaptures};
use crate::{
    record::{RunDeploy, RunRecord},
    run_dir::RunLock,
    run_log::LogError,
    runner::{RunError, Runner},
    universes::Universes,
};

/// Held in a deploy's folder while its captures are being stored outside any run.
const LOCK_FILE: &str = "rescue.lock";

/// What became of the captures of one deploy.
#[derive(Clone, Debug, PartialEq)]
pub struct Rescued {
    /// The deploy.
    pub deploy: DeployId,
    /// The run that made it.
    pub run: Option<RunId>,
    /// What is on record of its captures now; none where it never captured anything.
    pub captures: Option<TrafficCaptures>,
    /// How many files were stored by this.
    pub stored: usize,
    /// Why not everything is stored.
    pub reason: Option<String>,
}

/// Why a rescue could not be begun.
#[derive(Debug, thiserror::Error)]
pub enum RescueError {
    /// The run cannot be read or taken up: it may be going on.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Another command stores the same captures.
    #[error("the captures of deploy {0} are being stored by another command")]
    Busy(DeployId),
    /// Its captures cannot be reached.
    #[error("{}", .0.message)]
    Deploy(ControlError),
    /// The deploy's folder cannot be locked.
    #[error("{path}: {source}")]
    Folder {
        /// The lock's file.
        path: std::path::PathBuf,
        /// The kernel's word.
        source: io::Error,
    },
}

impl RescueError {
    /// How a command that ends with this error exits (SPEC §11).
    pub fn exit(&self) -> ExitCode {
        match self {
            Self::Run(RunError::Log(LogError::NoRun(_)) | RunError::Alive(_)) | Self::Busy(_) => ExitCode::Refused,
            Self::Deploy(error) => error.exit,
            Self::Run(_) | Self::Folder { .. } => ExitCode::Infrastructure,
        }
    }
}

impl Runner {
    /// Stores what is still there of a deploy's captures, for its run where it is of one.
    pub async fn rescue_deploy(&self, deploy: &DeployId) -> Result<Rescued, RescueError> {
        match self.log.run_of_deploy(deploy).await.map_err(RunError::Log)? {
            Some(run) => {
                let mut rescued = self.rescue(&run, Some(deploy)).await?;
                Ok(rescued.pop().unwrap_or_else(|| nothing(deploy.clone(), Some(run))))
            }
            None => self.rescue_outside(deploy).await,
        }
    }

    /// Stores what is still there of the captures of a run's deploys.
    pub async fn rescue_run(&self, run: &RunId) -> Result<Vec<Rescued>, RescueError> {
        self.rescue(run, None).await
    }

    async fn rescue(&self, run: &RunId, only: Option<&DeployId>) -> Result<Vec<Rescued>, RescueError> {
        let record = self.log.get(run).await.map_err(RunError::Log)?;
        let wanted = |entry: &&RunDeploy| entry.captures && only.is_none_or(|only| *only == entry.deploy);
        let deploys: Vec<DeployId> = record.deploys.iter().filter(wanted).map(|entry| entry.deploy.clone()).collect();
        if record.imported {
            // Its deploys were never here: what came with it is all there is.
            return Ok(deploys.into_iter().map(|deploy| as_it_is(deploy, &record)).collect());
        }
        let dir = self.run_dir(run);
        let folder = |source| RunError::Folder { path: dir.path().to_owned(), source };
        dir.create().map_err(folder)?;
        let lock = dir.lock().map_err(folder)?.ok_or_else(|| RunError::Alive(run.clone()))?;
        // Read again under the lock: somebody else may have stored more meanwhile.
        let mut record = self.log.get(run).await.map_err(RunError::Log)?;
        let mut rescued = Vec::new();
        for deploy in deploys {
            let source = self.deploys.captures(&deploy).await.map_err(RescueError::Deploy)?;
            let ledger = &mut RunLedger {
                record: &mut record,
                log: &*self.log,
                events: &self.events,
                deploy: &deploy,
                during: None,
            };
            let collection = Collection { source: &*source, universes: &*self.log, ledger };
            let collected = collection.run(std::future::pending()).await;
            self.discard(&deploy, &collected).await;
            rescued.push(done(deploy, Some(run.clone()), collected));
        }
        lock.end().map_err(folder)?;
        Ok(rescued)
    }

    /// Outside any run the deploy itself holds the artifacts.
    async fn rescue_outside(&self, deploy: &DeployId) -> Result<Rescued, RescueError> {
        let dir = self.home.deploy(deploy);
        if !dir.exists() {
            // What was stored is all there is.
            let captures = self.captures_outside(deploy).await?;
            let reason = captures.as_ref().and_then(|entry| entry.reason.clone());
            return Ok(Rescued { deploy: deploy.clone(), run: None, captures, stored: 0, reason });
        }
        let path = dir.join(LOCK_FILE);
        let folder = |source| RescueError::Folder { path: path.clone(), source };
        let lock = RunLock::take(&path).map_err(folder)?.ok_or_else(|| RescueError::Busy(deploy.clone()))?;
        let source = self.deploys.captures(deploy).await.map_err(RescueError::Deploy)?;
        let entry = self.captures_outside(deploy).await?;
        let ledger = &mut DeployLedger { deploy: deploy.clone(), entry };
        let collection = Collection { source: &*source, universes: &*self.log, ledger };
        let collected = collection.run(std::future::pending()).await;
        self.discard(deploy, &collected).await;
        lock.end().map_err(folder)?;
        Ok(done(deploy.clone(), None, collected))
    }

    /// What is on record about the captures of a deploy outside any run.
    pub async fn captures_outside(&self, deploy: &DeployId) -> Result<Option<TrafficCaptures>, RunError> {
        Ok(captures_outside(&*self.log, deploy).await?)
    }

    /// Removes from the folder of a deploy that is over the captures of the websites that are stored whole.
    pub(crate) async fn discard(&self, deploy: &DeployId, collected: &Collected) {
        let Some(entry) = collected.entry.as_ref().filter(|entry| collected.kept && !entry.files.is_empty()) else {
            return;
        };
        if let Err(error) = self.deploys.discard_captures(deploy, entry).await {
            // They are stored: what stays on disk takes room and nothing else.
            tracing::warn!(%deploy, error = %error.message, "stored captures stay on disk");
        }
    }
}

/// What is on record about the captures of a deploy outside any run.
pub async fn captures_outside(
    universes: &dyn Universes,
    deploy: &DeployId,
) -> Result<Option<TrafficCaptures>, LogError> {
    let holder = Holder::Deploy(deploy.clone());
    for id in universes.universes_of(&holder).await? {
        let Some(universe) = universes.universe(&id).await? else { continue };
        if let Ok(mut entry) = serde_json::from_value::<TrafficCaptures>(universe.document) {
            entry.reconcile(&universe.artifacts);
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

fn nothing(deploy: DeployId, run: Option<RunId>) -> Rescued {
    Rescued { deploy, run, captures: None, stored: 0, reason: None }
}

fn as_it_is(deploy: DeployId, record: &RunRecord) -> Rescued {
    let captures = record.traffic_captures(&deploy);
    let reason = captures.as_ref().and_then(|entry| entry.reason.clone());
    Rescued { deploy, run: Some(record.run.clone()), captures, stored: 0, reason }
}

fn done(deploy: DeployId, run: Option<RunId>, collected: Collected) -> Rescued {
    let Collected { entry, reason, stored, .. } = collected;
    Rescued { deploy, run, captures: entry, stored, reason }
}
