//! What a `check` step expects of a site's data, and the judgement; no I/O.

use std::fmt;

use agentenv_protocol::Name;
use regex::Regex;
use serde_json::Value;

/// The most characters of a value that a message shows.
const SHOWN_CHARS: usize = 160;

/// A JSON Pointer (RFC 6901).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointer(String);

/// Why a text is not a JSON Pointer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a JSON Pointer: accepted is nothing, or parts that each begin with `/`, with `~0` for `~` and `~1` for `/`"
)]
pub struct PointerError(String);

impl Pointer {
    /// Parses the text.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        let starts = text.is_empty() || text.starts_with('/');
        let escaped = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        if starts && escaped { Ok(Self(text.to_owned())) } else { Err(PointerError(text.to_owned())) }
    }

    /// What is there.
    pub fn of<'a>(&self, data: &'a Value) -> Option<&'a Value> {
        data.pointer(&self.0)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "(all of it)" } else { &self.0 })
    }
}

/// A value in a site's data: what to ask the site for, and where in the answer it is.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueAt {
    /// Which website.
    pub website: Name,
    /// What `data/get` is asked for; everything without it.
    pub selector: Option<Value>,
    /// Where in the answer.
    pub pointer: Pointer,
}

impl fmt::Display for ValueAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.website, self.pointer)
    }
}

/// One expectation.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// Of which value.
    pub at: ValueAt,
    /// What it must be like.
    pub test: Test,
}

/// What a value must be like.
#[derive(Clone, Debug)]
pub enum Test {
    /// Equal; numbers by value, objects in any order of keys.
    Equals(Value),
    /// A string with this part, or an array with this element.
    Contains(Value),
    /// Equal to another value, perhaps of another site.
    EqualsValueAt(ValueAt),
    /// A string with another value as a part, or an array with it as an element.
    ContainsValueAt(ValueAt),
    /// A string in which the pattern is found.
    Matches(Regex),
    /// There (`null` counts), or not there.
    Exists(bool),
    /// An array, object or string of this length.
    Length(u64),
}

impl Test {
    /// The other value that it compares with.
    pub fn other(&self) -> Option<&ValueAt> {
        match self {
            Self::EqualsValueAt(other) | Self::ContainsValueAt(other) => Some(other),
            _ => None,
        }
    }
}

impl Expectation {
    /// Judges the site's answer, and the other one where the test has one; the error says what is there instead.
    pub fn judge(&self, data: &Value, other: Option<&Value>) -> Result<(), String> {
        let found = self.at.pointer.of(data);
        if let Test::Exists(expected) = self.test {
            return match (found, expected) {
                (Some(value), false) => Err(format!("{}: is {}, expected nothing there", self.at, short(value))),
                (None, true) => Err(format!("{}: nothing is there", self.at)),
                _ => Ok(()),
            };
        }
        let Some(found) = found else {
            return Err(format!("{}: nothing is there, expected {}", self.at, self.expected(None)));
        };
        let other = match (self.test.other(), other) {
            (Some(at), Some(data)) => match at.pointer.of(data) {
                Some(value) => Some(value),
                None => return Err(format!("{at}: nothing is there to compare {} with", self.at)),
            },
            _ => None,
        };
        if self.holds(found, other) {
            Ok(())
        } else {
            Err(format!("{}: is {}, expected {}", self.at, short(found), self.expected(other)))
        }
    }

    fn holds(&self, found: &Value, other: Option<&Value>) -> bool {
        match &self.test {
            Test::Equals(expected) => equal(found, expected),
            Test::Contains(expected) => contains(found, expected),
            Test::EqualsValueAt(_) => other.is_some_and(|other| equal(found, other)),
            Test::ContainsValueAt(_) => other.is_some_and(|other| contains(found, other)),
            Test::Matches(pattern) => found.as_str().is_some_and(|text| pattern.is_match(text)),
            Test::Exists(expected) => *expected,
            Test::Length(expected) => length(found) == Some(*expected),
        }
    }

    fn expected(&self, other: Option<&Value>) -> String {
        let value_of = |at: &ValueAt| match other {
            Some(other) => format!("{} (of {at})", short(other)),
            None => format!("the value of {at}"),
        };
        match &self.test {
            Test::Equals(value) => short(value),
            Test::Contains(value) => format!("something that contains {}", short(value)),
            Test::EqualsValueAt(at) => value_of(at),
            Test::ContainsValueAt(at) => format!("something that contains {}", value_of(at)),
            Test::Matches(pattern) => format!("text that matches `{pattern}`"),
            Test::Exists(_) => "a value".to_owned(),
            Test::Length(length) => format!("a length of {length}"),
        }
    }
}

/// A value as JSON, cut where it is long.
pub(crate) fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= SHOWN_CHARS {
        return text;
    }
    text.chars().take(SHOWN_CHARS).chain("...".chars()).collect()
}

fn length(value: &Value) -> Option<u64> {
    let length = match value {
        Value::Array(array) => array.len(),
        Value::Object(object) => object.len(),
        Value::String(text) => text.chars().count(),
        _ => return None,
    };
    u64::try_from(length).ok()
}

fn contains(found: &Value, part: &Value) -> bool {
    match (found, part) {
        (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
        // An order number is a number on one site and part of a title on another.
        (Value::String(text), Value::Number(number)) => text.contains(&number.to_string()),
        (Value::Array(array), part) => array.iter().any(|element| equal(element, part)),
        _ => false,
    }
}

/// Equality as people mean it: `12` and `12.0` are one number.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || (x.is_f64() != y.is_f64() && x.as_f64() == y.as_f64()),
        (Value::Array(x), Value::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| equal(x, y)),
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(key, x)| y.get(key).is_some_and(|y| equal(x, y)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
mod tests;
