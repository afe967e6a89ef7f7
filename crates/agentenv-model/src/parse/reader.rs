//! Reading a TOML tree and collecting what is wrong with it.

use std::{collections::BTreeSet, ops::Range};

use agentenv_protocol::{HostPattern, Name};
use toml_edit::{Array, Item, Table, TableLike, Value};

use crate::{
    Place, Problem,
    problem::{bad_name, bad_pattern, did_you_mean, listed},
};

/// The longest value that a message shows whole.
const MAX_SHOWN_LEN: usize = 60;

/// The text, and what is wrong with it so far.
pub(super) struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    problems: Vec<Problem>,
    warnings: Vec<String>,
}

/// A value and where it is written.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// One key of a table, with its value.
pub(super) struct Found<'a> {
    pub(super) item: &'a Item,
    /// As people write it: `server.port`.
    pub(super) path: String,
    key_span: Option<Range<usize>>,
}

impl Found<'_> {
    /// Where the value is, or its key where a table has no place of its own.
    pub(super) fn span(&self) -> Option<Range<usize>> {
        self.item.span().or_else(|| self.key_span.clone())
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, problems: Vec::new(), warnings: Vec::new() }
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    pub(super) fn problem(&mut self, place: Place, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.push(Problem::new(place, message, hint));
    }

    pub(super) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    pub(super) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    pub(super) fn problem_count(&self) -> usize {
        self.problems.len()
    }

    /// The start of the file, for what is missing.
    pub(super) fn start(&self) -> Place {
        self.place(Some(0..0))
    }

    pub(super) fn place(&self, span: Option<Range<usize>>) -> Place {
        let offset = span.map_or(0, |span| span.start);
        let before = self.text.get(..offset).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Place::File {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    /// A value as it is written, in one line.
    pub(super) fn shown(&self, item: &Item, span: Option<Range<usize>>) -> String {
        if item.is_table() || item.is_array_of_tables() {
            return "a table".to_owned();
        }
        self.written(span)
    }

    /// The text at a place, in one line.
    pub(super) fn written(&self, span: Option<Range<usize>>) -> String {
        let text = span.and_then(|span| self.text.get(span)).unwrap_or_default();
        let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(MAX_SHOWN_LEN) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }

    /// Notes that a value is not what is accepted.
    pub(super) fn wrong(&mut self, found: &Found<'_>, accepted: &str) {
        let shown = self.shown(found.item, found.span());
        let place = self.place(found.span());
        self.problem(place, format!("`{}` is {shown}", found.path), format!("accepted: {accepted}"));
    }

    pub(super) fn wrong_value(&mut self, path: &str, value: &Value, accepted: &str) {
        let item = Item::Value(value.clone());
        let shown = self.shown(&item, value.span());
        let place = self.place(value.span());
        self.problem(place, format!("`{path}` is {shown}"), format!("accepted: {accepted}"));
    }

    pub(super) fn string(&mut self, found: &Found<'_>, accepted: &str) -> Option<String> {
        let text = found.item.as_str().map(str::to_owned);
        if text.is_none() {
            self.wrong(found, accepted);
        }
        text
    }

    pub(super) fn boolean(&mut self, found: &Found<'_>) -> Option<bool> {
        let value = found.item.as_bool();
        if value.is_none() {
            self.wrong(found, "`true` or `false`");
        }
        value
    }

    pub(super) fn integer(&mut self, found: &Found<'_>, range: std::ops::RangeInclusive<u32>) -> Option<u32> {
        let value = found.item.as_integer().and_then(|value| u32::try_from(value).ok()).filter(|v| range.contains(v));
        if value.is_none() {
            self.wrong(found, &format!("an integer from {} to {}", range.start(), range.end()));
        }
        value
    }

    pub(super) fn port(&mut self, found: &Found<'_>) -> Option<At<u16>> {
        let port = self.integer(found, 1..=u32::from(u16::MAX))?;
        Some(At { value: u16::try_from(port).ok()?, place: self.place(found.span()) })
    }

    pub(super) fn array<'b>(&mut self, found: &Found<'b>, accepted: &str) -> Option<&'b Array> {
        let array = found.item.as_array();
        if array.is_none() {
            self.wrong(found, accepted);
        }
        array
    }

    /// The strings of an array; what is not one is noted and left out.
    pub(super) fn strings(&mut self, found: &Found<'_>, accepted: &str) -> Vec<At<String>> {
        let Some(array) = self.array(found, accepted) else { return Vec::new() };
        let mut strings = Vec::new();
        for (index, value) in array.iter().enumerate() {
            match value.as_str() {
                Some(text) => strings.push(At { value: text.to_owned(), place: self.place(value.span()) }),
                None => self.wrong_value(&format!("{}[{index}]", found.path), value, "a string"),
            }
        }
        strings
    }

    /// Program and arguments.
    pub(super) fn command(&mut self, found: &Found<'_>) -> Option<Vec<String>> {
        const ACCEPTED: &str =
            "an array of a program and its arguments, such as [\"./bin/shop\", \"--quiet\"]; no shell runs it";
        let before = self.problems.len();
        let words = self.strings(found, ACCEPTED);
        if self.problems.len() > before {
            return None;
        }
        if words.first().is_none_or(|program| program.value.is_empty())
            || words.iter().any(|word| word.value.contains('\0'))
        {
            self.wrong(found, ACCEPTED);
            return None;
        }
        Some(words.into_iter().map(|word| word.value).collect())
    }

    pub(super) fn name(&mut self, text: &str, what: &str, place: Place) -> Option<Name> {
        let name = Name::parse(text).ok();
        if name.is_none() {
            self.problems.push(bad_name(place, what, text));
        }
        name
    }

    /// Host patterns; a bad one or one that is there twice is noted and left out.
    pub(super) fn patterns(&mut self, path: &str, texts: Vec<At<String>>) -> Vec<HostPattern> {
        let mut patterns: Vec<HostPattern> = Vec::new();
        for At { value: text, place } in texts {
            match HostPattern::parse(&text) {
                Ok(pattern) if patterns.contains(&pattern) => {
                    self.problem(place, format!("`{path}` has `{pattern}` twice"), "accepted: each once");
                }
                Ok(pattern) => patterns.push(pattern),
                Err(error) => self.problems.push(bad_pattern(place, path, &text, &error)),
            }
        }
        patterns
    }

    pub(super) fn section<'b>(&mut self, found: &Found<'b>, accepted: &str) -> Option<Section<'b>> {
        match found.item.as_table_like() {
            Some(table) => {
                Some(Section { table, path: found.path.clone(), span: found.span(), known: BTreeSet::new() })
            }
            None => {
                self.wrong(found, accepted);
                None
            }
        }
    }
}

/// A table, and which of its keys were asked for.
pub(super) struct Section<'a> {
    table: &'a dyn TableLike,
    path: String,
    span: Option<Range<usize>>,
    known: BTreeSet<&'static str>,
}

impl<'a> Section<'a> {
    pub(super) fn root(table: &'a Table) -> Self {
        Self { table, path: String::new(), span: Some(0..0), known: BTreeSet::new() }
    }

    /// A table inside an array, which has an index for a name.
    pub(super) fn inline(table: &'a dyn TableLike, path: String, span: Option<Range<usize>>) -> Self {
        Self { table, path, span, known: BTreeSet::new() }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Where the table begins.
    pub(super) fn place(&self, reader: &Reader<'_>) -> Place {
        reader.place(self.span.clone())
    }

    fn found(&self, key: &str) -> Option<Found<'a>> {
        let (key, item) = self.table.get_key_value(key)?;
        let path = if self.path.is_empty() { key.get().to_owned() } else { format!("{}.{}", self.path, key.get()) };
        Some(Found { item, path, key_span: key.span() })
    }

    /// The value of a key, which is known from here on.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Found<'a>> {
        self.known.insert(key);
        self.found(key)
    }

    /// The value of a key that has to be there.
    pub(super) fn require(&mut self, reader: &mut Reader<'_>, key: &'static str, accepted: &str) -> Option<Found<'a>> {
        let found = self.take(key);
        if found.is_none() {
            let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
            reader.problem(self.place(reader), format!("`{path}` is missing"), format!("accepted: {accepted}"));
        }
        found
    }

    /// Every key, for tables whose keys are the user's own.
    pub(super) fn entries(&self) -> Vec<(String, Found<'a>)> {
        self.table.iter().filter_map(|(key, _)| Some((key.to_owned(), self.found(key)?))).collect()
    }

    /// Where a key is written.
    pub(super) fn key_place(reader: &Reader<'_>, found: &Found<'_>) -> Place {
        reader.place(found.key_span.clone().or_else(|| found.span()))
    }

    /// Notes every key that nobody asked for.
    pub(super) fn finish(self, reader: &mut Reader<'_>) {
        for (key, found) in self.entries() {
            if !self.known.contains(key.as_str()) {
                let hint = format!(
                    "{}accepted: {}",
                    did_you_mean(&key, self.known.iter().copied()),
                    listed(self.known.iter().copied())
                );
                let place = Self::key_place(reader, &found);
                reader.problem(place, format!("`{}` is not a key", found.path.escape_debug()), hint);
            }
        }
    }
}
