//! Redaction of messages.

use std::borrow::Cow;
use std::sync::Arc;

use contexture_message::{Citation, Evidence, Message, Part, ToolOutput};
use serde_json::{Map, Value};

use super::Redact;
use crate::transform::rewritten;

/// Returns the redacted message: the same one if the rules find nothing, and `None` if no part is left.
pub(super) fn redacted_message(
    redact: &Redact,
    message: &Arc<Message>,
    keeps_thinking: bool,
) -> Option<Arc<Message>> {
    let parts: Vec<Changed> = message.content.iter().map(|it| part(redact, it, keeps_thinking)).collect();
    if parts.iter().all(|it| matches!(it, Changed::Not)) {
        return Some(Arc::clone(message));
    }
    let changed = message.content.iter().zip(parts).filter_map(|(old, new)| match new {
        Changed::Not => Some(old.clone()),
        Changed::To(part) => Some(part),
        Changed::Gone => None,
    });
    let content: Vec<Part> = changed.collect();
    (!content.is_empty()).then(|| rewritten(message, content))
}

/// The outcome of redacting a part.
enum Changed {
    Not,
    To(Part),
    Gone,
}

impl From<Option<Part>> for Changed {
    fn from(part: Option<Part>) -> Self {
        part.map_or(Changed::Not, Changed::To)
    }
}

fn part(redact: &Redact, part: &Part, keeps_thinking: bool) -> Changed {
    match part {
        Part::Thinking(thinking) => match !keeps_thinking && changed(redact, &thinking.text).is_some() {
            true => Changed::Gone,
            false => Changed::Not,
        },
        other => visible(redact, other).into(),
    }
}

/// Returns the redacted part, or `None` if the rules find nothing.
fn visible(redact: &Redact, part: &Part) -> Option<Part> {
    match part {
        // Citations quote what the text says, so a text that is redacted loses them.
        Part::Text { text, citations } => {
            let is_quoted =
                |it: &Citation| it.quote.as_deref().is_some_and(|it| changed(redact, it).is_some());
            let is_secret = citations.iter().any(is_quoted);
            changed(redact, text).or_else(|| is_secret.then(|| text.clone())).map(Part::text)
        }
        Part::ToolCall(call) => {
            let arguments = value(redact, &call.arguments)?;
            Some(Part::ToolCall(contexture_message::ToolCall { arguments, ..call.clone() }))
        }
        Part::ToolResult(result) => {
            let output = output(redact, &result.output)?;
            Some(Part::ToolResult(contexture_message::ToolResult { output, ..result.clone() }))
        }
        Part::File(file) => {
            let name = changed(redact, file.name.as_deref()?)?;
            Some(Part::File(contexture_message::File { name: Some(name), ..file.clone() }))
        }
        Part::Evidence(evidence) => redacted_evidence(redact, evidence).map(Part::Evidence),
        Part::Image(_) | Part::Thinking(_) => None,
    }
}

fn redacted_evidence(redact: &Redact, evidence: &Evidence) -> Option<Evidence> {
    let over = |it: &String| redact.text(it).into_owned();
    let redacted = Evidence {
        source: over(&evidence.source),
        title: evidence.title.as_ref().map(over),
        text: evidence.text.iter().map(over).collect(),
        ..evidence.clone()
    };
    (redacted != *evidence).then_some(redacted)
}

fn output(redact: &Redact, output: &ToolOutput) -> Option<ToolOutput> {
    match output {
        ToolOutput::Text(text) => changed(redact, text).map(ToolOutput::Text),
        ToolOutput::ErrorText(text) => changed(redact, text).map(ToolOutput::ErrorText),
        ToolOutput::Json(json) => value(redact, json).map(ToolOutput::Json),
        ToolOutput::ErrorJson(json) => value(redact, json).map(ToolOutput::ErrorJson),
        ToolOutput::ExecutionDenied { reason } => {
            let reason = changed(redact, reason.as_deref()?)?;
            Some(ToolOutput::ExecutionDenied { reason: Some(reason) })
        }
        ToolOutput::Content(parts) => {
            let new: Vec<Option<Part>> = parts.iter().map(|it| visible(redact, it)).collect();
            let join = |(old, new): (&Part, Option<Part>)| new.unwrap_or_else(|| old.clone());
            let is_changed = new.iter().any(Option::is_some);
            is_changed.then(|| ToolOutput::Content(parts.iter().zip(new).map(join).collect()))
        }
    }
}

/// Returns the redacted value, or `None` if the rules find nothing. A number that is a secret becomes a string.
fn value(redact: &Redact, json: &Value) -> Option<Value> {
    match json {
        Value::Null | Value::Bool(_) => None,
        Value::Number(number) => changed(redact, &number.to_string()).map(Value::String),
        Value::String(text) => changed(redact, text).map(Value::String),
        Value::Array(items) => {
            let new: Vec<Option<Value>> = items.iter().map(|it| value(redact, it)).collect();
            let join = |(old, new): (&Value, Option<Value>)| new.unwrap_or_else(|| old.clone());
            new.iter().any(Option::is_some).then(|| items.iter().zip(new).map(join).collect())
        }
        Value::Object(fields) => object(redact, fields).map(Value::Object),
    }
}

fn object(redact: &Redact, fields: &Map<String, Value>) -> Option<Map<String, Value>> {
    let new: Vec<(Cow<'_, str>, Option<Value>)> =
        fields.iter().map(|(key, it)| (redact.text(key), value(redact, it))).collect();
    let is_changed =
        |(key, value): &(Cow<'_, str>, _)| matches!(key, Cow::Owned(_)) || Option::is_some(value);
    if !new.iter().any(is_changed) {
        return None;
    }
    let mut out = Map::new();
    for ((key, value), old) in new.into_iter().zip(fields.values()) {
        // Keys may become equal after redaction; each still needs a free name, so that no value is lost.
        let mut free = key.clone().into_owned();
        let mut count = 1;
        while out.contains_key(&free) {
            count += 1;
            free = format!("{key} ({count})");
        }
        out.insert(free, value.unwrap_or_else(|| old.clone()));
    }
    Some(out)
}

fn changed(redact: &Redact, text: &str) -> Option<String> {
    match redact.text(text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(text),
    }
}
