//! Computers, and the settings that they have (BR-3).

use std::collections::{BTreeMap, BTreeSet};

use agentenv_protocol::Name;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::settings::{missing, resolved};
use crate::{EnvVersion, Place, Problem, Problems, Reach, SettingName, SettingValue, Size, StartTab, Values};

/// One computer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedComputer {
    /// Name within the deploy.
    pub name: Name,
    /// The env that it is.
    pub env: Name,
    /// Its version.
    pub version: u64,
    /// Pages that are open when the deploy is ready.
    pub start_tabs: Vec<StartTab>,
    /// What it reaches on the real network, beside the deploy's synthetic sites (NET-4).
    pub network: Reach,
    /// Whether the deploy's synthetic sites are routed in it.
    pub route_sites: bool,
    /// Size of its screen.
    pub resolution: Size,
    /// `language`, `time_zone`, `scale`; any other is a variable of the desktop's programs.
    pub settings: BTreeMap<SettingName, SettingValue>,
    /// Which of them are secret.
    pub secret_settings: BTreeSet<SettingName>,
}

/// A computer's settings, each with its value.
#[derive(Debug)]
pub struct ComputerSettings {
    /// BCP 47, such as `en-US`.
    pub language: String,
    /// IANA name, such as `Europe/Berlin`.
    pub time_zone: String,
    /// How many pixels of the screen one of a program is.
    pub scale: f64,
    /// Variables of the desktop's programs.
    pub variables: Vec<(String, SecretString)>,
}

/// The setting that is the desktop's language.
const LANGUAGE: &str = "language";
/// The setting that is its time zone.
const TIME_ZONE: &str = "time_zone";
/// The setting that is its scale.
const SCALE: &str = "scale";
/// Below 1 texts can't be read; above 3 no dialog fits a screen.
const SCALES: std::ops::RangeInclusive<f64> = 1.0..=3.0;
/// Variables that the desktop itself sets, and those that change what every program loads.
const TAKEN: [&str; 8] = ["DISPLAY", "HOME", "LANG", "LANGUAGE", "PATH", "TMPDIR", "TZ", "XAUTHORITY"];
/// Beginnings of the same.
const TAKEN_BEGINNINGS: [&str; 2] = ["AGENTENV_", "LD_"];

/// What of a computer's settings is wrong whatever its references are.
pub(super) fn refusals(env: &EnvVersion, settings: &BTreeMap<SettingName, SettingValue>) -> Vec<Problem> {
    let checked = settings.iter().filter_map(|(name, value)| match value {
        SettingValue::Literal(value) => check(name.as_str(), &text_of(value)).err().map(|hint| (name, hint)),
        SettingValue::Reference(_) => check_name(name.as_str()).err().map(|hint| (name, hint)),
    });
    let problem = |(name, hint): (&SettingName, String)| {
        let value = match &settings[name] {
            SettingValue::Literal(value) => value.to_string(),
            SettingValue::Reference(reference) => reference.to_string(),
        };
        Problem::new(Place::Env(env.name.clone()), format!("setting `{name}` of the computer is {value}"), hint)
    };
    checked.map(problem).collect()
}

/// The values of a computer's settings. What is missing is named by setting and reference, never by a value.
pub fn computer_settings(computer: &PlannedComputer, values: &Values) -> Result<ComputerSettings, Problems> {
    let mut settings = ComputerSettings {
        language: "en-US".to_owned(),
        time_zone: "UTC".to_owned(),
        scale: 1.0,
        variables: Vec::new(),
    };
    let mut problems = Vec::new();
    for (name, value) in &computer.settings {
        let text = match value {
            SettingValue::Literal(value) => text_of(value),
            SettingValue::Reference(reference) => match resolved(reference, values) {
                Some(text) => text,
                None => {
                    problems.push(missing((&computer.name, &computer.env), name, reference));
                    continue;
                }
            },
        };
        if let Err(hint) = check(name.as_str(), &text) {
            let message = format!("setting `{name}` of `{}` is of no value that it can have", computer.name);
            problems.push(Problem::new(Place::Env(computer.env.clone()), message, hint));
            continue;
        }
        match name.as_str() {
            LANGUAGE => settings.language = text,
            TIME_ZONE => settings.time_zone = text,
            SCALE => settings.scale = text.parse().unwrap_or(settings.scale),
            variable => settings.variables.push((variable.to_owned(), text.into())),
        }
    }
    Problems::check(settings, problems)
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether a setting may have a value; else what is accepted.
fn check(name: &str, text: &str) -> Result<(), String> {
    let parts_of = |separator: char, lengths: std::ops::RangeInclusive<usize>, more: &str| {
        text.split(separator).all(|part| {
            lengths.contains(&part.len()) && part.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        })
    };
    let (fits, accepted) = match name {
        LANGUAGE => (parts_of('-', 2..=8, ""), "a language such as \"en-US\" or \"de\"".to_owned()),
        TIME_ZONE => (parts_of('/', 1..=32, "_+-"), "a time zone such as \"UTC\" or \"Europe/Berlin\"".to_owned()),
        SCALE => {
            let fits = text.parse().is_ok_and(|scale| SCALES.contains(&scale));
            (fits, format!("a number from {} to {}", SCALES.start(), SCALES.end()))
        }
        _ => return check_name(name).and_then(|()| no_nul(text)),
    };
    if fits { Ok(()) } else { Err(format!("accepted: {accepted}")) }
}

fn check_name(name: &str) -> Result<(), String> {
    let taken = TAKEN.contains(&name) || TAKEN_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning));
    if taken {
        return Err(format!(
            "accepted: `{LANGUAGE}`, `{TIME_ZONE}`, `{SCALE}`, or a variable that the desktop does not set itself"
        ));
    }
    Ok(())
}

fn no_nul(text: &str) -> Result<(), String> {
    if text.contains('\0') { Err("accepted: a text without NUL".to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_setting_may_be() {
        for (name, text, fits) in [
            ("language", "en-US", true),
            ("language", "de", true),
            ("language", "zh-Hant-TW", true),
            ("language", "", false),
            ("language", "en_US", false),
            ("language", "../x", false),
            ("time_zone", "UTC", true),
            ("time_zone", "America/Argentina/Buenos_Aires", true),
            ("time_zone", "Etc/GMT+5", true),
            ("time_zone", "/etc/localtime", false),
            ("time_zone", "../UTC", false),
            ("scale", "1", true),
            ("scale", "1.5", true),
            ("scale", "0.5", false),
            ("scale", "NaN", false),
            ("scale", "big", false),
            ("ACCOUNT", "anything", true),
            ("ACCOUNT", "a\0b", false),
            ("LD_PRELOAD", "x", false),
            ("PATH", "x", false),
            ("AGENTENV_DESKTOP", "x", false),
        ] {
            assert_eq!(check(name, text).is_ok(), fits, "{name}={text}");
        }
    }
}
