//! A text of the prompt that replaces the tag block: a `<context>` section, or a system text that contains one.
//!
//! Contributions keep their source and priority in it. Contributions that the budget drops are missing from the map
//! that the text reads, so the text is rendered again for those that are kept. A contribution costs what it adds to
//! the text.

use std::cmp::Reverse;

use contexture_message::{TokenCounter, Tokens};
use serde_json::{Map, Value};

use crate::evaluated::OwnText;
use crate::segment::{Fate, SharedText, Slot};
use crate::tags::TagTree;
use crate::{Body, Call, Error, Segment, Source};

/// Why a value was excluded.
const UNREAD: &str = "the prompt's `<context>` does not read it";

/// A text that replaces the tag block.
pub(crate) struct TagReplacement {
    text: OwnText,
    call: Call,
    form: Form,
    /// The position of its Segment.
    pub(crate) position: usize,
}

impl std::fmt::Debug for TagReplacement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TagReplacement").field("position", &self.position).finish_non_exhaustive()
    }
}

/// The kind of text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// The body of a section, which is wrapped in its tag.
    Section,
    /// A system text that contains a section, and whether it is the first one.
    System { is_first: bool },
}

impl TagReplacement {
    pub(crate) fn new(text: OwnText, call: &Call, form: Form, position: usize) -> Self {
        Self { text, call: call.clone(), form, position }
    }

    /// Renders the text for the entries that are `kept`.
    pub(crate) fn text(&self, tree: &TagTree, kept: &dyn Fn(usize) -> bool) -> Result<SharedText, Error> {
        let texts: Map<String, Value> = named(tree.texts_kept(kept));
        match self.render(texts.clone()) {
            Ok(text) => Ok(text),
            // A template that does not expect a missing key can still read it as null.
            Err(_) => {
                let names = tree.texts().into_iter().map(|(name, _)| (name.to_owned(), Value::Null));
                self.render(names.chain(texts).collect())
            }
        }
    }

    fn render(&self, texts: Map<String, Value>) -> Result<SharedText, Error> {
        let mut config = (*self.call.config).clone();
        config["context"] = Value::Object(texts);
        let (text, _) = self.text.render(&Source::Prompt, &self.call.with_config(config))?;
        Ok(match self.form {
            Form::Section => section(&text),
            Form::System { is_first: true } => without_blank_section(text),
            Form::System { is_first: false } => without_leading_break(without_blank_section(text)),
        })
    }

    /// Distributes the tokens of the text over the contributions in it. The highest priority is counted first, so
    /// that dropping in the reverse order frees exactly what was counted.
    pub(crate) fn count(&self, segments: &mut [Segment], tree: &TagTree, counter: &dyn TokenCounter) {
        let mut order: Vec<usize> = (0..segments.len()).filter(|&it| is_share(&segments[it])).collect();
        order.sort_by_key(|&it| (Reverse(segments[it].pinned), Reverse(segments[it].priority)));
        let mut admitted: Vec<usize> = Vec::with_capacity(order.len());
        let render = |admitted: &[usize]| self.text(tree, &|it| admitted.contains(&it)).ok();
        let mut text = render(&admitted);
        let mut tokens = text.as_ref().map_or(Tokens(0), |it| counter.count(it));
        if let Some(own) = segments.get_mut(self.position) {
            own.tokens = tokens;
        }
        for position in order {
            let Body::Tags(entry) = segments[position].body else { continue };
            admitted.push(entry);
            let with = render(&admitted);
            let sum = with.as_ref().map_or(tokens, |it| counter.count(it));
            if with.as_deref() == text.as_deref() {
                segments[position].fate = Fate::Excluded { reason: UNREAD.into() };
            }
            segments[position].tokens = sum.saturating_sub(tokens);
            (text, tokens) = (with, sum.max(tokens));
        }
    }
}

fn is_share(segment: &Segment) -> bool {
    segment.slot == Slot::Tags && segment.fate.is_sent() && matches!(segment.body, Body::Tags(_))
}

/// Lists the entries of the tag tree that are sent.
pub(crate) fn kept_entries(segments: &[Segment]) -> Vec<usize> {
    let entry = |it: &Segment| match it.body {
        Body::Tags(entry) if it.fate.is_sent() => Some(entry),
        Body::Tags(_) | Body::Nothing | Body::Text(_) | Body::Messages(_) | Body::Tool(_) => None,
    };
    segments.iter().filter_map(entry).collect()
}

/// Returns texts by the names of their tags.
pub(crate) fn named(texts: Vec<(&str, String)>) -> Map<String, Value> {
    texts.into_iter().map(|(name, text)| (name.to_owned(), Value::String(text))).collect()
}

/// Wraps a section in its tag. A blank section makes no text.
fn section(text: &str) -> SharedText {
    let text = text.trim_matches(['\n', '\r']);
    match text.trim().is_empty() {
        true => SharedText::authored(""),
        false => SharedText::authored(&format!("<context>\n{text}\n</context>")),
    }
}

/// Removes a section that has no content.
fn without_blank_section(text: SharedText) -> SharedText {
    const OPEN: &str = "<context>";
    const CLOSE: &str = "</context>";
    let blank = text.match_indices(OPEN).find_map(|(start, _)| {
        let inner = text.get(start + OPEN.len()..)?;
        let rest = inner.trim_start().strip_prefix(CLOSE)?;
        Some((text.get(..start)?, rest))
    });
    match blank {
        Some((before, after)) => {
            let after = if before.is_empty() || before.ends_with('\n') {
                after.trim_start_matches('\n')
            } else {
                after
            };
            SharedText::authored(format!("{before}{after}").trim_end_matches('\n'))
        }
        None => text,
    }
}

/// Removes a leading blank line. Pieces are joined with one, so a piece that brings its own would get a second.
pub(crate) fn without_leading_break(text: SharedText) -> SharedText {
    match text.strip_prefix("\n\n").or_else(|| text.strip_prefix('\n')) {
        Some(rest) => SharedText::authored(rest),
        None => text,
    }
}
