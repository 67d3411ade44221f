//! Fits a draft into its token budgets.
//!
//! Returns the [`Draft`] with the fate of each Segment decided. The rules in full:
//!
//! 1. `token_budget` limits the composed system text, `input_budget` the whole request. An estimated count keeps a
//!    margin.
//! 2. Pinned Segments stay: the prompt's own text, tools, the user's turn, the newest turn with content. If they alone
//!    do not fit, the pass fails; nothing is cut silently.
//! 3. The lowest priority is reduced first; among equals the later one, and in the history the older turn. It is
//!    replaced by the longest of its shorter forms that fits, or dropped if none does. So nothing of lower priority
//!    than a dropped Segment is kept, unless the budget sets `fill`.
//! 4. With an exact counter the rendered request never exceeds the limit: sums that come close to it are checked by
//!    counting the rendered text itself.
//!
//! No Segment is removed or reordered here.

mod cut;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use contexture_message::tokens::schema_tokens;
use contexture_message::{TokenCounter, Tokens};

use self::cut::cut;
use super::draft::{Draft, EnvelopeFrames, Usage, system_order, system_text};
use super::setup::Setup;
use crate::define::Arrangement;
use crate::segment::{Fate, SEPARATOR, SharedText, Slot};
use crate::{Body, Error, ErrorKind, Segment, Source};

/// Decides which Segments are kept, shortened and dropped.
pub(crate) fn fit(mut draft: Draft, setup: &Setup<'_>) -> Result<Draft, Error> {
    let profile = setup.counter.profile();
    let input_budget = input_budget(setup);
    let mut fitting = Fitting {
        counter: &setup.counter,
        exact: profile.exact,
        margin: profile.margin_percent(),
        framing: profile.framing,
        separator: setup.counter.count(SEPARATOR),
        arrangement: setup.prompt.definition.cache.arrange,
        schema: draft.skeleton.output.as_ref().map_or(Tokens(0), |it| schema_tokens(&*setup.counter, it)),
        draft: &mut draft,
    };
    let fill = setup.budget.fill;
    if let Some(limit) = setup.budget.token_budget {
        fitting.limit(Scope::System, "token_budget", limit, fill)?;
    }
    if let Some(limit) = input_budget {
        fitting.limit(Scope::Request, "input_budget", limit, fill)?;
    }
    fitting.draft.settle();
    let system = fitting.used(Scope::System, setup.budget.token_budget);
    let total = fitting.used(Scope::Request, input_budget);
    draft.usage = Usage {
        system,
        total,
        token_budget: setup.budget.token_budget,
        input_budget,
        counter: profile.name.into_owned(),
        exact: profile.exact,
    };
    Ok(draft)
}

/// Returns the limit of the whole request, by default the model's window. A size that the provider has refused is
/// always too much.
fn input_budget(setup: &Setup<'_>) -> Option<Tokens> {
    let limits = &setup.options.target.limits;
    let own = setup.budget.input_budget.map(|it| limits.most.map_or(it, |most| it.min(most)));
    own.or_else(|| limits.input_tokens(&setup.settings))
}

/// What a limit applies to.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Scope {
    System,
    Request,
}

struct Fitting<'a> {
    draft: &'a mut Draft,
    counter: &'a Arc<dyn TokenCounter>,
    exact: bool,
    margin: u32,
    framing: contexture_message::tokens::Framing,
    separator: Tokens,
    arrangement: Arrangement,
    schema: Tokens,
}

/// A running sum over the Segments that are sent.
struct Ledger {
    scope: Scope,
    framing: contexture_message::tokens::Framing,
    separator: Tokens,
    /// Tokens that do not depend on Segments.
    fixed: Tokens,
    tokens: u64,
    /// Pieces of the system message besides the tag block.
    n_pieces: u64,
    /// Shares of the tag block.
    n_shares: u64,
    /// Whether the shares make a separate piece.
    has_block: bool,
    /// Pieces of the hidden envelopes, and the tokens around them.
    n_context: u64,
    n_reminders: u64,
    envelope: EnvelopeFrames,
}

impl Ledger {
    fn add(&mut self, segment: &Segment) {
        self.change(segment, |sum, by| *sum += by);
    }

    fn remove(&mut self, segment: &Segment) {
        self.change(segment, |sum, by| *sum = sum.saturating_sub(by));
    }

    fn change(&mut self, segment: &Segment, apply: impl Fn(&mut u64, u64)) {
        let is_elsewhere = self.scope == Scope::System && !segment.slot.is_system();
        // Values that a section reads are counted as part of the section.
        if is_elsewhere || matches!(segment.body, Body::Nothing) {
            return;
        }
        match segment.slot {
            Slot::System | Slot::Section | Slot::SystemEnd | Slot::SystemLast => apply(&mut self.n_pieces, 1),
            Slot::Tags => apply(&mut self.n_shares, 1),
            Slot::Envelope => apply(&mut self.n_context, 1),
            Slot::Reminders => apply(&mut self.n_reminders, 1),
            // Whole messages already include their framing tokens.
            Slot::User if matches!(segment.body, Body::Text(_)) => {
                apply(&mut self.tokens, self.framing.message.into());
            }
            Slot::Tools | Slot::Context | Slot::Provider | Slot::History | Slot::User | Slot::InFlight => {}
        }
        apply(&mut self.tokens, segment.tokens.0.into());
    }

    fn pieces(&self) -> u64 {
        self.n_pieces + u64::from(self.has_block && self.n_shares > 0)
    }

    fn total(&self) -> Tokens {
        let separators = u64::from(self.separator.0) * self.pieces().saturating_sub(1);
        let is_request = self.scope == Scope::Request;
        let system = if is_request && self.pieces() > 0 { u64::from(self.framing.message) } else { 0 };
        let envelope = self.envelope.around(self.n_context, self.n_reminders);
        let total = self.tokens + separators + system + envelope + u64::from(self.fixed.0);
        Tokens(u32::try_from(total).unwrap_or(u32::MAX))
    }

    /// Returns how far the sum may differ from the count of the rendered text: one token per joint.
    fn joints(&self) -> Tokens {
        Tokens(u32::try_from(self.pieces() + 8 * self.n_shares).unwrap_or(u32::MAX))
    }
}

impl Fitting<'_> {
    fn ledger(&self, scope: Scope) -> Ledger {
        let fixed = match scope {
            Scope::System => Tokens(0),
            Scope::Request => Tokens(self.framing.request) + self.schema,
        };
        let (framing, separator) = (self.framing, self.separator);
        let envelope = self.draft.envelope;
        let (tokens, n_pieces, n_shares, n_context, n_reminders) = (0, 0, 0, 0, 0);
        let mut ledger = Ledger {
            scope,
            framing,
            separator,
            fixed,
            tokens,
            n_pieces,
            n_shares,
            has_block: self.draft.replacement.is_none(),
            n_context,
            n_reminders,
            envelope,
        };
        self.draft.segments.iter().filter(|it| it.fate.is_sent()).for_each(|it| ledger.add(it));
        ledger
    }

    /// Returns the tokens that are sent: the sum, or an exact count if joints push the sum over the limit.
    fn used(&self, scope: Scope, limit: Option<Tokens>) -> Tokens {
        let ledger = self.ledger(scope);
        let is_over = limit.is_some_and(|limit| ledger.total() > limit);
        if self.exact && is_over { self.exact_total(&ledger) } else { ledger.total() }
    }

    /// Returns the limit minus a margin for estimates: the limit must hold even if the estimate is low.
    fn usable(&self, limit: Tokens) -> Tokens {
        let margin = u64::from(limit.0) * u64::from(self.margin) / 100;
        limit.saturating_sub(Tokens(u32::try_from(margin).unwrap_or(u32::MAX)))
    }

    fn limit(&mut self, scope: Scope, which: &'static str, limit: Tokens, fill: bool) -> Result<(), Error> {
        let usable = self.usable(limit);
        let mut ledger = self.ledger(scope);
        let order = self.giving_way(scope);
        let mut next = order.iter();
        let mut given: Vec<(usize, Segment)> = Vec::new();
        while ledger.total() > usable || !self.fits(&ledger, usable) {
            let Some(&position) = next.next() else { break };
            given.push((position, self.draft.segments[position].clone()));
            self.give_way(position, &mut ledger, usable, which);
        }
        self.take_back(given, &mut ledger, usable);
        if !self.fits(&ledger, usable) {
            return Err(self.exceeded(&ledger, which, limit));
        }
        if fill {
            order.iter().rev().for_each(|&position| self.readmit(position, &mut ledger, usable));
        }
        Ok(())
    }

    /// Restores the Segments reduced last while there is room, since sums can be slightly higher than the exact
    /// count.
    fn take_back(&mut self, mut given: Vec<(usize, Segment)>, ledger: &mut Ledger, usable: Tokens) {
        // The total grows with each restored Segment, so a binary search finds how many fit with few exact counts.
        let (mut back, mut most) = (0, given.len());
        let mut taken = 0;
        while back < most {
            let middle = (back + most).div_ceil(2);
            self.exchange(&mut given, taken, middle, ledger);
            taken = middle;
            match self.fits(ledger, usable) {
                true => back = middle,
                false => most = middle - 1,
            }
        }
        self.exchange(&mut given, taken, back, ledger);
    }

    /// Changes the number of restored Segments, counted from the one reduced last, from `taken` to `wanted`.
    fn exchange(&mut self, given: &mut [(usize, Segment)], taken: usize, wanted: usize, ledger: &mut Ledger) {
        let (few, many) = (taken.min(wanted), taken.max(wanted));
        let n_given = given.len();
        for (position, other) in &mut given[n_given - many..n_given - few] {
            let segment = &mut self.draft.segments[*position];
            if segment.fate.is_sent() {
                ledger.remove(segment);
            }
            std::mem::swap(segment, other);
            if segment.fate.is_sent() {
                ledger.add(segment);
            }
        }
    }

    /// Lists the Segments that may be reduced, in the order in which they are.
    fn giving_way(&self, scope: Scope) -> Vec<usize> {
        let segments = &self.draft.segments;
        let gives = |it: &Segment| {
            let has_place = !matches!(it.body, Body::Nothing);
            let in_scope = scope == Scope::Request || it.slot.is_system();
            it.fate.is_sent() && !it.pinned && has_place && in_scope
        };
        let mut order: Vec<usize> = (0..segments.len()).filter(|&it| gives(&segments[it])).collect();
        order.sort_by_key(|&position| {
            let segment = &segments[position];
            let is_history = segment.slot == Slot::History;
            // The later entry is reduced first, and within an entry its later Segment; in the history, which comes
            // last, the older turn.
            let age = if is_history { Reverse(usize::MAX - position) } else { Reverse(position) };
            (segment.priority, Reverse(is_history), Reverse(segment.order), age)
        });
        order
    }

    /// Returns whether what is sent fits. The sums decide, unless they are so close that joints could matter.
    fn fits(&self, ledger: &Ledger, usable: Tokens) -> bool {
        let (total, joints) = (ledger.total(), ledger.joints());
        if !self.exact {
            return total <= usable;
        }
        if total + joints <= usable {
            return true;
        }
        if total.saturating_sub(joints) > usable {
            return false;
        }
        self.exact_total(ledger) <= usable
    }

    /// Counts the system message as it will be rendered, and uses the sums for everything else.
    fn exact_total(&self, ledger: &Ledger) -> Tokens {
        let order = system_order(&self.draft.segments, self.arrangement);
        let exact = self.counter.count(&system_text(self.draft, &order).text);
        let estimated = self.ledger(Scope::System).total();
        (ledger.total() + exact).saturating_sub(estimated)
    }

    /// Shortens a Segment to the longest form that fits, or drops it.
    fn give_way(&mut self, position: usize, ledger: &mut Ledger, usable: Tokens, which: &str) {
        let whole = self.draft.segments[position].clone();
        ledger.remove(&whole);
        for form in self.forms(&whole) {
            let tokens = form.tokens(self.counter);
            if tokens >= whole.tokens {
                continue;
            }
            let reason = format!("shortened from {} to {tokens} tokens to fit {which}", whole.tokens);
            let fate = Fate::Shortened { reason, from: whole.tokens };
            self.draft.segments[position] = Segment { body: Body::Text(form), tokens, fate, ..whole.clone() };
            ledger.add(&self.draft.segments[position]);
            if ledger.total() <= usable {
                return;
            }
            ledger.remove(&self.draft.segments[position]);
        }
        // If only the rendered text exceeds the limit, because of its joints, it does so by at least one token.
        let missing = (ledger.total() + whole.tokens).saturating_sub(usable).max(Tokens(1));
        let reason = format!("did not fit {which}: {missing} tokens over, priority {}", whole.priority);
        self.draft.segments[position] = Segment { fate: Fate::Dropped { reason }, ..whole };
    }

    /// Returns the shorter forms of a Segment, longest first; each is computed on demand.
    fn forms(&self, whole: &Segment) -> impl Iterator<Item = SharedText> + use<> {
        let (offers, counter) = (Arc::clone(&whole.offers), Arc::clone(self.counter));
        let text = match &whole.body {
            Body::Text(text) => Some(text.clone()),
            Body::Nothing | Body::Tags(_) | Body::Messages(_) | Body::Tool(_) => None,
        };
        let cut_form = offers.max_tokens.zip(text).map(|(limit, text)| move || cut(&text, limit, &counter));
        let written = offers.shorter.clone().into_iter();
        written.chain(cut_form.into_iter().filter_map(|it| it()))
    }

    /// Restores a dropped Segment if there is room.
    fn readmit(&mut self, position: usize, ledger: &mut Ledger, usable: Tokens) {
        let segment = &self.draft.segments[position];
        let room = usable.saturating_sub(ledger.total().saturating_sub(ledger.joints()));
        if !matches!(segment.fate, Fate::Dropped { .. }) || segment.tokens > room {
            return;
        }
        let dropped = self.set_fate(position, Fate::Kept, ledger);
        if !self.fits(ledger, usable) {
            self.set_fate(position, dropped, ledger);
        }
    }

    /// Changes the fate of a Segment and updates the sums.
    fn set_fate(&mut self, position: usize, fate: Fate, ledger: &mut Ledger) -> Fate {
        let before = std::mem::replace(&mut self.draft.segments[position].fate, fate);
        if self.draft.segments[position].slot == Slot::Tags {
            // The share that paid for a tag may be gone, so the shares that are sent now are counted again.
            self.draft.count_shares(&**self.counter);
        }
        *ledger = self.ledger(ledger.scope);
        before
    }

    fn exceeded(&self, ledger: &Ledger, which: &'static str, limit: Tokens) -> Error {
        // A source may have several Segments, such as turns of the history or values of a prompt.
        let mut sums: BTreeMap<Source, Tokens> = BTreeMap::new();
        let counts =
            |it: &&Segment| it.fate.is_sent() && (ledger.scope == Scope::Request || it.slot.is_system());
        for segment in self.draft.segments.iter().filter(counts) {
            *sums.entry(segment.source.clone()).or_default() += segment.tokens;
        }
        let mut largest: Vec<(Source, Tokens)> = sums.into_iter().collect();
        largest.sort_by_key(|(_, tokens)| Reverse(*tokens));
        largest.truncate(3);
        let need = if self.exact { self.exact_total(ledger) } else { ledger.total() };
        let margin = limit.saturating_sub(self.usable(limit));
        ErrorKind::BudgetExceeded { which, need, limit, margin, largest }.into()
    }
}
