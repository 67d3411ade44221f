//! Validates the input and decides which entries are included.
//!
//! Turns a Prompt, its request and an input into a flat list in resolved order: nested entries before the entry that
//! owns them, each active or excluded with a reason. Blocks and providers of the request, and entries that
//! contributors return, are lowered here. The rules in full:
//!
//! 1. Defaults are filled in, and the input is validated against the schemas of all owners that are always included.
//!    All faults are reported together. Only then do the values of capabilities and predicates see the input.
//! 2. Predicates decide for the whole tree. If an entry is excluded, neither it nor its nested entries run. Before the
//!    gate of a contributor reads the input, those keys of its own schema that are present are validated.
//! 3. The schemas of active branches fill in their defaults and are validated. The input policy is applied to strings
//!    last.
//!
//! This stage awaits nothing and produces no text.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::define::{Input, catch_panic};
use crate::lower::{
    Choice, Compiled, Item, Node, OwnedSchema, PREDICATE_FALSE, Pick, lower_inline, lower_providers,
    lower_reentered,
};
use crate::segment::Reason;
use crate::{
    Call, Entry, Error, ErrorKind, InputFault, Placement, Predicate, Priority, ResolveOptions, Source,
};

/// The entries that are included, in resolved order.
pub(crate) struct Gated {
    pub(crate) call: Call,
    pub(crate) steps: Vec<Step>,
}

/// One position in resolved order.
pub(crate) enum Step {
    /// The entry is included.
    Active(Arc<Node>),
    /// The entry is excluded for this reason.
    Excluded { source: Source, priority: Priority, reason: Reason },
}

impl Step {
    /// Returns the identity of the entry, if it is included.
    pub(crate) fn identity(&self) -> Option<usize> {
        match self {
            Step::Active(node) => Some(node.identity),
            Step::Excluded { .. } => None,
        }
    }

    /// Excludes a block of the user message that the turn already contains. Other entries with that placement may
    /// also add tools, so they stay included; only their text is left out later.
    pub(crate) fn exclude_if_in_envelope(&mut self) {
        if let Step::Active(node) = self
            && node.is_block()
            && matches!(node.profile.placement, Placement::User | Placement::FirstUser)
        {
            let (source, priority) = (node.source.clone(), node.profile.priority);
            *self = Step::Excluded { source, priority, reason: IN_ENVELOPE.into() };
        }
    }
}

/// Why content for the envelope was excluded.
pub(crate) const IN_ENVELOPE: &str = "already in the turn's envelope";

/// Decides which entries of a prompt and of its request a pass includes.
pub(crate) fn gate(prompt: &Compiled, options: &ResolveOptions, call: &Call) -> Result<Gated, Error> {
    let mut gated = gate_prompt(prompt, call)?;
    let inline = lower_inline(&options.additions.blocks, |name| prompt.place_of(name))?;
    gated.steps.extend(inline.into_iter().map(Step::Active));
    if options.conversation.has_envelope() {
        gated.steps.iter_mut().for_each(Step::exclude_if_in_envelope);
    }
    let entries = &options.additions.entries;
    if !entries.is_empty() {
        let at = Reentry { prompt: &prompt.definition.id, owner: &Source::CallSite, depth: 0 };
        let seen = gated.steps.iter().filter_map(Step::identity).collect();
        let Gated { call, steps } = gate_reentered(entries, &at, &gated.call, seen)?;
        gated.call = call;
        gated.steps.extend(steps);
    }
    let providers = lower_providers(&options.additions.providers, |source| prompt.place(source))?;
    gated.steps.extend(providers.into_iter().map(Step::Active));
    join_kinds(&mut gated.steps);
    Ok(gated)
}

/// Joins the entries of one kind: the first takes the place of all, and the others are excluded.
fn join_kinds(steps: &mut [Step]) {
    let mut kinds: BTreeMap<&'static str, Vec<usize>> = BTreeMap::new();
    for (position, step) in steps.iter().enumerate() {
        if let Step::Active(node) = step
            && let Some(joint) = &node.joint
        {
            kinds.entry(joint.kind).or_default().push(position);
        }
    }
    for positions in kinds.into_values().filter(|it| it.len() > 1) {
        let node = |it: &usize| match steps.get(*it) {
            Some(Step::Active(node)) => Some(Arc::clone(node)),
            Some(Step::Excluded { .. }) | None => None,
        };
        let members: Vec<Arc<Node>> = positions.iter().filter_map(node).collect();
        let Some((first, others)) = members.split_first() else { continue };
        let Some(joined) = first.joined_with(others) else { continue };
        let reason = format!("joined with {}", first.source);
        for (position, node) in positions.iter().skip(1).zip(others) {
            let (source, priority) = (node.source.clone(), node.profile.priority);
            steps[*position] = Step::Excluded { source, priority, reason: reason.clone().into() };
        }
        if let Some(position) = positions.first() {
            steps[*position] = Step::Active(joined);
        }
    }
}

/// Validates the input alone. Returns the call with the parsed input.
pub(crate) fn gate_input(prompt: &Compiled, call: &Call) -> Result<Call, Error> {
    gate_prompt(prompt, call).map(|it| it.call)
}

fn gate_prompt(prompt: &Compiled, call: &Call) -> Result<Gated, Error> {
    let mut input = call.input.value().clone();
    if input.is_null() {
        input = Value::Object(Map::new());
    }
    prompt.input.base.iter().for_each(|it| it.apply_defaults(&mut input));
    let mut faults = not_an_object(&input);
    faults.extend(prompt.input.base.iter().flat_map(|it| it.faults(&input)));
    faults.extend(prompt.input.unknown_keys(&input));
    if !faults.is_empty() {
        faults.extend(branch_faults(prompt, call, &input));
        return valid(faults).map(|()| Gated { call: call.clone(), steps: Vec::new() });
    }

    let policy = &prompt.definition.input_policy;
    let before = call.with_input(Input::new(policy.apply(input.clone())));
    let values = prompt.capabilities.values(&before)?;
    let (call, before) = (&call.with_capabilities(values.clone()), before.with_capabilities(values));
    let (seen, steps) = (HashSet::with_capacity(prompt.items.len()), Vec::with_capacity(prompt.items.len()));
    let mut walk = Walk { call: &before, seen, steps, schemas: Vec::new() };
    walk.items(&prompt.items)?;
    let Walk { steps, schemas, .. } = walk;

    let is_base = |it: &Arc<OwnedSchema>| prompt.input.base.iter().any(|base| Arc::ptr_eq(base, it));
    let conditional: Vec<_> = schemas.into_iter().filter(|it| !is_base(it)).collect();
    if conditional.is_empty() {
        return Ok(Gated { call: before, steps });
    }
    conditional.iter().for_each(|it| it.apply_defaults(&mut input));
    valid(conditional.iter().flat_map(|it| it.faults(&input)).collect())?;
    Ok(Gated { call: call.with_input(Input::new(policy.apply(input))), steps })
}

/// Validates the branches that seem to be active even though the input is already known to be invalid, so that all
/// faults are reported together. A predicate that fails on such an input is ignored.
fn branch_faults(prompt: &Compiled, call: &Call, input: &Value) -> Vec<InputFault> {
    let call = call.with_input(Input::new(input.clone()));
    let mut walk = Walk { call: &call, seen: HashSet::new(), steps: Vec::new(), schemas: Vec::new() };
    let _ = walk.items(&prompt.items);
    walk.schemas.iter().flat_map(|it| it.faults(input)).collect()
}

/// Where entries are re-entered.
pub(crate) struct Reentry<'a> {
    /// The prompt's id.
    pub(crate) prompt: &'a str,
    /// The contributor that returned them.
    pub(crate) owner: &'a Source,
    pub(crate) depth: usize,
}

/// Lowers and gates entries that a contributor returned while the pass was running.
///
/// `seen` are the entries of the prompt's own tree, which run anyway. The returned entries get their schema defaults.
pub(crate) fn gate_reentered(
    entries: &[Entry],
    at: &Reentry<'_>,
    call: &Call,
    seen: HashSet<usize>,
) -> Result<Gated, Error> {
    let (items, capabilities) = lower_reentered(entries, at.prompt, at.owner, at.depth)?;
    let call = &call.with_capabilities(capabilities.values(call)?);
    let mut walk = Walk { call, seen, steps: Vec::new(), schemas: Vec::new() };
    walk.items(&items)?;
    let Walk { steps, schemas, .. } = walk;
    let mut input = call.input.value().clone();
    schemas.iter().for_each(|it| it.apply_defaults(&mut input));
    valid(schemas.iter().flat_map(|it| it.faults(&input)).collect())?;
    let call = if schemas.is_empty() { call.clone() } else { call.with_input(Input::new(input)) };
    Ok(Gated { call, steps })
}

struct Walk<'a> {
    call: &'a Call,
    /// Entries that were already visited: an entry that occurs twice is rendered once.
    seen: HashSet<usize>,
    steps: Vec<Step>,
    schemas: Vec<Arc<OwnedSchema>>,
}

impl Walk<'_> {
    fn items(&mut self, items: &[Item]) -> Result<(), Error> {
        items.iter().try_for_each(|item| match item {
            Item::Node(node) => self.node(node),
            Item::Choice(choice) => self.choice(choice),
        })
    }

    fn node(&mut self, node: &Arc<Node>) -> Result<(), Error> {
        if !self.seen.insert(node.identity) {
            return Ok(());
        }
        self.check_present(node)?;
        let takes_part = catch_panic(|| node.contributor.gate(self.call));
        match takes_part.map_err(|err| Error::of_function(&node.source, "the gate", err))? {
            false => {
                let reason = reason(node.gate_reason, node.condition.as_ref(), self.call);
                self.exclude(&node.source, node.profile.priority, &reason);
            }
            true => {
                self.items(&node.children)?;
                self.schemas.extend(node.input.clone());
                self.steps.push(Step::Active(Arc::clone(node)));
            }
        }
        Ok(())
    }

    /// Checks the keys that the gate of a contributor may read. Missing keys are allowed: the gate may test for them.
    fn check_present(&self, node: &Node) -> Result<(), Error> {
        match &node.input {
            Some(schema) if node.has_own_gate() => valid(schema.faults_of_present(self.call.input.value())),
            _ => Ok(()),
        }
    }

    fn choice(&mut self, choice: &Choice) -> Result<(), Error> {
        match &choice.pick {
            Pick::When(predicate) => {
                let holds = catch_panic(|| predicate.holds(self.call));
                let arm = choice.arms.first().map_or(&[][..], Vec::as_slice);
                match holds.map_err(|err| Error::of_function(&arm_source(choice), "the predicate", err))? {
                    true => self.items(arm),
                    false => {
                        self.exclude_all(arm, &reason(PREDICATE_FALSE, Some(predicate), self.call));
                        Ok(())
                    }
                }
            }
            Pick::Match { on, cases, has_default } => {
                let value = catch_panic(|| on.select(self.call));
                let value = value.map_err(|err| Error::of_function(&choice.source, "the selector", err))?;
                let default = has_default.then_some(cases.len());
                match cases.iter().position(|it| *it == value).or(default) {
                    Some(arm) => self.items(choice.arms.get(arm).map_or(&[], Vec::as_slice)),
                    None => {
                        let reason = format!("no case for \"{value}\" and no default");
                        self.exclude(&choice.source, Priority::DEFAULT, &reason.into());
                        Ok(())
                    }
                }
            }
        }
    }

    fn exclude(&mut self, source: &Source, priority: Priority, reason: &Reason) {
        self.steps.push(Step::Excluded { source: source.clone(), priority, reason: reason.clone() });
    }

    fn exclude_all(&mut self, arm: &[Item], reason: &Reason) {
        for item in arm {
            match item {
                Item::Node(node) => self.exclude(&node.source, node.profile.priority, reason),
                Item::Choice(choice) if matches!(choice.pick, Pick::When(_)) => {
                    choice.arms.iter().for_each(|it| self.exclude_all(it, reason));
                }
                Item::Choice(choice) => self.exclude(&choice.source, Priority::DEFAULT, reason),
            }
        }
    }
}

/// Returns a reason with the condition behind it and the values that it read, if they can be shown.
fn reason(rule: &str, condition: Option<&Predicate>, call: &Call) -> Reason {
    Reason { rule: rule.to_owned(), seen: condition.and_then(|it| it.seen(call)) }
}

/// Returns the source under which a failing predicate is reported: that of the entry it guards.
fn arm_source(choice: &Choice) -> Source {
    match choice.arms.first().and_then(|it| it.first()) {
        Some(Item::Node(node)) => node.source.clone(),
        _ => choice.source.clone(),
    }
}

fn not_an_object(input: &Value) -> Vec<InputFault> {
    let fault = InputFault {
        path: "input".to_owned(),
        rule: "type".to_owned(),
        owner: Source::Prompt,
        message: "must be a JSON object".to_owned(),
    };
    if input.is_object() { Vec::new() } else { vec![fault] }
}

fn valid(mut faults: Vec<InputFault>) -> Result<(), Error> {
    // Two owners may declare the same key; one fault for it is enough.
    let mut seen = HashSet::new();
    faults.retain(|it| seen.insert((it.path.clone(), it.rule.clone())));
    if faults.is_empty() { Ok(()) } else { Err(ErrorKind::InputInvalid { faults }.into()) }
}
