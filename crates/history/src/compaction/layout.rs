//! Chooses the range of a conversation that becomes a summary.
//!
//! The input is the items of a thread in the order in which the model reads them, with a summary in place of what it
//! covers. The output is a [`Plan`], or the reason why there is [`Nothing`] to do. The rules:
//!
//! 1. A range consists of consecutive whole rounds, see [`rounds`](mod@super::rounds): no call loses its result.
//! 2. The current prompt is never in a range. It is the last user message in the turn in flight, with its envelopes
//!    and what precedes it in its round. A range is before the prompt or after it.
//! 3. A call that still waits for its result, in a turn that is in flight or suspended, is never in a range, nor is
//!    anything after it.
//! 4. At the request boundary whole turns are taken, the oldest first, until the rest is within the target. The turn
//!    in flight and the newest turn with content stay.
//! 5. Reactive plans leave the newest answered rounds alone. *Micro* takes the oldest rounds after the existing
//!    summaries, and more of them while they are too small to be worth a summary. *Full* takes everything on one side
//!    of the prompt: the side that holds more.
//! 6. A range that is small, or is already a summary, gains nothing.
//!
//! Summaries are neither made nor committed here.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Range;

use contexture_message::{Message, Part, Role, TokenCounter, Tokens};

use super::plan::{Nothing, Plan, PlanLimits, Trigger};
use super::rounds::{Round, item_rounds};
use crate::{Body, Change, Item, Seq, Strategy, TurnNo, TurnStatus, item_cost};

/// The items of a thread in rounds, with their costs and which of them must stay.
#[derive(Clone, Debug)]
pub struct Layout {
    entries: Vec<Entry>,
    rounds: Vec<Round>,
    /// The blocks that may be taken, in order.
    free: Vec<Block>,
    in_flight: Option<TurnNo>,
    /// Turns that are in flight or suspended.
    unfinished: Vec<TurnNo>,
}

#[derive(Clone, Debug)]
struct Entry {
    first: Seq,
    last: Seq,
    turn: TurnNo,
    tokens: Tokens,
    is_message: bool,
    /// Whether it has content other than tool results; a summary has none.
    has_words: bool,
    /// Whether it is an assistant message or holds tool calls.
    is_answer: bool,
    /// Whether it holds only the facts of a range that was left out.
    is_left_out: bool,
}

/// A round, or the part of the prompt's round after the prompt.
#[derive(Clone, Debug)]
struct Block {
    span: Range<usize>,
    tokens: Tokens,
    is_summary: bool,
    /// Whether it holds only the facts of a range that was left out.
    is_left_out: bool,
    /// The number of its region: blocks separated by something that must stay are in different regions.
    region: usize,
}

impl Layout {
    /// Lays out items by their stored costs; costs by another counter are counted again with `counter`.
    ///
    /// `items` are what the model reads now, in that order; `in_flight` is the running turn.
    ///
    /// ```
    /// use contexture_history::compaction::{Layout, Nothing, PlanLimits};
    /// use contexture_history::Item;
    /// use contexture_message::{Encoding, Tokens};
    ///
    /// let layout = Layout::new::<Item>(&[], None, &Encoding::O200kBase);
    /// let nothing = layout.at_boundary(&PlanLimits::for_window(Tokens(1000)));
    /// assert_eq!(nothing, Err(Nothing::BelowTrigger { tokens: Tokens(0), trigger: Tokens(800) }));
    /// ```
    pub fn new<I: Borrow<Item>>(items: &[I], in_flight: Option<TurnNo>, counter: &dyn TokenCounter) -> Self {
        let name = counter.profile().name;
        Self::weighed(items, in_flight, |item| match *item.cost.counter == *name {
            true => item.cost.tokens,
            false => item_cost(counter, &item.body, item.visibility),
        })
    }

    /// Lays out items with the costs that `cost` returns, such as those of shortened results.
    pub fn weighed<I: Borrow<Item>>(
        items: &[I],
        in_flight: Option<TurnNo>,
        cost: impl Fn(&Item) -> Tokens,
    ) -> Self {
        let entries: Vec<Entry> = items.iter().map(|it| entry(it.borrow(), &cost)).collect();
        let rounds = item_rounds(items);
        let pins = Pins::find(items, in_flight);
        let free = free_blocks(&entries, &rounds, &pins);
        Self { entries, rounds, free, in_flight, unfinished: pins.unfinished }
    }

    /// Plans the compaction at the start of a turn.
    pub fn at_boundary(&self, limits: &PlanLimits) -> Result<Plan, Nothing> {
        let n_settled = self.in_flight.and_then(|turn| self.entries.iter().position(|it| it.turn == turn));
        let settled = &self.entries[..n_settled.unwrap_or(self.entries.len())];
        let tokens: Tokens = settled.iter().map(|it| it.tokens).sum();
        let trigger = limits.trigger_tokens;
        if tokens <= trigger {
            return Err(Nothing::BelowTrigger { tokens, trigger });
        }
        let found = settled.iter().filter(|it| it.is_message).count();
        if found < limits.min_messages {
            return Err(Nothing::TooFewMessages { found, needed: limits.min_messages });
        }
        let end = self.boundary(settled.len(), limits.target());
        let taken: Vec<&Block> = self.free.iter().take_while(|it| it.span.end <= end).collect();
        self.worth(Strategy::SessionCompaction, Trigger::HistoryTokens { tokens, trigger }, &taken, limits)
    }

    /// Plans a summary of the oldest turns that leaves about `stay` turns.
    pub fn oldest_turns(&self, stay: usize, trigger: Trigger, limits: &PlanLimits) -> Result<Plan, Nothing> {
        let n_settled = self.in_flight.and_then(|turn| self.entries.iter().position(|it| it.turn == turn));
        let settled = &self.entries[..n_settled.unwrap_or(self.entries.len())];
        let mut turns: Vec<TurnNo> = settled.iter().filter(|it| it.has_words).map(|it| it.turn).collect();
        turns.dedup();
        let first = turns.len().checked_sub(stay.max(1)).and_then(|it| turns.get(it));
        let first = first.and_then(|turn| settled.iter().position(|it| it.turn == *turn));
        let stays: Tokens = settled[first.unwrap_or(0)..].iter().map(|it| it.tokens).sum();
        let end = self.boundary(settled.len(), stays);
        let taken: Vec<&Block> = self.free.iter().take_while(|it| it.span.end <= end).collect();
        self.worth(Strategy::SessionCompaction, trigger, &taken, limits)
    }

    /// Plans a summary of some rounds.
    pub fn micro(&self, trigger: Trigger, limits: &PlanLimits) -> Result<Plan, Nothing> {
        let mut found = Err(Nothing::AllPinned);
        for region in self.old_regions(limits) {
            // Existing summaries stay unchanged, and so do the bytes before the range.
            for stretch in region.split(|it| it.is_summary).filter(|it| !it.is_empty()) {
                let mut tokens = Tokens(0);
                let is_wanted = |(idx, block): &(usize, &&Block)| {
                    let is_wanted =
                        *idx < limits.micro_batch_groups.max(1) || tokens < limits.min_range_tokens;
                    tokens += block.tokens;
                    is_wanted
                };
                let taken: Vec<&Block> =
                    stretch.iter().enumerate().take_while(is_wanted).map(|(_, it)| *it).collect();
                found = self.worth(Strategy::ReactiveMicro, trigger, &taken, limits);
                if found.is_ok() {
                    return found;
                }
            }
        }
        found
    }

    /// Plans a summary of everything possible.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use contexture_history::compaction::{Layout, PlanLimits, Trigger};
    /// use contexture_history::{Body, Cost, Item, Seq, Timestamp, TurnNo, Visibility};
    /// use contexture_message::{Message, Tokens};
    ///
    /// let item = |seq, message| Item {
    ///     seq: Seq(seq),
    ///     turn: TurnNo(seq.div_ceil(2)),
    ///     visibility: Visibility::BOTH,
    ///     cost: Cost { counter: "o200k_base".into(), tokens: Tokens(200) },
    ///     author: None,
    ///     at: Timestamp(0),
    ///     body: Body::Message(Arc::new(message)),
    /// };
    /// let say = |seq| item(seq, if seq % 2 == 1 { Message::user("?") } else { Message::assistant("!") });
    /// let items: Vec<Item> = (1..=9).map(say).collect();
    /// let layout = Layout::weighed(&items, Some(TurnNo(5)), |item| item.cost.tokens);
    /// let plan = layout.full(Trigger::PromptTooLong, &PlanLimits::for_window(Tokens(1000)));
    /// // Two rounds stay, and the prompt.
    /// assert_eq!(plan.map(|it| (it.first, it.last, it.before)), Ok((Seq(1), Seq(4), Tokens(800))));
    /// ```
    pub fn full(&self, trigger: Trigger, limits: &PlanLimits) -> Result<Plan, Nothing> {
        let mut best: Result<Plan, Nothing> = Err(Nothing::AllPinned);
        for region in self.old_regions(limits) {
            let next = self.worth(Strategy::ReactiveFull, trigger, &region, limits);
            best = match (best, next) {
                (Ok(best), Ok(next)) if next.before > best.before => Ok(next),
                (Ok(best), _) => Ok(best),
                (Err(_), next) => next,
            };
        }
        best
    }

    /// Plans a range to leave out without a summary, oldest first, until `excess` tokens are saved. Summaries are kept
    /// as long as there is anything else to take; a range that was left out directly before is merged into it.
    pub fn left_out(&self, excess: Tokens, trigger: Trigger, limits: &PlanLimits) -> Result<Plan, Nothing> {
        let regions = self.old_regions(limits);
        let is_kept = |it: &&Block| it.is_summary && !it.is_left_out;
        let stretches = regions.iter().flat_map(|it| it.split(is_kept));
        let has_more = |it: &&[&Block]| it.iter().any(|it| !it.is_summary);
        let stretch = stretches.into_iter().find(has_more).or(regions.first().map(Vec::as_slice));
        let mut saved = Tokens(0);
        let is_needed = |it: &&&Block| {
            let is_needed = saved < excess;
            saved += if it.is_left_out { Tokens(0) } else { it.tokens };
            is_needed
        };
        let taken: Vec<&Block> = stretch.unwrap_or_default().iter().take_while(is_needed).copied().collect();
        match taken.iter().all(|it| it.is_left_out) {
            true => Err(Nothing::AllPinned),
            false => self.planned(Strategy::ReactiveFull, trigger, &taken).ok_or(Nothing::AllPinned),
        }
    }

    /// Plans by a strategy, such as the one that is [`due`](super::due).
    pub fn plan(&self, strategy: Strategy, trigger: Trigger, limits: &PlanLimits) -> Result<Plan, Nothing> {
        match strategy {
            Strategy::SessionCompaction => self.at_boundary(limits),
            Strategy::ReactiveMicro => self.micro(trigger, limits),
            Strategy::ReactiveFull => self.full(trigger, limits),
        }
    }

    /// Returns where the turns that stay begin, among the first `n_settled` items.
    fn boundary(&self, n_settled: usize, target: Tokens) -> usize {
        let turn_of = |round: &Round| self.entries[round.span.end - 1].turn;
        let settled = self.rounds.iter().take_while(|it| it.span.end <= n_settled);
        // Rounds of one turn are kept together; a summary is not part of any turn.
        let mut turns: Vec<(TurnNo, bool, Range<usize>)> = Vec::new();
        for round in settled {
            match turns.last_mut() {
                Some((turn, false, span))
                    if !round.is_summary && *turn == self.entries[round.span.start].turn =>
                {
                    *turn = turn_of(round);
                    span.end = round.span.end;
                }
                _ => turns.push((turn_of(round), round.is_summary, round.span.clone())),
            }
        }
        let says = |span: &Range<usize>| self.entries[span.clone()].iter().any(|it| it.has_words);
        let newest = turns.iter().rposition(|(_, _, span)| says(span)).unwrap_or(0);
        let mut left = Tokens(0);
        let mut end = turns.last().map_or(0, |(_, _, span)| span.end);
        for (idx, (_, _, span)) in turns.iter().enumerate().rev() {
            left += self.entries[span.clone()].iter().map(|it| it.tokens).sum();
            if left > target && idx < newest {
                break;
            }
            end = span.start;
        }
        let goes_on = |span: &Range<usize>| {
            self.entries[span.clone()].iter().any(|it| self.unfinished.contains(&it.turn))
        };
        let unfinished = turns.iter().find(|(_, is_summary, span)| !is_summary && goes_on(span));
        unfinished.map_or(end, |(_, _, span)| end.min(span.start))
    }

    /// Returns the blocks that may be taken, except the newest rounds, by region.
    fn old_regions(&self, limits: &PlanLimits) -> Vec<Vec<&Block>> {
        let answered = self.rounds.iter().rev().filter(|it| it.is_answered);
        let recent = answered.take(limits.preserve_recent_api_rounds).last();
        let end = recent.map_or(usize::MAX, |it| it.span.start);
        let old: Vec<&Block> = self.free.iter().filter(|it| it.span.start < end).collect();
        old.chunk_by(|a, b| a.region == b.region).map(<[_]>::to_vec).collect()
    }

    /// Makes a plan from adjacent blocks, if a summary of them would gain anything.
    fn worth(
        &self,
        strategy: Strategy,
        trigger: Trigger,
        blocks: &[&Block],
        limits: &PlanLimits,
    ) -> Result<Plan, Nothing> {
        let Some(plan) = self.planned(strategy, trigger, blocks) else { return Err(Nothing::AllPinned) };
        let is_summary = blocks.len() == 1 && blocks.iter().all(|it| it.is_summary);
        if plan.before < limits.min_range_tokens || is_summary {
            return Err(Nothing::NoGain { tokens: plan.before });
        }
        Ok(plan)
    }

    /// Makes a plan from adjacent blocks, if there are any.
    fn planned(&self, strategy: Strategy, trigger: Trigger, blocks: &[&Block]) -> Option<Plan> {
        let span = blocks.first()?.span.start..blocks.last()?.span.end;
        let entries = &self.entries[span.clone()];
        Some(Plan {
            strategy,
            trigger,
            first: entries.iter().map(|it| it.first).min().unwrap_or_default(),
            last: entries.iter().map(|it| it.last).max().unwrap_or_default(),
            turns: (self.entries[span.start].turn, self.entries[span.end - 1].turn),
            n_items: span.len(),
            n_messages: entries.iter().filter(|it| it.is_message).count(),
            n_rounds: blocks.len(),
            before: entries.iter().map(|it| it.tokens).sum(),
            span,
        })
    }
}

fn entry(item: &Item, cost: &impl Fn(&Item) -> Tokens) -> Entry {
    let (first, last) = match &item.body {
        Body::Summary(summary) => (summary.first, summary.last),
        _ => (item.seq, item.seq),
    };
    let is_seen = item.visibility.history;
    let is_message = matches!(item.body, Body::Message(_) | Body::SystemEvent(_) | Body::Summary(_));
    let has_words = match &item.body {
        Body::Message(message) => !message.is_blank() && !message.content.iter().all(is_result),
        Body::SystemEvent(_) | Body::Envelope(_) => true,
        Body::Summary(_) | Body::Application(_) | Body::Change(_) => false,
    };
    let is_answer = |it: &Message| it.role == Role::Assistant || it.content.iter().any(is_call);
    Entry {
        first,
        last,
        turn: item.turn,
        tokens: if is_seen { cost(item) } else { Tokens(0) },
        is_message: is_seen && is_message,
        has_words: is_seen && has_words,
        is_answer: is_seen && item.body.as_message().is_some_and(|it| is_answer(it)),
        is_left_out: matches!(&item.body, Body::Summary(it) if it.text.trim().is_empty()),
    }
}

/// Items that must stay.
struct Pins {
    /// Positions of the prompt and of the items that belong to it.
    prompt: Vec<usize>,
    /// Turns that are in flight or suspended.
    unfinished: Vec<TurnNo>,
}

impl Pins {
    fn find<I: Borrow<Item>>(items: &[I], in_flight: Option<TurnNo>) -> Self {
        let mut status: BTreeMap<TurnNo, TurnStatus> = BTreeMap::new();
        for item in items.iter().map(Borrow::borrow) {
            if let Body::Change(Change::TurnEnded { status: ended, .. }) = &item.body {
                status.insert(item.turn, *ended);
            }
        }
        let suspended = status.into_iter().filter(|(_, it)| !it.is_over()).map(|(turn, _)| turn);
        let unfinished = suspended.chain(in_flight).collect();
        let is_of_turn = |it: &Item| Some(it.turn) == in_flight && it.visibility.history;
        let is_prompt = |item: &I| {
            let item: &Item = item.borrow();
            is_of_turn(item) && item.body.as_message().is_some_and(|it| is_prompt(it))
        };
        let is_envelope = |item: &I| {
            let item: &Item = item.borrow();
            is_of_turn(item) && matches!(item.body, Body::Envelope(_))
        };
        let prompt = match items.iter().rposition(is_prompt) {
            Some(first) => {
                let envelopes = (first + 1..items.len()).filter(|it| is_envelope(&items[*it]));
                [first].into_iter().chain(envelopes).collect()
            }
            None => Vec::new(),
        };
        Self { prompt, unfinished }
    }
}

/// Whether it is a request of the user.
fn is_prompt(message: &Message) -> bool {
    message.role == Role::User && !message.content.iter().all(is_result)
}

fn is_call(part: &Part) -> bool {
    matches!(part, Part::ToolCall(_))
}

fn is_result(part: &Part) -> bool {
    matches!(part, Part::ToolResult(_))
}

/// Returns the rounds that may be taken, and the part of the prompt's round after the prompt.
fn free_blocks(entries: &[Entry], rounds: &[Round], pins: &Pins) -> Vec<Block> {
    let mut blocks = Vec::with_capacity(rounds.len());
    let mut region = 0;
    for round in rounds {
        let waits = entries[round.span.clone()].iter().any(|it| pins.unfinished.contains(&it.turn));
        if round.is_open && waits {
            break;
        }
        let last_pin = pins.prompt.iter().rev().find(|it| round.span.contains(it));
        let span = match last_pin {
            None => round.span.clone(),
            Some(pin) => {
                region += 1;
                let follows = pin + 1..round.span.end;
                let is_split = entries[round.span.start..=*pin].iter().any(|it| it.is_answer);
                if is_split || !entries[follows.clone()].iter().any(|it| it.is_message) {
                    continue;
                }
                follows
            }
        };
        let tokens = entries[span.clone()].iter().map(|it| it.tokens).sum();
        let is_left_out = round.is_summary && entries[span.clone()].iter().all(|it| it.is_left_out);
        blocks.push(Block { span, tokens, is_summary: round.is_summary, is_left_out, region });
    }
    blocks
}
