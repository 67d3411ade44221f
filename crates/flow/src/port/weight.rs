//! How much a value weighs, about, and how deep it is.

use serde_json::Value;

/// The maximum size of a node's outputs, in bytes: they go into the log, and into the inputs of following nodes.
pub(crate) const MAX_WEIGHT: usize = 4 * 1024 * 1024;

/// How deep a value may be nested: around it are the levels of the records that it is kept in, and what is deeper than
/// 127 in all can't be read again.
pub(crate) const MAX_DEPTH: usize = 96;

/// Rejects an answer that is too large for a node to pass on.
pub(crate) fn check_size(value: &Value) -> Result<(), String> {
    check_depth(value)?;
    match of_json(value) {
        heavy if heavy > MAX_WEIGHT => Err(format!("it has about {heavy} bytes, the limit is {MAX_WEIGHT}")),
        _ => Ok(()),
    }
}

/// Rejects a value that is nested too deep.
pub(crate) fn check_depth(value: &Value) -> Result<(), String> {
    match is_deeper(value, MAX_DEPTH) {
        true => Err(format!("it is nested deeper than {MAX_DEPTH} levels")),
        false => Ok(()),
    }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let mut inner: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => return false,
    };
    levels == 0 || inner.any(|it| is_deeper(it, levels - 1))
}

/// Returns about how many bytes a value has.
pub(super) fn of_json(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(of_json).sum::<usize>(),
        Value::Object(map) => 2 + map.iter().map(|(key, value)| key.len() + of_json(value)).sum::<usize>(),
    }
}
