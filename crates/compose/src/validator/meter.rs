//! Measures the work of validating a value against a schema. Every application of a subschema counts, as if none were
//! skipped. Counting stops at the limit, so it is cheap itself.

use serde_json::Value;

use super::graph::{Graph, Node, size};

/// The maximum work of one validation, in units of one subschema applied to one value.
const MAX_WORK: u64 = 1_000_000;
/// The maximum nesting of subschema applications: every level uses stack space.
const MAX_NESTING: u64 = 500;
/// How many bytes of text a pattern of weight 1 matches in one unit of work.
const BYTES_A_STEP: u64 = 64;

/// The work that validating a value takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    steps: u64,
    nesting: u64,
}

impl Work {
    /// Returns the work of listing all faults: every enclosing level examines a failure inside it again.
    pub(super) fn listed(self) -> u64 {
        self.steps.saturating_mul(self.nesting.max(1))
    }
}

/// Why a value is too much work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Excess {
    #[error("it is too large or too ambiguous for its schema: checking it takes more than {MAX_WORK} steps")]
    Steps,
    #[error("it is nested too deep for its schema: more than {MAX_NESTING} subschemas within each other")]
    Nesting,
}

/// Measures a value.
pub(super) fn measure(graph: &Graph, value: &Value) -> Result<Work, Excess> {
    let mut meter = Meter { graph, work: Work::default() };
    meter.apply(0, value, 1)?;
    Ok(meter.work)
}

struct Meter<'a> {
    graph: &'a Graph,
    work: Work,
}

impl<'a> Meter<'a> {
    fn spend(&mut self, steps: u64) -> Result<(), Excess> {
        self.work.steps = self.work.steps.saturating_add(steps);
        if self.work.steps > MAX_WORK { Err(Excess::Steps) } else { Ok(()) }
    }

    fn apply(&mut self, idx: usize, value: &Value, nesting: u64) -> Result<(), Excess> {
        let node: &'a Node = &self.graph.nodes[idx];
        self.work.nesting = self.work.nesting.max(nesting);
        if nesting > MAX_NESTING {
            return Err(Excess::Nesting);
        }
        self.spend(1 + node.fixed)?;
        for idx in &node.same {
            self.apply(*idx, value, nesting + 1)?;
        }
        match value {
            Value::String(text) => self.spend(of_text(node.of_text, text)),
            Value::Array(items) => self.items(node, items, nesting + 1),
            Value::Object(map) => self.properties(node, map, nesting + 1),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn items(&mut self, node: &Node, items: &[Value], nesting: u64) -> Result<(), Excess> {
        self.spend(rescanned(node, items.len()))?;
        if node.unique {
            // Up to fifteen items are compared pairwise, larger lists by their hashes.
            let times = (items.len() as u64).min(15);
            self.spend(items.iter().map(size).sum::<u64>().saturating_mul(times))?;
        }
        for (at, item) in items.iter().enumerate() {
            let others = node.first_items.get(at).map_or(node.other_items.as_slice(), std::slice::from_ref);
            for idx in others.iter().chain(&node.contains) {
                self.apply(*idx, item, nesting)?;
            }
        }
        Ok(())
    }

    fn properties(
        &mut self,
        node: &Node,
        map: &serde_json::Map<String, Value>,
        nesting: u64,
    ) -> Result<(), Excess> {
        self.spend(rescanned(node, map.len()))?;
        for (key, value) in map {
            let named =
                node.properties.get(key).map_or(node.other_properties.as_slice(), std::slice::from_ref);
            for idx in named {
                self.apply(*idx, value, nesting)?;
            }
            for (weight, idx) in &node.patterns {
                self.spend(of_text(*weight, key))?;
                // Whether the pattern matches is not tested: this counts the worst case.
                self.apply(*idx, value, nesting)?;
            }
            if let Some(idx) = node.names {
                self.apply(idx, &Value::String(key.clone()), nesting)?;
            }
        }
        Ok(())
    }
}

/// Returns the cost of a text in which every 64 bytes cost `weight`.
fn of_text(weight: u64, text: &str) -> u64 {
    weight.saturating_mul(text.len() as u64) / BYTES_A_STEP + u64::from(weight > 0)
}

/// Returns the cost of tracking what other subschemas evaluated.
fn rescanned(node: &Node, n_children: usize) -> u64 {
    match node.unevaluated {
        true => node.paths.saturating_mul(n_children as u64 + 1),
        false => 0,
    }
}
