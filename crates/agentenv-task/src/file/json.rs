//! TOML values as JSON: what a task file writes inline.

use serde_json::{Map, Value};
use toml_edit::{Item, TableLike, Value as Toml};

use super::reader::{Source, start};

/// How deep data may be nested, so that a hostile file cannot exhaust the stack.
const DEEPEST_DATA: usize = 64;

/// The JSON of a TOML value; what JSON cannot hold is a problem.
pub(crate) fn to_json(source: &Source<'_>, item: &Item, at: usize, depth: usize) -> Option<Value> {
    match item {
        Item::None => None,
        Item::Value(value) => value_to_json(source, value, at, depth),
        Item::Table(table) => object(source, table, at, depth),
        Item::ArrayOfTables(tables) => tables
            .iter()
            .map(|table| object(source, table, start(table.span()), depth + 1))
            .collect::<Option<_>>()
            .map(Value::Array),
    }
}

fn object(source: &Source<'_>, table: &dyn TableLike, at: usize, depth: usize) -> Option<Value> {
    if depth > DEEPEST_DATA {
        source.problem(
            at,
            format!("data is nested deeper than {DEEPEST_DATA} levels"),
            "put it in a file: `{ file = \"data.json\" }`",
        );
        return None;
    }
    let entry = |(name, item): (&str, &Item)| {
        let at = item.span().map_or(at, |span| span.start);
        Some((name.to_owned(), to_json(source, item, at, depth + 1)?))
    };
    table.iter().map(entry).collect::<Option<Map<_, _>>>().map(Value::Object)
}

fn value_to_json(source: &Source<'_>, value: &Toml, at: usize, depth: usize) -> Option<Value> {
    match value {
        Toml::String(text) => Some(Value::from(text.value().as_str())),
        Toml::Integer(number) => Some(Value::from(*number.value())),
        Toml::Boolean(truth) => Some(Value::from(*truth.value())),
        Toml::InlineTable(table) => object(source, table, at, depth),
        Toml::Array(array) if depth <= DEEPEST_DATA => array
            .iter()
            .map(|value| value_to_json(source, value, start(value.span()), depth + 1))
            .collect::<Option<_>>()
            .map(Value::Array),
        Toml::Array(_) => {
            source.problem(
                at,
                format!("data is nested deeper than {DEEPEST_DATA} levels"),
                "put it in a file: `{ file = \"data.json\" }`",
            );
            None
        }
        Toml::Float(number) => {
            let json = serde_json::Number::from_f64(*number.value());
            if json.is_none() {
                source.problem(at, format!("JSON has no number {}", number.value()), "accepted is a finite number");
            }
            json.map(Value::Number)
        }
        Toml::Datetime(time) => {
            source.problem(
                at,
                format!("JSON has no dates: {}", time.value()),
                format!("write it as a string: \"{}\"", time.value()),
            );
            None
        }
    }
}
