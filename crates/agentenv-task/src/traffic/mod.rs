//! The captured traffic of deploys, on its way into the store (CAP-5..7).
//!
//! A [`CaptureSource`] gives the files of one deploy, wherever they are now; a `Collection` stores them one by one. What is
//! written in which order, so that a death at any point leaves nothing that cannot be reached:
//!
//! 1. the record names the universe and what is about to be stored,
//! 2. the universe is made,
//! 3. for each file: downloaded to a file without a name; stored, which puts it into its universe; named in the universe's
//!    document; named on the record. The next download begins after that.
//! 4. the record says whether that was all.
//!
//! A death between 3's parts leaves a stored file that its universe has and the record has not: [`TrafficCaptures`] is
//! reconciled with the universe whenever a record is read. A file that grew since it was stored is stored anew, its
//! reference is replaced, and at the end of the pass the shorter one is forgotten.

mod collect;
mod entry;
mod ledger;
mod places;
mod rescue;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use collect::{Collected, Collection};
pub(crate) use entry::artifact_name;
pub use entry::{CaptureLeft, CollectionStatus, StoredCapture, TRAFFIC_CAPTURES_KEY, TrafficCaptures, gaps};
pub(crate) use ledger::{DeployLedger, Ledger, RunLedger};
pub use places::open_captures;
pub use rescue::{RescueError, Rescued, captures_outside};
pub use source::{CaptureError, CaptureSource, OpenCapture};
