//! Waiting for what another process does.

use std::{
    thread,
    time::{Duration, Instant},
};

/// How long anything may take that should be there at once: generous, since two cores run several Chromiums.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Other processes' state has no event to wait for; this often it is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The value that `look` finds, once it finds one.
#[track_caller]
pub fn eventually<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < limit, "after {limit:?} still not: {what}");
        thread::park_timeout(LOOK);
    }
}
