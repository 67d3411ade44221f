//! Values that are nested deeper than a log can hold.
//!
//! Stores refuse values that they could not read back, and code that recurses into a very deep value overflows the
//! stack. External values are therefore checked first, and one that is too deep is dismantled before it is dropped.

use contexture_message::ToolOutput;
use serde_json::Value;

/// The maximum depth of a value: what stores accept, minus the levels that items add around it.
pub(crate) const MAX_DEPTH: usize = 96;

/// Whether a value is nested too deep.
pub(crate) fn is_too_deep(value: &Value) -> bool {
    is_deeper(value, MAX_DEPTH)
}

/// Whether an output for the model is nested too deep.
pub(crate) fn is_output_too_deep(output: &ToolOutput) -> bool {
    match output {
        ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => is_too_deep(value),
        ToolOutput::Text(_)
        | ToolOutput::ErrorText(_)
        | ToolOutput::ExecutionDenied { .. }
        | ToolOutput::Content(_) => false,
    }
}

/// Whether a value has more than `left` levels. The recursion stops at the limit.
fn is_deeper(value: &Value, left: usize) -> bool {
    let Some(left) = left.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|it| is_deeper(it, left)),
        Value::Object(fields) => fields.values().any(|it| is_deeper(it, left)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Drops a value level by level, because dropping it at once would need a stack as deep as the value.
pub(crate) fn take_apart(value: Value) {
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::Array(items) => left.extend(items),
            Value::Object(fields) => left.extend(fields.into_iter().map(|(_, it)| it)),
            Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Returns the error for a value that is nested too deep.
pub(crate) fn too_deep(what: &str) -> String {
    format!("{what} is nested deeper than {MAX_DEPTH} levels")
}
