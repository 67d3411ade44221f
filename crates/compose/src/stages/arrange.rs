//! Orders the Segments of the system message and places cache breakpoints.
//!
//! Returns the fitted draft with its system message in order and with cache breakpoints. The order in full: the
//! prompt's own text, then the frozen prefix, then entries declared `cached`, then the rest, each in the author's
//! order; or, with `cache_first`, by volatility. The tag block comes last, followed only by what is declared to
//! change each turn. Priorities play no part here.

use std::sync::Arc;

use contexture_message::{Breakpoint, CacheRules, Message, Role, Tokens};

use super::draft::{Draft, SystemPiece, SystemText, message_segments, system_order, system_text};
use super::setup::Setup;
use crate::Segment;
use crate::cache::{CacheFacts, assumed_rules};
use crate::define::Arrangement;
use crate::segment::{Slot, Volatility, is_of_the_user};

/// A draft in its final order.
#[derive(Debug)]
pub(crate) struct Arranged {
    pub(crate) draft: Draft,
    pub(crate) arrangement: Arrangement,
    pub(crate) rules: CacheRules,
    /// The tokens of a message around its text.
    frame: Tokens,
    /// The composed system message, if it has any content.
    pub(crate) system: Option<Arc<Message>>,
    /// The byte ranges of its pieces.
    pub(crate) pieces: Vec<SystemPiece>,
    pub(crate) cache: CacheFacts,
}

impl Arranged {
    /// Returns the tokens of this turn besides its Segments: the message around its text, and the envelope around its
    /// pieces.
    pub(crate) fn active_frame(&self) -> Tokens {
        let of_slot = |slot| sent(&self.draft).filter(move |it| it.slot == slot).count();
        let texts = sent(&self.draft).filter(|it| it.slot == Slot::User && it.text().is_some()).count();
        let message = Tokens(self.frame.0.saturating_mul(u32::try_from(texts).unwrap_or(u32::MAX)));
        let (context, reminders) = (of_slot(Slot::Envelope) as u64, of_slot(Slot::Reminders) as u64);
        let around = self.draft.envelope.around(context, reminders);
        message + Tokens(u32::try_from(around).unwrap_or(u32::MAX))
    }
}

/// Orders a fitted draft.
pub(crate) fn arrange(mut draft: Draft, setup: &Setup<'_>) -> Arranged {
    let arrangement = setup.prompt.definition.cache.arrange;
    let order = system_order(&draft.segments, arrangement);
    let system = system_text(&draft, &order);
    let rules = setup.options.target.cache_rules.unwrap_or_else(|| assumed_rules(setup.model.as_deref()));
    draft.warnings.extend(order_warnings(&draft, &system));
    draft.warnings.extend(turn_warnings(&draft));
    draft.warnings.extend(window_warning(setup));
    let stable = Stable::of(&draft, &system);
    let cache = CacheFacts {
        prefix_tokens: stable.tokens,
        breakpoints: breakpoints(&draft, &system, &stable, rules),
        edits: setup.options.cache.edits.clone(),
        ..CacheFacts::default()
    };
    let SystemText { text, pieces } = system;
    let system = Some(text).filter(|it| !it.is_empty()).map(|it| Arc::new(Message::system(it)));
    let frame = Tokens(setup.counter.profile().framing.message);
    Arranged { draft, arrangement, rules, frame, system, pieces, cache }
}

/// Warns about bytes that could be cached but are not, because something before them changes.
fn order_warnings(draft: &Draft, system: &SystemText) -> Vec<String> {
    let mut volatile: Option<&Segment> = None;
    let mut warnings = Vec::new();
    for piece in &system.pieces {
        let Some(segment) = piece.segment.map(|it| &draft.segments[it]) else { continue };
        match volatile {
            Some(before) if segment.volatility == Volatility::Static => {
                let remedy = if before.source.is_own() {
                    "move what changes out of the prompt's own text"
                } else {
                    "declare it `cached`"
                };
                warnings.push(format!(
                    "static {} ({} tokens) stands behind {}, which changes each turn, and can't be cached; {remedy}",
                    segment.source, segment.tokens, before.source
                ));
            }
            None if segment.volatility == Volatility::Turn => volatile = Some(segment),
            _ => {}
        }
    }
    warnings
}

/// Warns that the model's window is a guess.
fn window_warning(setup: &Setup<'_>) -> Option<String> {
    let limits = &setup.options.target.limits;
    let window = limits.context_window.filter(|_| limits.window_assumed)?;
    let model = setup.model.as_deref().unwrap_or("?");
    Some(format!(
        "the context window of `{model}` is not known: {window} tokens are assumed; `context_window` of the model says more"
    ))
}

/// Warns about content before the history that changes each turn, which keeps the history out of the cache.
fn turn_warnings(draft: &Draft) -> Vec<String> {
    let history: Tokens = sent(draft).filter(|it| it.slot == Slot::History).map(|it| it.tokens).sum();
    let is_before = |it: &&Segment| match it.slot {
        Slot::SystemLast => true,
        // Messages may change each turn as long as no history follows them.
        Slot::Context | Slot::Provider => it.volatility == Volatility::Turn && history > Tokens(0),
        _ => false,
    };
    let warning = |it: &Segment| {
        format!(
            "{} changes each turn and stands before the history: {history} history tokens can't be cached; \
             put it into the user's message instead",
            it.source
        )
    };
    sent(draft).filter(is_before).map(warning).collect()
}

/// The prefix of the request that does not change with the turn.
struct Stable {
    tokens: Tokens,
    /// Tokens up to the end of the tools.
    tools: Tokens,
    /// The end of the stable pieces of the system message, in bytes and tokens.
    system: Option<(usize, Tokens)>,
    /// Whether the stable prefix reaches the end of the history.
    through_history: bool,
}

impl Stable {
    fn of(draft: &Draft, system: &SystemText) -> Self {
        let tools: Tokens = sent(draft).filter(|it| it.slot == Slot::Tools).map(|it| it.tokens).sum();
        let mut tokens = tools;
        let mut end = None;
        for piece in &system.pieces {
            if piece.volatility(draft) == Volatility::Turn {
                return Self { tokens, tools, system: end, through_history: false };
            }
            tokens += piece.tokens(draft);
            end = Some((piece.bytes.end, tokens));
        }
        let mut through_history = true;
        for segment in message_segments(draft).filter(|it| it.slot < Slot::User) {
            if segment.volatility == Volatility::Turn {
                through_history = false;
                break;
            }
            tokens += segment.tokens;
        }
        Self { tokens, tools, system: end, through_history }
    }
}

fn sent(draft: &Draft) -> impl Iterator<Item = &Segment> {
    draft.segments.iter().filter(|it| it.fate.is_sent())
}

/// Allocates the provider's breakpoints: the end of the tools, of the stable system text and of the history, and in
/// later steps of a turn the end of the request.
fn breakpoints(draft: &Draft, system: &SystemText, stable: &Stable, rules: CacheRules) -> Vec<Breakpoint> {
    let has_tools = stable.tools > Tokens(0);
    let tools = has_tools.then_some((Breakpoint::Tools, stable.tools));
    let prefix = stable.system.map(|(byte, tokens)| (Breakpoint::Text { message: 0, byte }, tokens));
    let history = Some(stable).filter(|it| it.through_history).and_then(|it| {
        let before = usize::from(!system.text.is_empty());
        let stored = message_segments(draft).filter(|it| it.slot < Slot::User);
        let counted: usize = stored.map(|it| it.body.n_messages()).sum();
        let has_history = sent(draft).any(|it| it.slot == Slot::History);
        has_history.then(|| (Breakpoint::Message { message: before + counted - 1 }, it.tokens))
    });
    let step =
        last_message(draft, system).map(|message| (Breakpoint::Message { message }, draft.usage.total));
    let candidates = [tools, prefix, history, step].into_iter().flatten();
    let large: Vec<_> =
        candidates.filter(|(_, tokens)| *tokens >= rules.min_tokens).map(|(it, _)| it).collect();
    // The later a breakpoint, the more it covers, so the earliest are skipped.
    let surplus = large.len().saturating_sub(rules.max_breakpoints);
    large.into_iter().skip(surplus).collect()
}

/// Returns the position of the last message, if the model has answered in this turn. The next step will read up to
/// there again, and a provider that searches back only a limited distance always finds this breakpoint.
fn last_message(draft: &Draft, system: &SystemText) -> Option<usize> {
    let active = || sent(draft).filter(|it| it.slot == Slot::InFlight);
    let messages = || active().flat_map(|it| it.body.messages());
    if !messages().any(|it| it.role == Role::Assistant) {
        return None;
    }
    let stored: usize =
        message_segments(draft).filter(|it| it.slot < Slot::User).map(|it| it.body.n_messages()).sum();
    let own = sent(draft).filter(|it| it.slot == Slot::User);
    let n_own: usize = own.map(|it| it.body.n_messages().max(1)).sum();
    let has_words = n_own > 0 || messages().any(|it| is_of_the_user(it));
    let has_envelope = sent(draft).any(|it| it.slot.is_enclosed());
    // If the user said nothing, the envelope is a separate message.
    let n_envelopes = usize::from(has_envelope && !has_words);
    let n_system = usize::from(!system.text.is_empty());
    (n_system + stored + n_own + n_envelopes + messages().count()).checked_sub(1)
}
