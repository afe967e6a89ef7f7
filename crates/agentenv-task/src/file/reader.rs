//! Reads tables of a TOML tree: every wrong value becomes a problem with its place, and reading goes on.

use std::{cell::RefCell, ops::Range, time::Duration};

use serde_json::Value;
use toml_edit::{Item, TableLike, Value as Toml};

use super::{
    json::to_json,
    problem::{Place, Problem, did_you_mean},
};

/// The longest time a step may be given: a week. A longer one is a slip of units.
const LONGEST_TIMEOUT_S: i64 = 7 * 24 * 3600;

/// The file being read, and its problems so far.
pub(crate) struct Source<'a> {
    file: &'a str,
    text: &'a str,
    problems: RefCell<Vec<Problem>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, problems: RefCell::default() }
    }

    pub(crate) fn place(&self, byte: usize) -> Place {
        Place::of(self.text, byte)
    }

    pub(crate) fn problem(&self, byte: usize, message: impl Into<String>, accepted: impl Into<String>) {
        let Place { line, column } = self.place(byte);
        self.problems.borrow_mut().push(Problem {
            file: self.file.to_owned(),
            line,
            column,
            message: message.into(),
            accepted: accepted.into(),
        });
    }

    pub(crate) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }
}

/// A value and the byte where it begins.
#[derive(Clone, Debug)]
pub(crate) struct At<T> {
    pub value: T,
    pub at: usize,
}

/// One table. It remembers what it was asked for; [`Section::finish`] refuses the rest.
pub(crate) struct Section<'a> {
    source: &'a Source<'a>,
    table: &'a dyn TableLike,
    /// How messages call it: `the file`, `a check step`.
    what: String,
    at: usize,
    asked: RefCell<Vec<&'static str>>,
}

pub(super) fn start(span: Option<Range<usize>>) -> usize {
    span.map_or(0, |span| span.start)
}

impl<'a> Section<'a> {
    pub(crate) fn new(source: &'a Source<'a>, table: &'a dyn TableLike, what: impl Into<String>, at: usize) -> Self {
        Self { source, table, what: what.into(), at, asked: RefCell::default() }
    }

    pub(crate) fn source(&self) -> &'a Source<'a> {
        self.source
    }

    /// Where the table begins.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The item of a key and where its value begins.
    pub(crate) fn item(&self, key: &'static str) -> Option<At<&'a Item>> {
        self.asked.borrow_mut().push(key);
        let (key, item) = self.table.get_key_value(key)?;
        Some(At { value: item, at: item.span().or_else(|| key.span()).map_or(self.at, |span| span.start) })
    }

    fn typed<T>(&self, key: &'static str, accepted: &str, take: impl Fn(&'a Item) -> Option<T>) -> Option<At<T>> {
        let item = self.item(key)?;
        let Some(value) = take(item.value) else {
            self.wrong(key, &item, accepted);
            return None;
        };
        Some(At { value, at: item.at })
    }

    /// Says that the value of a key is not what is accepted.
    pub(crate) fn wrong(&self, key: &str, item: &At<&Item>, accepted: &str) {
        let shown = shown(item.value);
        self.source.problem(item.at, format!("`{key}` is {shown}"), format!("accepted is {accepted}"));
    }

    /// Says that a key is missing.
    pub(crate) fn missing(&self, key: &str, accepted: &str) {
        self.source.problem(self.at, format!("{} has no `{key}`", self.what), format!("accepted is {accepted}"));
    }

    fn required<T>(&self, key: &'static str, accepted: &str, value: Option<At<T>>) -> Option<At<T>> {
        if value.is_none() && !self.table.contains_key(key) {
            self.missing(key, accepted);
        }
        value
    }

    pub(crate) fn string(&self, key: &'static str) -> Option<At<String>> {
        self.typed(key, "a string", |item| item.as_str().map(str::to_owned))
    }

    pub(crate) fn required_string(&self, key: &'static str) -> Option<At<String>> {
        self.required(key, "a string", self.string(key))
    }

    pub(crate) fn integer(&self, key: &'static str) -> Option<At<i64>> {
        self.typed(key, "a whole number", Item::as_integer)
    }

    pub(crate) fn boolean(&self, key: &'static str) -> Option<At<bool>> {
        self.typed(key, "`true` or `false`", Item::as_bool)
    }

    /// A time in seconds, as a whole number or a fraction.
    pub(crate) fn seconds(&self, key: &'static str) -> Option<Duration> {
        let accepted = format!("a number of seconds above 0 and up to {LONGEST_TIMEOUT_S}");
        let number = |item: &Item| {
            #[expect(clippy::cast_precision_loss, reason = "seconds of a timeout are far below 2^52")]
            item.as_float().or_else(|| item.as_integer().map(|whole| whole as f64))
        };
        #[expect(clippy::cast_precision_loss, reason = "the limit is far below 2^52")]
        let fits = |seconds: &f64| *seconds > 0.0 && *seconds <= LONGEST_TIMEOUT_S as f64;
        self.typed(key, &accepted, |item| number(item).filter(fits)).map(|at| Duration::from_secs_f64(at.value))
    }

    /// Text parsed by the type's own rule, whose error is the problem.
    pub(crate) fn parsed<T, E: std::fmt::Display>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<At<T>> {
        let text = self.string(key)?;
        self.parse(key, &text, parse)
    }

    pub(crate) fn required_parsed<T, E: std::fmt::Display>(
        &self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<At<T>> {
        let text = self.required_string(key)?;
        self.parse(key, &text, parse)
    }

    fn parse<T, E: std::fmt::Display>(
        &self,
        key: &str,
        text: &At<String>,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<At<T>> {
        match parse(&text.value) {
            Ok(value) => Some(At { value, at: text.at }),
            Err(error) => {
                self.source.problem(text.at, format!("`{key}`: {error}"), "");
                None
            }
        }
    }

    /// A program and its arguments: an array of strings, the first not empty.
    pub(crate) fn command(&self, key: &'static str) -> Option<At<Vec<String>>> {
        let accepted = "an array of strings, the program first, as `[\"python3\", \"agent.py\"]`";
        self.typed(key, accepted, |item| {
            let words: Option<Vec<String>> =
                item.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect();
            words.filter(|words| {
                words.first().is_some_and(|program| !program.is_empty())
                    && words.iter().all(|word| !word.contains('\0'))
            })
        })
    }

    /// A table of strings, each with its key and the key's place.
    pub(crate) fn strings(&self, key: &'static str) -> Option<Vec<(At<String>, String)>> {
        let table = self.entries(key, "a table of strings")?;
        let mut out = Vec::new();
        for (name, item) in table {
            match item.value.as_str() {
                Some(text) => out.push((name, text.to_owned())),
                None => self.wrong(&format!("{key}.{}", name.value), &item, "a string"),
            }
        }
        Some(out)
    }

    /// The entries of a table.
    pub(crate) fn entries(&self, key: &'static str, accepted: &str) -> Option<Vec<(At<String>, At<&'a Item>)>> {
        let table = self.typed(key, accepted, Item::as_table_like)?;
        let at_key = |name: &str| start(table.value.key(name).and_then(toml_edit::Key::span));
        let entry = |(name, item): (&str, &'a Item)| {
            let at = at_key(name);
            let value_at = item.span().map_or(at, |span| span.start);
            (At { value: name.to_owned(), at }, At { value: item, at: value_at })
        };
        Some(table.value.iter().map(entry).collect())
    }

    /// The tables of `[[key]]` or of an array of inline tables.
    pub(crate) fn tables(&self, key: &'static str, what: &str) -> Option<Vec<Section<'a>>> {
        let accepted = format!("tables, each written as `[[{key}]]`");
        let tables = self.typed(key, &accepted, |item| match item {
            Item::ArrayOfTables(array) => {
                Some(array.iter().map(|table| (table as &dyn TableLike, start(table.span()))).collect::<Vec<_>>())
            }
            Item::Value(Toml::Array(array)) => array
                .iter()
                .map(|value| value.as_inline_table().map(|table| (table as &dyn TableLike, start(value.span()))))
                .collect(),
            _ => None,
        })?;
        Some(tables.value.into_iter().map(|(table, at)| Section::new(self.source, table, what, at)).collect())
    }

    /// A value as JSON.
    pub(crate) fn json(&self, key: &'static str) -> Option<At<Value>> {
        let item = self.item(key)?;
        Some(At { value: to_json(self.source, item.value, item.at, 0)?, at: item.at })
    }

    /// A table that may say where to read something.
    pub(crate) fn section(&self, key: &'static str, what: &str) -> Option<Section<'a>> {
        let table = self.typed(key, "a table", Item::as_table_like)?;
        Some(Section::new(self.source, table.value, what, table.at))
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Refuses every key that was not asked for.
    pub(crate) fn finish(&self) {
        let asked = self.asked.borrow();
        for (name, _) in self.table.iter().filter(|(name, _)| !asked.contains(name)) {
            let at = self.table.key(name).and_then(toml_edit::Key::span).map_or(self.at, |span| span.start);
            let mut known: Vec<&str> = asked.clone();
            known.sort_unstable();
            known.dedup();
            let accepted = match did_you_mean(name, known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("accepted are {}", list(&known)),
            };
            self.source.problem(at, format!("{} has no key `{name}`", self.what), accepted);
        }
    }
}

/// Words as `a`, `b` and `c`.
pub(crate) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// How a problem shows a value: its type, and the value where it is short.
fn shown(item: &Item) -> String {
    match item {
        Item::None => "nothing".to_owned(),
        Item::ArrayOfTables(_) => "an array of tables".to_owned(),
        Item::Table(_) | Item::Value(Toml::InlineTable(_)) => "a table".to_owned(),
        Item::Value(Toml::Array(_)) => "an array".to_owned(),
        Item::Value(Toml::String(text)) => {
            format!("the string {}", crate::check::short(&Value::from(text.value().as_str())))
        }
        Item::Value(Toml::Integer(number)) => format!("the number {}", number.value()),
        Item::Value(Toml::Float(number)) => format!("the number {}", number.value()),
        Item::Value(Toml::Boolean(truth)) => format!("`{}`", truth.value()),
        Item::Value(Toml::Datetime(time)) => format!("the date {}", time.value()),
    }
}
