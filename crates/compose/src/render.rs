//! Turns an arranged draft into a Request.
//!
//! The order is: one system message (own text, contexts, tag block, joined by blank lines), messages of the context
//! slot and of providers, the history, the user's turn with its hidden envelope, the messages in flight. Tools are
//! already sorted. Nothing is decided here.

use std::borrow::Cow;
use std::sync::Arc;

use contexture_history::neutral::neutralise;
use contexture_history::{Envelope, EnvelopeTag, envelope_part};
use contexture_message::{Message, Part, Request, Role};

use crate::arrange::{Arranged, SystemPiece};
use crate::merge::Draft;
use crate::merge::owned::kept_entries;
use crate::segment::{Body, Slot};
use crate::tags::TagStyle;
use crate::{Segment, Source};

/// The separator between the pieces of the system message.
pub(crate) const SEPARATOR: &str = "\n\n";

/// The composed system message, and the byte ranges of its pieces.
#[derive(Debug, Default)]
pub(crate) struct SystemText {
    pub(crate) text: String,
    pub(crate) pieces: Vec<SystemPiece>,
}

/// Joins the pieces of the system message that are sent, in the given order.
pub(crate) fn system_text(draft: &Draft, order: &[usize]) -> SystemText {
    let tags = tag_block(draft);
    let sent = order.iter().map(|&it| &draft.segments[it]).filter(|it| it.fate.is_sent());
    let size: usize = sent.filter_map(|it| Some(it.text()?.len() + SEPARATOR.len())).sum();
    let mut system = SystemText { text: String::with_capacity(size + tags.len()), pieces: Vec::new() };
    let mut tags = Some(tags).filter(|it| !it.is_empty());
    for &position in order {
        let segment = &draft.segments[position];
        if !segment.fate.is_sent() {
            continue;
        }
        match &segment.body {
            Body::Text(text) => match draft.owned_text(position) {
                Some(owned) if owned.trim().is_empty() => {}
                Some(owned) => system.push(Some(position), &owned),
                None => system.push(Some(position), text),
            },
            // The text that replaces the tag block already contains these values.
            Body::Tags(_) if draft.owned.is_some() => {}
            // The first share is replaced by the whole block.
            Body::Tags(_) => {
                if let Some(block) = tags.take() {
                    system.push(None, &block);
                }
            }
            Body::Nothing | Body::Messages(_) | Body::Tool(_) => {}
        }
    }
    system
}

impl SystemText {
    fn push(&mut self, segment: Option<usize>, text: &str) {
        if !self.text.is_empty() {
            self.text.push_str(SEPARATOR);
        }
        let start = self.text.len();
        self.text.push_str(text);
        self.pieces.push(SystemPiece { segment, bytes: start..self.text.len() });
    }
}

fn tag_block(draft: &Draft) -> String {
    let entries = kept_entries(&draft.segments);
    if entries.is_empty() || draft.owned.is_some() {
        return String::new();
    }
    let mut kept = vec![false; entries.iter().max().map_or(0, |it| it + 1)];
    entries.into_iter().for_each(|it| kept[it] = true);
    draft.tree.render_kept(TagStyle::default(), &|entry| kept.get(entry).copied().unwrap_or(false))
}

/// Returns the Segments after the system message that are sent, in request order.
pub(crate) fn message_segments(draft: &Draft) -> impl Iterator<Item = &Segment> {
    let slots = [Slot::Context, Slot::Provider, Slot::History, Slot::User, Slot::Envelope, Slot::InFlight]
        .into_iter();
    slots.flat_map(|slot| draft.segments.iter().filter(move |it| it.slot == slot && it.fate.is_sent()))
}

/// Lists the pieces of the hidden envelope that are sent.
pub(crate) fn envelope_pieces(draft: &Draft) -> Vec<&str> {
    message_segments(draft).filter(|it| it.slot == Slot::Envelope).filter_map(Segment::text).collect()
}

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
            Body::Messages(list) => list.iter().for_each(|it| turn.push(segment, Arc::clone(it))),
            Body::Text(text) if segment.slot == Slot::Envelope => turn.envelope(segment, text),
            Body::Text(text) => turn.push(segment, Arc::new(Message::user(text.as_str()))),
            Body::Nothing | Body::Tags(_) | Body::Tool(_) => {}
        }
    }
    let (messages, origins): (Vec<_>, Vec<_>) = turn.with_envelope().into_iter().unzip();
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
struct Turn<'a> {
    messages: Vec<(Arc<Message>, Source)>,
    /// The index of this turn's first message.
    start: usize,
    /// The pieces of the hidden envelope.
    envelope: Vec<&'a str>,
    envelope_source: Option<Source>,
}

impl<'a> Turn<'a> {
    fn push(&mut self, segment: &Segment, message: Arc<Message>) {
        self.messages.push((message, segment.source.clone()));
        if segment.slot <= Slot::History {
            self.start = self.messages.len();
        }
    }

    fn envelope(&mut self, segment: &Segment, text: &'a str) {
        self.envelope.push(text);
        self.envelope_source.get_or_insert_with(|| segment.source.clone());
    }

    /// Puts the hidden envelope after the visible text of this turn's user message.
    fn with_envelope(mut self) -> Vec<(Arc<Message>, Source)> {
        let Some(source) = self.envelope_source else { return self.messages };
        let part = envelope_part(&hidden(&self.envelope));
        let user = self.messages[self.start..].iter_mut().find(|(it, _)| is_of_the_user(it));
        match user {
            Some((message, _)) => Arc::make_mut(message).content.push(part),
            None => {
                let message = Arc::new(Message::parts(Role::User, vec![part]));
                self.messages.insert(self.start, (message, source));
            }
        }
        self.messages
    }
}

/// Returns the envelope with these pieces, each on separate lines.
fn hidden(pieces: &[&str]) -> Envelope {
    Envelope { tag: EnvelopeTag::SystemContext, text: pieces.join("\n") }
}

/// Returns the text of the envelope with these pieces.
pub(crate) fn envelope(pieces: &[&str]) -> String {
    match envelope_part(&hidden(pieces)) {
        Part::Text { text } => text,
        _ => String::new(),
    }
}

/// Returns whether the user wrote the message: it is not the engine's and contains no tool results.
pub(crate) fn is_of_the_user(message: &Message) -> bool {
    let is_result = |it: &Part| matches!(it, Part::ToolResult(_));
    message.role == Role::User
        && !message.content.iter().any(is_result)
        && !message.content.iter().all(is_engines)
}

/// Returns whether the engine created a part. In all other parts the engine's tags were neutralised before.
pub(crate) fn is_engines(part: &Part) -> bool {
    matches!(part, Part::Text { text } if matches!(neutralise(text), Cow::Owned(_)))
}
