//! Filters a call's arguments by what its tool declares. Anything else was made up by the model and is not sent.
//!
//! The rules:
//!
//! 1. A property is declared by `properties`, by a matching pattern of `patternProperties`, or by an
//!    `additionalProperties` that is present and not `false`; also behind `$ref`, `allOf`, `anyOf`, `oneOf`, `then`,
//!    `else` and `dependentSchemas`.
//! 2. A declared property is kept as far as its schema declares its contents, to any depth.
//! 3. A value whose schema says nothing about its contents is kept unchanged. This does not apply to the arguments
//!    themselves: if a tool declares none, none are sent.

use regex::Regex;
use serde_json::{Map, Value};

/// The maximum number of schemas examined for one value. Only references that multiply lead to more.
const MAX_SCHEMAS: usize = 500;

/// Returns the arguments that `parameters` declares.
pub(crate) fn declared(parameters: &Value, arguments: &Value) -> Map<String, Value> {
    let Value::Object(map) = arguments else { return Map::new() };
    kept(parameters, &flat(parameters, vec![parameters]), map)
}

fn kept(root: &Value, schemas: &[&Value], map: &Map<String, Value>) -> Map<String, Value> {
    let each = map.iter().filter_map(|(key, value)| {
        let of_key: Vec<&Value> = schemas.iter().filter_map(|it| property(it, key)).collect();
        (!of_key.is_empty()).then(|| (key.clone(), pruned(root, of_key, value)))
    });
    each.collect()
}

/// Returns the part of a value that its schemas declare.
fn pruned(root: &Value, schemas: Vec<&Value>, value: &Value) -> Value {
    const OF_OBJECTS: [&str; 4] =
        ["properties", "patternProperties", "additionalProperties", "unevaluatedProperties"];
    const OF_LISTS: [&str; 3] = ["items", "prefixItems", "additionalItems"];
    let says = |schemas: &[&Value], keys: &[&str]| {
        schemas.iter().any(|it| keys.iter().any(|key| it.get(*key).is_some()))
    };
    match value {
        Value::Object(map) => {
            let schemas = flat(root, schemas);
            if says(&schemas, &OF_OBJECTS) { Value::Object(kept(root, &schemas, map)) } else { value.clone() }
        }
        Value::Array(items) => {
            let schemas = flat(root, schemas);
            if !says(&schemas, &OF_LISTS) {
                return value.clone();
            }
            let each = items.iter().enumerate().map(|(idx, it)| {
                pruned(root, schemas.iter().filter_map(|schema| item(schema, idx)).collect(), it)
            });
            Value::Array(each.collect())
        }
        _ => value.clone(),
    }
}

/// Returns the schema of a property, if the schema declares it.
fn property<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    let of_pattern = || {
        let patterns = schema.get("patternProperties")?.as_object()?;
        // A pattern that does not compile declares nothing.
        let fits = |pattern: &str| Regex::new(pattern).is_ok_and(|it| it.is_match(key));
        patterns.iter().find(|(pattern, _)| fits(pattern)).map(|(_, it)| it)
    };
    let of_others = |keyword: &str| schema.get(keyword).filter(|it| **it != Value::Bool(false));
    schema
        .get("properties")
        .and_then(|it| it.get(key))
        .or_else(of_pattern)
        .or_else(|| of_others("additionalProperties"))
        .or_else(|| of_others("unevaluatedProperties"))
}

/// Returns the schema of a list item, if the schema declares it.
fn item(schema: &Value, idx: usize) -> Option<&Value> {
    let first = |keyword: &str| schema.get(keyword)?.as_array()?.get(idx);
    let rest = |keyword: &str| schema.get(keyword).filter(|it| it.is_object());
    first("prefixItems")
        .or_else(|| first("items"))
        .or_else(|| rest("items"))
        .or_else(|| rest("additionalItems"))
}

/// Returns schemas together with all subschemas that apply to the same value.
fn flat<'a>(root: &'a Value, schemas: Vec<&'a Value>) -> Vec<&'a Value> {
    let mut all: Vec<&Value> = schemas;
    let mut idx = 0;
    while let Some(schema) = all.get(idx).copied().filter(|_| all.len() < MAX_SCHEMAS) {
        idx += 1;
        let target =
            schema.get("$ref").and_then(Value::as_str).and_then(|it| root.pointer(it.strip_prefix('#')?));
        let lists = ["allOf", "anyOf", "oneOf"].iter().filter_map(|it| schema.get(*it)?.as_array());
        let single = ["if", "then", "else"].iter().filter_map(|it| schema.get(*it));
        let dependent = schema.get("dependentSchemas").and_then(Value::as_object);
        let next: Vec<&Value> = target
            .into_iter()
            .chain(lists.flatten())
            .chain(single)
            .chain(dependent.into_iter().flat_map(Map::values))
            .filter(|it| !all.iter().any(|known| std::ptr::eq(*known, *it)))
            .collect();
        all.extend(next);
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::declared;

    fn sent(parameters: Value, arguments: Value) -> String {
        Value::Object(declared(&parameters, &arguments)).to_string()
    }

    #[test]
    fn only_what_is_declared_is_kept_at_every_depth() {
        let item = json!({"type": "object", "properties": {"sku": {"type": "string"}}});
        let parameters = json!({"type": "object", "properties": {
            "order": {"type": "object", "properties": {"id": {}, "items": {"type": "array", "items": item}}},
        }});
        let arguments = json!({"admin": true, "order": {"id": 7, "price": 0,
            "items": [{"sku": "a", "discount": 1}, {"discount": 1}]}});
        assert_eq!(sent(parameters, arguments), r#"{"order":{"id":7,"items":[{"sku":"a"},{}]}}"#);
        assert_eq!(sent(json!({"type": "object"}), json!({"a": 1})), "{}");
        assert_eq!(sent(json!({}), json!({"a": 1})), "{}");
        assert_eq!(sent(json!({"properties": {"a": {}}}), json!("a")), "{}");
    }

    #[test]
    fn what_authors_leave_open_stays_open() {
        let open =
            json!({"properties": {"filter": {"type": "object"}, "tags": {"type": "array"}, "any": true}});
        let arguments = json!({"filter": {"a": {"b": 1}}, "tags": [{"a": 1}], "any": {"x": [1]}});
        assert_eq!(sent(open, arguments.clone()), arguments.to_string());
        let map = json!({"properties": {"labels": {"additionalProperties": {"properties": {"a": {}}}}}});
        assert_eq!(sent(map, json!({"labels": {"x": {"a": 1, "b": 2}}})), r#"{"labels":{"x":{"a":1}}}"#);
        let patterns = json!({"patternProperties": {"^x-": {}}, "additionalProperties": false});
        assert_eq!(sent(patterns, json!({"x-a": 1, "y": 2})), r#"{"x-a":1}"#);
        assert_eq!(sent(json!({"additionalProperties": true}), json!({"a": {"b": 1}})), r#"{"a":{"b":1}}"#);
    }

    #[test]
    fn declarations_are_found_behind_references_and_alternatives() {
        let parameters = json!({
            "allOf": [{"$ref": "#/$defs/a"}, {"anyOf": [{"properties": {"b": {}}}, {"properties": {"c": {}}}]}],
            "$defs": {"a": {"properties": {"tree": {"$ref": "#/$defs/a"}, "x": {}}}},
        });
        let arguments = json!({"tree": {"tree": {"x": 1, "admin": 1}, "b": 2}, "b": 1, "c": 1, "d": 1});
        assert_eq!(sent(parameters, arguments), r#"{"tree":{"tree":{"x":1}},"b":1,"c":1}"#);
    }
}
