//! Ports: the typed inputs and outputs of a node.

pub(crate) mod value;
pub(crate) mod weight;

use std::fmt;

use contexture_compose::SchemaValidator;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use self::weight::check_depth;

/// The type of a port.
#[derive(Clone, Debug, PartialEq)]
pub enum PortType {
    /// The name of a thread.
    Thread,
    /// The names of tools.
    Tools,
    /// A JSON value.
    Data(DataType),
    /// Whatever comes: only that it comes counts.
    Signal,
}

/// A JSON type, and the schema that further restricts the value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataType {
    /// The JSON type.
    pub json: JsonType,
    /// A JSON Schema, where the definition gives more than the name of a type.
    pub schema: Option<Value>,
}

/// The types of JSON values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonType {
    /// Anything; it is checked where it arrives.
    #[default]
    Any,
    /// A string.
    String,
    /// A number, with or without a fraction.
    Number,
    /// An integer.
    Integer,
    /// A boolean.
    Boolean,
    /// A JSON object.
    Object,
    /// A JSON array.
    Array,
    /// The JSON null.
    Null,
}

impl JsonType {
    const NAMED: [(&'static str, JsonType); 8] = [
        ("any", JsonType::Any),
        ("string", JsonType::String),
        ("number", JsonType::Number),
        ("integer", JsonType::Integer),
        ("boolean", JsonType::Boolean),
        ("object", JsonType::Object),
        ("array", JsonType::Array),
        ("null", JsonType::Null),
    ];

    fn parse(name: &str) -> Option<JsonType> {
        Self::NAMED.into_iter().find(|(it, _)| *it == name).map(|(_, it)| it)
    }

    /// Returns the type's name.
    pub fn as_str(self) -> &'static str {
        Self::NAMED.into_iter().find(|(_, it)| *it == self).map_or("any", |(name, _)| name)
    }

    /// Whether a value of this type is allowed where `to` is expected. A value of unknown type is checked at run time.
    pub fn fits(self, to: JsonType) -> bool {
        self == to || self == JsonType::Any || to == JsonType::Any || (self, to) == INTEGER_AS_NUMBER
    }

    /// Whether a value has this type.
    pub fn holds(self, value: &Value) -> bool {
        match self {
            JsonType::Any => true,
            JsonType::String => value.is_string(),
            JsonType::Number => value.is_number(),
            // JSON Schema accepts 5.0 as an integer, and answers are checked with it.
            JsonType::Integer => {
                value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0)
            }
            JsonType::Boolean => value.is_boolean(),
            JsonType::Object => value.is_object(),
            JsonType::Array => value.is_array(),
            JsonType::Null => value.is_null(),
        }
    }
}

const INTEGER_AS_NUMBER: (JsonType, JsonType) = (JsonType::Integer, JsonType::Number);

impl fmt::Display for JsonType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl DataType {
    /// Returns a type without further conditions.
    pub fn of(json: JsonType) -> Self {
        Self { json, schema: None }
    }

    /// Returns why a value does not fit.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        if !self.json.holds(value) {
            return Err(format!("{} is expected, not {}", self.json, type_of(value)));
        }
        let Some(schema) = &self.schema else { return Ok(()) };
        fits(schema, value)
    }

    /// Returns the type as a JSON Schema.
    pub fn to_schema(&self) -> Value {
        match (&self.schema, self.json) {
            (Some(schema), _) => schema.clone(),
            (None, JsonType::Any) => Value::Object(serde_json::Map::new()),
            (None, json) => serde_json::json!({"type": json.as_str()}),
        }
    }
}

/// Returns the first reason why a value does not fit a schema.
pub(crate) fn fits(schema: &Value, value: &Value) -> Result<(), String> {
    let validator = SchemaValidator::new(schema).map_err(|err| err.to_string())?;
    validator.faults(value).into_iter().next().map_or(Ok(()), |it| Err(it.message))
}

/// Returns the name of a value's type.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl Serialize for DataType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.schema {
            Some(schema) => schema.serialize(serializer),
            None => self.json.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for DataType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        data_type(Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// Reads a type: its name, or a JSON Schema.
fn data_type(value: Value) -> Result<DataType, String> {
    let known = |name: &str| {
        let names = JsonType::NAMED.map(|(it, _)| it).join(", ");
        JsonType::parse(name).ok_or_else(|| format!("there is no type `{name}`; there are: {names}"))
    };
    match value {
        Value::String(name) => Ok(DataType::of(known(&name)?)),
        Value::Object(map) => {
            let json = match map.get("type") {
                Some(Value::String(name)) => known(name)?,
                _ => JsonType::Any,
            };
            let schema = Value::Object(map);
            check_depth(&schema).map_err(|why| format!("cannot use this JSON Schema: {why}"))?;
            SchemaValidator::new(&schema).map_err(|err| format!("cannot use this JSON Schema: {err}"))?;
            Ok(DataType { json, schema: Some(schema) })
        }
        other => Err(format!("a type is a name such as `string`, or a JSON Schema, not {}", type_of(&other))),
    }
}

impl PortType {
    /// Anything that is JSON.
    pub const ANY: PortType = PortType::Data(DataType { json: JsonType::Any, schema: None });
    /// A string.
    pub const STRING: PortType = PortType::Data(DataType { json: JsonType::String, schema: None });
    /// A JSON object.
    pub const OBJECT: PortType = PortType::Data(DataType { json: JsonType::Object, schema: None });

    /// Returns data of a JSON type.
    pub fn data(json: JsonType) -> Self {
        PortType::Data(DataType::of(json))
    }

    /// Whether what comes out of a port of this type may go into one of the type `to`.
    pub fn fits(&self, to: &PortType) -> bool {
        match (self, to) {
            (_, PortType::Signal) => true,
            (PortType::Thread, PortType::Thread) | (PortType::Tools, PortType::Tools) => true,
            (PortType::Data(from), PortType::Data(to)) => from.json.fits(to.json),
            _ => false,
        }
    }
}

impl fmt::Display for PortType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PortType::Thread => f.write_str("thread"),
            PortType::Tools => f.write_str("tools"),
            PortType::Signal => f.write_str("signal"),
            PortType::Data(data) => write!(f, "data ({})", data.json),
        }
    }
}

/// A port of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Port {
    /// Its name among the node's inputs, or among its outputs.
    pub name: String,
    /// The type of its values.
    pub of: PortType,
    /// Whether an input must be connected, or have a constant in `with`.
    pub required: bool,
    /// Whether an input is pulled only when the node needs it.
    pub lazy: bool,
}

impl Port {
    /// Returns an output, or an input that may stay unconnected.
    pub fn new(name: impl Into<String>, of: PortType) -> Self {
        Self { name: name.into(), of, required: false, lazy: false }
    }

    /// Makes it an input that must be connected.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Makes it an input that is pulled only when the node needs it.
    #[must_use]
    pub fn lazy(mut self) -> Self {
        self.lazy = true;
        self
    }
}
