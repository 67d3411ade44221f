//! Decides whether a JSON Schema can be sent as strict.
//!
//! OpenAI rejects a strict schema whose objects allow additional properties or have optional ones, or that uses
//! unsupported keywords. Such a schema is sent as non-strict instead.

use serde_json::{Map, Value};

/// Keywords allowed in strict schemas, besides those that hold schemas.
const PLAIN: &[&str] = &[
    "$id",
    "$schema",
    "additionalProperties",
    "const",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maximum",
    "minItems",
    "minimum",
    "multipleOf",
    "pattern",
    "required",
    "title",
    "type",
    "$ref",
];

/// Returns whether the whole schema follows the rules for strict schemas.
pub(crate) fn is_strict(schema: &Value) -> bool {
    let root = schema.get("type").and_then(Value::as_str) == Some("object") && schema.get("anyOf").is_none();
    root && keeps(schema)
}

fn keeps(schema: &Value) -> bool {
    let Some(schema) = schema.as_object() else { return false };
    let typed = ["type", "$ref", "anyOf", "enum", "const"].iter().any(|it| schema.contains_key(*it));
    typed
        && (!is_object(schema) || is_closed(schema))
        && schema.iter().all(|(name, value)| keyword(name, value))
}

fn keyword(name: &str, value: &Value) -> bool {
    match (name, value) {
        ("properties" | "$defs" | "definitions", Value::Object(schemas)) => schemas.values().all(keeps),
        ("anyOf", Value::Array(schemas)) => schemas.iter().all(keeps),
        ("items", schema) => keeps(schema),
        (name, _) => PLAIN.contains(&name),
    }
}

fn is_object(schema: &Map<String, Value>) -> bool {
    let named = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(|it| it == "object"),
        Some(other) => other == "object",
        None => false,
    };
    named || schema.contains_key("properties")
}

/// Returns whether an object allows no additional properties and requires all of its properties.
fn is_closed(schema: &Map<String, Value>) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &String| required.is_some_and(|it| it.iter().any(|it| it == name));
    let names = schema.get("properties").and_then(Value::as_object);
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        && names.is_none_or(|it| it.keys().all(is_required))
}

#[cfg(test)]
mod tests {
    use super::is_strict;
    use serde_json::json;

    #[test]
    fn closed_objects_are_strict_all_the_way_down() {
        let inner = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let schema = |inner| {
            json!({"type": "object", "properties": {"a": {"type": "array", "items": inner}},
                   "required": ["a"], "additionalProperties": false})
        };
        assert!(is_strict(&schema(inner)));
        assert!(!is_strict(&schema(json!({"type": "object"}))));
        assert!(!is_strict(&schema(json!({"type": "string", "minLength": 1}))));
        assert!(!is_strict(&schema(json!({}))));
        assert!(!is_strict(&schema(json!(true))));
    }

    #[test]
    fn an_optional_property_is_not_strict() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}},
                            "required": [], "additionalProperties": false});
        assert!(!is_strict(&schema));
    }
}
