//! Turns an arranged draft into a Request.
//!
//! The order is: one system message (own text, contexts, tag block, joined by blank lines), messages of the context
//! slot and of providers, the history, the user's turn with its hidden envelope, the messages in flight. Tools are
//! already sorted. Nothing is decided here.

use std::sync::Arc;

use contexture_history::{Envelope, envelope_parts};
use contexture_message::{Message, Part, Request, Role};

use super::arrange::Arranged;
use super::draft::{envelope_of, message_segments, reminders_of};
use crate::segment::{Body, Slot, is_of_the_user};
use crate::{Segment, Source};

/// A request, and the source of each message after the system message.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) request: Request,
    pub(crate) origins: Arc<[Source]>,
}

/// Renders the request.
pub(crate) fn render(arranged: &Arranged) -> Rendered {
    let Arranged { draft, system, cache, .. } = arranged;
    let mut turn = Turn::default();
    for segment in message_segments(draft) {
        match &segment.body {
            Body::Text(_) | Body::Messages(_) if segment.slot.is_enclosed() => {
                turn.envelope_source.get_or_insert_with(|| segment.source.clone());
            }
            Body::Messages(list) => list.iter().for_each(|it| turn.push(segment, Arc::clone(it))),
            Body::Text(text) => turn.push(segment, Arc::new(Message::user(text.as_str()))),
            Body::Nothing | Body::Tags(_) | Body::Tool(_) => {}
        }
    }
    let (messages, origins): (Vec<_>, Vec<_>) =
        turn.with_envelopes([envelope_of(draft), reminders_of(draft)]).into_iter().unzip();
    let tools = draft.segments.iter().filter_map(|it| match &it.body {
        Body::Tool(tool) if it.fate.is_sent() => Some(Arc::clone(tool.tool())),
        _ => None,
    });
    let request = Request {
        model: draft.skeleton.model.clone(),
        messages: system.iter().cloned().chain(messages).collect(),
        tools: tools.collect(),
        tool_choice: draft.skeleton.tool_choice.clone(),
        output: draft.skeleton.output.clone(),
        settings: draft.skeleton.settings.clone(),
        breakpoints: cache.breakpoints.clone(),
    };
    Rendered { request, origins: origins.into() }
}

/// Builds the messages after the system message.
#[derive(Default)]
struct Turn {
    messages: Vec<(Arc<Message>, Source)>,
    /// The index of this turn's first message.
    start: usize,
    /// The source of the first piece of the hidden envelope.
    envelope_source: Option<Source>,
}

impl Turn {
    fn push(&mut self, segment: &Segment, message: Arc<Message>) {
        self.messages.push((message, segment.source.clone()));
        if segment.slot <= Slot::History {
            self.start = self.messages.len();
        }
    }

    /// Puts the hidden envelopes after the visible text of this turn's user message.
    fn with_envelopes(mut self, envelopes: [Option<Envelope>; 2]) -> Vec<(Arc<Message>, Source)> {
        let Some(source) = self.envelope_source else { return self.messages };
        let parts: Vec<Part> = envelopes.iter().flatten().flat_map(envelope_parts).collect();
        let user = self.messages[self.start..].iter_mut().find(|(it, _)| is_of_the_user(it));
        match user {
            Some((message, _)) => Arc::make_mut(message).content.extend(parts),
            None => {
                let message = Arc::new(Message::parts(Role::User, parts));
                self.messages.insert(self.start, (message, source));
            }
        }
        self.messages
    }
}
