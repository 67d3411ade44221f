//! Compiles a definition into a Prompt, once.
//!
//! Turns a [`Definition`] into an immutable tree in which every entry, of any kind, is a contributor with a
//! source, a gate and nested entries. Ids, priorities, tool names, schemas, nesting and the tags known so far are
//! checked here, and all faults are reported together. Nothing runs yet.

mod block;
mod capability;
mod context;
mod node;
mod provider;
mod schema;
mod tags;
mod tools;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use self::block::{block_name, block_stamp};
pub(crate) use self::block::{frozen_block, lower_inline};
pub(crate) use self::capability::Capabilities;
pub use self::capability::CapabilityInfo;
use self::context::{ContextContributor, inferred_volatility};
use self::node::LoweredEntry;
pub(crate) use self::node::{Choice, Item, Node, Pick, Stability};
pub(crate) use self::provider::{frozen_messages, lower_providers, messages_to_freeze};
pub(crate) use self::schema::{InputSchema, OwnedSchema};
use self::tags::{Sketch, tag_faults};
pub(crate) use self::tools::tool_collisions;
use self::tools::unconditional_tools;
use crate::define::{CapabilityParts, ContextParts, DefinedEntry};
use crate::segment::{EntryKind, SharedTool, Volatility};
use crate::tags::block_tag_name;
use crate::{
    Branch, Context, Contributor, ConversationUse, Declaration, Definition, Entry, Error, ErrorKind,
    Priority, Source,
};

/// Why an entry under a condition was excluded.
pub(crate) const PREDICATE_FALSE: &str = "when() predicate returned false";
/// Why a context with its own condition was excluded.
const CONTEXT_WHEN_FALSE: &str = "context-level when returned false";

/// The maximum nesting depth of entries.
pub const MAX_DEPTH: usize = 32;

/// A definition that was checked, as the stages read it.
pub(crate) struct Compiled {
    pub(crate) definition: Definition,
    pub(crate) items: Vec<Item>,
    pub(crate) input: InputSchema,
    pub(crate) tools: Vec<SharedTool>,
    pub(crate) capabilities: Capabilities,
    /// The places of entries that have an id.
    places: HashMap<Source, String>,
}

impl Compiled {
    /// Returns the place of the entry with that source.
    pub(crate) fn place(&self, source: &Source) -> Option<&str> {
        self.places.get(source).map(String::as_str)
    }

    /// Returns the place of an entry whose id is that name, in any spelling.
    pub(crate) fn place_of(&self, name: &str) -> Option<&str> {
        let is_named = |id: &Arc<str>| **id == *name || block_tag_name(id).is_ok_and(|it| it == name);
        let is_same = |it: &&Source| it.entry_id().is_some_and(is_named);
        let first = self.places.keys().filter(is_same).min()?;
        self.places.get(first).map(String::as_str)
    }
}

/// Compiles a definition. See [`crate::PromptBuilder::build`].
pub(crate) fn lower(definition: Definition) -> Result<Compiled, Error> {
    let at = definition.file.clone().unwrap_or_else(|| definition.id.clone());
    compile(definition).map_err(|err| err.or_at(at))
}

fn compile(mut definition: Definition) -> Result<Compiled, Error> {
    let (prompt, overrides) = (definition.id.clone(), definition.overrides.clone());
    let mut lowering = Lowering { prompt, overrides, ..Lowering::default() };
    if definition.prompt.is_some() && !definition.user.is_empty() {
        lowering.errors.push(ErrorKind::Exclusive { first: "prompt", second: "user" }.into());
    }
    if definition.prompt.is_some() && !definition.messages.is_empty() {
        lowering.errors.push(ErrorKind::Exclusive { first: "prompt", second: "messages" }.into());
    }
    let own = lowering.schema(&Source::Prompt, definition.input.as_ref(), &[]);
    lowering.schema(&Source::Output, definition.output.as_ref(), &[]);
    let mut items = lowering.entries(&definition.entries, "use", 0);
    items.extend(lowering.providers(&definition.providers, "providers").into_iter().map(Item::Node));
    let capabilities = lowering.collect_capabilities(&items, &mut definition);
    let tools = lowering.tools(&Source::Prompt, &definition.tools);
    // What other entries bring is known when they run.
    let mut known_tools = unconditional_tools(&items, &lowering.context_tools);
    known_tools.extend(tools.iter().map(|it| (Source::Prompt, it.clone())));
    lowering.errors.extend(tool_collisions(&known_tools));
    let own_values: Vec<Value> = definition.context.iter().map(crate::TagValue::sketch).collect();
    lowering.errors.extend(tag_faults(&own_values, &items, &lowering.sketches));
    Error::all(lowering.errors)?;
    let places = lowering.ids.into_iter().map(|(source, (_, place))| {
        let place = format!("{source} at {place}");
        (source, place)
    });
    let places = places.collect();

    let mut owners = Vec::from_iter(own.map(|it| (it, true)));
    collect_owners(&items, true, &mut HashSet::new(), &mut owners);
    let input = InputSchema::merge(owners, definition.input.as_ref())?;
    Ok(Compiled { definition, items, input, tools, capabilities, places })
}

/// Lowers entries that a contributor returned while a pass was running.
pub(crate) fn lower_reentered(
    entries: &[Entry],
    prompt: &str,
    owner: &Source,
    depth: usize,
) -> Result<(Vec<Item>, Capabilities), Error> {
    let mut lowering = Lowering { prompt: prompt.to_owned(), ..Lowering::default() };
    let items = lowering.entries(entries, &owner.notation(), depth);
    let capabilities = lowering.collect_reentered(&items);
    Error::all(lowering.errors)?;
    Ok((items, capabilities))
}

/// Lists the schemas in the tree; the flag says whether an owner is included in every pass.
fn collect_owners(
    items: &[Item],
    always: bool,
    seen: &mut HashSet<(usize, bool)>,
    owners: &mut Vec<(Arc<OwnedSchema>, bool)>,
) {
    for item in items {
        match item {
            Item::Choice(choice) => {
                choice.arms.iter().for_each(|arm| collect_owners(arm, false, seen, owners));
            }
            Item::Node(node) => {
                let always = always && !node.is_gated;
                // Entries that share entries on many levels are visited once, not once for each path to them.
                if !seen.insert((node.identity, always)) {
                    continue;
                }
                collect_owners(&node.children, always, seen, owners);
                let Some(schema) = &node.input else { continue };
                match owners.iter_mut().find(|(known, _)| Arc::ptr_eq(known, schema)) {
                    Some((_, known)) => *known |= always,
                    None => owners.push((Arc::clone(schema), always)),
                }
            }
        }
    }
}

/// The place of a contributor, and its owner.
struct EntryPosition<'a> {
    source: Source,
    identity: usize,
    place: &'a str,
    depth: usize,
    is_gated: bool,
}

#[derive(Default)]
struct Lowering {
    /// The prompt's id.
    prompt: String,
    overrides: Vec<String>,
    /// Nodes by identity: an entry that is used in several places is lowered once.
    nodes: HashMap<usize, Arc<Node>>,
    /// The entries with data that defines them, each once.
    defined: Vec<Arc<DefinedEntry>>,
    /// The entry with each id, and its place.
    ids: HashMap<Source, (usize, String)>,
    /// What is known of the tag values of contexts, by identity.
    sketches: HashMap<usize, Sketch>,
    /// The tools of contexts, by identity.
    context_tools: HashMap<usize, Vec<SharedTool>>,
    /// The capabilities that were lowered, by the identity of their nodes.
    capabilities: HashMap<usize, Arc<CapabilityParts>>,
    /// The preset with which each capability is included, and where.
    presets: HashMap<String, (Option<String>, String)>,
    errors: Vec<Error>,
}

impl Lowering {
    fn entries(&mut self, entries: &[Entry], place: &str, depth: usize) -> Vec<Item> {
        let lowered = entries
            .iter()
            .enumerate()
            .map(|(position, entry)| self.entry(entry, position, &format!("{place}[{position}]"), depth));
        lowered.flatten().collect()
    }

    fn entry(&mut self, entry: &Entry, position: usize, place: &str, depth: usize) -> Option<Item> {
        if depth >= MAX_DEPTH {
            let entry = format!("{} at {place}", entry_source(entry, position));
            self.errors.push(ErrorKind::DepthExceeded { entry, limit: MAX_DEPTH }.into());
            return None;
        }
        match entry {
            Entry::Nothing => None,
            Entry::Defined(defined) => {
                let first = self.first_of(defined);
                self.entry(&first.entry, position, place, depth)
            }
            Entry::When(when) => {
                let arms = vec![self.branch(&when.branch, position, place, depth)];
                let source = Source::At { kind: EntryKind::When, position };
                Some(Item::Choice(Arc::new(Choice {
                    source,
                    pick: Pick::When(when.predicate.clone()),
                    arms,
                })))
            }
            Entry::Match(matching) => {
                let branches = matching.cases.iter().map(|(_, branch)| branch).chain(&matching.default);
                let arms = branches.map(|it| self.branch(it, position, place, depth)).collect();
                let pick = Pick::Match {
                    on: matching.on.clone(),
                    cases: matching.cases.iter().map(|(value, _)| value.clone()).collect(),
                    has_default: matching.default.is_some(),
                };
                let source = Source::At { kind: EntryKind::Match, position };
                Some(Item::Choice(Arc::new(Choice { source, pick, arms })))
            }
            Entry::Context(context) => {
                self.context_entry(context, entry_source(entry, position), place, depth)
            }
            Entry::Block(block) => {
                let name = match block_name(&block.0) {
                    Ok(name) => name,
                    Err(err) => {
                        let place = block.0.file.as_deref().unwrap_or(place);
                        self.errors.push(Error::from(err).or_at(place));
                        return None;
                    }
                };
                let identity = Arc::as_ptr(&block.0).addr();
                let place = block.0.file.as_deref().unwrap_or(place);
                let stamp = || block_stamp(&block.0);
                let at = EntryPosition {
                    source: Source::Block(name.as_str().into()),
                    identity,
                    place,
                    depth,
                    is_gated: true,
                };
                self.node(at, stamp, |it, _| it.block(&block.0, &name))
            }
            Entry::Capability(it) => self.capability(it, place, depth),
            Entry::Provider(it) => self.provider(it, place, depth),
            Entry::Injectable(it) => {
                self.function(entry_source(entry, position), Arc::clone(it) as _, place, depth)
            }
            Entry::Contributor(it) => {
                self.function(entry_source(entry, position), Arc::clone(it), place, depth)
            }
        }
    }

    /// Returns the first entry with the same definition.
    fn first_of(&mut self, defined: &Arc<DefinedEntry>) -> Arc<DefinedEntry> {
        if let Some(first) = self.defined.iter().find(|it| it.is_same(defined)) {
            return Arc::clone(first);
        }
        self.defined.push(Arc::clone(defined));
        Arc::clone(defined)
    }

    /// Lowers a context, which may also be that of a capability.
    fn context_entry(
        &mut self,
        context: &Context,
        source: Source,
        place: &str,
        depth: usize,
    ) -> Option<Item> {
        let identity = Arc::as_ptr(&context.parts).addr();
        let place = context.parts.file.as_deref().unwrap_or(place);
        let is_gated = context.parts.when.is_some();
        // An edited file is a different version; the contents of a function are unknown.
        let stamp = || xxh3_64(format!("{:?}", context.parts).as_bytes());
        if let Some(values) = &context.parts.values {
            self.sketches.entry(identity).or_insert_with(|| values.sketch());
        }
        let at = EntryPosition { source, identity, place, depth, is_gated };
        self.node(at, stamp, |it, source| {
            let contributor = it.context(&context.parts, source);
            let constant = contributor.constant().map(Arc::new);
            LoweredEntry {
                stability: constant.map(Stability::Constant),
                condition: context.parts.when.clone(),
                ..LoweredEntry::new(Arc::new(contributor))
            }
        })
    }

    /// Lowers an entry that is a function.
    fn function(
        &mut self,
        source: Source,
        contributor: Arc<dyn Contributor>,
        place: &str,
        depth: usize,
    ) -> Option<Item> {
        let identity = Arc::as_ptr(&contributor).cast::<()>().addr();
        let is_gated = contributor.has_gate();
        let at = EntryPosition { source, identity, place, depth, is_gated };
        self.node(at, || 0, |_, _| LoweredEntry::new(contributor))
    }

    fn branch(&mut self, branch: &Branch, position: usize, place: &str, depth: usize) -> Vec<Item> {
        match branch {
            Branch::One(entry) => self.entry(entry, position, place, depth + 1).into_iter().collect(),
            Branch::Many(entries) => self.entries(entries, place, depth + 1),
        }
    }

    /// Lowers one contributor, or returns its existing node.
    fn node(
        &mut self,
        at: EntryPosition<'_>,
        stamp: impl FnOnce() -> u64,
        make: impl FnOnce(&mut Self, &Source) -> LoweredEntry,
    ) -> Option<Item> {
        let EntryPosition { identity, place, depth, .. } = at;
        if let Some(node) = self.nodes.get(&identity) {
            let node = Arc::clone(node);
            if depth + node.height > MAX_DEPTH {
                let entry = format!("{} at {place}", at.source);
                self.errors.push(ErrorKind::DepthExceeded { entry, limit: MAX_DEPTH }.into());
            }
            return Some(Item::Node(node));
        }
        self.claim_id(&at.source, identity, place);
        let node = self.new_node(at, stamp, make);
        self.nodes.insert(identity, Arc::clone(&node));
        Some(Item::Node(node))
    }

    fn new_node(
        &mut self,
        at: EntryPosition<'_>,
        stamp: impl FnOnce() -> u64,
        make: impl FnOnce(&mut Self, &Source) -> LoweredEntry,
    ) -> Arc<Node> {
        let EntryPosition { source, identity, place, depth, is_gated } = at;
        let LoweredEntry { contributor, stability, gate_reason, condition, is_provider } =
            make(self, &source);
        let Declaration { input, entries, profile, family, conversation, source: _, joint } =
            contributor.declare();
        let children = self.entries(&entries, &format!("{place} use"), depth + 1);
        let input = self.schema(&source, input.as_ref(), &self.overrides.clone());
        let is_context = matches!(source, Source::Context(_) | Source::At { kind: EntryKind::Context, .. });
        let of_kind = if is_context { CONTEXT_WHEN_FALSE } else { PREDICATE_FALSE };
        let inferred = match profile.volatility {
            _ if conversation == ConversationUse::AtTurnStart => Stability::Turn,
            None | Some(Volatility::Turn) => Stability::Request,
            Some(Volatility::Static | Volatility::Conversation) => Stability::Turn,
        };
        let stamp = if profile.remember.is_some() { stamp() } else { 0 };
        let height = 1 + children.iter().map(Item::height).max().unwrap_or(0);
        Arc::new(Node {
            source,
            identity,
            place: place.to_owned(),
            stamp,
            contributor,
            stability: stability.unwrap_or(inferred),
            profile,
            gate_reason: gate_reason.unwrap_or(of_kind),
            condition,
            is_provider,
            conversation,
            joint,
            last_joined: Mutex::default(),
            input,
            children,
            is_gated,
            height,
            family,
        })
    }

    fn claim_id(&mut self, source: &Source, identity: usize, place: &str) {
        let Some(id) = source.entry_id() else { return };
        match self.ids.get(source) {
            Some((known, first)) if *known != identity => {
                let (id, first, second) = (id.to_string(), first.clone(), place.to_owned());
                self.errors.push(ErrorKind::DuplicateId { id, first, second }.into());
            }
            Some(_) => {}
            None => {
                self.ids.insert(source.clone(), (identity, place.to_owned()));
            }
        }
    }

    fn context(&mut self, parts: &Arc<ContextParts>, source: &Source) -> ContextContributor {
        let mut profile = parts.profile.clone();
        match parts.priority.map_or(Ok(Priority::DEFAULT), Priority::new) {
            Ok(priority) => profile.priority = priority,
            Err(fault) => self.errors.push(ErrorKind::Priority { owner: source.clone(), fault }.into()),
        }
        profile.volatility.get_or_insert_with(|| inferred_volatility(parts));
        let tools = self.tools(source, &parts.tools);
        if !tools.is_empty() {
            self.context_tools.insert(Arc::as_ptr(parts).addr(), tools.clone());
        }
        ContextContributor { parts: Arc::clone(parts), profile, tools }
    }

    fn tools(&mut self, owner: &Source, tools: &[SharedTool]) -> Vec<SharedTool> {
        for tool in tools.iter().map(SharedTool::tool).filter(|it| !is_tool_name(&it.name)) {
            let (tool, owner) = (tool.name.clone(), owner.clone());
            self.errors.push(ErrorKind::ToolNameInvalid { tool, owner }.into());
        }
        tools.to_vec()
    }

    fn schema(
        &mut self,
        owner: &Source,
        schema: Option<&crate::Schema>,
        without: &[String],
    ) -> Option<Arc<OwnedSchema>> {
        match OwnedSchema::new(owner.clone(), schema?, without) {
            Ok(schema) => Some(Arc::new(schema)),
            Err(err) => {
                self.errors.push(err);
                None
            }
        }
    }
}

/// Returns the source of an entry at a position in its author's array.
fn entry_source(entry: &Entry, position: usize) -> Source {
    match entry {
        Entry::Context(context) => match &context.parts.id {
            Some(id) => Source::Context(id.as_str().into()),
            None => Source::At { kind: EntryKind::Context, position },
        },
        Entry::Block(block) => Source::Block(block.0.name.as_str().into()),
        Entry::Provider(it) => Source::Provider(it.name().into()),
        Entry::Capability(it) => Source::Capability(it.name().into()),
        Entry::Injectable(it) => Source::Injectable(it.id().into()),
        Entry::Contributor(it) => it.declare().source.unwrap_or_else(|| Source::Contributor(it.id().into())),
        Entry::Defined(it) => entry_source(&it.entry, position),
        Entry::When(_) => Source::At { kind: EntryKind::When, position },
        Entry::Match(_) => Source::At { kind: EntryKind::Match, position },
        Entry::Nothing => Source::At { kind: EntryKind::Use, position },
    }
}

/// Returns whether a tool can have that name: all providers accept 1 to 64 letters, digits, `_` and `-`.
pub fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-')
}
