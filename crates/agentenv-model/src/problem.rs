//! What is wrong with an env: always everything at once (ENV-2).

use std::fmt;

use agentenv_protocol::{ExitCode, HostError, Name};

/// Where something is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file.
    File {
        /// The file, as it was named.
        file: String,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
    },
    /// In a flag, such as `--domain`.
    Flag(&'static str),
    /// In a stored env.
    Env(Name),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Flag(flag) => f.write_str(flag),
            Self::Env(name) => write!(f, "env `{name}`"),
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What, with the value.
    pub message: String,
    /// What is accepted, or what to do.
    pub hint: String,
}

impl Problem {
    pub(crate) fn new(place: Place, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { place, message: message.into(), hint: hint.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)?;
        if self.hint.is_empty() { Ok(()) } else { write!(f, "; {}", self.hint) }
    }
}

/// Everything that is wrong, at least one thing, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Everything, in order.
    pub fn as_slice(&self) -> &[Problem] {
        &self.0
    }

    /// How a command that ends with these exits.
    pub fn exit(&self) -> ExitCode {
        ExitCode::Refused
    }

    /// The value, if nothing is wrong.
    pub(crate) fn check<T>(value: T, problems: Vec<Problem>) -> Result<T, Self> {
        if problems.is_empty() { Ok(value) } else { Err(Self::of(problems)) }
    }

    /// Takes at least one problem.
    pub(crate) fn of(mut problems: Vec<Problem>) -> Self {
        debug_assert!(!problems.is_empty(), "whoever has nothing to say has no problem");
        let rank = |problem: &Problem| match &problem.place {
            Place::File { file, line, column } => (0, file.clone(), *line, *column),
            Place::Flag(_) => (1, String::new(), 0, 0),
            Place::Env(_) => (2, String::new(), 0, 0),
        };
        problems.sort_by_cached_key(rank);
        Self(problems)
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
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

/// What is called `what` is no name.
pub(crate) fn bad_name(place: Place, what: &str, text: &str) -> Problem {
    let hint = "accepted: lower-case letters, digits and `-`, a letter first, 63 characters at most";
    Problem::new(place, format!("{what} is \"{}\"", text.escape_default()), hint)
}

/// What stands under `key` is no host pattern.
pub(crate) fn bad_pattern(place: Place, key: &str, text: &str, error: &HostError) -> Problem {
    let hint = "accepted: a host name such as `shop.test`, or `*.shop.test` for every name below it";
    Problem::new(place, format!("`{key}` has \"{}\": {error}", text.escape_default()), hint)
}

/// ` Did you mean …?`, if one of the words is near.
pub(crate) fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    /// Farther words are no help.
    const MAX_DISTANCE: usize = 2;
    known
        .into_iter()
        .map(|word| (strsim::damerau_levenshtein(given, word), word))
        .filter(|(distance, word)| *distance <= MAX_DISTANCE && *distance < word.len())
        .min()
        .map(|(_, word)| format!("did you mean `{word}`? "))
        .unwrap_or_default()
}

/// Words as people list them.
pub(crate) fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
