//! A request to stop early: a signal, most often.

use tokio::sync::watch;

/// Asks a run to stop.
#[derive(Debug)]
pub struct StopSender(watch::Sender<Option<&'static str>>);

/// Hears the request.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Option<&'static str>>);

/// Makes a pair.
pub fn stop() -> (StopSender, Stop) {
    let (sender, receiver) = watch::channel(None);
    (StopSender(sender), Stop(receiver))
}

impl StopSender {
    /// Asks, saying why: `SIGINT`. Asking again changes nothing.
    pub fn ask(&self, why: &'static str) {
        self.0.send_if_modified(|asked| {
            let first = asked.is_none();
            asked.get_or_insert(why);
            first
        });
    }
}

impl Stop {
    /// Returns why, once somebody asks; never, where nobody can any more.
    pub async fn asked(&self) -> &'static str {
        let mut receiver = self.0.clone();
        match receiver.wait_for(Option::is_some).await {
            Ok(why) => why.unwrap_or("a request"),
            Err(_) => std::future::pending().await,
        }
    }

    /// Why, if somebody has asked.
    pub fn is_asked(&self) -> Option<&'static str> {
        *self.0.borrow()
    }
}
