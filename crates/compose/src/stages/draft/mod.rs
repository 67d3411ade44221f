//! A draft of a request: all Segments in order, and what several stages need of them (order and text of the system
//! message, messages, shares of the tag block).

mod replacement;
mod system;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_history::{Envelope, EnvelopeTag, Repair, SystemEvent, TransformChange};
use contexture_message::{Evidence, Part, Settings, TokenCounter, Tokens, ToolChoice};
use serde_json::Value;

use self::replacement::kept_entries;
pub(crate) use self::replacement::{Form, TagReplacement, named, without_leading_break};
pub(crate) use self::system::{SystemPiece, SystemText, system_order, system_text};
use super::rewrite::ShortenedResult;
use crate::define::checks::{Constraint, Guardrail, ToolMiddleware};
use crate::evaluated::Timing;
use crate::segment::{Fate, Runner, SharedText, SharedTool, Slot, envelope};
use crate::tags::TagTree;
use crate::{Body, CapabilityInfo, Segment, Source};

/// Everything that may be sent, in order.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) segments: Vec<Segment>,
    /// The tag tree; a Segment with [`Body::Tags`] owns the share of one entry.
    pub(crate) tree: TagTree,
    pub(crate) skeleton: Skeleton,
    pub(crate) extras: Extras,
    pub(crate) timings: Vec<Timing>,
    pub(crate) warnings: Vec<String>,
    /// The repairs that paired calls with results, by the repaired Segment.
    pub(crate) repairs: Vec<(Source, Repair)>,
    /// The token counts; filled in by `fit`.
    pub(crate) usage: Usage,
    /// The tokens of the hidden envelopes around their pieces.
    pub(crate) envelope: EnvelopeFrames,
    /// The capabilities that the prompt includes.
    pub(crate) capabilities: Arc<[CapabilityInfo]>,
    /// The effect of each transform.
    pub(crate) transforms: Vec<TransformChange>,
    /// The tool results that are shown as previews.
    pub(crate) shortened: Vec<ShortenedResult>,
    /// The text that replaces the tag block.
    pub(crate) replacement: Option<TagReplacement>,
}

impl Draft {
    /// Returns the text of the Segment that replaces the tag block, rendered for the entries that are kept now.
    pub(crate) fn replacement_text(&self, position: usize) -> Option<SharedText> {
        let replacement = self.replacement.as_ref().filter(|it| it.position == position)?;
        let kept = kept_entries(&self.segments);
        replacement.text(&self.tree, &|it| kept.contains(&it)).ok()
    }

    /// Distributes the tokens of the tag block, or of the text that replaces it, over its shares.
    pub(crate) fn count_shares(&mut self, counter: &dyn TokenCounter) {
        match &self.replacement {
            Some(replacement) => replacement.count(&mut self.segments, &self.tree, counter),
            None => count_shares(&mut self.segments, &self.tree, counter),
        }
    }

    /// Stores the final text in the Segment that replaces the tag block, once it is known what is kept.
    pub(crate) fn settle(&mut self) {
        let Some(position) = self.replacement.as_ref().map(|it| it.position) else { return };
        if let Some(text) = self.replacement_text(position)
            && let Some(segment) = self.segments.get_mut(position).filter(|it| it.fate.is_sent())
        {
            segment.fate = if text.trim().is_empty() { Fate::Empty } else { Fate::Kept };
            segment.body = Body::Text(text);
        }
    }
}

/// The parts of a request that are not Segments.
#[derive(Debug)]
pub(crate) struct Skeleton {
    pub(crate) model: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) tool_choice: Option<ToolChoice>,
    pub(crate) output: Option<Arc<Value>>,
}

/// What contributors add besides text and tools: definitions for the code that runs the turn.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Checks of the answer, those of entries first.
    pub constraints: Vec<Constraint>,
    /// Checks of input and output, those of entries first.
    pub guardrails: Vec<Guardrail>,
    /// Middleware that wraps tool calls.
    pub tool_middleware: Vec<ToolMiddleware>,
    /// Code to run when the turn is over, and before its thread is compacted.
    pub hooks: Vec<Runner>,
    /// Events for the thread's log, to be recorded with a turn that begins.
    pub events: Vec<SystemEvent>,
    /// Tools of the prompt and its entries that a call-site tool with the same name replaces.
    pub replaced_tools: Vec<SharedTool>,
    /// Metadata for the application, by source.
    pub metadata: BTreeMap<String, BTreeMap<String, Value>>,
}

/// The token counts and limits of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) system: Tokens,
    pub(crate) total: Tokens,
    pub(crate) token_budget: Option<Tokens>,
    pub(crate) input_budget: Option<Tokens>,
    pub(crate) counter: String,
    pub(crate) exact: bool,
}

/// Returns the Segments after the system message that are sent, in request order.
pub(crate) fn message_segments(draft: &Draft) -> impl Iterator<Item = &Segment> {
    let slots = [
        Slot::Context,
        Slot::Provider,
        Slot::History,
        Slot::User,
        Slot::Envelope,
        Slot::Reminders,
        Slot::InFlight,
    ];
    let slots = slots.into_iter();
    slots.flat_map(|slot| draft.segments.iter().filter(move |it| it.slot == slot && it.fate.is_sent()))
}

/// Returns the hidden envelope with everything of it that is sent.
pub(crate) fn envelope_of(draft: &Draft) -> Option<Envelope> {
    let segments: Vec<&Segment> = message_segments(draft).filter(|it| it.slot == Slot::Envelope).collect();
    let pieces: Vec<&str> = segments.iter().filter_map(|it| it.text()).collect();
    let evidence: Vec<Evidence> = segments.iter().flat_map(|it| evidence_in(&it.body)).cloned().collect();
    (!segments.is_empty()).then(|| envelope(EnvelopeTag::SystemContext, &pieces, evidence))
}

/// Returns the envelope of the reminders that are sent.
pub(crate) fn reminders_of(draft: &Draft) -> Option<Envelope> {
    let segments = message_segments(draft).filter(|it| it.slot == Slot::Reminders);
    let pieces: Vec<&str> = segments.filter_map(Segment::text).collect();
    (!pieces.is_empty()).then(|| envelope(EnvelopeTag::SystemReminders, &pieces, Vec::new()))
}

/// The tokens of the hidden envelopes around their pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EnvelopeFrames {
    pub(crate) context: Tokens,
    pub(crate) reminders: Tokens,
    /// The message around them, if the user said nothing.
    pub(crate) message: Tokens,
}

impl EnvelopeFrames {
    /// Returns the tokens besides those of the pieces. Each piece is on separate lines, with a line break between two.
    pub(crate) fn around(&self, n_context: u64, n_reminders: u64) -> u64 {
        let of = |frame: Tokens, n_pieces: u64| match n_pieces {
            0 => 0,
            n_pieces => u64::from(frame.0) + n_pieces - 1,
        };
        let message = if n_context + n_reminders > 0 { u64::from(self.message.0) } else { 0 };
        of(self.context, n_context) + of(self.reminders, n_reminders) + message
    }
}

/// Lists the search results in the messages of a Segment.
pub(crate) fn evidence_in(body: &Body) -> impl Iterator<Item = &Evidence> {
    let parts = body.messages().iter().flat_map(|it| &it.content);
    parts.filter_map(|it| if let Part::Evidence(evidence) = it { Some(evidence) } else { None })
}

/// Distributes the tokens of the tag block over its shares.
///
/// The highest priority pays for the wrappers that it opens, so that dropping in the reverse order frees exactly what
/// was counted.
pub(crate) fn count_shares(segments: &mut [Segment], tree: &TagTree, counter: &dyn TokenCounter) {
    let is_share = |it: &&mut Segment| it.slot == Slot::Tags && (it.fate.is_sent() || it.fate == Fate::Empty);
    let mut shares: Vec<&mut Segment> = segments.iter_mut().filter(is_share).collect();
    shares.sort_by_key(|it| (Reverse(it.pinned), Reverse(it.priority)));
    let mut admission = tree.admission();
    for segment in shares {
        let Body::Tags(entry) = segment.body else { continue };
        if !admission.has_share(entry) {
            segment.fate = Fate::Empty;
        }
        segment.tokens = admission.admit(entry, counter);
    }
}
