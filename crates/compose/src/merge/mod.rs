//! Joins all contributions into one list of Segments.
//!
//! In come the contributions in resolved order, out comes a [`Draft`] in which everything has its place:
//! the prompt's own texts, entries in resolved order (tag values aggregated into one tree), messages of the
//! context slot, of providers and of the history, the user's turn, tools sorted by name. Duplicate ids,
//! colliding tools and tags that do not go together are errors that name both sides.
//!
//! The prompt's own templates are rendered here and not in `gather`: they may read `config.context`, which is
//! only known once all values were aggregated, and a template never waits. Nothing is dropped here.

mod segments;
mod tools;
mod turn;
pub(crate) mod values;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use contexture_history::neutral::neutral_message;
use contexture_history::{Repair, Repaired, TransformChange, repair};
use contexture_message::{Message, Role, Settings, Tokens, ToolChoice};
use serde_json::{Map, Value, json};

use self::segments::{enclosed, node_segment, own_segment, piece_segment, without_leading_break};
use self::tools::{collect_tools, merge_tools, tool_segment};
use self::turn::{in_flight, is_said};
use self::values::{Owner, Valued, count_shares, flattened};
use crate::define::checks::{Constraint, Guardrail, ToolMiddleware};
use crate::fit::Usage;
use crate::gather::{Gathered, Outcome, Timing};
use crate::history::history_segments;
use crate::lower::{Node, provider_pin};
use crate::own::OwnText;
use crate::ports::Verdict;
use crate::render::{envelope, is_of_the_user};
use crate::rewrite::Rewritten;
use crate::segment::{Fate, SharedText, SharedTool, Slot, Volatility};
use crate::setup::Setup;
use crate::tags::{Aggregate, TagEntry, TagTree, aggregate};
use crate::{Body, Call, Contribution, Error, ErrorKind, Placement, Rank, Segment, ShortenedResult, Source};

/// Everything that may go into the request, in order.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) segments: Vec<Segment>,
    /// The tag tree; a Segment with [`Body::Tags`] owns the share of one entry.
    pub(crate) tree: TagTree,
    pub(crate) skeleton: Skeleton,
    pub(crate) extras: Extras,
    pub(crate) timings: Vec<Timing>,
    pub(crate) warnings: Vec<String>,
    /// What was done to pair calls with results, by the Segment that was repaired.
    pub(crate) repairs: Vec<(Source, Repair)>,
    /// What it all costs; filled in by `fit`.
    pub(crate) usage: Usage,
    /// What the envelope costs around its pieces, if there are any.
    pub(crate) envelope: Tokens,
    /// What each transform did.
    pub(crate) transforms: Vec<TransformChange>,
    /// Which tool results are previews.
    pub(crate) shortened: Vec<ShortenedResult>,
}

/// The parts of a request that are not Segments.
#[derive(Debug)]
pub(crate) struct Skeleton {
    pub(crate) model: Option<String>,
    pub(crate) settings: Settings,
    pub(crate) tool_choice: Option<ToolChoice>,
    pub(crate) output: Option<Arc<Value>>,
}

/// What contributors bring besides text and tools: definitions for whoever runs the turn.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    /// Checks of the answer, entries' first.
    pub constraints: Vec<Constraint>,
    /// Checks of input and output, entries' first.
    pub guardrails: Vec<Guardrail>,
    /// What wraps tool calls.
    pub tool_middleware: Vec<ToolMiddleware>,
    /// Anything for the application, by source.
    pub metadata: BTreeMap<String, BTreeMap<String, Value>>,
}

/// Joins everything that was gathered.
pub(crate) fn merge(gathered: Gathered, setup: &Setup<'_>, rewritten: Rewritten<'_>) -> Result<Draft, Error> {
    let Gathered { call, outcomes, mut own, timings, warnings } = gathered;
    let mut merging = Merging {
        setup,
        segments: Vec::new(),
        values: Vec::new(),
        repairs: Vec::new(),
        extras: Extras::default(),
        envelope: Tokens(0),
    };
    let outcomes = distinct(outcomes)?;
    let entry_tools = collect_tools(&outcomes);
    for (value, volatility) in std::mem::take(&mut own.context) {
        merging.values.extend(flattened(value).map(|it| Valued::new(it, Owner::Prompt(volatility))));
    }
    let entries = merging.entries(&outcomes);
    let Aggregate { tree, messages } = merging.aggregate()?;
    let tools = merge_tools(entry_tools, setup, !rewritten.shortened.is_empty())?;
    let call = if own.has_templates() { call.with_config(own_config(setup, &tree, &tools)) } else { call };

    merging.segments.reserve(entries.len() + merging.values.len() + tools.len() + 8);
    merging.own_system(own.system, &call)?;
    merging.segments.extend(entries);
    merging.tags(&tree, &messages, own.section, &call)?;
    merging.context_messages(messages);
    merging.own_messages(own.messages, &call)?;
    merging.provider_messages(&outcomes);
    let history = history_segments(setup, &rewritten);
    merging.segments.extend(history.segments);
    merging.repairs.extend(history.repairs);
    merging.turn(own.user, &call, &rewritten)?;
    merging.segments.extend(tools.into_iter().map(|(owner, tool)| tool_segment(owner, tool)));
    merging.review();
    merging.count();
    let (transforms, shortened) = (rewritten.changes, rewritten.shortened);
    Ok(Draft { transforms, shortened, ..merging.draft(tree, timings, warnings) })
}

struct Merging<'a> {
    setup: &'a Setup<'a>,
    segments: Vec<Segment>,
    values: Vec<Valued>,
    repairs: Vec<(Source, Repair)>,
    extras: Extras,
    envelope: Tokens,
}

impl Merging<'_> {
    /// Turns contributions into Segments, in resolved order; tag values are put aside. What has no place in the author's
    /// order stands behind, by rank.
    fn entries(&mut self, outcomes: &[Outcome]) -> Vec<Segment> {
        let mut segments = Vec::with_capacity(outcomes.len());
        let mut ranked: Vec<(&Rank, Vec<Segment>)> = Vec::new();
        for (order, outcome) in outcomes.iter().enumerate() {
            match outcome {
                Outcome::Excluded { source, priority, reason } => {
                    let excluded = Segment::excluded(source.clone(), reason.clone());
                    let is_provider = source.as_str().starts_with("provider:");
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
        // A stable sort: what ranks equal stays in resolved order.
        ranked.sort_by_key(|(rank, _)| *rank);
        segments.extend(ranked.into_iter().flat_map(|(_, placed)| placed));
        let definition = self.setup.prompt.definition();
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
        let Contribution { pieces, values, messages, tools: _, constraints, guardrails, metadata, entries } =
            contribution;
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
        };
        let placed = pieces.iter().map(|it| Segment { order, ..piece_segment(node, slot, it) });
        match slot == Slot::Envelope && self.setup.options.enclosed {
            true => segments.extend(placed.map(enclosed)),
            false => segments.extend(placed),
        }
        for value in values.iter().cloned().flat_map(flattened) {
            self.values.push(Valued::new(value, Owner::Entry(Arc::clone(node), order)));
        }
        self.extras.constraints.extend(constraints.iter().cloned());
        self.extras.guardrails.extend(guardrails.iter().cloned());
        if !metadata.is_empty() {
            self.extras.metadata.insert(node.source.to_string(), metadata.clone());
        }
    }

    /// Aggregates the values that the policy allows. It is asked before anything can read them: the prompt's own
    /// templates see what is in the tree.
    fn aggregate(&mut self) -> Result<Aggregate, Error> {
        let policy = &self.setup.engine.policy;
        for valued in &mut self.values {
            let segment = valued.segment(Slot::Tags, Body::Nothing);
            if let Verdict::Exclude(reason) = policy.review(&segment, Some(&valued.value)) {
                valued.excluded = Some(reason);
            }
        }
        let sources: Vec<Source> = self.values.iter().map(Valued::source).collect();
        let entries = self.values.iter().zip(&sources);
        let entries: Vec<_> =
            entries.map(|(it, source)| TagEntry { source: source.as_str(), value: it.allowed() }).collect();
        Ok(aggregate(&entries)?)
    }

    fn own_system(&mut self, texts: Vec<(Source, OwnText)>, call: &Call) -> Result<(), Error> {
        let mut first = true;
        for (source, text) in texts {
            let (text, volatility) = text.render(&source, call)?;
            let text = if first { text } else { without_leading_break(text) };
            first = false;
            self.segments.push(own_segment(source, Slot::System, text, volatility));
        }
        Ok(())
    }

    /// Adds the shares of the tag block, or the prompt's own section in its place.
    fn tags(
        &mut self,
        tree: &TagTree,
        messages: &[(usize, Message)],
        section: Option<OwnText>,
        call: &Call,
    ) -> Result<(), Error> {
        let made_messages: HashSet<usize> = messages.iter().map(|(entry, _)| *entry).collect();
        for (entry, valued) in self.values.iter().enumerate() {
            if let Some(reason) = valued.excluded.clone() {
                let segment = valued.segment(Slot::Tags, Body::Nothing);
                self.segments.push(Segment { fate: Fate::Excluded { reason }, ..segment });
                continue;
            }
            if made_messages.contains(&entry) || matches!(valued.value, Value::Null | Value::Bool(false)) {
                continue;
            }
            // Under a section the values are read by it; they have no place of their own.
            let body = if section.is_some() { Body::Nothing } else { Body::Tags(entry) };
            self.segments.push(valued.segment(Slot::Tags, body));
        }
        match section {
            Some(section) => self.section(section, call),
            None => {
                count_shares(&mut self.segments, tree, &*self.setup.counter);
                Ok(())
            }
        }
    }

    fn section(&mut self, section: OwnText, call: &Call) -> Result<(), Error> {
        let (text, volatility) = section.render(&Source::prompt(), call)?;
        let text = text.trim_matches(['\n', '\r']);
        if !text.trim().is_empty() {
            let text = SharedText::authored(&format!("<context>\n{text}\n</context>"));
            self.segments.push(own_segment(Source::prompt(), Slot::Section, text, volatility));
        }
        Ok(())
    }

    fn context_messages(&mut self, messages: Vec<(usize, Message)>) {
        for (entry, message) in messages {
            let Some(valued) = self.values.get(entry) else { continue };
            let body = Body::Messages(vec![neutral_message(&Arc::new(message))]);
            self.segments.push(valued.segment(Slot::Context, body));
        }
    }

    /// Adds the prompt's own list: its first system message ends the composed one, everything else stands before
    /// the history.
    fn own_messages(&mut self, messages: Vec<(Role, OwnText)>, call: &Call) -> Result<(), Error> {
        let system = messages.iter().position(|(role, _)| *role == Role::System);
        for (position, (role, text)) in messages.into_iter().enumerate() {
            let source = Source::prompt();
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

    fn provider_messages(&mut self, outcomes: &[Outcome]) {
        for (order, outcome) in outcomes.iter().enumerate() {
            let Outcome::Contributed { node, contribution } = outcome else { continue };
            if contribution.messages.is_empty() && !node.is_provider {
                continue;
            }
            let messages = contribution.messages.iter().map(|it| neutral_message(&Arc::new(it.clone())));
            let messages: Vec<_> = messages.collect();
            let pin = node.frozen.as_ref().filter(|_| node.is_provider).map(|it| provider_pin(it, &messages));
            let fate = if messages.is_empty() { Fate::Empty } else { Fate::Kept };
            let segment = node_segment(node, Slot::Provider, Body::Messages(messages));
            self.segments.push(Segment { order, pin, fate, ..segment });
        }
    }

    /// Adds the user's turn with its envelopes, and what has happened in it so far.
    fn turn(
        &mut self,
        user: Vec<(Source, OwnText)>,
        call: &Call,
        rewritten: &Rewritten<'_>,
    ) -> Result<(), Error> {
        let mut pieces = Vec::new();
        let mut volatility = Volatility::Static;
        for (source, text) in user {
            let (text, of_text) = text.render(&source, call)?;
            volatility = volatility.max(of_text);
            let text = if pieces.is_empty() { text } else { without_leading_break(text) };
            if !text.trim().is_empty() {
                pieces.push(text.as_str().to_owned());
            }
        }
        let text = rewritten.reword(pieces.join("\n\n"))?;
        // The prompt's user slot and the durable item may have the same source: the model sees it once.
        let in_flight = in_flight(rewritten);
        if !text.is_empty() && !in_flight.iter().any(|it| is_said(it, &text)) {
            let text = SharedText::authored(&text);
            self.segments.push(own_segment(Source::user(), Slot::User, text, volatility));
        }
        if !in_flight.is_empty() {
            let Repaired { messages, repairs } = repair(&in_flight);
            let (source, body) = (Source::in_flight(), Body::Messages(messages));
            self.repairs.extend(repairs.into_iter().map(|it| (source.clone(), it)));
            self.segments.push(own_segment(source, Slot::InFlight, body, Volatility::Turn));
        }
        Ok(())
    }

    fn review(&mut self) {
        let policy = &self.setup.engine.policy;
        // Shares of the tag block were reviewed before they were aggregated.
        let open = self.segments.iter_mut().filter(|it| it.fate.is_sent() && it.slot != Slot::Tags);
        for segment in open {
            if let Verdict::Exclude(reason) = policy.review(segment, None) {
                segment.fate = Fate::Excluded { reason };
            }
        }
    }

    fn count(&mut self) {
        let counter = &self.setup.counter;
        // Shares of the tag block and turns of the history were counted where they were made.
        let is_counted = |it: &Segment| matches!(it.slot, Slot::Tags | Slot::History);
        for segment in self.segments.iter_mut().filter(|it| !is_counted(it)) {
            segment.tokens = segment.body_tokens(counter);
        }
        let has_words = |it: &Segment| match (it.slot, &it.body) {
            (Slot::User, _) => true,
            (Slot::InFlight, Body::Messages(messages)) => messages.iter().any(|it| is_of_the_user(it)),
            _ => false,
        };
        let has_user = self.segments.iter().any(|it| it.fate.is_sent() && has_words(it));
        // Without words of the user the envelope makes a message of its own.
        let message = if has_user { 0 } else { counter.profile().framing.message };
        self.envelope = counter.count(&envelope(&[])) + Tokens(message);
    }

    fn draft(self, tree: TagTree, timings: Vec<Timing>, warnings: Vec<String>) -> Draft {
        let definition = self.setup.prompt.definition();
        let adapted = self.setup.adaptations.iter().rev().find_map(|(_, it)| it.tool_choice.clone());
        let tool_choice =
            self.setup.options.tool_choice.clone().or(adapted).or(definition.tool_choice.clone());
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
            transforms: Vec::new(),
            shortened: Vec::new(),
        }
    }
}

/// Returns each entry once. `lower` and `gate` saw to that, except for entries that were re-entered.
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

/// Two different entries with one id can also meet here: one of them was re-entered.
fn check_ids(outcomes: &[Outcome]) -> Result<(), Error> {
    let mut known: HashMap<&Source, &Node> = HashMap::new();
    for outcome in outcomes {
        let Outcome::Contributed { node, .. } = outcome else { continue };
        let Some((_, id)) = node.source.as_str().split_once(':') else { continue };
        let first = *known.entry(&node.source).or_insert(node);
        if first.identity != node.identity {
            let (id, first, second) = (id.to_owned(), first.place.clone(), node.place.clone());
            return Err(ErrorKind::DuplicateId { id, first, second }.into());
        }
    }
    Ok(())
}

/// What the prompt's own templates see as `config`.
fn own_config(setup: &Setup<'_>, tree: &TagTree, tools: &[(Source, SharedTool)]) -> Value {
    let mut config = setup.config();
    let texts: Map<String, Value> =
        tree.texts().into_iter().map(|(name, text)| (name.to_owned(), Value::String(text))).collect();
    config["context"] = Value::Object(texts);
    config["tools"] = json!(tools.iter().map(|(_, it)| &it.tool().name).collect::<Vec<_>>());
    config
}
