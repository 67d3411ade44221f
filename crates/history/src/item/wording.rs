//! How the model reads items that are not messages.
//!
//! The wording is in `templates/`; the engine's tags inside an item's text are neutralised.

use contexture_message::{Message, Part, Role};
use serde_json::json;

use super::fact::write_facts;
use crate::neutral::{neutral_part, neutralise, neutralise_envelopes};
use crate::{Envelope, EnvelopeTag, Summary, SystemEvent};

/// Returns the user message that a system event is replayed as.
pub(crate) fn event_message(event: &SystemEvent) -> Message {
    Message::user(event_text(event))
}

fn event_text(event: &SystemEvent) -> String {
    let template = include_str!("../../templates/system-event.txt");
    let name = attribute(&event.name);
    filled(template, &[("name", &neutralise(&name)), ("text", &neutralise(&event.text))])
}

impl Summary {
    /// Returns the same summary with the event that tells the model about it, if it reads the summary at all.
    #[must_use]
    pub fn told(self) -> Self {
        let event = self.is_shown().then(|| Box::new(compaction_event(&self)));
        Self { event, ..self }
    }
}

fn compaction_event(summary: &Summary) -> SystemEvent {
    let template = match summary.text.trim().is_empty() {
        false => include_str!("../../templates/compaction.txt"),
        true => include_str!("../../templates/compaction-left-out.txt"),
    };
    let (first, last) = summary.turns;
    let turns = if first == last { first.to_string() } else { format!("{first} to {last}") };
    let archive = format!("a{}", summary.number);
    let text = filled(template, &[("turns", &turns), ("archive", &archive)]);
    SystemEvent::new("compaction", text)
        .data(json!({"archive": archive, "turns": [first.to_string(), last.to_string()]}))
}

/// Returns the parts that an envelope adds to the user's message: its evidence, then its text.
pub fn envelope_parts(envelope: &Envelope) -> Vec<Part> {
    let evidence = envelope.evidence.iter().map(|it| neutral_part(Part::Evidence(it.clone())));
    let has_text = envelope.evidence.is_empty() || !envelope.text.is_empty();
    evidence.chain(has_text.then(|| text_part(envelope))).collect()
}

fn text_part(envelope: &Envelope) -> Part {
    let template = match envelope.tag {
        EnvelopeTag::SystemContext => include_str!("../../templates/system-context.txt"),
        EnvelopeTag::SystemReminders => include_str!("../../templates/system-reminders.txt"),
    };
    // The engine composed it of neutralised texts.
    Part::text(filled(template, &[("text", &neutralise_envelopes(&envelope.text))]))
}

/// Returns the user message that replaces summarised items: the event that tells about them, then the summary.
pub(crate) fn summary_message(summary: &Summary) -> Message {
    let template = include_str!("../../templates/summary.txt");
    let text = match (summary.text.trim_end(), summary.facts.as_slice()) {
        (_, []) => summary.text.clone(),
        ("", facts) => write_facts(facts),
        (text, facts) => format!("{text}\n{}", write_facts(facts)),
    };
    let text = filled(template, &[("text", &neutralise(&text))]);
    match &summary.event {
        Some(event) => Message::parts(Role::User, vec![Part::text(event_text(event)), Part::text(text)]),
        None => Message::user(text),
    }
}

/// Returns the text of a summary, if `text` has the form that [`summary_message`] writes.
pub(crate) fn summary_text(text: &str) -> Option<&str> {
    let (lead, _) = include_str!("../../templates/summary.txt").split_once("{text}")?;
    text.strip_prefix(lead)
}

/// Returns the result text for a call that never got its result.
pub fn interrupted() -> &'static str {
    include_str!("../../templates/interrupted.txt").trim_end()
}

/// Returns the note that replaces images and files.
pub(crate) fn media_note(n_images: usize, n_files: usize) -> String {
    let template = include_str!("../../templates/media.txt");
    filled(template, &[("images", &n_images.to_string()), ("files", &n_files.to_string())])
}

/// Fills the `{…}` placeholders of a template. Values are inserted verbatim and never searched for placeholders.
pub(crate) fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let mut rest = template.trim_end_matches('\n');
    let mut out = String::with_capacity(rest.len() + values.iter().map(|(_, it)| it.len()).sum::<usize>());
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let value = after.split_once('}').and_then(|(name, after)| {
            values.iter().find(|(it, _)| *it == name).map(|(_, value)| (*value, after))
        });
        match value {
            Some((value, after)) => {
                out.push_str(value);
                rest = after;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Escapes an attribute value.
fn attribute(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}
