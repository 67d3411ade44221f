//! The values that travel along edges.
//!
//! A thread's content can't be expressed here: a node returns data, names of threads and names of tools, so it can't
//! overwrite a thread by returning something.

use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_session::ThreadId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::weight::of_json;
use super::{PortType, type_of};

/// The values that travel along edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PortValue {
    /// A JSON value.
    Data(Arc<Value>),
    /// The id of a thread.
    Thread(ThreadId),
    /// The names of tools.
    Tools(Vec<String>),
}

/// The inputs or outputs of a node, by port.
pub type PortValues = BTreeMap<String, PortValue>;

impl PortValue {
    /// Returns the value as JSON.
    pub fn data(value: impl Into<Value>) -> Self {
        PortValue::Data(Arc::new(value.into()))
    }

    /// Returns the JSON value, if it is one.
    pub fn as_data(&self) -> Option<&Value> {
        match self {
            PortValue::Data(value) => Some(value),
            PortValue::Thread(_) | PortValue::Tools(_) => None,
        }
    }

    /// Returns the text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        self.as_data()?.as_str()
    }

    /// Returns the thread, if it is one.
    pub fn as_thread(&self) -> Option<&ThreadId> {
        match self {
            PortValue::Thread(thread) => Some(thread),
            PortValue::Data(_) | PortValue::Tools(_) => None,
        }
    }

    /// Returns the value as plain JSON, for templates and results.
    pub fn to_json(&self) -> Value {
        match self {
            PortValue::Data(value) => (**value).clone(),
            PortValue::Thread(thread) => Value::String(thread.to_string()),
            PortValue::Tools(names) => names.iter().cloned().map(Value::String).collect(),
        }
    }

    /// Returns about how many bytes it has.
    pub(crate) fn weight(&self) -> usize {
        match self {
            PortValue::Data(value) => of_json(value),
            // Its name is short, whatever it holds.
            PortValue::Thread(_) => 0,
            PortValue::Tools(names) => names.iter().map(String::len).sum(),
        }
    }

    /// Returns why the value does not fit a port's type.
    pub fn check(&self, of: &PortType) -> Result<(), String> {
        match (self, of) {
            (_, PortType::Signal)
            | (PortValue::Thread(_), PortType::Thread)
            | (PortValue::Tools(_), PortType::Tools) => Ok(()),
            (PortValue::Data(value), PortType::Data(data)) => data.check(value),
            (PortValue::Data(value), _) => Err(format!("{of} is expected, not {}", type_of(value))),
            (PortValue::Thread(_), _) => Err(format!("{of} is expected, not a thread")),
            (PortValue::Tools(_), _) => Err(format!("{of} is expected, not tools")),
        }
    }
}

impl From<&str> for PortValue {
    fn from(text: &str) -> Self {
        PortValue::data(text)
    }
}
