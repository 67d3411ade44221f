//! Lowers capabilities: their entries, instructions, tools and checks become a node like that of a context; what belongs
//! to the whole prompt (values, transforms, middleware) is collected.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use contexture_history::Transforms;
use futures_util::FutureExt;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Item, Lowering};
use crate::define::{CapabilityParts, catch_panic};
use crate::{
    Call, CapabilityVariant, DEFAULT_PRESET, Definition, Error, ErrorKind, Source, TagValue, ToolMiddleware,
};

/// A capability that a prompt includes, for Explanations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapabilityInfo {
    /// The name of the capability.
    pub name: String,
    /// The preset that was included; `defaults` if none was named.
    pub preset: String,
    /// The sources of its parts, in resolved order. Nested capabilities list theirs themselves.
    pub parts: Vec<String>,
}

/// The capabilities of a prompt, in resolved order.
#[derive(Default)]
pub(crate) struct Capabilities {
    pub(crate) infos: Arc<[CapabilityInfo]>,
    values: Vec<(String, IndexMap<String, TagValue>)>,
}

impl Capabilities {
    /// Evaluates the values for a call, by the name of the capability. Nothing here waits.
    pub(crate) fn values(&self, call: &Call) -> Result<BTreeMap<String, Value>, Error> {
        let of_one = |(name, values): &(String, IndexMap<String, TagValue>)| {
            let failed = |err| Error::of_function(&Source::Capability(name.as_str().into()), "a value", err);
            let value = |(key, value): (&String, &TagValue)| {
                let now = catch_panic(|| {
                    let waits = || format!("`{key}` waits for something, which a value can't do");
                    value.resolve(call).now_or_never().unwrap_or_else(|| Err(waits().into()))
                });
                Ok((key.clone(), now.map_err(failed)?))
            };
            let values = values.iter().map(value).collect::<Result<Map<_, _>, Error>>()?;
            Ok((name.clone(), Value::Object(values)))
        };
        self.values.iter().map(of_one).collect()
    }
}

/// Returns whether a capability can have that name, which is also part of a template variable.
fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|it: char| it.is_ascii_alphabetic())
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-')
}

impl Lowering {
    /// Lowers a capability to the node of its context.
    pub(super) fn capability(
        &mut self,
        CapabilityVariant(parts): &CapabilityVariant,
        place: &str,
        depth: usize,
    ) -> Option<Item> {
        if !is_name(&parts.name) {
            self.errors.push(ErrorKind::CapabilityName { name: parts.name.clone() }.into());
            return None;
        }
        if let (Some(preset), Some(known)) = (&parts.preset, &parts.known_presets) {
            let (capability, preset, known) = (parts.name.clone(), preset.clone(), known.clone());
            let error =
                Error::from(ErrorKind::UnknownPreset { capability, preset, place: place.to_owned(), known });
            self.errors.push(error);
            return None;
        }
        if let Some((first, first_place)) =
            self.presets.get(&parts.name).filter(|(it, _)| *it != parts.preset)
        {
            self.errors.push(
                ErrorKind::PresetConflict {
                    capability: parts.name.clone(),
                    first: preset_name(first.as_ref()),
                    first_place: first_place.clone(),
                    second: preset_name(parts.preset.as_ref()),
                    second_place: place.to_owned(),
                }
                .into(),
            );
            return None;
        }
        self.presets.entry(parts.name.clone()).or_insert((parts.preset.clone(), place.to_owned()));
        let source = Source::Capability(parts.name.as_str().into());
        let item = self.context_entry(&parts.context, source, place, depth)?;
        if let Item::Node(node) = &item {
            self.capabilities.insert(node.identity, Arc::clone(parts));
        }
        Some(item)
    }

    /// Collects what the lowered capabilities add to the whole prompt, and reports those that can't because they depend
    /// on a condition.
    pub(super) fn collect_capabilities(
        &mut self,
        items: &[Item],
        definition: &mut Definition,
    ) -> Capabilities {
        if self.capabilities.is_empty() {
            return Capabilities::default();
        }
        self.collect(items, true, definition)
    }

    /// Does the same for entries that a contributor returned: by then it is too late for transforms and middleware.
    pub(super) fn collect_reentered(&mut self, items: &[Item]) -> Capabilities {
        if self.capabilities.is_empty() {
            return Capabilities::default();
        }
        self.collect(items, false, &mut Definition::default())
    }

    fn collect(&mut self, items: &[Item], always: bool, definition: &mut Definition) -> Capabilities {
        let mut found = Found::new(&self.capabilities);
        found.items(items, always, &mut Vec::new());
        let Found { infos, order, always, .. } = found;
        let (mut transforms, mut middleware) = (Transforms::default(), Vec::<ToolMiddleware>::new());
        let mut values = Vec::new();
        for (identity, parts) in order {
            values.push((parts.name.clone(), parts.values.clone()));
            let wide = [
                ("transforms", parts.transforms.is_empty()),
                ("tool_middleware", parts.tool_middleware.is_empty()),
            ];
            let wide = wide.into_iter().find(|(_, is_empty)| !is_empty);
            match wide {
                Some((what, _)) if !always.contains(&identity) => {
                    let owner = Source::Capability(parts.name.as_str().into());
                    self.errors.push(ErrorKind::Conditional { owner, what }.into());
                }
                _ => {
                    transforms = transforms.chain(&parts.transforms);
                    middleware.extend(parts.tool_middleware.iter().cloned());
                }
            }
        }
        definition.transforms = transforms.chain(&definition.transforms);
        middleware.append(&mut definition.tool_middleware);
        definition.tool_middleware = middleware;
        Capabilities { infos: infos.into(), values }
    }
}

fn preset_name(preset: Option<&String>) -> String {
    preset.map_or(DEFAULT_PRESET, String::as_str).to_owned()
}

/// Walks a lowered tree.
struct Found<'a> {
    known: &'a HashMap<usize, Arc<CapabilityParts>>,
    seen: HashSet<(usize, bool)>,
    order: Vec<(usize, Arc<CapabilityParts>)>,
    always: BTreeSet<usize>,
    infos: Vec<CapabilityInfo>,
}

impl<'a> Found<'a> {
    fn new(known: &'a HashMap<usize, Arc<CapabilityParts>>) -> Self {
        Self { known, seen: HashSet::new(), order: Vec::new(), always: BTreeSet::new(), infos: Vec::new() }
    }

    /// Visits positions; `sources` gets those that belong to the enclosing capability.
    fn items(&mut self, items: &[Item], always: bool, sources: &mut Vec<String>) {
        for item in items {
            match item {
                Item::Choice(choice) => choice.arms.iter().for_each(|arm| self.items(arm, false, sources)),
                Item::Node(node) => {
                    let always = always && !node.is_gated();
                    // Entries that share entries on many levels are visited once, not once for each path to them.
                    if !self.seen.insert((node.identity, always)) {
                        continue;
                    }
                    sources.push(node.source.to_string());
                    let Some(parts) = self.known.get(&node.identity) else {
                        self.items(&node.children, always, sources);
                        continue;
                    };
                    let mut own = Vec::new();
                    self.items(&node.children, always, &mut own);
                    own.push(node.source.to_string());
                    self.note(node.identity, parts, always, own);
                }
            }
        }
    }

    fn note(&mut self, identity: usize, parts: &Arc<CapabilityParts>, always: bool, sources: Vec<String>) {
        if always {
            self.always.insert(identity);
        }
        if self.order.iter().all(|(it, _)| *it != identity) {
            self.order.push((identity, Arc::clone(parts)));
            let (name, preset) = (parts.name.clone(), preset_name(parts.preset.as_ref()));
            self.infos.push(CapabilityInfo { name, preset, parts: sources });
        }
    }
}
