//! Tool calls with their outputs, bounded to what the model may see.

use contexture_history::Visibility;
use contexture_message::{Message, Part, Role, ToolCall, ToolOutput, ToolResult};
use contexture_session::NewItem;
use serde_json::{Value, json};

use super::bounded::bounded;
use super::depth::{is_output_too_deep, too_deep};
use super::own::{TOOL_OUTPUT, has_preview};
use crate::beside::Beside;
use crate::event::Event;

/// A call with its output.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) call: ToolCall,
    pub(crate) output: ToolOutput,
    /// The full text of the output, if the model sees a preview.
    pub(crate) whole: Option<String>,
    /// The raw value for the application, if it differs from the output.
    pub(crate) raw: Option<Value>,
}

impl Answered {
    /// Returns a call with the output that the client sent, bounded to what the model may see.
    pub(crate) fn from_outside(call: &ToolCall, output: ToolOutput, max_bytes: usize) -> Self {
        let output = match is_output_too_deep(&output) {
            true => ToolOutput::failure(output_too_deep(&call.name)),
            false => output,
        };
        Self::bounded(call, output, max_bytes)
    }

    pub(super) fn bounded(call: &ToolCall, output: ToolOutput, max_bytes: usize) -> Self {
        let bounded = bounded(output, max_bytes, &call.id);
        Self { call: call.clone(), output: bounded.output, whole: bounded.whole, raw: None }
    }

    /// Returns the event that announces the result.
    pub(crate) fn event(&self) -> Event {
        let (id, name) = (self.call.id.clone(), self.call.name.clone());
        Event::ToolResult { id, name, output: self.output.clone(), raw: self.raw.clone() }
    }
}

/// Returns the results as one message, preceded by the full texts of those that the model sees as a preview.
pub(crate) fn result_items(answered: Vec<Answered>) -> Vec<NewItem> {
    let mut items: Vec<NewItem> = Vec::new();
    let (mut parts, mut beside) = (Vec::new(), Beside::default());
    items.extend(answered.iter().any(|it| it.whole.is_some()).then(has_preview));
    for Answered { call, output, whole, raw } in answered {
        beside.raw.extend(raw.map(|it| (call.id.clone(), it)));
        items.extend(whole.map(|text| {
            let value = json!({"call_id": call.id, "name": call.name, "text": text});
            NewItem::application(TOOL_OUTPUT, value).visibility(Visibility::NONE)
        }));
        parts.push(Part::ToolResult(ToolResult { call_id: call.id, name: call.name, output }));
    }
    if !parts.is_empty() {
        items.extend(beside.record());
        items.push(NewItem::from(Message::parts(Role::Tool, parts)));
    }
    items
}

/// Returns the error for an output that is nested too deep.
pub(super) fn output_too_deep(tool: &str) -> String {
    too_deep(&format!("the output of tool `{tool}`"))
}
