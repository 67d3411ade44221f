//! The texts of a body, in one order.
//!
//! Large texts are stored separately, and a row refers to each by its index in this order. The order is part of the
//! stored format: a new kind of text must not change existing indexes, so it goes at the end of its body.

use std::sync::Arc;

use contexture_history::{Body, Change};
use contexture_message::{File, Image, Part, ToolOutput};
use serde_json::Value;

/// Calls `visit` with every text that can be large.
pub(crate) fn each(body: &mut Body, visit: &mut dyn FnMut(&mut String)) {
    match body {
        // The message of an item that was just made or read is not shared yet, so nothing is copied.
        Body::Message(message) => {
            Arc::make_mut(message).content.iter_mut().for_each(|it| each_of_part(it, visit));
        }
        Body::SystemEvent(event) => {
            visit(&mut event.text);
            event.data.iter_mut().for_each(|it| each_of_value(it, visit));
        }
        Body::Envelope(envelope) => {
            visit(&mut envelope.text);
            envelope.evidence.iter_mut().flat_map(|it| &mut it.text).for_each(visit);
        }
        Body::Summary(summary) => visit(&mut summary.text),
        Body::Application(application) => each_of_value(&mut application.value, visit),
        Body::Change(Change::Instructions { text }) => text.iter_mut().for_each(visit),
        Body::Change(Change::TurnEnded { reason, .. }) => reason.iter_mut().for_each(visit),
        Body::Change(Change::Noted { value, .. }) => value.iter_mut().for_each(|it| each_of_value(it, visit)),
        Body::Change(_) => {}
    }
}

fn each_of_part(part: &mut Part, visit: &mut dyn FnMut(&mut String)) {
    use contexture_message::MediaSource::{Data, Id, Url};
    match part {
        Part::Text { text, citations } => {
            visit(text);
            citations.iter_mut().filter_map(|it| it.quote.as_mut()).for_each(visit);
        }
        Part::Evidence(evidence) => evidence.text.iter_mut().for_each(visit),
        Part::Image(Image { source, .. }) | Part::File(File { source, .. }) => match source {
            Data(text) | Url(text) | Id(text) => visit(text),
        },
        Part::Thinking(thinking) => {
            visit(&mut thinking.text);
            thinking.signature.iter_mut().for_each(visit);
        }
        Part::ToolCall(call) => each_of_value(&mut call.arguments, visit),
        Part::ToolResult(result) => match &mut result.output {
            ToolOutput::Text(text) | ToolOutput::ErrorText(text) => visit(text),
            ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => each_of_value(value, visit),
            ToolOutput::ExecutionDenied { reason } => reason.iter_mut().for_each(visit),
            ToolOutput::Content(parts) => parts.iter_mut().for_each(|it| each_of_part(it, visit)),
        },
    }
}

fn each_of_value(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => visit(text),
        Value::Array(items) => items.iter_mut().for_each(|it| each_of_value(it, visit)),
        Value::Object(fields) => fields.values_mut().for_each(|it| each_of_value(it, visit)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// How deep a value may be nested. Rows are parsed with a limit of 128, and wrap the value in a few levels.
pub(crate) const MAX_DEPTH: usize = 100;

/// Whether something in the body is nested so deep that it could not be read back.
pub(crate) fn is_deep(body: &Body) -> bool {
    match body {
        Body::Message(message) => message.content.iter().any(|it| is_deep_part(it, MAX_DEPTH)),
        Body::Application(application) => is_deep_value(&application.value, MAX_DEPTH),
        Body::Change(Change::Noted { value: Some(value), .. }) => is_deep_value(value, MAX_DEPTH),
        Body::SystemEvent(event) => event.data.as_ref().is_some_and(|it| is_deep_value(it, MAX_DEPTH)),
        Body::Envelope(_) | Body::Summary(_) | Body::Change(_) => false,
    }
}

fn is_deep_part(part: &Part, left: usize) -> bool {
    let Some(left) = left.checked_sub(1) else { return true };
    match part {
        Part::ToolCall(call) => is_deep_value(&call.arguments, left),
        Part::ToolResult(result) => match &result.output {
            ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => is_deep_value(value, left),
            // A list of parts in a part in an output: three levels.
            ToolOutput::Content(parts) => parts.iter().any(|it| is_deep_part(it, left.saturating_sub(3))),
            ToolOutput::Text(_) | ToolOutput::ErrorText(_) | ToolOutput::ExecutionDenied { .. } => false,
        },
        Part::Text { citations, .. } => {
            // A value in a citation in a list in a part: three levels.
            let raw = citations.iter().filter_map(|it| it.raw.as_ref());
            raw.into_iter().any(|it| is_deep_value(&it.value, left.saturating_sub(3)))
        }
        Part::Image(_) | Part::File(_) | Part::Evidence(_) | Part::Thinking(_) => false,
    }
}

fn is_deep_value(value: &Value, left: usize) -> bool {
    let Some(left) = left.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|it| is_deep_value(it, left)),
        Value::Object(fields) => fields.values().any(|it| is_deep_value(it, left)),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
