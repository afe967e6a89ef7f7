//! Keeps the JSON Schemas in `schemas/`, for authors and clients in other languages (PR-1), those of the types.
//! `UPDATE_SCHEMAS=1 cargo test -p agentenv-protocol schema` writes them anew.

use std::{borrow::Cow, fs, path::PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};

use crate::{
    AgentCard, CaptureId, ComputerAction, ComputerError, ComputerReply, DataGet, DataLoad, DataReply, DeployId,
    ErrorBody, HostName, HostPattern, Name, SessionRequest, SessionState, TrafficCaptureListing, WebsiteParams,
    control::DeployInfo,
};

/// Every published schema, by the name of its file: `NAME.schema.json`.
fn schemas() -> Vec<(&'static str, Schema)> {
    vec![
        ("agent-card", schema_for!(AgentCard)),
        ("website-params", schema_for!(WebsiteParams)),
        ("data-load", schema_for!(DataLoad)),
        ("data-get", schema_for!(DataGet)),
        ("data-reply", schema_for!(DataReply)),
        ("session-request", schema_for!(SessionRequest)),
        ("session-state", schema_for!(SessionState)),
        ("error", schema_for!(ErrorBody)),
        ("deploy", schema_for!(DeployInfo)),
        ("computer-action", schema_for!(ComputerAction)),
        ("computer-error", schema_for!(ComputerError)),
        ("computer-reply", schema_for!(ComputerReply)),
        ("traffic-capture-listing", schema_for!(TrafficCaptureListing)),
    ]
}

macro_rules! text_schema {
    ($type:ident, $pattern:literal, $description:literal) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern, "description": $description })
            }
        }
    };
}

text_schema!(Name, "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$", "The name of an env, a website, a browser or a service");
text_schema!(CaptureId, "^[a-z]([a-z0-9-]{0,61}[a-z0-9])?\\.[1-9][0-9]*\\.pcap$", "The id of a capture file");
text_schema!(DeployId, "^d-[0-9a-f]{12}$", "The id of a deploy");
text_schema!(HostName, "^[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?$", "A host name: lower-case A-labels, never an address");
text_schema!(
    HostPattern,
    "^(\\*\\.)?[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?$",
    "An exact host name, or `*.suffix` for every name below the suffix"
);

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("schemas");
    for (name, schema) in schemas() {
        let path = folder.join(format!("{name}.schema.json"));
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &text).unwrap();
        }
        let published = fs::read_to_string(&path).unwrap_or_default();
        assert!(published == text, "{} is not the schema of its type: see this module's first lines", path.display());
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), schemas().len(), "a schema of no type is published");
}
