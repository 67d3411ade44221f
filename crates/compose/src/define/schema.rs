//! JSON Schemas of inputs and outputs.

use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// A JSON Schema, from a Rust type or from JSON. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema(Arc<Value>);

impl Schema {
    /// Returns the schema of a type.
    ///
    /// Nested types are inlined, so that the properties of several schemas can be merged and compared without their
    /// definitions.
    pub fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|it| it.inline_subschemas = true);
        let mut value = settings.into_generator().into_root_schema_for::<T>().to_value();
        if let Some(object) = value.as_object_mut() {
            object.shift_remove("$schema");
        }
        Self(Arc::new(value))
    }

    /// Wraps a schema written as JSON.
    pub fn from_json(value: Value) -> Self {
        Self(Arc::new(value))
    }

    /// Returns the JSON.
    pub fn value(&self) -> &Arc<Value> {
        &self.0
    }

    /// Returns the top-level properties in order, including those of its variants, such as a tagged enum's.
    pub fn properties(&self) -> impl Iterator<Item = (String, Value)> {
        let mut found = IndexMap::new();
        collect_properties(&self.0, &mut found);
        found.into_iter().map(|(key, mut schemas)| match schemas.len() {
            1 => (key, schemas.swap_remove(0)),
            _ => (key, json!({"anyOf": schemas})),
        })
    }

    /// Returns the keys that every valid value has.
    pub(crate) fn required(&self) -> Vec<String> {
        required_keys(&self.0)
    }

    /// Returns whether keys that no owner declares are rejected.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.get("additionalProperties") == Some(&Value::Bool(false))
    }

    /// Returns the schema for keys that no owner declares, if there is one.
    pub(crate) fn additional(&self) -> Option<Value> {
        self.0.get("additionalProperties").filter(|it| it.is_object()).cloned()
    }

    /// Returns the definitions that `$ref`s inside a property point to.
    pub(crate) fn definitions(&self) -> Option<&Value> {
        self.0.get("$defs").or_else(|| self.0.get("definitions"))
    }
}

fn members<'a>(schema: &'a Value, keyword: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    schema.get(keyword).and_then(Value::as_array).into_iter().flatten()
}

/// Collects the schemas of each key from the variants that declare it.
fn collect_properties(schema: &Value, found: &mut IndexMap<String, Vec<Value>>) {
    let own = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    for (key, property) in own {
        let known = found.entry(key.clone()).or_default();
        if !known.contains(property) {
            known.push(property.clone());
        }
    }
    let variants = ["allOf", "oneOf", "anyOf"].into_iter().flat_map(|it| members(schema, it));
    variants.for_each(|it| collect_properties(it, found));
}

/// Returns the keys required by the schema itself, by one of its `allOf`, or by every variant.
fn required_keys(schema: &Value) -> Vec<String> {
    let own = members(schema, "required").filter_map(Value::as_str).map(str::to_owned);
    let mut keys: Vec<String> = own.chain(members(schema, "allOf").flat_map(required_keys)).collect();
    for keyword in ["oneOf", "anyOf"] {
        let variants: Vec<Vec<String>> = members(schema, keyword).map(required_keys).collect();
        let Some((first, others)) = variants.split_first() else { continue };
        keys.extend(first.iter().filter(|key| others.iter().all(|it| it.contains(key))).cloned());
    }
    keys
}
