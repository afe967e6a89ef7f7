//! References to values, while the environment of a server is being written (ENV-7, LIVE-3).

use secrecy::SecretString;
use serde_json::{Map, Value};

use super::PlannedWebsite;
use crate::{Place, Problem, Problems, Reference, SettingValue};

/// The value of `AGENTENV_WEBSITE_SETTINGS` for a website's server: one line of JSON. `variable` looks up a variable of the
/// command that deploys. What is missing is named by setting and reference, never by a value.
pub fn resolve_settings(
    website: &PlannedWebsite,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<SecretString, Problems> {
    let mut values = Map::new();
    let mut problems = Vec::new();
    for (name, value) in &website.settings {
        let resolved = match value {
            SettingValue::Literal(value) => Some(value.clone()),
            SettingValue::Reference(Reference::Env { name, default }) => {
                variable(name.as_str()).or_else(|| default.clone()).map(Value::String)
            }
            SettingValue::Reference(Reference::Secret { default, .. }) => default.clone().map(Value::String),
        };
        match (resolved, value) {
            (Some(value), _) => {
                values.insert(name.to_string(), value);
            }
            (None, SettingValue::Reference(reference)) => {
                let message = format!("setting `{name}` of `{}` is `{reference}`, which is not set", website.name);
                let hint = "set the variable for the command that deploys";
                problems.push(Problem::new(Place::Env(website.env.clone()), message, hint));
            }
            (None, SettingValue::Literal(_)) => {}
        }
    }
    Problems::check(SecretString::from(Value::Object(values).to_string()), problems)
}
