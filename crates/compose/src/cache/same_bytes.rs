//! Compares requests byte by byte without serializing them.
//!
//! Equality is not enough: JSON objects are equal regardless of key order, but their bytes are not. Shared values are
//! the same without being read.

use std::sync::Arc;

use contexture_message::{Message, Part, ToolDefinition, ToolOutput};
use serde_json::Value;

/// Returns whether two tools serialize to the same bytes: unlike for equality, the order of keys counts.
pub(crate) fn is_same_tool(a: &Arc<ToolDefinition>, b: &Arc<ToolDefinition>) -> bool {
    let is_same_text = || a.name == b.name && a.description == b.description;
    Arc::ptr_eq(a, b) || (is_same_text() && is_same_value(&a.parameters, &b.parameters))
}

/// Returns whether two messages have the same role and content, whether in this turn or in the history.
pub(crate) fn is_same_message(a: &Arc<Message>, b: &Arc<Message>) -> bool {
    let is_same_content = || {
        a.content.len() == b.content.len()
            && a.content.iter().zip(&b.content).all(|(a, b)| is_same_part(a, b))
    };
    Arc::ptr_eq(a, b) || (a.role == b.role && is_same_content())
}

fn is_same_part(a: &Part, b: &Part) -> bool {
    match (a, b) {
        (Part::ToolCall(a), Part::ToolCall(b)) => {
            a.id == b.id && a.name == b.name && is_same_value(&a.arguments, &b.arguments)
        }
        (Part::ToolResult(a), Part::ToolResult(b)) => {
            a.call_id == b.call_id && a.name == b.name && is_same_output(&a.output, &b.output)
        }
        _ => a == b,
    }
}

fn is_same_output(a: &ToolOutput, b: &ToolOutput) -> bool {
    match (a, b) {
        (ToolOutput::Json(a), ToolOutput::Json(b)) | (ToolOutput::ErrorJson(a), ToolOutput::ErrorJson(b)) => {
            is_same_value(a, b)
        }
        _ => a == b,
    }
}

/// Returns whether two values serialize to the same bytes: unlike for equality, the order of keys counts.
fn is_same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && is_same_value(a, b))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same_value(a, b))
        }
        _ => a == b,
    }
}
