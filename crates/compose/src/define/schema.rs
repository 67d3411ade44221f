//! JSON Schemas of inputs and outputs.

use std::sync::Arc;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// A JSON Schema, from a Rust type or from JSON. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema(Arc<Value>);

impl Schema {
    /// Returns the schema of a type.
    ///
    /// Nested types are written in place: the properties of several schemas can then be merged and compared
    /// without their definitions.
    pub fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|it| it.inline_subschemas = true);
        let mut value = settings.into_generator().into_root_schema_for::<T>().to_value();
        if let Some(object) = value.as_object_mut() {
            object.shift_remove("$schema");
        }
        Self(Arc::new(value))
    }

    /// Takes over a schema written as JSON.
    pub fn from_json(value: Value) -> Self {
        Self(Arc::new(value))
    }

    /// Returns the JSON.
    pub fn value(&self) -> &Arc<Value> {
        &self.0
    }

    /// Returns the top-level properties, in order.
    pub fn properties(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.0.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
    }

    /// Whether keys that no owner declares are refused.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.get("additionalProperties") == Some(&Value::Bool(false))
    }

    /// The schema of keys that no owner declares, where there is one.
    pub(crate) fn additional(&self) -> Option<Value> {
        self.0.get("additionalProperties").filter(|it| it.is_object()).cloned()
    }

    /// What `$ref`s inside a property point into.
    pub(crate) fn definitions(&self) -> Option<&Value> {
        self.0.get("$defs").or_else(|| self.0.get("definitions"))
    }
}
