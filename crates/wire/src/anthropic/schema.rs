//! Reduces output schemas to the JSON Schema subset that the API enforces.
//!
//! The API only accepts objects without additional properties, and a few keywords. As in the official SDKs,
//! unsupported keywords are moved into the description, where the model can read them; `oneOf` becomes `anyOf`.

use serde_json::{Map, Value};

const FORMATS: [&str; 10] =
    ["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"];

/// Returns the schema to send for `schema`.
pub(super) fn strict(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let mut kept = Map::new();
    let mut moved = Vec::new();
    for (key, value) in fields {
        match (key.as_str(), value) {
            ("$schema" | "$id" | "$comment", _) => {}
            ("type" | "enum" | "const" | "$ref" | "title" | "description" | "required", _) => {
                kept.insert(key.clone(), value.clone());
            }
            ("properties" | "$defs" | "definitions", Value::Object(schemas)) => {
                let schemas = schemas.iter().map(|(name, it)| (name.clone(), strict(it)));
                kept.insert(key.clone(), Value::Object(schemas.collect()));
            }
            ("anyOf" | "oneOf", Value::Array(schemas)) => {
                kept.insert("anyOf".to_owned(), schemas.iter().map(strict).collect());
            }
            ("allOf", Value::Array(schemas)) => {
                kept.insert(key.clone(), schemas.iter().map(strict).collect());
            }
            ("items", _) => drop(kept.insert(key.clone(), strict(value))),
            ("additionalProperties", _) => drop(kept.insert(key.clone(), false.into())),
            ("format", Value::String(format)) if FORMATS.contains(&format.as_str()) => {
                kept.insert(key.clone(), value.clone());
            }
            ("minItems", Value::Number(least)) if least.as_u64().is_some_and(|it| it < 2) => {
                kept.insert(key.clone(), value.clone());
            }
            _ => moved.push(format!("{key}: {value}")),
        }
    }
    if kept.get("type").is_some_and(|it| it == "object") {
        kept.insert("additionalProperties".to_owned(), false.into());
    }
    if !moved.is_empty() {
        let before = kept.get("description").and_then(Value::as_str).map(|it| format!("{it}\n\n"));
        let description = format!("{}{{{}}}", before.unwrap_or_default(), moved.join(", "));
        kept.insert("description".to_owned(), description.into());
    }
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use super::strict;
    use serde_json::json;

    #[test]
    fn unsupported_keywords_move_into_the_description() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "n": {"type": "integer", "minimum": 1, "description": "A number."},
                "when": {"type": "string", "format": "date"},
                "who": {"oneOf": [{"type": "null"}, {"type": "object", "additionalProperties": true}]},
            },
        });
        insta::assert_snapshot!(strict(&schema), @r#"{"type":"object","properties":{"n":{"type":"integer","description":"A number.\n\n{minimum: 1}"},"when":{"type":"string","format":"date"},"who":{"anyOf":[{"type":"null"},{"type":"object","additionalProperties":false}]}},"additionalProperties":false}"#);
    }
}
