//! What commands print: results to standard output, errors as one sentence with a hint to standard error.

use std::{
    borrow::Cow,
    io::{self, Write as _},
};

use agentenv_protocol::control::ControlError;
use serde::Serialize;

/// How results are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// As JSON instead of text.
    pub(crate) json: bool,
}

impl Output {
    /// Prints a result: one JSON object, or the text.
    pub(crate) fn result(self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), ControlError> {
        if !self.json {
            return print(&harmless(&text()));
        }
        let json = serde_json::to_string(value)
            .map_err(|error| ControlError::infrastructure(format!("the result cannot be written as JSON: {error}")))?;
        print(&json)
    }

    /// Prints an error to standard error.
    pub(crate) fn error(self, error: &ControlError) {
        let text = if self.json {
            serde_json::to_string(&serde_json::json!({ "error": error })).unwrap_or_else(|_| error.message.clone())
        } else {
            let mut text = format!("error: {}", error.message);
            if !error.hint.is_empty() {
                text.push_str(&format!("\n  hint: {}", error.hint));
            }
            for line in &error.log {
                text.push_str(&format!("\n  | {line}"));
            }
            harmless(&text).into_owned()
        };
        // Where standard error is closed there is nobody to tell.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// Prints text and a line's end; whoever closed the pipe has read enough.
pub(crate) fn print(text: &str) -> Result<(), ControlError> {
    let mut out = io::stdout().lock();
    written(
        out.write_all(text.as_bytes())
            .and_then(|()| if text.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") })
            .and_then(|()| out.flush()),
    )
}

/// What became of a write to standard output: whoever closed the pipe has read enough.
pub(crate) fn written(written: io::Result<()>) -> Result<(), ControlError> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(ControlError::infrastructure(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// The text without what a terminal obeys: sites, browsers and agents have a say in errors and results.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(obeyed) { text.replace(obeyed, "\u{fffd}").into() } else { text.into() }
}

/// How JSON calls a variant of an enum, for people's eyes.
pub(crate) fn word(variant: &impl Serialize) -> String {
    let word = serde_json::to_value(variant).ok().and_then(|word| word.as_str().map(str::to_owned));
    word.unwrap_or_default()
}

/// Rows as columns of equal width.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count)
        .map(|column| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_of_what_is_shown() {
        assert_eq!(harmless("a\tb\ngröße"), "a\tb\ngröße");
        assert_eq!(
            harmless("\u{1b}]0;t\u{7}\r\u{9b}2J\u{7f}\0"),
            "\u{fffd}]0;t\u{fffd}\u{fffd}\u{fffd}2J\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "b".to_owned()], vec!["long".to_owned(), "c".to_owned()]];
        assert_eq!(columns(&rows), "a     b\nlong  c");
    }
}
