//! Several rings as one timeline.

use std::io::Read;

use crate::{
    note::TrafficError,
    reader::{CaptureFile, RingTraffic, Summary},
    record::Record,
};

/// Makes one timeline of rings.
pub fn merge<I, R>(rings: Vec<RingTraffic<I, R>>) -> Merged<I, R>
where
    I: Iterator<Item = Result<CaptureFile<R>, TrafficError>>,
    R: Read,
{
    Merged { rings: rings.into_iter().map(|ring| (ring, None)).collect() }
}

/// The records of several rings in the order in which they began.
pub struct Merged<I, R: Read> {
    /// Each with its next record.
    rings: Vec<(RingTraffic<I, R>, Option<Record>)>,
}

impl<I, R> Merged<I, R>
where
    I: Iterator<Item = Result<CaptureFile<R>, TrafficError>>,
    R: Read,
{
    /// What was read of each ring so far.
    pub fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.rings.iter().map(|(ring, _)| ring.summary())
    }
}

impl<I, R> Iterator for Merged<I, R>
where
    I: Iterator<Item = Result<CaptureFile<R>, TrafficError>>,
    R: Read,
{
    type Item = Result<Record, TrafficError>;

    fn next(&mut self) -> Option<Self::Item> {
        for (ring, next) in &mut self.rings {
            if next.is_none() {
                match ring.next() {
                    Some(Ok(record)) => *next = Some(record),
                    Some(Err(error)) => return Some(Err(error)),
                    None => {}
                }
            }
        }
        let waiting = self.rings.iter_mut().filter(|(_, next)| next.is_some());
        let first = waiting.min_by_key(|(_, next)| next.as_ref().map(Record::started_us));
        first.and_then(|(_, next)| next.take()).map(Ok)
    }
}
