//! `[settings]` and `secret_settings`, of websites and computers (ENV-7).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;
use toml_edit::{Item, Value};

use super::{
    Flags, declared,
    reader::{At, Found, Reader, Section},
};
use crate::{DeclaredSettings, Place, Reference, SettingName, SettingValue};

/// Settings by name, and which of them are secret.
pub(super) type Settings = (BTreeMap<SettingName, SettingValue>, BTreeSet<SettingName>);

/// Names of secret settings, with what a message says of why.
type Secret = BTreeMap<SettingName, String>;

/// Reads both, with the flags that add to them, beside the settings that the site's source declares.
pub(super) fn read(
    reader: &mut Reader<'_>,
    root: &mut Section<'_>,
    flags: &Flags,
    declared: Option<&DeclaredSettings>,
) -> Settings {
    let mut names = Vec::new();
    if let Some(found) = root.take("secret_settings") {
        names = reader.strings(&found, "an array of names of settings");
    }
    names.extend(
        flags.secret_settings.iter().map(|name| At { value: name.clone(), place: Place::Flag("--secret-setting") }),
    );
    let mut secret = Secret::new();
    for At { value, place } in names {
        let Some(name) = setting_name(reader, &value, place.clone()) else { continue };
        declared::check_setting(reader, &name, place, declared);
        secret.insert(name, String::new());
    }
    for field in declared.map(DeclaredSettings::fields).unwrap_or_default().iter().filter(|field| field.secret) {
        secret.entry(field.name.clone()).or_insert_with(|| format!(" by its type at {}", field.place));
    }
    if let Some(DeclaredSettings::Unknown { type_name, place }) = declared {
        reader.warn(format!(
            "the settings type `{type_name}` at {place} cannot be read: name its secrets in `secret_settings`"
        ));
    }
    let mut settings = BTreeMap::new();
    if let Some(found) = root.take("settings")
        && let Some(section) = reader.section(&found, "a table of settings and their values")
    {
        for (key, found) in section.entries() {
            let key_place = Section::key_place(reader, &found);
            let Some(name) = setting_name(reader, &key, key_place.clone()) else { continue };
            declared::check_setting(reader, &name, key_place, declared);
            if let Some(value) = toml_value(reader, &found, secret.get(&name).map(String::as_str)) {
                settings.insert(name, value);
            }
        }
    }
    for text in &flags.settings {
        if let Some((name, value)) = flag_value(reader, text, &secret) {
            declared::check_setting(reader, &name, Place::Flag("--setting"), declared);
            settings.insert(name, value);
        }
    }
    (settings, secret.into_keys().collect())
}

fn setting_name(reader: &mut Reader<'_>, text: &str, place: Place) -> Option<SettingName> {
    match SettingName::parse(text) {
        Ok(name) => Some(name),
        Err(error) => {
            let message = format!("\"{}\" is not a setting's name", text.escape_default());
            reader.problem(place, message, format!("accepted: {}", error.accepted()));
            None
        }
    }
}

fn toml_value(reader: &mut Reader<'_>, found: &Found<'_>, secret: Option<&str>) -> Option<SettingValue> {
    let place = reader.place(found.span());
    let literal = match found.item {
        Item::Value(Value::String(text)) => return text_value(reader, &found.path, text.value(), secret, place),
        Item::Value(Value::Integer(number)) => Some(Json::from(*number.value())),
        // JSON has neither infinity nor NaN.
        Item::Value(Value::Float(number)) => serde_json::Number::from_f64(*number.value()).map(Json::Number),
        Item::Value(Value::Boolean(value)) => Some(Json::from(*value.value())),
        _ => None,
    };
    if let Some(why) = secret {
        not_bare(reader, &found.path, why, place);
        return None;
    }
    if literal.is_none() {
        reader.wrong(found, "a string, a number, `true`, `false`, or a reference such as \"env:NAME\"");
    }
    literal.map(SettingValue::Literal)
}

/// `KEY=VALUE`. The value is a number or a boolean where it is written as JSON writes one, else text; in quotes it is text
/// in any case.
fn flag_value(reader: &mut Reader<'_>, text: &str, secret: &Secret) -> Option<(SettingName, SettingValue)> {
    let place = Place::Flag("--setting");
    let Some((name, value)) = text.split_once('=') else {
        // The text may be a secret whose name was forgotten.
        reader.problem(place, "the value has no `=`", "accepted: KEY=VALUE");
        return None;
    };
    let name = setting_name(reader, name, place.clone())?;
    let why = secret.get(&name).map(String::as_str);
    let path = format!("settings.{name}");
    let value = match serde_json::from_str::<Json>(value) {
        Ok(Json::String(inner)) => text_value(reader, &path, &inner, why, place)?,
        Ok(json @ (Json::Bool(_) | Json::Number(_))) if why.is_none() && is_as_written(&json, value) => {
            SettingValue::Literal(json)
        }
        _ => text_value(reader, &path, value, why, place)?,
    };
    Some((name, value))
}

/// `1.0` and `0x10` are text: whoever writes a number as JSON does means a number.
fn is_as_written(json: &Json, text: &str) -> bool {
    let written = json.to_string();
    written == text
}

fn text_value(
    reader: &mut Reader<'_>,
    path: &str,
    text: &str,
    secret: Option<&str>,
    place: Place,
) -> Option<SettingValue> {
    let parsed = Reference::parse(text);
    if let Some(why) = secret
        // A secret written as `secret:hunter 2` is not repeated.
        && !matches!(&parsed, Some(Ok(reference)) if reference.is_bare())
    {
        not_bare(reader, path, why, place);
        return None;
    }
    match parsed {
        Some(Ok(reference)) => Some(SettingValue::Reference(reference)),
        Some(Err(error)) => {
            reader.problem(place, format!("`{path}`: {error}"), format!("accepted: {}", error.accepted()));
            None
        }
        None => Some(SettingValue::Literal(Json::from(text))),
    }
}

/// The message never has the value.
fn not_bare(reader: &mut Reader<'_>, path: &str, why: &str, place: Place) {
    let message = format!("`{path}` is a secret setting{why}, and its value is not a bare reference");
    reader.problem(place, message, "accepted: \"env:NAME\" or \"secret:PATH\", without a default");
}
