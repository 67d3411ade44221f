//! How a node asks whether a tool may be called.

use contexture_agent::Verdict;
use serde_json::{Value, json};

use crate::{Question, QuestionKind};

/// Returns the question whether a tool may be called.
pub(crate) fn asked(tool: &str, about: Value) -> Question {
    let schema = json!({
        "type": "object",
        "properties": {"approve": {"type": "boolean"}, "reason": {"type": "string"}},
        "required": ["approve"],
        "additionalProperties": false,
    });
    Question { kind: QuestionKind::Approval, message: format!("May `{tool}` be called?"), schema, about }
}

/// Parses an answer to the question. Anything but a clear yes is a no.
pub(crate) fn decision(answer: &Value) -> Verdict {
    match answer["approve"].as_bool() {
        Some(true) => Verdict::Approve,
        _ => Verdict::Deny { reason: answer["reason"].as_str().map(str::to_owned) },
    }
}
