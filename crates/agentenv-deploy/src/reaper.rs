//! The reaper: needs only the disk, finds deploys whose supervisor is dead, and removes what they left (RUN-3).

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use agentenv_protocol::{
    DeployId, Home,
    control::{ControlError, DeployState},
};
use agentenv_sandbox::{liveness, process};

use crate::{DeployDir, RecordError, captures, deploy_ids, names};

/// What the name of a deploy's folder begins with while it is made.
pub(crate) const MAKING_PREFIX: &str = ".";
/// A folder that was being made this long ago was left by a starter that died: making one takes milliseconds.
const MAKING_LIMIT: Duration = Duration::from_secs(60);
/// Held by whoever starts a deploy, until its supervisor holds `lock`.
pub(crate) const STARTER_LOCK: &str = "starter.lock";
/// How long the kernel may take to end what was killed: namespaces with many processes take a while.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// What was found and removed of one dead deploy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reaped {
    /// The deploy.
    pub deploy: DeployId,
    /// Processes that had to be killed.
    pub killed: usize,
}

/// Finds every dead deploy of the home and removes what it left. Called at the start of each command, before this process holds
/// any lock of a deploy.
pub fn reap(home: &Home) -> Vec<Reaped> {
    sweep_half_made(home);
    let dead = deploy_ids(home).filter(|id| is_dead(&DeployDir::new(home.deploy(id))));
    let error = ControlError::infrastructure("its supervisor died")
        .hint("what it left was removed; its logs are kept in the deploy's folder");
    dead.filter_map(|id| reap_one(home, &id, &error)).collect()
}

/// Removes folders that starters left before they were a deploy's.
fn sweep_half_made(home: &Home) {
    for entry in fs::read_dir(home.deploys()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let half_made =
            name.to_str().and_then(|name| name.strip_prefix(MAKING_PREFIX)).and_then(|id| DeployId::parse(id).ok());
        let made = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > MAKING_LIMIT));
        if half_made.is_some()
            && is_old
            && !is_held(&entry.path().join(STARTER_LOCK))
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            tracing::debug!(%error, path = %entry.path().display(), "a half-made folder cannot be removed");
        }
    }
}

/// Whether the deploy should be running and is not.
fn is_dead(dir: &DeployDir) -> bool {
    // The starter lets go of its lock once the supervisor holds the other: asked in this order, one of them is held.
    let is_free = || !is_held(&dir.path().join(STARTER_LOCK)) && !is_held(&dir.lock());
    match dir.load() {
        Ok(record) => !record.is_over() && is_free(),
        // Written by a newer program: its own to judge.
        Err(RecordError::Newer { .. }) => false,
        Err(_) => is_free() && dir.path().exists(),
    }
}

fn is_held(lock: &Path) -> bool {
    // A lock that cannot be asked about is taken as held: never remove what may live.
    liveness::probe(lock).map_or(true, |holder| holder.is_some())
}

/// Removes what a deploy left whose supervisor was told to end before it was ready, unless it has done so itself.
pub(crate) fn reap_terminated(dir: &DeployDir) {
    if let (Ok(id), Some(home)) = (dir.id(), dir.home())
        && is_dead(dir)
    {
        let error = ControlError::infrastructure("the deploy was terminated before it was ready");
        reap_one(&home, &id, &error);
    }
}

/// Removes what a deploy left, which nobody holds any more, and records why it ended. `None` where there was nothing to do.
pub(crate) fn reap_one(home: &Home, id: &DeployId, error: &ControlError) -> Option<Reaped> {
    let dir = DeployDir::new(home.deploy(id));
    let killed = kill_all(id);
    if let Err(error) = dir.remove_cgroups() {
        tracing::warn!(%error, deploy = %id, "a cgroup of a dead deploy cannot be removed");
    }
    for path in [dir.control_socket(), dir.control_token(), dir.ca()] {
        remove(&path);
    }
    match dir.load() {
        Ok(mut record) => {
            if let Some(name) = &record.name
                && let Err(error) = names::release(home, name, id)
            {
                tracing::warn!(%error, deploy = %id, "the name of a dead deploy cannot be given back");
            }
            if !record.is_over() || record.state == DeployState::Failed && record.error.is_none() {
                record.ended(Some(error.clone()));
                captures::note_unstored(&dir.captures(), &mut record);
                if let Err(error) = dir.save(&record) {
                    tracing::warn!(%error, deploy = %id, "the end of a dead deploy cannot be recorded");
                }
            }
        }
        // A starter died before it wrote the record: then nothing else was made either.
        Err(RecordError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            if captures::any(&dir.captures()) {
                tracing::debug!(path = %dir.path().display(), "a deploy without a record is kept for its captured packets");
                return (killed > 0).then(|| Reaped { deploy: id.clone(), killed });
            }
            if let Err(error) = fs::remove_dir_all(dir.path()) {
                tracing::debug!(%error, deploy = %id, "the folder of a deploy that never was cannot be removed");
            }
        }
        Err(error) => tracing::warn!(%error, deploy = %id, "a dead deploy's record cannot be read"),
    }
    Some(Reaped { deploy: id.clone(), killed })
}

/// Kills every process that carries the deploy's mark, until none is left.
fn kill_all(id: &DeployId) -> usize {
    let began = Instant::now();
    let mut killed = std::collections::BTreeSet::new();
    loop {
        let left = process::find_processes_of(id.as_str()).unwrap_or_default();
        if left.is_empty() {
            return killed.len();
        }
        for (process, _) in &left {
            killed.insert(process.pid);
            if let Err(error) = process.kill_if_same(KILL_LIMIT) {
                tracing::debug!(%error, pid = process.pid, "kill");
            }
        }
        if began.elapsed() > KILL_LIMIT {
            tracing::warn!(deploy = %id, left = left.len(), "processes of a dead deploy do not end");
            return killed.len();
        }
        std::thread::yield_now();
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "cannot be removed");
    }
}

#[cfg(test)]
mod tests;
