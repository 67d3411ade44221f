//! Values of the tag tree and their token counts.

use std::sync::Arc;

use serde_json::Value;

use super::segments::{node_segment, own_segment};
use crate::lower::Node;
use crate::segment::{Slot, Volatility};
use crate::{Body, Segment, Source};

/// One value of the tag tree with its owner.
pub(super) struct Valued {
    pub(super) value: Value,
    pub(super) owner: Owner,
    /// Why the policy excludes it.
    pub(super) excluded: Option<String>,
}

/// The owner of a value.
pub(super) enum Owner {
    Prompt(Volatility),
    /// An entry, by its position in resolved order.
    Entry(Arc<Node>, usize),
}

impl Valued {
    pub(super) fn new(value: Value, owner: Owner) -> Self {
        Self { value, owner, excluded: None }
    }

    /// Returns the value for the tag tree; an excluded one keeps its position but has no content.
    pub(super) fn allowed(&self) -> &Value {
        if self.excluded.is_some() { &Value::Null } else { &self.value }
    }

    pub(super) fn source(&self) -> &Source {
        match &self.owner {
            Owner::Prompt(_) => &Source::Prompt,
            Owner::Entry(node, _) => &node.source,
        }
    }

    pub(super) fn segment(&self, slot: Slot, body: Body) -> Segment {
        match &self.owner {
            Owner::Prompt(volatility) => own_segment(Source::Prompt, slot, body, *volatility),
            Owner::Entry(node, order) => Segment { order: *order, ..node_segment(node, slot, body) },
        }
    }
}

/// Flattens lists of any depth: each value is a separate entry with its own fate.
pub(super) fn flattened(value: Value) -> impl Iterator<Item = Value> {
    let mut stack = vec![value];
    std::iter::from_fn(move || {
        loop {
            match stack.pop()? {
                Value::Array(items) => stack.extend(items.into_iter().rev()),
                value => return Some(value),
            }
        }
    })
}
