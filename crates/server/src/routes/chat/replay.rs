//! A turn that is over, read from the log: for a request that is sent again.

use contexture_agent::waiting_calls;
use contexture_history::{Body, Item, TurnNo};
use contexture_message::{Part, Role, StopReason, Usage};
use contexture_session::{SessionError, Thread};

use super::answer::{CompletionResult, StreamedText};
use super::locate::recent;

/// Returns the answer to the newest request of a turn: everything after the last results that its client sent.
pub(crate) async fn replayed(thread: &Thread, turn: TurnNo) -> Result<CompletionResult, SessionError> {
    let items = recent(thread).await?;
    let items: Vec<Item> = items.into_iter().filter(|it| it.turn == turn).collect();
    let resumed = items
        .iter()
        .rposition(|it| matches!(&it.body, Body::Change(contexture_history::Change::TurnResumed)));
    let mut streamed = StreamedText::default();
    for item in &items[resumed.unwrap_or(0)..] {
        if let Body::Message(message) = &item.body
            && message.role == Role::Assistant
        {
            for part in &message.content {
                if let Part::Text { text, .. } = part {
                    streamed.text.push_str(text);
                }
            }
        }
    }
    let calls = waiting_calls(&items);
    let stop = if calls.is_empty() { StopReason::End } else { StopReason::ToolCalls };
    Ok(CompletionResult { streamed, calls, stop, usage: Usage::default(), approvals: Vec::new() })
}
