//! Storing the captures of one deploy, one by one, each on record before the next (CAP-6).

use std::time::Duration;

use agentenv_protocol::{TrafficCapture, TrafficCaptureListing};
use tokio::time::timeout;

use super::{CaptureError, CaptureSource, CollectionStatus, Ledger, TrafficCaptures, artifact_name};
use crate::{
    record::ArtifactRecord,
    run_log::LogError,
    universes::{NewCapture, Universes},
};

/// How long the end of a collection that was cut short may take: a few reads and writes of the database.
const SETTLE_LIMIT: Duration = Duration::from_secs(15);
/// What a record says while files are being stored; it stays where the collector dies.
const GOES_ON: &str = "the collection was begun and has not ended";

/// One pass over the captures of a deploy.
pub(crate) struct Collection<'a> {
    pub source: &'a dyn CaptureSource,
    pub universes: &'a dyn Universes,
    pub ledger: &'a mut dyn Ledger,
}

/// What a pass came to.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// What is on record now; none where there was nothing to collect and nothing was ever collected.
    pub entry: Option<TrafficCaptures>,
    /// Why not everything is stored.
    pub reason: Option<String>,
    /// How many files this pass stored.
    pub stored: usize,
    /// Whether all of that is on record indeed: what is not is not stored, as far as anybody can tell.
    pub kept: bool,
}

/// A pass that goes on.
struct Pass<'a> {
    universes: &'a dyn Universes,
    ledger: &'a mut dyn Ledger,
    entry: Option<TrafficCaptures>,
    /// What the source has; none while that is unknown.
    listing: Option<TrafficCaptureListing>,
    stored: usize,
    /// Whether something is to be put on record at the end.
    changed: bool,
}

impl Collection<'_> {
    /// Stores what is there and not yet stored. `cut` ends it early, with the reason; whatever happens, what was stored is on
    /// record afterwards, and the record says whether it was all.
    pub async fn run(self, cut: impl Future<Output = String>) -> Collected {
        let mut pass = Pass::new(self.universes, self.ledger);
        let done = tokio::select! {
            biased;
            done = pass.go(self.source) => done,
            why = cut => Err(why),
        };
        pass.end(done).await
    }

    /// Puts on record that the captures cannot be reached.
    pub async fn unreachable(universes: &dyn Universes, ledger: &mut dyn Ledger, reason: String) -> Collected {
        Pass::new(universes, ledger).end(Err(reason)).await
    }
}

impl<'a> Pass<'a> {
    fn new(universes: &'a dyn Universes, ledger: &'a mut dyn Ledger) -> Self {
        let entry = ledger.entry();
        Self { universes, ledger, entry, listing: None, stored: 0, changed: false }
    }

    async fn go(&mut self, source: &dyn CaptureSource) -> Result<(), String> {
        let listing = source.list().await.map_err(|error| format!("the captures cannot be listed: {error}"))?;
        if self.entry.is_none() && listing.captures.is_empty() {
            return Ok(());
        }
        let missing = self.begin(listing).await?;
        let count = missing.len();
        for (place, capture) in missing.iter().enumerate() {
            self.ledger.say(format!("storing {} ({} of {count})", capture.id, place + 1));
            self.one(source, capture).await?;
        }
        Ok(())
    }

    /// Puts on record what is about to be stored, and where; then makes the universe.
    async fn begin(&mut self, listing: TrafficCaptureListing) -> Result<Vec<TrafficCapture>, String> {
        let known = self.entry.is_some();
        let mut entry = self.entry.clone().unwrap_or_else(|| TrafficCaptures::new(self.ledger.deploy().clone()));
        let universe = match known {
            true => self.universes.universe(&entry.universe_id).await.map_err(|error| kept(&error))?,
            false => None,
        };
        // From here on nothing waits until all of it is in place: a cut finds either the old or the new.
        let before = entry.clone();
        for artifact in universe.iter().flat_map(|universe| self.take_in(&mut entry, &universe.artifacts)) {
            tracing::debug!(artifact, "a capture is stored twice, until the end of this collection");
        }
        let missing = entry.look(&listing);
        self.listing = Some(listing);
        self.changed |= !known || entry != before || entry.status != CollectionStatus::Complete;
        if missing.is_empty() && known {
            self.entry = Some(entry);
            return Ok(missing);
        }
        entry.status = CollectionStatus::Partial;
        entry.reason = Some(GOES_ON.to_owned());
        self.changed = true;
        let entry = self.entry.insert(entry);
        self.ledger.save(entry).await.map_err(|error| kept(&error))?;
        let document = entry.document();
        self.universes
            .create_universe(&self.ledger.holder(), &entry.universe_id, &document)
            .await
            .map_err(|error| kept(&error))?;
        if known {
            self.universes.update_universe(&entry.universe_id, &document).await.map_err(|error| kept(&error))?;
        }
        Ok(missing)
    }

    /// Takes in what the universe has and the record has not; returns what longer files replace.
    fn take_in(&mut self, entry: &mut TrafficCaptures, universe: &[ArtifactRecord]) -> Vec<String> {
        let found = entry.reconcile(universe);
        let step = self.ledger.step();
        for artifact in &found.superseded {
            self.ledger.replaced(artifact);
        }
        for artifact in found.new {
            self.ledger.stored(ArtifactRecord { step, ..artifact });
        }
        found.superseded
    }

    async fn one(&mut self, source: &dyn CaptureSource, capture: &TrafficCapture) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", capture.id);
        let Some(entry) = &mut self.entry else { return Ok(()) };
        let opened = match source.open(capture).await {
            Ok(opened) => opened,
            Err(CaptureError::RotatedAway) => {
                entry.lose(capture.id.clone());
                return self.keep().await;
            }
            Err(error) => return Err(failed(&error)),
        };
        let new = NewCapture {
            name: artifact_name(&capture.id),
            universe: entry.universe_id.clone(),
            step: self.ledger.step(),
            file: opened.file,
            bytes: capture.bytes,
            path: opened.path,
        };
        let artifact = self.universes.put_capture(&self.ledger.holder(), new).await.map_err(|error| failed(&error))?;
        let replaced = entry.add(capture, &artifact);
        if let Some(replaced) = &replaced {
            self.ledger.replaced(replaced);
        }
        self.ledger.stored(artifact);
        self.stored += 1;
        self.keep().await
    }

    /// Puts the progress on record: the universe's document first, then the record.
    async fn keep(&mut self) -> Result<(), String> {
        let Some(entry) = &self.entry else { return Ok(()) };
        self.universes.update_universe(&entry.universe_id, &entry.document()).await.map_err(|error| kept(&error))?;
        self.ledger.save(entry).await.map_err(|error| kept(&error))
    }

    async fn end(mut self, done: Result<(), String>) -> Collected {
        let failed = done.err();
        if self.entry.is_none() && failed.is_some() {
            // There may be captures, and nobody knows: that is a partial collection of nothing.
            self.entry = Some(TrafficCaptures::new(self.ledger.deploy().clone()));
        }
        self.changed |= failed.is_some();
        let settled = timeout(SETTLE_LIMIT, self.settle(failed.as_deref())).await;
        let unkept = settled.unwrap_or_else(|_| Err("the store does not answer".to_owned())).err();
        let Some(entry) = self.entry else { return Collected::default() };
        Collected {
            kept: unkept.is_none(),
            reason: failed.or(unkept).or_else(|| entry.reason.clone()),
            stored: self.stored,
            entry: Some(entry),
        }
    }

    /// Writes how it ended, after a look at what a cut left in the universe.
    async fn settle(&mut self, failed: Option<&str>) -> Result<(), String> {
        let Some(mut entry) = self.entry.clone() else { return Ok(()) };
        let universe = self.universes.universe(&entry.universe_id).await;
        let mut superseded = Vec::new();
        if let Ok(Some(universe)) = &universe {
            superseded = self.take_in(&mut entry, &universe.artifacts);
        }
        if let Some(listing) = &self.listing {
            entry.look(listing);
        }
        entry.reason = failed.map(str::to_owned).or_else(|| entry.loss());
        entry.status = if entry.reason.is_none() { CollectionStatus::Complete } else { CollectionStatus::Partial };
        let entry = self.entry.insert(entry);
        if self.changed {
            let document = entry.document();
            let known = match universe {
                Ok(None) => Ok(()),
                Ok(Some(_)) => self.universes.update_universe(&entry.universe_id, &document).await,
                Err(error) => Err(error),
            };
            if let Err(error) = &known {
                entry.status = CollectionStatus::Partial;
                entry.reason.get_or_insert_with(|| kept(error));
            }
            self.ledger.save(entry).await.map_err(|error| kept(&error))?;
            self.universes
                .create_universe(&self.ledger.holder(), &entry.universe_id, &document)
                .await
                .map_err(|error| kept(&error))?;
            known.map_err(|error| kept(&error))?;
        }
        for artifact in superseded {
            // No record names it any more. Where it cannot be forgotten it stays in its universe, and the next pass tries.
            if let Err(error) = self.universes.remove_artifact(&artifact).await {
                tracing::debug!(artifact, %error, "a replaced capture stays in its universe");
            }
        }
        Ok(())
    }
}

fn kept(error: &LogError) -> String {
    format!("its progress could not be put on record: {error}")
}
