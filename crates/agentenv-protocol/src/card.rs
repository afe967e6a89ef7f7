//! The A2A 1.0 agent card of a site server and of the gateway (PR-1).

use serde::{Deserialize, Serialize};

use crate::{HostPattern, Name, WEBSITE_EXTENSION};

/// An agent card, with the members that agent-env uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// The site's or the deploy's name.
    pub name: String,
    /// One sentence for people.
    pub description: String,
    /// The version of what serves the card.
    pub version: String,
    /// Where the agent is reached.
    pub supported_interfaces: Vec<AgentInterface>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Media types taken.
    pub default_input_modes: Vec<String>,
    /// Media types given.
    pub default_output_modes: Vec<String>,
    /// Always empty here; the field is required by A2A.
    #[serde(default)]
    pub skills: Vec<serde_json::Value>,
}

/// One interface of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentInterface {
    /// Absolute URL.
    pub url: String,
    /// `HTTP+JSON`.
    pub protocol_binding: String,
    /// `1.0`.
    pub protocol_version: String,
}

/// The abilities of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// One entry an extension.
    #[serde(default)]
    pub extensions: Vec<AgentExtension>,
}

/// One ability of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentExtension {
    /// What it is: [`WEBSITE_EXTENSION`] or [`crate::TRAFFIC_EXTENSION`].
    pub uri: String,
    /// One sentence for people.
    #[serde(default)]
    pub description: String,
    /// Whether a client must understand it.
    #[serde(default)]
    pub required: bool,
    /// Parameters, by the extension's own schema.
    #[serde(default)]
    pub params: serde_json::Map<String, serde_json::Value>,
}

/// The parameters of [`WEBSITE_EXTENSION`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WebsiteParams {
    /// The site's name.
    pub name: Name,
    /// The names that the site answers to.
    pub domains: Vec<HostPattern>,
    /// Whether it is a real site.
    #[serde(default)]
    pub live: bool,
    /// Further hosts of a live site.
    #[serde(default)]
    pub allow_hosts: Vec<HostPattern>,
    /// Path prefixes served as pages by the server itself; empty with a frontend, and for a live site.
    #[serde(default)]
    pub routes: Vec<String>,
}

impl AgentCard {
    /// Makes the card of an agent at `url` with these extensions.
    pub fn new(name: &str, description: &str, version: &str, url: &str, extensions: Vec<AgentExtension>) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            version: version.to_owned(),
            supported_interfaces: vec![AgentInterface {
                url: url.to_owned(),
                protocol_binding: "HTTP+JSON".to_owned(),
                protocol_version: "1.0".to_owned(),
            }],
            capabilities: Capabilities { extensions },
            default_input_modes: vec!["application/json".to_owned()],
            default_output_modes: vec!["application/json".to_owned()],
            skills: Vec::new(),
        }
    }

    /// The parameters of the card's `website/v1` extension: `None` where the card has none.
    pub fn website(&self) -> Option<Result<WebsiteParams, serde_json::Error>> {
        let extension = self.capabilities.extensions.iter().find(|extension| extension.uri == WEBSITE_EXTENSION)?;
        Some(serde_json::from_value(serde_json::Value::Object(extension.params.clone())))
    }
}

impl WebsiteParams {
    /// The extension that carries these parameters.
    pub fn extension(&self) -> AgentExtension {
        let params = match serde_json::to_value(self) {
            Ok(serde_json::Value::Object(map)) => map,
            _ => serde_json::Map::new(),
        };
        AgentExtension {
            uri: WEBSITE_EXTENSION.to_owned(),
            description: "A website whose data can be loaded, read and reset".to_owned(),
            required: false,
            params,
        }
    }
}
