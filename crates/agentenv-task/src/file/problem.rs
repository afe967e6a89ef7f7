//! What is wrong with a task file, and where.

use std::fmt;

use serde::Serialize;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, naming the value.
    pub message: String,
    /// What is accepted.
    pub accepted: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        if self.accepted.is_empty() { Ok(()) } else { write!(f, "; {}", self.accepted) }
    }
}

/// Everything that is wrong with one task file, in the order of the file; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Takes the list; `None` where nothing is wrong.
    pub(crate) fn of(mut list: Vec<Problem>) -> Option<Self> {
        list.sort_by_key(|problem| (problem.line, problem.column));
        (!list.is_empty()).then_some(Self(list))
    }

    /// The list.
    pub fn list(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A place in a file: line and column, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column in characters.
    pub column: usize,
}

impl Place {
    /// The place of a byte of the text.
    pub(crate) fn of(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }
}

/// The accepted word that was most likely meant, as `did you mean ...`.
pub(crate) fn did_you_mean<'a>(word: &str, accepted: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    accepted
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.chars().count().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The edits (a letter put in, left out, replaced, or swapped with its neighbour) between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_proposed_and_a_far_one_is_not() {
        for (word, expected) in [
            ("timeout", Some("timeout_s")),
            ("goal", Some("goal")),
            ("gaol", Some("goal")),
            ("commnad", Some("command")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(did_you_mean(word, ["timeout_s", "goal", "command"]), expected, "{word}");
        }
    }

    #[test]
    fn places_count_characters_and_survive_any_offset() {
        let text = "a\nüb\n";
        for (byte, line, column) in [(0, 1, 1), (2, 2, 1), (4, 2, 2), (6, 3, 1), (99, 3, 1)] {
            assert_eq!(Place::of(text, byte), Place { line, column }, "{byte}");
        }
    }
}
