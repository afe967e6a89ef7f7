//! References to values, while the environment of a server is being written (ENV-7, LIVE-3).

use std::collections::{BTreeMap, BTreeSet};

use agentenv_protocol::Name;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value};

use super::{Plan, PlannedWebsite};
use crate::{Place, Problem, Problems, Reference, SettingName, SettingValue, Values};

impl Plan {
    /// Every reference that a setting of it is, for the deploying command to look up: these, and no others.
    pub fn references(&self) -> Vec<&Reference> {
        let values = self.websites.iter().flat_map(|website| website.settings.values());
        let values = values.chain(self.computers.iter().flat_map(|computer| computer.settings.values()));
        let mut references: Vec<_> = values
            .filter_map(|value| match value {
                SettingValue::Reference(reference) => Some(reference),
                SettingValue::Literal(_) => None,
            })
            .collect();
        references.sort_unstable();
        references.dedup();
        references
    }

    /// The values of its settings that nothing may show.
    pub fn hidden_values(&self, values: &Values) -> Vec<SecretString> {
        let websites = self.websites.iter().flat_map(PlannedWebsite::secret_references);
        let computers = self.computers.iter();
        let computers = computers.flat_map(|computer| secret_references(&computer.settings, &computer.secret_settings));
        websites.chain(computers).filter_map(|reference| values.get(reference).cloned()).collect()
    }
}

impl PlannedWebsite {
    /// What its settings refer to that nothing may show.
    pub fn secret_references(&self) -> impl Iterator<Item = &Reference> {
        secret_references(&self.settings, &self.secret_settings)
    }
}

/// What the secret ones of these settings refer to, and every reference to a stored secret.
fn secret_references<'a>(
    settings: &'a BTreeMap<SettingName, SettingValue>,
    secret: &'a BTreeSet<SettingName>,
) -> impl Iterator<Item = &'a Reference> {
    settings.iter().filter_map(|(name, value)| match value {
        SettingValue::Reference(reference @ Reference::Secret { .. }) => Some(reference),
        SettingValue::Reference(reference) if secret.contains(name) => Some(reference),
        _ => None,
    })
}

/// The value of `AGENTENV_WEBSITE_SETTINGS` for a website's server: one line of JSON. What is missing is named by setting and
/// reference, never by a value.
pub fn resolve_settings(website: &PlannedWebsite, values: &Values) -> Result<SecretString, Problems> {
    let mut settings = Map::new();
    let mut problems = Vec::new();
    for (name, value) in &website.settings {
        let resolved = match value {
            SettingValue::Literal(value) => Some(value.clone()),
            SettingValue::Reference(reference) => resolved(reference, values).map(Value::String),
        };
        match (resolved, value) {
            (Some(value), _) => {
                settings.insert(name.to_string(), value);
            }
            (None, SettingValue::Reference(reference)) => {
                problems.push(missing((&website.name, &website.env), name, reference));
            }
            (None, SettingValue::Literal(_)) => {}
        }
    }
    Problems::check(SecretString::from(Value::Object(settings).to_string()), problems)
}

/// The values of a website's settings that nothing may show: those of secret settings, and whatever is a stored secret.
pub fn hidden_values(website: &PlannedWebsite, values: &Values) -> Vec<SecretString> {
    website.secret_references().filter_map(|reference| values.get(reference).cloned()).collect()
}

pub(super) fn resolved(reference: &Reference, values: &Values) -> Option<String> {
    let default = match reference {
        Reference::Env { default, .. } | Reference::Secret { default, .. } => default.clone(),
    };
    values.get(reference).map(|value| value.expose_secret().to_owned()).or(default)
}

/// The problem of a setting of a member, by its name and its env's, that refers to nothing.
pub(super) fn missing((owner, env): (&Name, &Name), name: &SettingName, reference: &Reference) -> Problem {
    let (what, hint) = match reference {
        Reference::Env { .. } => ("is not set", "set the variable for the command that deploys".to_owned()),
        Reference::Secret { path, .. } => ("is not stored", format!("store it with `agent-env secret set {path}`")),
    };
    let message = format!("setting `{name}` of `{owner}` is `{reference}`, which {what}");
    Problem::new(Place::Env(env.clone()), message, hint)
}
