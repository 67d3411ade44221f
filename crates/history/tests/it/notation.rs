//! Turns and messages as text, both ways.
//!
//! A line is a turn, a role and what is said: `t1 assistant +c1 let me see`. `+id` is a call, `=id` a result (`=id!` one
//! that says `interrupted`), `~` a thought, `#` an image; other words are text. `t1 -` is a turn without messages, and a turn
//! whose name ends in `…` is in flight.

use std::sync::Arc;

use contexture_history::{Repair, Turn, TurnStatus};
use contexture_message::{
    Image, MediaSource, Message, Part, Role, Thinking, ToolCall, ToolOutput, ToolResult,
};

/// Reads turns.
pub(crate) fn turns(text: &str) -> Vec<Turn> {
    let mut turns: Vec<(String, Vec<Message>)> = Vec::new();
    for line in lines(text) {
        let (id, said) = line.split_once(' ').unwrap_or((line, "-"));
        if turns.last().is_none_or(|(open, _)| open != id) {
            turns.push((id.to_owned(), Vec::new()));
        }
        if let (Some((_, messages)), false) = (turns.last_mut(), said == "-") {
            messages.push(message(said));
        }
    }
    let turn = |(id, messages): (String, Vec<Message>)| match id.strip_suffix('…') {
        Some(id) => Turn::new(id, messages).with_status(TurnStatus::InFlight),
        None => Turn::new(id, messages),
    };
    turns.into_iter().map(turn).collect()
}

/// Reads messages without turns.
pub(crate) fn messages(text: &str) -> Vec<Arc<Message>> {
    lines(text).map(|it| Arc::new(message(it))).collect()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|it| !it.is_empty())
}

/// Reads one message.
pub(crate) fn message(text: &str) -> Message {
    let mut words = text.split_whitespace();
    let role = words.next().and_then(Role::parse).unwrap_or_else(|| panic!("no role: {text}"));
    let mut parts: Vec<Part> = Vec::new();
    for word in words {
        match (part(word), parts.last_mut()) {
            (Some(part), _) => parts.push(part),
            (None, Some(Part::Text { text, .. })) => {
                text.push(' ');
                text.push_str(word);
            }
            (None, _) => parts.push(Part::text(word)),
        }
    }
    Message::parts(role, parts)
}

fn part(word: &str) -> Option<Part> {
    let result = |id: &str, output: ToolOutput| {
        Part::ToolResult(ToolResult { call_id: id.to_owned(), name: "find".to_owned(), output })
    };
    Some(match word.split_at_checked(1)? {
        ("+", id) => {
            let arguments = serde_json::json!({});
            Part::ToolCall(ToolCall { id: id.to_owned(), name: "find".to_owned(), arguments })
        }
        ("=", id) => match id.strip_suffix('!') {
            Some(id) => result(id, ToolOutput::ErrorText("interrupted".to_owned())),
            None => result(id, ToolOutput::Text("found".to_owned())),
        },
        ("~", _) => Part::Thinking(Thinking { text: "hm".to_owned(), ..Thinking::default() }),
        ("#", _) => Part::Image(Image { source: MediaSource::Url("u".to_owned()), media_type: None }),
        _ => return None,
    })
}

/// Shows a message.
pub(crate) fn shown(message: &Message) -> String {
    let words = message.content.iter().map(|part| match part {
        Part::Text { text, .. } => text.clone(),
        Part::ToolCall(call) => format!("+{}", call.id),
        Part::ToolResult(result) => match &result.output {
            ToolOutput::ErrorText(_) => format!("={}!", result.call_id),
            ToolOutput::Content(parts) => {
                let inner = Message::parts(Role::Tool, parts.clone());
                format!("={} ({})", result.call_id, shown(&inner))
            }
            _ => format!("={}", result.call_id),
        },
        Part::Thinking(_) => "~".to_owned(),
        Part::Image(_) | Part::File(_) | Part::Evidence(_) => "#".to_owned(),
    });
    [message.role.as_str().to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// Shows turns with their messages.
pub(crate) fn shown_turns<'a>(turns: impl IntoIterator<Item = &'a Turn>) -> String {
    let mut out = Vec::new();
    for turn in turns {
        match turn.messages() {
            [] => out.push(format!("{} -", turn.id())),
            messages => out.extend(messages.iter().map(|it| format!("{} {}", turn.id(), shown(it)))),
        }
    }
    out.join("\n")
}

/// Shows messages and repairs.
pub(crate) fn shown_messages(messages: &[Arc<Message>], repairs: &[Repair]) -> String {
    let lines = messages.iter().map(|it| shown(it));
    lines.chain(repairs.iter().map(|it| format!("! {it}"))).collect::<Vec<_>>().join("\n")
}
