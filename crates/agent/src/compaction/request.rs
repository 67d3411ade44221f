//! The request that asks a model for a summary.
//!
//! Where the range begins with the conversation, it is the conversation's own request with the question behind it: the
//! provider has read it before and reads it from its cache. A range from the middle is shown by itself, one message a line, so
//! that nothing before it gets into its summary again.

use std::sync::Arc;

use contexture_compose::{Body, Pass, Segment, Slot, Source};
use contexture_history::compaction::{Strategy, SummaryPrompt};
use contexture_history::{Transforms, Turn, without_media, without_thinking};
use contexture_message::{Breakpoint, Message, Request, Settings, ToolChoice};

use super::SummaryCall;

/// Where a range begins.
pub(crate) enum Start {
    /// With the conversation.
    Beginning,
    /// Behind something that is not summarised.
    Middle,
}

/// Returns what a summariser gets for turns of a range.
pub(crate) fn summary_call(
    pass: &Pass,
    start: &Start,
    turns: Vec<Turn>,
    messages: Vec<Arc<Message>>,
    prompt: SummaryPrompt,
    reason: Strategy,
    thread: String,
) -> SummaryCall {
    let request = Arc::new(match start {
        Start::Beginning => continued(pass, &messages, &prompt),
        Start::Middle => apart(pass, turns, &prompt),
    });
    SummaryCall { messages, reason, prompt, request, thread }
}

/// The conversation, and behind it the question.
fn continued(pass: &Pass, messages: &[Arc<Message>], prompt: &SummaryPrompt) -> Request {
    let sent = pass.request();
    let head = sent.messages.iter().take(n_before_history(pass)).cloned();
    let mut all: Vec<Arc<Message>> = head.chain(messages.iter().cloned()).collect();
    let last = all.len().checked_sub(1);
    let marks = sent.breakpoints.iter().filter(|it| !matches!(it, Breakpoint::Message { .. })).copied();
    let end = last.map(|message| Breakpoint::Message { message }).filter(|_| !sent.breakpoints.is_empty());
    let breakpoints = marks.chain(end).collect();
    all.push(Arc::new(Message::user(prompt.user.as_str())));
    let tool_choice = sent.tool_choice.clone().filter(|it| !is_forced(it));
    let settings = roomy(&sent.settings, prompt);
    Request { messages: all, output: None, tool_choice, settings, breakpoints, ..sent.clone() }
}

/// Whether the model must call a tool: then it can't say anything.
fn is_forced(choice: &ToolChoice) -> bool {
    matches!(choice, ToolChoice::Required | ToolChoice::Tool(_))
}

/// Returns the settings of the conversation, with room for a summary where its answers are kept shorter.
fn roomy(settings: &Settings, prompt: &SummaryPrompt) -> Settings {
    let max_tokens = settings.max_tokens.map(|it| it.max(prompt.max_tokens.0));
    Settings { max_tokens, ..settings.clone() }
}

/// The range as text, and behind it the question.
fn apart(pass: &Pass, turns: Vec<Turn>, prompt: &SummaryPrompt) -> Request {
    let plain = Transforms::default().then(without_thinking()).then(without_media());
    let turns = plain.run(turns).turns;
    let lines = turns.iter().flat_map(|it| it.messages());
    // Plain data with string keys: writing it as JSON can't fail.
    let lines: Vec<String> = lines.map(|it| serde_json::to_string(&**it).unwrap_or_default()).collect();
    let question = format!("{}\n\n{}", lines.join("\n"), prompt.user);
    let messages = vec![Arc::new(Message::system(prompt.system.as_str())), Arc::new(Message::user(question))];
    let (tools, tool_choice, output, breakpoints) = (Vec::new(), None, None, Vec::new());
    let settings = roomy(&pass.request().settings, prompt);
    Request { messages, tools, tool_choice, output, settings, breakpoints, ..pass.request().clone() }
}

/// How many messages of a request stand before the history; what was prepended to it is never summarised.
fn n_before_history(pass: &Pass) -> usize {
    let prepended = Source::named("history", Turn::LEADING);
    let is_before =
        |it: &Segment| matches!(it.slot, Slot::Context | Slot::Provider) || it.source == prepended;
    let before = pass.segments().iter().filter(|it| is_before(it) && it.fate.is_sent());
    let n_messages: usize = before
        .map(|it| match &it.body {
            Body::Messages(messages) => messages.len(),
            Body::Text(_) => 1,
            Body::Nothing | Body::Tags(_) | Body::Tool(_) => 0,
        })
        .sum();
    n_messages + usize::from(pass.has_system())
}
