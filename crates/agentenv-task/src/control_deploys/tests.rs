use std::sync::atomic::{AtomicUsize, Ordering};

use agentenv_deploy::DeployRecord;
use agentenv_protocol::{ExitCode, Name};

use super::*;

/// A reaper that finds the deploy dead at its Nth look, as one that undoes itself meanwhile.
struct Reaper {
    home: Home,
    deploy: DeployId,
    dead_at: usize,
    looks: AtomicUsize,
}

impl MakeDeploys for Reaper {
    fn plan<'a>(&'a self, _step: &'a DeployEnv) -> Answer<'a, PlannedDeploy> {
        Box::pin(async { Err(ControlError::new(ExitCode::Refused, "not in this test")) })
    }

    fn deploy(&self, _request: DeployRequest) -> Answer<'_, DeployInfo> {
        Box::pin(async { Err(ControlError::new(ExitCode::Refused, "not in this test")) })
    }

    fn reap(&self) -> Work<'_, ()> {
        Box::pin(async {
            if self.looks.fetch_add(1, Ordering::Relaxed) + 1 == self.dead_at {
                save(&self.home, &self.deploy, DeployState::Failed);
            }
        })
    }
}

fn save(home: &Home, deploy: &DeployId, state: DeployState) {
    let dir = DeployDir::new(home.deploy(deploy));
    std::fs::create_dir_all(dir.path()).unwrap();
    let env = Name::parse("office").unwrap();
    let record = DeployRecord::new(deploy.clone(), None, env, Vec::new(), false);
    dir.save(&DeployRecord { state, ..record }).unwrap();
}

/// Closes a deploy in this state; answers the looks that it took.
async fn close(state: Option<DeployState>, dead_at: usize) -> Result<usize, ControlError> {
    let folder = tempfile::tempdir().unwrap();
    let (home, deploy) = (Home::at(folder.path()), DeployId::random());
    if let Some(state) = state {
        save(&home, &deploy, state);
    }
    let reaper =
        Arc::new(Reaper { home: home.clone(), deploy: deploy.clone(), dead_at, looks: AtomicUsize::default() });
    let maker: Arc<dyn MakeDeploys> = reaper.clone();
    ControlDeploys::new(home, maker).close(&deploy).await?;
    Ok(reaper.looks.load(Ordering::Relaxed))
}

#[tokio::test(start_paused = true)]
async fn a_deploy_is_closed_in_whatever_state_it_is() {
    assert_eq!(close(None, 1).await, Ok(0), "it never began");
    assert_eq!(close(Some(DeployState::Closed), 1).await, Ok(0));
    assert_eq!(close(Some(DeployState::Failed), 1).await, Ok(0));
    assert_eq!(close(Some(DeployState::Ready), 1).await, Ok(1), "its supervisor is dead");
    assert_eq!(close(Some(DeployState::Starting), 5).await, Ok(5), "it was undoing itself");
    let error = close(Some(DeployState::Ready), usize::MAX).await.unwrap_err();
    assert!(error.message.contains("does not answer"), "{error}");
}
