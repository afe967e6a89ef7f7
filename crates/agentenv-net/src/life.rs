//! One drain signal for every task of a listener, and a grace period.

use std::{convert::Infallible, future::Future, time::Duration};

use tokio::sync::{mpsc, watch};
use tracing::Instrument;

/// Where the tasks of an owner are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    Draining,
    Ended,
}

/// Held by every task: hears the signal, and is counted while it lives.
#[derive(Clone)]
pub(crate) struct Life {
    phase: watch::Receiver<Phase>,
    _alive: mpsc::Sender<Infallible>,
}

/// Gives the signal and waits for the tasks. Dropping it ends them at once.
pub(crate) struct LifeOwner {
    phase: watch::Sender<Phase>,
    alive: mpsc::Receiver<Infallible>,
    life: Option<Life>,
    grace: Duration,
}

/// How long tasks may take to be dropped once they were told that grace is over.
const ABORT_WAIT: Duration = Duration::from_secs(1);

impl LifeOwner {
    pub(crate) fn new(grace: Duration) -> Self {
        let (phase, phases) = watch::channel(Phase::Running);
        let (sender, alive) = mpsc::channel(1);
        Self { phase, alive, life: Some(Life { phase: phases, _alive: sender }), grace }
    }

    /// A handle for tasks.
    pub(crate) fn life(&self) -> Life {
        self.life.clone().expect("only `end`, which takes the owner, removes it")
    }

    /// Signals, waits for the grace period, ends what is left, waits until it is gone.
    pub(crate) async fn end(mut self) {
        self.life = None;
        self.phase.send_replace(Phase::Draining);
        if tokio::time::timeout(self.grace, self.alive.recv()).await.is_err() {
            self.phase.send_replace(Phase::Ended);
            if tokio::time::timeout(ABORT_WAIT, self.alive.recv()).await.is_err() {
                tracing::warn!("tasks of a listener did not end");
            }
        }
    }
}

impl Life {
    async fn reached(&self, phase: Phase) {
        // An owner that is gone has ended everything.
        let _ = self.phase.clone().wait_for(|now| *now >= phase).await;
    }

    /// Resolves when no new work is to be taken.
    pub(crate) async fn draining(&self) {
        self.reached(Phase::Draining).await;
    }

    /// Runs a task, in the span of whoever starts it, that is dropped when the grace period is over.
    pub(crate) fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let life = self.clone();
        let until_ended = async move {
            tokio::select! {
                () = task => {}
                () = life.reached(Phase::Ended) => {}
            }
            drop(life);
        };
        tokio::spawn(until_ended.in_current_span());
    }
}

/// Lets hyper spawn the streams of an HTTP/2 connection as tasks of ours.
#[derive(Clone)]
pub(crate) struct LifeExecutor(pub(crate) Life);

impl<F> hyper::rt::Executor<F> for LifeExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, task: F) {
        self.0.spawn(async move {
            task.await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_waits_for_grace_and_then_drops_tasks() {
        let owner = LifeOwner::new(Duration::from_millis(50));
        let (polite, stubborn) = (owner.life(), owner.life());
        let (done, mut was_done) = mpsc::channel::<()>(1);
        owner.life().spawn(async move {
            polite.draining().await;
            drop(done);
        });
        let (held, mut dropped) = mpsc::channel::<()>(1);
        stubborn.spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        drop(stubborn);
        owner.end().await;
        assert!(was_done.recv().await.is_none() && dropped.recv().await.is_none());
    }
}
