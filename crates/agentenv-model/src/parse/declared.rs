//! What is given beside what the site's source declares (ENV-5): each field by itself.

use std::{collections::BTreeSet, fmt};

use agentenv_protocol::{HostPattern, Name};

use super::reader::{At, Reader};
use crate::{
    Declaration, Declared, DeclaredSettings, Place, SettingName,
    problem::{did_you_mean, listed},
};

/// Host patterns, and how they were written.
pub(super) struct Patterns {
    pub(super) patterns: Vec<HostPattern>,
    /// How many there were, those that are none included.
    pub(super) written: usize,
    /// Where the first one is.
    pub(super) first: Option<Place>,
    /// The expression that could not be read, and was needed.
    pub(super) unknown: Option<(String, Place)>,
}

/// Whether a site is live.
pub(super) struct Live {
    /// `None` where it is not known, which was refused.
    pub(super) value: Option<bool>,
    /// Where that is said.
    pub(super) place: Place,
}

const CONTRADICTED: &str = "make both say the same, or leave it to the source";

fn contradicts(
    reader: &mut Reader<'_>,
    key: &str,
    given: &dyn fmt::Display,
    at: &Place,
    declared: &dyn fmt::Display,
    source: &Place,
) {
    let message = format!("`{key}` is {given}, and the site's source declares {declared} at {source}");
    reader.problem(at.clone(), message, CONTRADICTED);
}

/// The name, where it is not given.
pub(super) fn name(reader: &mut Reader<'_>, declaration: Option<&Declaration>) -> Option<Name> {
    const HINT: &str = "accepted: the name of the env, such as `name = \"shop\"`";
    match declaration.map(|declaration| &declaration.name) {
        Some(Declared::LeftOut(name) | Declared::Written { value: name, .. }) => return Some(name.clone()),
        Some(Declared::Unknown { expression, place }) => {
            reader.problem(place.clone(), format!("`name` is `{expression}`, which has to be run to be known"), HINT);
        }
        None => reader.problem(reader.start(), "`name` is missing", HINT),
    }
    None
}

/// A name that was given, beside one that the source writes down. One that the source leaves out is its struct's, and yields.
pub(super) fn check_name(reader: &mut Reader<'_>, given: &Name, at: &Place, declaration: Option<&Declaration>) {
    if let Some(Declared::Written { value, place }) = declaration.map(|declaration| &declaration.name)
        && value != given
    {
        contradicts(reader, "name", &format_args!("\"{given}\""), at, &format_args!("\"{value}\""), place);
    }
}

/// Whether the site is live.
pub(super) fn live(reader: &mut Reader<'_>, given: Option<At<bool>>, declaration: Option<&Declaration>) -> Live {
    let known = declaration.and_then(|declaration| declaration.live.known(&declaration.place));
    if let Some(At { value, place }) = given {
        if let Some((declared, source)) = known.filter(|(declared, _)| **declared != value) {
            contradicts(reader, "live", &value, &place, declared, source);
            // Neither is right: the rules that hang on it would only repeat it.
            return Live { value: None, place };
        }
        return Live { value: Some(value), place };
    }
    if let Some(Declared::Unknown { expression, place }) = declaration.map(|declaration| &declaration.live) {
        let message = format!("`live` is `{expression}`, which has to be run to be known");
        reader.problem(place.clone(), message, "say it with `--live` or `--no-live`, or as `live` in env.toml");
        return Live { value: None, place: place.clone() };
    }
    match known {
        Some((value, place)) => Live { value: Some(*value), place: place.clone() },
        None => Live { value: Some(false), place: reader.start() },
    }
}

/// The site's names. A synthetic site whose names are not known stores none: they are its card's.
pub(super) fn domains(
    reader: &mut Reader<'_>,
    given: Option<At<Patterns>>,
    declaration: Option<&Declaration>,
    live: Option<bool>,
) -> Patterns {
    // A declaration without domains is one that rustc refuses.
    let declared =
        declaration.map(|declaration| &declaration.domains).filter(|field| !matches!(field, Declared::LeftOut(_)));
    let domains = patterns(reader, "domains", given, declared, declaration);
    if let (Some((expression, place)), Some(true)) = (&domains.unknown, live) {
        let message = format!("`domains` of a live site is `{expression}`, which has to be run to be known");
        reader.problem(place.clone(), message, "say them with `--domain`, or as `domains` in env.toml");
    }
    domains
}

/// Further hosts of a live site. Unknown ones are none, and the card that has some is refused at deploy.
pub(super) fn allow_hosts(
    reader: &mut Reader<'_>,
    given: Option<At<Patterns>>,
    declaration: Option<&Declaration>,
    live: Option<bool>,
) -> Patterns {
    let hosts =
        patterns(reader, "allow_hosts", given, declaration.map(|declaration| &declaration.allow_hosts), declaration);
    if let (Some((expression, place)), Some(true)) = (&hosts.unknown, live) {
        reader.warn(format!(
            "`allow_hosts` is `{expression}` at {place}, which has to be run to be known: none are stored, and a card \
             that has some will be refused; say them with `--allow-host`"
        ));
    }
    hosts
}

fn patterns(
    reader: &mut Reader<'_>,
    key: &str,
    given: Option<At<Patterns>>,
    declared: Option<&Declared<Vec<HostPattern>>>,
    declaration: Option<&Declaration>,
) -> Patterns {
    let known = declared.zip(declaration).and_then(|(field, declaration)| field.known(&declaration.place));
    if let Some(At { value: given, place }) = given {
        // What is none of a given list was told already.
        if let Some((declared, source)) = known
            && given.written == given.patterns.len()
            && set(&given.patterns) != set(declared)
        {
            let given = shown(&given.patterns);
            contradicts(reader, key, &given, &place, &shown(declared), source);
        }
        return given;
    }
    let unknown = match declared {
        Some(Declared::Unknown { expression, place }) => Some((expression.clone(), place.clone())),
        _ => None,
    };
    let patterns = known.map(|(value, _)| value.clone()).unwrap_or_default();
    let first = known.filter(|(value, _)| !value.is_empty()).map(|(_, place)| place.clone());
    Patterns { written: patterns.len(), patterns, first, unknown }
}

fn set(patterns: &[HostPattern]) -> BTreeSet<String> {
    patterns.iter().map(ToString::to_string).collect()
}

fn shown(patterns: &[HostPattern]) -> String {
    let texts: Vec<String> = set(patterns).into_iter().map(|pattern| format!("\"{pattern}\"")).collect();
    format!("[{}]", texts.join(", "))
}

/// A setting that is given has to be one of those that the source declares (ENV-2).
pub(super) fn check_setting(
    reader: &mut Reader<'_>,
    name: &SettingName,
    at: Place,
    declared: Option<&DeclaredSettings>,
) {
    let Some(DeclaredSettings::Fields { type_name, place, fields }) = declared else { return };
    if fields.iter().any(|field| field.name == *name) {
        return;
    }
    let message = format!("`{name}` is not a setting of the site: `{type_name}` at {place} has no such field");
    let known = || fields.iter().map(|field| field.name.as_str());
    let hint = match fields.is_empty() {
        true => "leave it out: the site takes no settings".to_owned(),
        false => format!("{}accepted: {}", did_you_mean(name.as_str(), known()), listed(known())),
    };
    reader.problem(at, message, hint);
}
