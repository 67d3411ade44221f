//! How the model reads items that are not messages.
//!
//! The wording is in `templates/`; the engine's tags inside an item's text are neutralised.

use contexture_message::{Message, Part};

use super::fact::write_facts;
use crate::neutral::{neutral_part, neutralise};
use crate::{Envelope, EnvelopeTag, Summary, SystemEvent};

/// Returns the user message that a system event is replayed as.
pub(crate) fn event_message(event: &SystemEvent) -> Message {
    let template = include_str!("../../templates/system-event.txt");
    let name = attribute(&event.name);
    Message::user(filled(template, &[("name", &neutralise(&name)), ("text", &neutralise(&event.text))]))
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
    Part::text(filled(template, &[("text", &neutralise(&envelope.text))]))
}

/// Returns the user message that replaces summarised items.
pub(crate) fn summary_message(summary: &Summary) -> Message {
    let template = include_str!("../../templates/summary.txt");
    let text = match (summary.text.trim_end(), summary.facts.as_slice()) {
        (_, []) => summary.text.clone(),
        ("", facts) => write_facts(facts),
        (text, facts) => format!("{text}\n{}", write_facts(facts)),
    };
    Message::user(filled(template, &[("text", &neutralise(&text))]))
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
