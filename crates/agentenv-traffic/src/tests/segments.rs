//! However a conversation is cut into segments, and in whatever order they come: it is the same conversation.

use proptest::prelude::*;

use super::loss::{pipelined, polite};
use crate::{
    record::Flag,
    testing::{Read, Sent, Talk, lines, read},
};

/// How far from its place a segment may come.
const JITTER: usize = 12;

/// How a conversation is disturbed.
#[derive(Clone, Debug)]
pub(super) struct Disturbed {
    segment: usize,
    places: Vec<usize>,
    again: Vec<usize>,
}

pub(super) fn disturbed() -> impl Strategy<Value = Disturbed> {
    let places = proptest::collection::vec(0..JITTER, 1..60);
    let again = proptest::collection::vec(0..1000usize, 0..30);
    (1..200usize, places, again).prop_map(|(segment, places, again)| Disturbed { segment, places, again })
}

pub(super) fn disturb(sent: &[Sent], how: &Disturbed) -> Vec<Sent> {
    let mut keyed: Vec<(usize, &Sent)> =
        sent.iter().enumerate().map(|(at, sent)| (at + how.places[at % how.places.len()], sent)).collect();
    for again in &how.again {
        let at = again % sent.len();
        keyed.push((at + how.places[again % how.places.len()] + 1, &sent[at]));
    }
    keyed.sort_by_key(|(place, _)| *place);
    keyed.into_iter().map(|(_, sent)| sent.clone()).collect()
}

fn same(read: &Read, talk: &Talk) -> Result<(), TestCaseError> {
    prop_assert_eq!(lines(read), lines(&crate::testing::read(&talk.sent)));
    prop_assert_eq!(read.flows.len(), 1);
    prop_assert_eq!(read.flows[0].lost_bytes, 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn order_and_repetition_change_nothing(how in disturbed(), pipeline: bool) {
        let talk = if pipeline { pipelined(how.segment) } else { polite(how.segment) };
        let whole = read(&talk.sent);
        prop_assert!(whole.exchanges.iter().all(|exchange| exchange.flags.is_empty()), "{:?}", lines(&whole));
        same(&read(&disturb(&talk.sent, &how)), &talk)?;
    }

    #[test]
    fn segmentation_changes_nothing(first in 1..400usize, second in 1..400usize) {
        let lines_of = |segment| lines(&read(&polite(segment).sent));
        prop_assert_eq!(lines_of(first), lines_of(second));
    }

    /// Without its handshake the first exchange is flagged, and nothing else changes.
    #[test]
    fn a_handshake_that_was_not_captured_changes_only_a_flag(how in disturbed(), pipeline: bool) {
        let talk = if pipeline { pipelined(2000) } else { polite(2000) };
        let mut read = read(&disturb(&talk.sent[3..], &how));
        if pipeline {
            // Then it isn't known whether there were requests before.
            prop_assert!(read.exchanges.iter().all(|exchange| exchange.flags.iter().any(|flag| {
                matches!(flag, Flag::Unpaired | Flag::Resynchronised)
            })), "{:?}", lines(&read));
        } else {
            prop_assert!(read.exchanges[0].flags.remove(&Flag::Resynchronised), "{:?}", lines(&read));
            same(&read, &talk)?;
        }
    }
}
