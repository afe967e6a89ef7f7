//! Arguments of a tool against its schema: what is wrong is told by the argument's name, which the model reads and mends.
//!
//! Serde's errors don't name a field of the wrong type inside a tagged enum; and these keywords are all that our schemas use.

use serde_json::{Map, Value};

/// Says what is wrong with the arguments, naming the first that is.
pub(super) fn check(schema: &Map<String, Value>, arguments: &Map<String, Value>) -> Result<(), String> {
    object(schema, arguments, "")
}

fn object(schema: &Map<String, Value>, value: &Map<String, Value>, within: &str) -> Result<(), String> {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let named = |name: &str| if within.is_empty() { name.to_owned() } else { format!("{within}.{name}") };
    for (name, value) in value {
        let Some(property) = properties.get(name).and_then(Value::as_object) else {
            let known: Vec<String> = properties.keys().map(|name| format!("`{name}`")).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(format!("there is no argument `{}`; accepted: {known}", named(name)));
        };
        check_value(property, value, &named(name))?;
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    match required.into_iter().find(|name| !value.contains_key(*name)) {
        Some(name) => Err(format!("`{}` is missing", named(name))),
        None => Ok(()),
    }
}

fn check_value(schema: &Map<String, Value>, value: &Value, name: &str) -> Result<(), String> {
    let must = |what: &str| Err(format!("`{name}` must be {what}"));
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        if values.contains(value) {
            return Ok(());
        }
        let values: Vec<String> =
            values.iter().map(|value| format!("`{}`", value.as_str().unwrap_or_default())).collect();
        return must(&format!("one of {}", values.join(", ")));
    }
    match (schema.get("type").and_then(Value::as_str), value) {
        (Some("string"), Value::String(text)) => match limit(schema, "maxLength") {
            Some(most) if text.chars().count() as f64 > most => must(&format!("at most {most} characters")),
            _ => Ok(()),
        },
        (Some("boolean"), Value::Bool(_)) => Ok(()),
        (Some("number"), Value::Number(number)) => in_range(schema, number.as_f64().unwrap_or(f64::NAN), name),
        (Some("integer"), Value::Number(number)) => match whole(number) {
            Some(number) => in_range(schema, number, name),
            None => must("an integer"),
        },
        (Some("array"), Value::Array(items)) => {
            let of = schema.get("items").and_then(Value::as_object);
            let (least, most) = (limit(schema, "minItems"), limit(schema, "maxItems"));
            let count = items.len() as f64;
            if least.is_some_and(|least| count < least) || most.is_some_and(|most| count > most) {
                return must(&format!("an array of {} items", least.unwrap_or_default()));
            }
            let mut each = items.iter().enumerate();
            each.try_for_each(|(n, item)| of.map_or(Ok(()), |of| check_value(of, item, &format!("{name}[{n}]"))))
        }
        (Some("object"), Value::Object(value)) => object(schema, value, name),
        (Some(kind), _) => must(&format!("{} {kind}", if kind.starts_with(['a', 'i', 'o']) { "an" } else { "a" })),
        // A schema of no type takes everything.
        (None, _) => Ok(()),
    }
}

fn in_range(schema: &Map<String, Value>, number: f64, name: &str) -> Result<(), String> {
    let (low, high) = match schema.get("format").and_then(Value::as_str) {
        Some("int32") => (f64::from(i32::MIN), f64::from(i32::MAX)),
        Some("uint32") => (0.0, f64::from(u32::MAX)),
        _ => (f64::MIN, f64::MAX),
    };
    let low = limit(schema, "minimum").unwrap_or(low);
    let high = limit(schema, "maximum").unwrap_or(high);
    let above = limit(schema, "exclusiveMinimum").is_none_or(|above| number > above);
    if above && number >= low && number <= high {
        return Ok(());
    }
    Err(match limit(schema, "exclusiveMinimum") {
        Some(above) => format!("`{name}` must be above {above} and at most {high}"),
        None => format!("`{name}` must be {low} to {high}"),
    })
}

fn limit(schema: &Map<String, Value>, keyword: &str) -> Option<f64> {
    schema.get(keyword).and_then(Value::as_f64)
}

/// A number without a fraction; models write 10 as 10.0 now and then, but serde takes that for no integer.
fn whole(number: &serde_json::Number) -> Option<f64> {
    (number.is_i64() || number.is_u64()).then(|| number.as_f64()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_is_told_by_name() {
        let schema = json!({
            "properties": {
                "coordinate": { "type": "array", "items": { "type": "integer", "format": "int32" }, "minItems": 2, "maxItems": 2 },
                "scale": { "type": "number", "exclusiveMinimum": 0, "maximum": 1 },
                "amount": { "type": "integer", "format": "uint32", "minimum": 1, "maximum": 100 },
                "direction": { "type": "string", "enum": ["up", "down"] },
                "text": { "type": "string", "maxLength": 3 },
                "region": { "type": "object", "properties": { "x": { "type": "integer" } }, "required": ["x"] },
                "screenshot": { "type": "boolean" },
            },
            "required": ["amount"],
        });
        let check = |arguments: Value| check(schema.as_object().unwrap(), arguments.as_object().unwrap());
        let good = json!({
            "amount": 1, "coordinate": [0, -5], "scale": 1, "direction": "up", "text": "東京✓", "region": { "x": 1 },
            "screenshot": true,
        });
        assert_eq!(check(good), Ok(()));
        for (arguments, says) in [
            (json!({}), "`amount` is missing"),
            (json!({ "amount": 0 }), "`amount` must be 1 to 100"),
            (json!({ "amount": 1.5 }), "`amount` must be an integer"),
            (json!({ "amount": "1" }), "`amount` must be an integer"),
            (json!({ "amount": 1, "coordinate": [1] }), "`coordinate` must be an array of 2 items"),
            (json!({ "amount": 1, "coordinate": "1,2" }), "`coordinate` must be an array"),
            (json!({ "amount": 1, "coordinate": [1, "2"] }), "`coordinate[1]` must be an integer"),
            (
                json!({ "amount": 1, "coordinate": [1, 1u64 << 40] }),
                "`coordinate[1]` must be -2147483648 to 2147483647",
            ),
            (json!({ "amount": 1, "scale": 0 }), "`scale` must be above 0 and at most 1"),
            (json!({ "amount": 1, "direction": "left" }), "`direction` must be one of `up`, `down`"),
            (json!({ "amount": 1, "text": "four" }), "`text` must be at most 3 characters"),
            (json!({ "amount": 1, "region": {} }), "`region.x` is missing"),
            (json!({ "amount": 1, "region": { "x": 1, "y": 2 } }), "there is no argument `region.y`; accepted: `x`"),
            (json!({ "amount": 1, "screenshot": "yes" }), "`screenshot` must be a boolean"),
        ] {
            assert_eq!(check(arguments.clone()), Err(says.to_owned()), "{arguments}");
        }
        let nothing = serde_json::from_str("{}").unwrap();
        let some = json!({ "x": 1 });
        let says = "there is no argument `x`; accepted: none";
        assert_eq!(super::check(&nothing, some.as_object().unwrap()), Err(says.to_owned()));
    }
}
