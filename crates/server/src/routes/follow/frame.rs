//! Events as server-sent events. JSON contains no line breaks.

use std::fmt::Write as _;

use contexture_agent::Event;
use contexture_flow::RunEvent;
use contexture_history::TurnNo;
use contexture_session::ThreadId;
use serde::Serialize;
use serde_json::Value;

use crate::events::cursor::Cursor;

/// More text of an answer: most events are of this kind.
#[derive(Serialize)]
struct TextDelta<'a> {
    r#type: &'a str,
    text: &'a str,
    thread: &'a str,
    turn: &'a str,
}

/// Adds an event of a turn, with its thread and turn. One that is not in the log has no id.
pub(super) fn turn_frame(
    frames: &mut String,
    id: Option<&Cursor>,
    thread: &ThreadId,
    turn: TurnNo,
    event: Event,
) {
    let (thread, turn) = (thread.as_str(), &*turn.to_string());
    let mut delta = |r#type, text| {
        frame(frames, id, r#type, &serde_json::to_string(&TextDelta { r#type, text, thread, turn }))
    };
    match &event {
        Event::TextDelta { text } => return delta("text.delta", text),
        Event::ThinkingDelta { text } => return delta("thinking.delta", text),
        _ => {}
    }
    let mut value = serde_json::to_value(event).unwrap_or_default();
    (value["thread"], value["turn"]) = (thread.into(), turn.into());
    if let Some(Value::Object(approval)) = value.get_mut("approval")
        && approval["token"] == ""
    {
        // The token of an approval is sent to the client of the turn only.
        approval.remove("token");
    }
    frame(frames, id, value["type"].as_str().unwrap_or_default(), &serde_json::to_string(&value));
}

/// Adds an event of a run.
pub(super) fn run_frame(frames: &mut String, id: Option<&Cursor>, event: &RunEvent) {
    frame(frames, id, event.name(), &serde_json::to_string(event));
}

fn frame(frames: &mut String, id: Option<&Cursor>, name: &str, data: &serde_json::Result<String>) {
    let Ok(data) = data else { return };
    // Writing to a text can't fail.
    let _ = id.map_or(Ok(()), |id| writeln!(frames, "id: {id}"));
    let _ = write!(frames, "event: {name}\ndata: {data}\n\n");
}
