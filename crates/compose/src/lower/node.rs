//! The lowered tree of entries.

use std::sync::Arc;

use super::schema::OwnedSchema;
use crate::define::{Predicate, Selector};
use crate::{Contribution, Contributor, Profile, Source};

/// One position in the lowered tree.
#[derive(Clone)]
pub(crate) enum Item {
    /// A contributor.
    Node(Arc<Node>),
    /// A choice between lists of positions.
    Choice(Arc<Choice>),
}

/// A lowered entry.
pub(crate) struct Node {
    pub(crate) source: Source,
    /// Identifies the author's entry, wherever and in whatever notation it is used.
    pub(crate) identity: usize,
    /// Its place, unique in its prompt, for errors and for the keys of cached contributions.
    pub(crate) place: String,
    pub(crate) contributor: Arc<dyn Contributor>,
    /// Distinguishes versions of the same entry in the keys of cached contributions.
    pub(crate) stamp: u64,
    /// The contribution, if it is the same in every pass.
    pub(crate) constant: Option<Arc<Contribution>>,
    pub(crate) profile: Profile,
    pub(crate) gate_reason: &'static str,
    /// The condition behind its gate, if it has one that can be shown.
    pub(crate) condition: Option<Predicate>,
    /// The key under which a thread may pin it: the name of a block, or `provider:<name>`.
    pub(crate) frozen: Option<Arc<str>>,
    /// Whether it is a context provider, which puts messages before the history and can read the history.
    pub(crate) is_provider: bool,
    /// Whether its contribution is valid for all steps of a turn.
    pub(crate) lasts: bool,
    pub(crate) input: Option<Arc<OwnedSchema>>,
    pub(crate) children: Vec<Item>,
    pub(super) is_gated: bool,
    pub(super) height: usize,
    /// The family of contributors that it belongs to.
    pub(crate) family: Option<String>,
}

impl Node {
    /// Returns whether it is a contributor or an injectable with a gate, which may read the keys of its own schema.
    pub(crate) fn has_own_gate(&self) -> bool {
        let kind = self.source.as_str().split_once(':').map_or("", |(kind, _)| kind);
        self.is_gated && matches!(kind, "contributor" | "injectable")
    }

    /// Returns whether it is a prompt block, which contributes only text.
    pub(crate) fn is_block(&self) -> bool {
        self.source.as_str().starts_with("block:")
    }
}

/// Lists of positions of which at most one is included.
pub(crate) struct Choice {
    pub(crate) source: Source,
    pub(crate) pick: Pick,
    pub(crate) arms: Vec<Vec<Item>>,
}

/// How an arm is chosen.
pub(crate) enum Pick {
    /// The only arm, if the predicate holds.
    When(Predicate),
    /// The arm of the selected value, or the last one if there is a default.
    Match { on: Selector, cases: Vec<String>, has_default: bool },
}

impl Item {
    pub(super) fn height(&self) -> usize {
        match self {
            Item::Node(node) => node.height,
            Item::Choice(choice) => 1 + choice.arms.iter().flatten().map(Item::height).max().unwrap_or(0),
        }
    }
}

/// The result of lowering an entry, with the facts that only its kind knows.
pub(super) struct Made {
    pub(super) contributor: Arc<dyn Contributor>,
    pub(super) constant: Option<Arc<Contribution>>,
    pub(super) gate_reason: Option<&'static str>,
    pub(super) condition: Option<Predicate>,
    pub(super) frozen: Option<Arc<str>>,
    pub(super) lasts: Option<bool>,
    pub(super) is_provider: bool,
}

impl Made {
    pub(super) fn new(contributor: Arc<dyn Contributor>) -> Self {
        Self {
            contributor,
            constant: None,
            gate_reason: None,
            condition: None,
            frozen: None,
            lasts: None,
            is_provider: false,
        }
    }
}
