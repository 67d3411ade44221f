//! The texts of a body, in one order.
//!
//! Large texts are stored apart, and a row says which text of a body each is by its number in this order. The order is
//! part of the stored format: a new kind of text goes where it changes no number, which is at the end of its body.

use std::sync::Arc;

use contexture_history::{Body, Change};
use contexture_message::{Message, Part, ToolOutput};
use serde_json::Value;

/// Calls `visit` with every text that can be large.
pub(crate) fn each(body: &mut Body, visit: &mut dyn FnMut(&mut String)) {
    match body {
        Body::Message(message) => each_of_message(message, visit),
        Body::SystemEvent(event) => visit(&mut event.text),
        Body::Envelope(envelope) => visit(&mut envelope.text),
        Body::Summary(summary) => visit(&mut summary.text),
        Body::Application(application) => each_of_value(&mut application.value, visit),
        Body::Change(Change::Instructions { text }) => text.iter_mut().for_each(visit),
        Body::Change(Change::TurnEnded { reason, .. }) => reason.iter_mut().for_each(visit),
        Body::Change(_) => {}
    }
}

fn each_of_message(message: &mut Arc<Message>, visit: &mut dyn FnMut(&mut String)) {
    // The message of an item that was just made or read is not shared yet, so nothing is copied.
    Arc::make_mut(message).content.iter_mut().for_each(|it| each_of_part(it, visit));
}

fn each_of_part(part: &mut Part, visit: &mut dyn FnMut(&mut String)) {
    use contexture_message::MediaSource::{Data, Id, Url};
    match part {
        Part::Text { text } => visit(text),
        Part::Image(image) => match &mut image.source {
            Data(text) | Url(text) | Id(text) => visit(text),
        },
        Part::File(file) => match &mut file.source {
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
