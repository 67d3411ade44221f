//! Merges all contributions into one list of Segments.
//!
//! Turns contributions in resolved order into a [`Draft`] in which everything has its place: the prompt's own texts,
//! entries in resolved order (tag values aggregated into one tree), messages of the context slot, of providers and of
//! the history, the user's turn, tools sorted by name. Duplicate ids, colliding tools and incompatible tags are
//! errors that name both sides.
//!
//! The prompt's own templates are rendered here and not in `gather`: they may read `config.context`, which is known
//! only once all values are aggregated, and rendering a template never awaits. Nothing is dropped here.

mod history;
mod segments;
mod tools;
mod turn;
mod values;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use contexture_history::neutral::neutral_message;
use contexture_history::{EnvelopeTag, Repair, Repaired, repair, window};
use contexture_message::{Message, Part, Role, Tokens};
use serde_json::{Value, json};

use self::history::history_segments;
use self::segments::{in_envelope, node_segment, own_segment, piece_segment};
use self::tools::{MergedTools, collect_tools, merge_tools, tool_segment};
use self::turn::{UserSlot, in_flight, split_words, user_slot};
use self::values::{Owner, Valued, flattened};
use super::draft::{
    Draft, EnvelopeFrames, Extras, Form, Skeleton, TagReplacement, Usage, count_shares, named,
    without_leading_break,
};
use super::gather::{Gathered, Outcome};
use super::rewrite::Rewritten;
use super::setup::Setup;
use crate::evaluated::{OwnText, OwnUser, Timing};
use crate::lower::{Node, messages_to_freeze};
use crate::ports::PolicyVerdict;
use crate::segment::{Fate, SharedText, SharedTool, Slot, Volatility, envelope_text, is_of_the_user};
use crate::tags::{Aggregate, TagEntry, TagTree, aggregate};
use crate::{Body, Call, Contribution, Error, ErrorKind, OnError, Placement, Rank, Segment, Source, Turn};

/// Merges everything that was gathered.
pub(crate) fn merge(gathered: Gathered, setup: &Setup<'_>, rewritten: Rewritten<'_>) -> Result<Draft, Error> {
    let Gathered { call, outcomes, mut own, timings, mut warnings } = gathered;
    let mut merging = Merging {
        setup,
        segments: Vec::new(),
        values: Vec::new(),
        repairs: Vec::new(),
        extras: Extras::default(),
        envelope: EnvelopeFrames::default(),
        replacement: None,
    };
    let outcomes = distinct(yielded(outcomes, &mut warnings))?;
    let entry_tools = collect_tools(&outcomes);
    for (value, volatility) in std::mem::take(&mut own.context) {
        merging.values.extend(flattened(value).map(|it| Valued::new(it, Owner::Prompt(volatility))));
    }
    let entries = merging.entries(&outcomes);
    let Aggregate { tree, messages } = merging.aggregate()?;
    let MergedTools { tools, replaced } = merge_tools(entry_tools, setup, !rewritten.shortened.is_empty())?;
    merging.extras.replaced_tools = replaced;
    let call = if own.has_templates() { call.with_config(own_config(setup, &tree, &tools)) } else { call };

    merging.segments.reserve(entries.len() + merging.values.len() + tools.len() + 8);
    merging.own_system(own.system, &call, &tree)?;
    merging.segments.extend(entries);
    merging.tags(&messages);
    merging.section(own.section, &call, &tree)?;
    merging.context_messages(messages);
    merging.own_messages(own.messages, &call)?;
    merging.provider_messages(&outcomes);
    let history = history_segments(setup, &rewritten);
    merging.segments.extend(history.segments);
    merging.repairs.extend(history.repairs);
    merging.turn(own.user, &call, &rewritten)?;
    merging.segments.extend(tools.into_iter().map(|(owner, tool)| tool_segment(owner, tool)));
    merging.review();
    merging.count(&tree);
    let (transforms, shortened) = (rewritten.changes, rewritten.shortened);
    Ok(Draft { transforms, shortened, ..merging.draft(tree, timings, warnings) })
}

struct Merging<'a> {
    setup: &'a Setup<'a>,
    segments: Vec<Segment>,
    values: Vec<Valued>,
    repairs: Vec<(Source, Repair)>,
    extras: Extras,
    envelope: EnvelopeFrames,
    replacement: Option<TagReplacement>,
}

impl Merging<'_> {
    /// Turns contributions into Segments, in resolved order; tag values are set aside. Entries that are not placed in
    /// the author's order come last, sorted by rank.
    fn entries(&mut self, outcomes: &[Outcome]) -> Vec<Segment> {
        let mut segments = Vec::with_capacity(outcomes.len());
        let mut ranked: Vec<(&Rank, Vec<Segment>)> = Vec::new();
        for (order, outcome) in outcomes.iter().enumerate() {
            match outcome {
                Outcome::Excluded { source, priority, reason } => {
                    let excluded = Segment::excluded(source.clone(), reason.clone());
                    let is_provider = matches!(source, Source::Provider(_));
                    let slot = if is_provider { Slot::Provider } else { excluded.slot };
                    segments.push(Segment { priority: *priority, slot, ..excluded });
                }
                Outcome::Contributed { node, contribution } => {
                    let profile = &node.profile;
                    if profile.placement.is_authors() {
                        self.entry(node, contribution, order, &mut segments);
                    } else {
                        let mut placed = Vec::new();
                        self.entry(node, contribution, order, &mut placed);
                        ranked.push((&profile.rank, placed));
                    }
                }
            }
        }
        // The sort is stable: entries of equal rank stay in resolved order.
        ranked.sort_by_key(|(rank, _)| *rank);
        segments.extend(ranked.into_iter().flat_map(|(_, placed)| placed));
        let definition = &self.setup.prompt.definition;
        self.extras.constraints.extend(definition.constraints.iter().cloned());
        self.extras.guardrails.extend(definition.guardrails.iter().cloned());
        self.extras.tool_middleware.extend(definition.tool_middleware.iter().cloned());
        segments
    }

    fn entry(
        &mut self,
        node: &Arc<Node>,
        contribution: &Contribution,
        order: usize,
        segments: &mut Vec<Segment>,
    ) {
        let Contribution {
            pieces,
            values,
            messages,
            is_composed: _,
            tools: _,
            constraints,
            guardrails,
            metadata,
            entries,
            hooks,
            events,
        } = contribution;
        if !node.is_provider
            && pieces.is_empty()
            && values.is_empty()
            && messages.is_empty()
            && entries.is_empty()
        {
            segments.push(Segment { fate: Fate::Empty, ..node_segment(node, Slot::System, Body::Nothing) });
        }
        let slot = match node.profile.placement {
            Placement::System | Placement::Prefix => Slot::System,
            Placement::SystemLast => Slot::SystemLast,
            Placement::User | Placement::FirstUser => Slot::Envelope,
            Placement::Reminders => Slot::Reminders,
        };
        let placed = pieces.iter().map(|it| Segment { order, ..piece_segment(node, slot, it) });
        match slot.is_enclosed() && self.setup.options.conversation.has_envelope() {
            true => {
                let turn = self.setup.options.conversation.logged();
                segments.extend(placed.map(|it| in_envelope(it, turn)));
            }
            false => segments.extend(placed),
        }
        for value in values.iter().cloned().flat_map(flattened) {
            self.values.push(Valued::new(value, Owner::Entry(Arc::clone(node), order)));
        }
        self.extras.constraints.extend(constraints.iter().cloned());
        self.extras.guardrails.extend(guardrails.iter().cloned());
        self.extras.hooks.extend(hooks.iter().cloned());
        self.extras.events.extend(events.iter().cloned());
        if !metadata.is_empty() {
            self.extras.metadata.insert(node.source.to_string(), metadata.clone());
        }
    }

    /// Aggregates the values that the policy allows. The policy is consulted first because the prompt's own templates
    /// can read everything in the tree.
    fn aggregate(&mut self) -> Result<Aggregate, Error> {
        let policy = &self.setup.engine.policy;
        for valued in &mut self.values {
            let segment = valued.segment(Slot::Tags, Body::Nothing);
            if let PolicyVerdict::Exclude(reason) = policy.review(&segment, Some(&valued.value)) {
                valued.excluded = Some(reason);
            }
        }
        let sources: Vec<_> = self.values.iter().map(|it| it.source().notation()).collect();
        let entries = self.values.iter().zip(&sources);
        let entries: Vec<_> = entries.map(|(it, source)| TagEntry { source, value: it.allowed() }).collect();
        Ok(aggregate(&entries)?)
    }

    fn own_system(
        &mut self,
        texts: Vec<(Source, OwnText)>,
        call: &Call,
        tree: &TagTree,
    ) -> Result<(), Error> {
        let holds_context = self.setup.prompt.definition.context_in_system;
        for (place, (source, own)) in texts.into_iter().enumerate() {
            let (text, volatility) = own.render(&source, call)?;
            let is_first = place == 0;
            let text = if is_first { text } else { without_leading_break(text) };
            let is_owner = holds_context && source == Source::Prompt;
            let position = self.segments.len();
            self.segments.push(own_segment(source, Slot::System, text, volatility));
            if is_owner {
                self.replace_tag_block(
                    TagReplacement::new(own, call, Form::System { is_first }, position),
                    tree,
                )?;
            }
        }
        Ok(())
    }

    /// Adds the shares of the tag block.
    fn tags(&mut self, messages: &[(usize, Message)]) {
        let made_messages: HashSet<usize> = messages.iter().map(|(entry, _)| *entry).collect();
        for (entry, valued) in self.values.iter().enumerate() {
            if let Some(reason) = valued.excluded.clone() {
                let segment = valued.segment(Slot::Tags, Body::Nothing);
                self.segments.push(Segment { fate: Fate::Excluded { reason: reason.into() }, ..segment });
                continue;
            }
            if made_messages.contains(&entry) || matches!(valued.value, Value::Null | Value::Bool(false)) {
                continue;
            }
            self.segments.push(valued.segment(Slot::Tags, Body::Tags(entry)));
        }
    }

    /// Adds the prompt's own section, which replaces the tag block.
    fn section(&mut self, section: Option<OwnText>, call: &Call, tree: &TagTree) -> Result<(), Error> {
        let Some(section) = section else { return Ok(()) };
        let (_, volatility) = section.render(&Source::Prompt, call)?;
        let position = self.segments.len();
        self.segments.push(own_segment(Source::Prompt, Slot::Section, SharedText::authored(""), volatility));
        self.replace_tag_block(TagReplacement::new(section, call, Form::Section, position), tree)
    }

    /// Replaces the tag block with a text of the prompt.
    fn replace_tag_block(&mut self, replacement: TagReplacement, tree: &TagTree) -> Result<(), Error> {
        let text = replacement.text(tree, &|_| true)?;
        if let Some(segment) = self.segments.get_mut(replacement.position) {
            segment.fate = if text.trim().is_empty() { Fate::Empty } else { Fate::Kept };
            segment.body = Body::Text(text);
        }
        self.replacement = Some(replacement);
        Ok(())
    }

    /// Adds the messages of the context slot, with calls and results paired.
    fn context_messages(&mut self, messages: Vec<(usize, Message)>) {
        let (entries, messages): (Vec<usize>, Vec<Message>) = messages.into_iter().unzip();
        let lists = messages.into_iter().map(|it| vec![neutral_message(&Arc::new(it))]).collect();
        for (entry, (messages, repairs)) in entries.into_iter().zip(self.paired(lists)) {
            let Some(valued) = self.values.get(entry) else { continue };
            let segment = valued.segment(Slot::Context, Body::Messages(messages));
            self.repairs.extend(repairs.into_iter().map(|it| (segment.source.clone(), it)));
            self.segments.push(segment);
        }
    }

    /// Pairs calls with results across consecutive lists of neutral messages. Each list is then complete by itself: a result
    /// moves to the list that has its call.
    fn paired(&self, lists: Vec<Vec<Arc<Message>>>) -> Vec<(Vec<Arc<Message>>, Vec<Repair>)> {
        let has_tools = |it: &Arc<Message>| {
            it.content.iter().any(|it| matches!(it, Part::ToolCall(_) | Part::ToolResult(_)))
        };
        if !lists.iter().flatten().any(has_tools) {
            return lists.into_iter().map(|it| (it, Vec::new())).collect();
        }
        let turns = lists
            .into_iter()
            .enumerate()
            .map(|(idx, list)| Turn::new(idx.to_string(), Vec::new()).with_messages(list));
        let turns: Vec<Turn> = turns.collect();
        let window = window(&turns, None, &*self.setup.counter);
        window.repaired_turns().into_iter().map(|it| (it.messages, it.repairs)).collect()
    }

    /// Adds the prompt's own list: its first system message ends the composed one, all other messages come before the
    /// history.
    fn own_messages(&mut self, messages: Vec<(Role, OwnText)>, call: &Call) -> Result<(), Error> {
        let system = messages.iter().position(|(role, _)| *role == Role::System);
        for (position, (role, text)) in messages.into_iter().enumerate() {
            let source = Source::Prompt;
            let (text, volatility) = text.render(&source, call)?;
            self.segments.push(match Some(position) == system {
                true => own_segment(source, Slot::SystemEnd, text, volatility),
                false => {
                    let message = Arc::new(Message::text(role, text.as_str()));
                    own_segment(source, Slot::Context, Body::Messages(vec![message]), volatility)
                }
            });
        }
        Ok(())
    }

    /// Adds the messages of context providers, with calls and results paired.
    fn provider_messages(&mut self, outcomes: &[Outcome]) {
        let speaking: Vec<_> = outcomes
            .iter()
            .enumerate()
            .filter_map(|(order, outcome)| match outcome {
                Outcome::Contributed { node, contribution } => Some((order, node, contribution)),
                Outcome::Excluded { .. } => None,
            })
            .filter(|(_, node, contribution)| !contribution.messages.is_empty() || node.is_provider)
            .collect();
        let neutral = |it: &Contribution| -> Vec<Arc<Message>> {
            let messages = it.messages.iter().cloned().map(Arc::new);
            if it.is_composed {
                messages.collect()
            } else {
                messages.map(|it| neutral_message(&it)).collect()
            }
        };
        let lists = self.paired(speaking.iter().map(|(_, _, it)| neutral(it)).collect());
        for ((order, node, _), (messages, repairs)) in speaking.into_iter().zip(lists) {
            let frozen = node.stability.frozen_name().filter(|_| node.is_provider);
            let frozen = frozen.map(|it| messages_to_freeze(it, &messages));
            let fate = if messages.is_empty() { Fate::Empty } else { Fate::Kept };
            let segment = node_segment(node, Slot::Provider, Body::Messages(messages));
            self.repairs.extend(repairs.into_iter().map(|it| (segment.source.clone(), it)));
            self.segments.push(Segment { order, frozen, fate, ..segment });
        }
    }

    /// Adds the user's turn with its envelopes, and the messages of the turn so far. The prompt's user slot comes
    /// after what the user says.
    fn turn(&mut self, user: OwnUser, call: &Call, rewritten: &Rewritten<'_>) -> Result<(), Error> {
        let in_flight = in_flight(rewritten);
        let said: Vec<_> = in_flight.iter().filter(|it| is_of_the_user(it)).collect();
        let UserSlot { messages: own, volatility, is_replaced } = user_slot(user, &said, rewritten, call)?;
        let Repaired { messages, repairs } = repair(&in_flight);
        let source = Source::InFlight;
        self.repairs.extend(repairs.into_iter().map(|it| (source.clone(), it)));
        let (words, rest) = if own.is_empty() { (Vec::new(), messages) } else { split_words(messages) };
        if is_replaced {
            let reason = "the call has a user message; `prompt` is for calls without one".to_owned();
            self.segments.push(Segment { slot: Slot::User, ..Segment::excluded(Source::User, reason) });
        }
        let said = |slot, messages: Vec<_>| {
            own_segment(Source::InFlight, slot, Body::Messages(messages), Volatility::Turn)
        };
        if !words.is_empty() {
            self.segments.push(said(Slot::User, words));
        }
        self.segments.extend(own.into_iter().map(|message| {
            let body = match message.as_text() {
                Some(text) => Body::from(SharedText::authored(text)),
                None => Body::Messages(vec![Arc::new(message)]),
            };
            own_segment(Source::User, Slot::User, body, volatility)
        }));
        if !rest.is_empty() {
            self.segments.push(said(Slot::InFlight, rest));
        }
        Ok(())
    }

    fn review(&mut self) {
        let policy = &self.setup.engine.policy;
        // Shares of the tag block were reviewed before they were aggregated.
        let open = self.segments.iter_mut().filter(|it| it.fate.is_sent() && it.slot != Slot::Tags);
        for segment in open {
            if let PolicyVerdict::Exclude(reason) = policy.review(segment, None) {
                segment.fate = Fate::Excluded { reason: reason.into() };
            }
        }
    }

    fn count(&mut self, tree: &TagTree) {
        let counter = &self.setup.counter;
        match &self.replacement {
            Some(replacement) => replacement.count(&mut self.segments, tree, &**counter),
            None => count_shares(&mut self.segments, tree, &**counter),
        }
        // Shares of the tag block and turns of the history were counted when they were created.
        let is_counted = |it: &Segment| matches!(it.slot, Slot::Tags | Slot::History);
        let owner = self.replacement.as_ref().map(|it| it.position);
        let own = self.segments.iter_mut().enumerate().filter(|(idx, _)| Some(*idx) != owner);
        for (_, segment) in own.filter(|(_, it)| !is_counted(it)) {
            segment.tokens = segment.body_tokens(counter);
        }
        let has_words = |it: &Segment| match (it.slot, &it.body) {
            (Slot::User, Body::Text(_)) => true,
            (Slot::User | Slot::InFlight, Body::Messages(messages)) => {
                messages.iter().any(|it| is_of_the_user(it))
            }
            _ => false,
        };
        let has_user = self.segments.iter().any(|it| it.fate.is_sent() && has_words(it));
        // If the user said nothing, the envelope is a separate message.
        let message = if has_user { 0 } else { counter.profile().framing.message };
        let frame = |tag| counter.count(&envelope_text(tag, &[]));
        self.envelope = EnvelopeFrames {
            context: frame(EnvelopeTag::SystemContext),
            reminders: frame(EnvelopeTag::SystemReminders),
            message: Tokens(message),
        };
    }

    fn draft(self, tree: TagTree, timings: Vec<Timing>, warnings: Vec<String>) -> Draft {
        let definition = &self.setup.prompt.definition;
        let adapted = self.setup.adaptations.iter().rev().find_map(|(_, it)| it.tool_choice.clone());
        let tool_choice =
            self.setup.options.overrides.tool_choice.clone().or(adapted).or(definition.tool_choice.clone());
        Draft {
            segments: self.segments,
            tree,
            skeleton: Skeleton {
                model: self.setup.model.clone(),
                settings: self.setup.settings.clone(),
                tool_choice,
                output: definition.output.as_ref().map(|it| Arc::clone(it.value())),
            },
            extras: self.extras,
            timings,
            warnings,
            repairs: self.repairs,
            usage: Usage::default(),
            envelope: self.envelope,
            capabilities: Arc::clone(&self.setup.prompt.capabilities.infos),
            transforms: Vec::new(),
            shortened: Vec::new(),
            replacement: self.replacement,
        }
    }
}

/// Leaves out entries that are not worth an error if the prompt has another one with their id, such as a tenant's block
/// with the name of a block that a capability brings.
fn yielded(mut outcomes: Vec<Outcome>, warnings: &mut Vec<String>) -> Vec<Outcome> {
    let node = |it: &Outcome| match it {
        Outcome::Contributed { node, .. } if node.source.entry_id().is_some() => Some(Arc::clone(node)),
        Outcome::Contributed { .. } | Outcome::Excluded { .. } => None,
    };
    let yields = |it: &Node| it.profile.on_error == OnError::Warn;
    if !outcomes.iter().filter_map(node).any(|it| yields(&it)) {
        return outcomes;
    }
    let firm: HashSet<Source> =
        outcomes.iter().filter_map(node).filter(|it| !yields(it)).map(|it| it.source.clone()).collect();
    for outcome in &mut outcomes {
        let Some(node) = node(outcome).filter(|it| yields(it) && firm.contains(&it.source)) else { continue };
        let (source, priority) = (node.source.clone(), node.profile.priority);
        warnings.push(format!(
            "{source} of {} is left out: the prompt has another entry with this id",
            node.place
        ));
        let reason = "the prompt has another entry with this id".into();
        *outcome = Outcome::Excluded { source, priority, reason };
    }
    outcomes
}

/// Returns each entry once. `lower` and `gate` already ensure that, except for re-entered entries.
fn distinct(mut outcomes: Vec<Outcome>) -> Result<Vec<Outcome>, Error> {
    let reenters = |it: &Outcome| match it {
        Outcome::Contributed { contribution, .. } => !contribution.entries.is_empty(),
        Outcome::Excluded { .. } => false,
    };
    if outcomes.iter().any(reenters) {
        check_ids(&outcomes)?;
        let mut seen = HashSet::new();
        outcomes.retain(|it| match it {
            Outcome::Contributed { node, .. } => seen.insert(node.identity),
            Outcome::Excluded { .. } => true,
        });
    }
    Ok(outcomes)
}

/// Checks for two different entries with the same id, which only meet here if one of them was re-entered.
fn check_ids(outcomes: &[Outcome]) -> Result<(), Error> {
    let mut known: HashMap<&Source, &Node> = HashMap::new();
    for outcome in outcomes {
        let Outcome::Contributed { node, .. } = outcome else { continue };
        let Some(id) = node.source.entry_id() else { continue };
        let first = *known.entry(&node.source).or_insert(node);
        if first.identity != node.identity {
            let (id, first, second) = (id.to_string(), first.place.clone(), node.place.clone());
            return Err(ErrorKind::DuplicateId { id, first, second }.into());
        }
    }
    Ok(())
}

/// Returns what the prompt's own templates see as `config`.
fn own_config(setup: &Setup<'_>, tree: &TagTree, tools: &[(Source, SharedTool)]) -> Value {
    let mut config = setup.config();
    config["context"] = Value::Object(named(tree.texts()));
    config["tools"] = json!(tools.iter().map(|(_, it)| &it.tool().name).collect::<Vec<_>>());
    config
}
