//! The tools: one for each action of a computer and of a browser, with a schema made from the action's type.

use std::sync::Arc;

use agentenv_protocol::{COMPUTER_ACTION_SCHEMA, Name};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::{
    page::BrowserAction,
    schema::{Variant, variants},
};

/// Computer tools that look and change nothing.
const LOOKS: [&str; 3] = ["screenshot", "cursor_position", "wait"];
/// Browser tools after which a picture says nothing new, or that are one.
const WITHOUT_PICTURE: [&str; 5] = ["tabs", "close_tab", "screenshot", "evaluate", "text"];
const BROWSER_LOOKS: [&str; 3] = ["tabs", "screenshot", "text"];
/// Goes before the names of a browser's actions, some of which a computer has too.
const BROWSER_PREFIX: &str = "browser_";

/// Whose tool it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Computer,
    Browser,
}

/// A tool, as it is listed and as its arguments are checked.
pub(super) struct Spec {
    pub(super) kind: Kind,
    pub(super) tool: Tool,
}

impl Spec {
    /// The name of the action that the tool stands for.
    pub(super) fn action(&self) -> &str {
        let prefix = if self.kind == Kind::Browser { BROWSER_PREFIX } else { "" };
        self.tool.name.strip_prefix(prefix).unwrap_or(&self.tool.name)
    }
}

/// The tools of these machines.
pub(super) fn specs(computers: &[&Name], browsers: &[&Name]) -> Vec<Spec> {
    let mut specs = Vec::new();
    if !computers.is_empty() {
        let schema: Value = serde_json::from_str(COMPUTER_ACTION_SCHEMA).expect("what is published is JSON");
        specs.extend(variants(&schema).into_iter().map(|variant| computer_tool(variant, computers)));
    }
    if !browsers.is_empty() {
        let schema = schemars::schema_for!(BrowserAction).to_value();
        specs.extend(variants(&schema).into_iter().map(|variant| browser_tool(variant, browsers)));
    }
    specs
}

fn computer_tool(mut variant: Variant, computers: &[&Name]) -> Spec {
    let looks = LOOKS.contains(&variant.name.as_str());
    let properties = properties(&mut variant.schema);
    if variant.name == "screenshot" {
        variant.description = "Takes a picture of the screen, or of a part of it.".to_owned();
        properties.insert("region".to_owned(), region());
        properties.insert("scale".to_owned(), scale());
    } else {
        properties.insert("screenshot".to_owned(), picture("screen"));
    }
    choice(properties, "computer", computers);
    spec(Kind::Computer, variant, looks)
}

fn browser_tool(mut variant: Variant, browsers: &[&Name]) -> Spec {
    let looks = BROWSER_LOOKS.contains(&variant.name.as_str());
    let pictured = !WITHOUT_PICTURE.contains(&variant.name.as_str());
    let properties = properties(&mut variant.schema);
    if pictured {
        properties.insert("screenshot".to_owned(), picture("tab"));
    }
    choice(properties, "browser", browsers);
    variant.name.insert_str(0, BROWSER_PREFIX);
    spec(Kind::Browser, variant, looks)
}

fn properties(schema: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    properties.as_object_mut().expect("the properties of an object are an object")
}

/// Which machine, where there are several.
fn choice(properties: &mut Map<String, Value>, argument: &str, names: &[&Name]) {
    if let [first, _, ..] = names {
        let description = format!("Which {argument}; `{first}` without it.");
        properties.insert(argument.to_owned(), json!({ "description": description, "type": "string", "enum": names }));
    }
}

fn picture(what: &str) -> Value {
    json!({ "description": format!("Whether to answer with a picture of the {what} after it, too."), "type": "boolean" })
}

fn region() -> Value {
    let side = |description: &str| json!({ "description": description, "type": "integer", "format": "uint32" });
    json!({
        "description": "A part of the screen, in its pixels; all of it without.",
        "type": "object",
        "properties": {
            "x": side("Left edge."),
            "y": side("Upper edge."),
            "width": side("Width, at least 1."),
            "height": side("Height, at least 1."),
        },
        "additionalProperties": false,
        "required": ["x", "y", "width", "height"],
    })
}

fn scale() -> Value {
    json!({
        "description": "Makes the picture smaller: 0.5 is half as wide and high. Coordinates stay those of the screen.",
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 1,
    })
}

fn spec(kind: Kind, variant: Variant, looks: bool) -> Spec {
    // Whatever is done, it is done in the sandbox, which a reset makes new.
    let annotations = ToolAnnotations::new().read_only(looks).destructive(false).open_world(false);
    let tool = Tool::new(variant.name, variant.description, Arc::new(variant.schema)).with_annotations(annotations);
    Spec { kind, tool }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn the_tools_of_a_computer_and_its_browser() {
        let pc = name("pc");
        let tools: Vec<Tool> = specs(&[&pc], &[&pc]).into_iter().map(|spec| spec.tool).collect();
        let lines: Vec<String> = tools.iter().map(line).collect();
        insta::assert_snapshot!(lines.join("\n"));
        for tool in &tools {
            let text = serde_json::to_string(tool).unwrap();
            for odd in ["$ref", "null", "Self::", "\"action\""] {
                assert!(!text.contains(odd), "{odd} in {text}");
            }
        }
    }

    /// A tool on one line, and a line for each argument: required ones first, as `name: schema`.
    fn line(tool: &Tool) -> String {
        let schema = &tool.input_schema;
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)));
        let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        let arguments = schema["properties"].as_object().unwrap().iter().map(|(name, schema)| {
            let must = if required.contains(&json!(name)) { "!" } else { "" };
            format!("\n    {name}{must}: {schema}")
        });
        let looks = tool.annotations.as_ref().and_then(|hints| hints.read_only_hint) == Some(true);
        let about = tool.description.as_deref().unwrap_or_default();
        format!("{}{}: {about}{}", tool.name, if looks { " (looks)" } else { "" }, arguments.collect::<String>())
    }

    #[test]
    fn several_machines_are_told_apart_by_an_argument() {
        let (a, b, c) = (name("a"), name("b"), name("c"));
        let specs = specs(&[&a], &[&b, &c, &a]);
        let of = |tool: &str| {
            let spec = specs.iter().find(|spec| spec.tool.name == tool).unwrap();
            spec.tool.input_schema["properties"].clone()
        };
        assert_eq!(of("browser_click")["browser"]["enum"], json!(["b", "c", "a"]));
        assert!(of("browser_click").get("computer").is_none() && of("left_click").get("computer").is_none());
        let only = super::specs(&[], &[&b]);
        assert!(only.iter().all(|spec| spec.kind == Kind::Browser && spec.tool.name.starts_with("browser_")));
    }
}
