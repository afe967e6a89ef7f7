//! Which part of a file a request is for, if any: RFC 9110, sections 13 and 14.

use std::ops::Range;

use http::{HeaderMap, HeaderName, Method, header};

/// What to answer to a request for a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// 200.
    Whole,
    /// 206.
    Part(Range<u64>),
    /// 304.
    NotModified,
    /// 412.
    PreconditionFailed,
    /// 416.
    Unsatisfiable,
}

/// Decides what is given of a file of this length whose entity tag is `etag`, quotes included. It has no date.
pub(super) fn answer(method: &Method, headers: &HeaderMap, etag: &str, length: u64) -> Answer {
    if headers.contains_key(header::IF_MATCH) && !names(headers, header::IF_MATCH, |tag| tag == etag) {
        return Answer::PreconditionFailed;
    }
    // Compared weakly: of the same bytes both say the same.
    if names(headers, header::IF_NONE_MATCH, |tag| tag.strip_prefix("W/").unwrap_or(tag) == etag) {
        return Answer::NotModified;
    }
    // Ranges are defined for GET alone; a validator that isn't this tag asks for the whole.
    if *method != Method::GET || headers.get(header::IF_RANGE).is_some_and(|tag| tag.as_bytes() != etag.as_bytes()) {
        return Answer::Whole;
    }
    let mut ranges = headers.get_all(header::RANGE).into_iter();
    match (ranges.next().and_then(|value| value.to_str().ok()), ranges.next()) {
        (Some(range), None) => part(range, length),
        _ => Answer::Whole,
    }
}

/// Whether one of a list's entity tags, or `*`, fits. Our tags are digits and `-`: nothing else can look like one.
fn names(headers: &HeaderMap, name: HeaderName, fits: impl Fn(&str) -> bool) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).any(|tag| tag == "*" || fits(tag))
}

/// One range of bytes. What is no valid range, another unit and several ranges are ignored, as a server may.
fn part(range: &str, length: u64) -> Answer {
    let Some((unit, range)) = range.split_once('=') else { return Answer::Whole };
    let Some((first, last)) = range.trim().split_once('-') else { return Answer::Whole };
    let end = match (number(first), number(last)) {
        _ if !unit.eq_ignore_ascii_case("bytes") => return Answer::Whole,
        (Some(first), Some(last)) if first <= last => last.saturating_add(1).min(length),
        (Some(_), None) if last.is_empty() => length,
        // The last so many.
        (None, Some(count)) if first.is_empty() => {
            let start = length.saturating_sub(count);
            return if start < length { Answer::Part(start..length) } else { Answer::Unsatisfiable };
        }
        _ => return Answer::Whole,
    };
    match number(first) {
        Some(first) if first < length => Answer::Part(first..end),
        _ => Answer::Unsatisfiable,
    }
}

/// Digits; what doesn't fit is beyond the end of every file.
fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TAG: &str = "\"3-100\"";

    fn ask(method: &Method, fields: &[(HeaderName, &str)], length: u64) -> Answer {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(name, value.parse().unwrap());
        }
        answer(method, &headers, TAG, length)
    }

    #[test]
    fn one_range_is_given_and_what_is_no_range_is_ignored() {
        for (range, expected) in [
            ("bytes=0-0", Answer::Part(0..1)),
            ("bytes=0-", Answer::Part(0..100)),
            ("bytes=40-59", Answer::Part(40..60)),
            ("Bytes=99-99999999999999999999999", Answer::Part(99..100)),
            ("bytes=-30", Answer::Part(70..100)),
            ("bytes=-300", Answer::Part(0..100)),
            ("bytes=100-", Answer::Unsatisfiable),
            ("bytes=100-200", Answer::Unsatisfiable),
            ("bytes=99999999999999999999999-", Answer::Unsatisfiable),
            ("bytes=-0", Answer::Unsatisfiable),
            ("bytes=5-4", Answer::Whole),
            ("bytes=-", Answer::Whole),
            ("bytes=+1-2", Answer::Whole),
            ("bytes=1-2x", Answer::Whole),
            ("bytes=x-2", Answer::Whole),
            ("bytes=1-2, 4-5", Answer::Whole),
            ("bytes=0x1-", Answer::Whole),
            ("bytes", Answer::Whole),
            ("records=1-2", Answer::Whole),
            ("", Answer::Whole),
        ] {
            assert_eq!(ask(&Method::GET, &[(header::RANGE, range)], 100), expected, "{range}");
            assert_eq!(ask(&Method::HEAD, &[(header::RANGE, range)], 100), Answer::Whole, "HEAD has no ranges");
        }
        for range in ["bytes=0-", "bytes=0-0", "bytes=-5"] {
            assert_eq!(ask(&Method::GET, &[(header::RANGE, range)], 0), Answer::Unsatisfiable, "nothing is there");
        }
        let twice = [(header::RANGE, "bytes=0-1"), (header::RANGE, "bytes=2-3")];
        assert_eq!(ask(&Method::GET, &twice, 100), Answer::Whole);
    }

    #[test]
    fn conditions_in_their_order() {
        let (range, old) = ((header::RANGE, "bytes=0-1"), "\"3-50\"");
        for (fields, expected) in [
            (vec![(header::IF_NONE_MATCH, TAG)], Answer::NotModified),
            (vec![(header::IF_NONE_MATCH, "\"a\", W/\"3-100\"")], Answer::NotModified),
            (vec![(header::IF_NONE_MATCH, old), (header::IF_NONE_MATCH, TAG)], Answer::NotModified),
            (vec![(header::IF_NONE_MATCH, "*")], Answer::NotModified),
            (vec![(header::IF_NONE_MATCH, TAG), range.clone()], Answer::NotModified),
            (vec![(header::IF_NONE_MATCH, old), range.clone()], Answer::Part(0..2)),
            (vec![(header::IF_NONE_MATCH, "3-100")], Answer::Whole),
            (vec![(header::IF_RANGE, TAG), range.clone()], Answer::Part(0..2)),
            (vec![(header::IF_RANGE, old), range.clone()], Answer::Whole),
            (vec![(header::IF_RANGE, "W/\"3-100\""), range.clone()], Answer::Whole),
            (vec![(header::IF_RANGE, "Sun, 29 Nov 2026 00:00:00 GMT"), range.clone()], Answer::Whole),
            (vec![(header::IF_RANGE, old), (header::RANGE, "bytes=500-")], Answer::Whole),
            (vec![(header::IF_MATCH, old)], Answer::PreconditionFailed),
            (vec![(header::IF_MATCH, "W/\"3-100\"")], Answer::PreconditionFailed),
            (vec![(header::IF_MATCH, old), (header::IF_NONE_MATCH, TAG)], Answer::PreconditionFailed),
            (vec![(header::IF_MATCH, "*")], Answer::Whole),
            (vec![(header::IF_MATCH, TAG), range], Answer::Part(0..2)),
        ] {
            assert_eq!(ask(&Method::GET, &fields, 100), expected, "{fields:?}");
        }
    }

    proptest! {
        #[test]
        fn a_part_is_never_empty_nor_outside_of_the_file(range in "(bytes=)?[0-9, -]{0,24}|\\PC{0,24}", length in 0..200u64) {
            if let Answer::Part(part) = part(&range, length) {
                prop_assert!(part.start < part.end && part.end <= length, "{range} of {length}: {part:?}");
            }
        }
    }
}
