//! JSON Schemas of actions, as generated from their types, made into those of tools.

use serde_json::{Map, Value, json};

/// One variant of an action: a tool of its own.
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) description: String,
    /// Its arguments, as the schema of an object.
    pub(super) schema: Map<String, Value>,
}

/// The variants of an enum that serde tags with `action`.
pub(super) fn variants(schema: &Value) -> Vec<Variant> {
    let definitions = &schema["$defs"];
    let each = schema["oneOf"].as_array().into_iter().flatten();
    each.filter_map(|variant| {
        let name = variant["properties"]["action"]["const"].as_str()?.to_owned();
        let description = variant["description"].as_str().unwrap_or_default().to_owned();
        let mut object = variant.as_object()?.clone();
        object.shift_remove("description");
        if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
            properties.shift_remove("action");
            properties.values_mut().for_each(|property| tidy(property, definitions));
        }
        let required = object.get_mut("required").and_then(Value::as_array_mut);
        let none = required.is_none_or(|required| {
            required.retain(|name| name != "action");
            required.is_empty()
        });
        if none {
            object.shift_remove("required");
        }
        Some(Variant { name, description, schema: object })
    })
    .collect()
}

/// An argument that may be left out: `null` and its default say nothing more. References are put in their places.
fn tidy(property: &mut Value, definitions: &Value) {
    let Some(object) = property.as_object_mut() else { return };
    // How Rust holds a number says something of whole ones only.
    if object.get("format").is_some_and(|format| format == "double") {
        object.shift_remove("format");
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.shift_remove("default");
    }
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    let choice =
        object.shift_remove("anyOf").and_then(|any| any.as_array()?.iter().find(|one| one["type"] != "null").cloned());
    let reference = choice.as_ref().map_or_else(|| object.get("$ref"), |choice| choice.get("$ref"));
    let target = reference.and_then(Value::as_str).and_then(|path| path.strip_prefix("#/$defs/"));
    let Some(definition) = target.and_then(|name| definitions[name].as_object()) else { return };
    let definition = named_values(definition);
    object.shift_remove("$ref");
    for (key, value) in definition {
        object.entry(key).or_insert(value);
    }
}

/// An enum without data as a list of its names; they say what they are.
fn named_values(definition: &Map<String, Value>) -> Map<String, Value> {
    let names: Option<Vec<Value>> = definition
        .get("oneOf")
        .and_then(Value::as_array)
        .map(|each| each.iter().map(|one| one["const"].clone()).collect());
    match names {
        Some(names) => Map::from_iter([("type".to_owned(), json!("string")), ("enum".to_owned(), Value::Array(names))]),
        None => definition.clone(),
    }
}
