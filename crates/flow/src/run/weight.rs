//! How much a value weighs, about.

use serde_json::Value;

use crate::value::PortValue;

/// What a node may give at most, in bytes: it goes into the log, and into what every node behind it is given.
pub(crate) const MAX_WEIGHT: usize = 4 * 1024 * 1024;

/// Returns about how many bytes a value has.
pub(crate) fn weight(value: &PortValue) -> usize {
    match value {
        PortValue::Data(value) => of_json(value),
        PortValue::Thread(thread) => thread.as_str().len(),
        PortValue::Tools(names) => names.iter().map(String::len).sum(),
    }
}

fn of_json(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(of_json).sum::<usize>(),
        Value::Object(map) => 2 + map.iter().map(|(key, value)| key.len() + of_json(value)).sum::<usize>(),
    }
}
