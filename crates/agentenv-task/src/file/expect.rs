//! What `check` steps expect.

use agentenv_protocol::Name;
use regex::Regex;

use super::{
    reader::{Section, list},
    steps::program,
};
use crate::{
    action::Check,
    check::{Expectation, Pointer, Test, ValueAt},
};

/// The keys of an expectation that say what a value must be like.
const TESTS: [&str; 7] = ["equals", "contains", "equals_value_at", "contains_value_at", "matches", "exists", "length"];

/// Parses what a check step checks.
pub(super) fn check(section: &Section<'_>) -> Option<Check> {
    let source = section.source();
    let own = section.has("website");
    let ways = usize::from(own) + usize::from(section.has("expect")) + usize::from(section.has("command"));
    if ways != 1 {
        let message = if ways == 0 { "a check step checks nothing" } else { "a check step checks in several ways" };
        let accepted =
            "accepted is one of `website` with `pointer` and a test, `[[step.expect]]` tables of these, or `command`";
        source.problem(section.at(), message, accepted);
    }
    if section.has("command") {
        return program(section).map(Check::Command);
    }
    if own {
        return expectation(section).map(|one| Check::Data(vec![one]));
    }
    let sections = section.tables("expect", "an expectation")?;
    if sections.is_empty() {
        source.problem(section.at(), "`expect` is empty", "add a `[[step.expect]]`");
    }
    let mut all = Vec::new();
    for section in &sections {
        all.extend(expectation(section));
        section.finish();
    }
    Some(Check::Data(all))
}

fn expectation(section: &Section<'_>) -> Option<Expectation> {
    let at = value_at(section);
    let written: Vec<&str> = TESTS.into_iter().filter(|test| section.has(test)).collect();
    if written.len() != 1 {
        let message = match written.as_slice() {
            [] => "the expectation has no test".to_owned(),
            several => format!("the expectation has several tests: {}", list(several)),
        };
        section.source().problem(section.at(), message, format!("accepted is one of {}", list(&TESTS)));
    }
    let equals = section.json("equals").map(|value| Test::Equals(value.value));
    let contains = section.json("contains").map(|value| Test::Contains(value.value));
    let equals_at = other(section, "equals_value_at").map(Test::EqualsValueAt);
    let contains_at = other(section, "contains_value_at").map(Test::ContainsValueAt);
    let matches = section.parsed("matches", pattern).map(|pattern| Test::Matches(pattern.value));
    let exists = section.boolean("exists").map(|exists| Test::Exists(exists.value));
    let length = section.integer("length").and_then(|length| {
        let whole = u64::try_from(length.value).ok();
        if whole.is_none() {
            section.source().problem(length.at, format!("`length` is {}", length.value), "accepted is 0 or more");
        }
        whole.map(Test::Length)
    });
    let test = equals.or(contains).or(equals_at).or(contains_at).or(matches).or(exists).or(length);
    Some(Expectation { at: at?, test: test? })
}

fn pattern(text: &str) -> Result<Regex, String> {
    // The first lines of the parser's message draw the pattern; the last one says what is wrong.
    Regex::new(text).map_err(|error| {
        let text_of_error = error.to_string();
        let reason = text_of_error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        format!("`{text}` is not a pattern: {reason}")
    })
}

fn other(section: &Section<'_>, key: &'static str) -> Option<ValueAt> {
    let other = section.section(key, &format!("`{key}`"))?;
    let at = value_at(&other);
    other.finish();
    at
}

fn value_at(section: &Section<'_>) -> Option<ValueAt> {
    let website = section.required_parsed("website", Name::parse);
    let selector = section.json("selector").map(|selector| selector.value);
    let pointer = section.parsed("pointer", Pointer::parse);
    if pointer.is_none() && section.has("pointer") {
        return None;
    }
    let pointer = pointer.map(|pointer| pointer.value).unwrap_or_default();
    Some(ValueAt { website: website?.value, selector, pointer })
}
