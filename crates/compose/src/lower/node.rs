//! The lowered tree of entries.

use std::sync::{Arc, Mutex, PoisonError};

use super::schema::OwnedSchema;
use crate::define::Joint;
use crate::define::{Predicate, Selector};
use crate::{Contribution, Contributor, ConversationUse, Profile, Source};

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
    pub(crate) stability: Stability,
    pub(crate) profile: Profile,
    pub(crate) gate_reason: &'static str,
    /// The condition behind its gate, if it has one that can be shown.
    pub(crate) condition: Option<Predicate>,
    /// Whether it is a context provider, which puts messages before the history and can read the history.
    pub(crate) is_provider: bool,
    /// What else it reads of the conversation.
    pub(crate) conversation: ConversationUse,
    /// How it is joined with others of its kind.
    pub(crate) joint: Option<Joint>,
    /// What it was joined to last. Most passes include the same entries.
    pub(crate) last_joined: Mutex<Option<Joined>>,
    pub(crate) input: Option<Arc<OwnedSchema>>,
    pub(crate) children: Vec<Item>,
    pub(super) is_gated: bool,
    pub(super) height: usize,
    /// The family of contributors that it belongs to.
    pub(crate) family: Option<String>,
}

/// How long a contribution stays valid, which decides when its entry runs. How often its bytes change from turn to turn
/// is its [`Volatility`](crate::Volatility).
pub(crate) enum Stability {
    /// It consists of literals: the entry never runs.
    Constant(Arc<Contribution>),
    /// It belongs to the frozen prefix: the entry runs once, then the thread keeps the body.
    Frozen {
        /// The key of the body: the name of a block, or `provider:<name>`.
        name: Arc<str>,
        /// The contribution, if it consists of literals.
        literal: Option<Arc<Contribution>>,
    },
    /// The entry runs once per turn; later steps of the turn reuse the result.
    Turn,
    /// The entry runs for each request.
    Request,
}

impl Stability {
    /// Returns the contribution if nothing has to run for it.
    pub(crate) fn literal(&self) -> Option<&Arc<Contribution>> {
        match self {
            Stability::Constant(it) => Some(it),
            Stability::Frozen { literal, .. } => literal.as_ref(),
            Stability::Turn | Stability::Request => None,
        }
    }

    /// Returns the key of the body that a thread keeps, if it belongs to the frozen prefix.
    pub(crate) fn frozen_name(&self) -> Option<&Arc<str>> {
        match self {
            Stability::Frozen { name, .. } => Some(name),
            Stability::Constant(_) | Stability::Turn | Stability::Request => None,
        }
    }
}

/// What a node was joined to, and with which others.
pub(crate) struct Joined {
    others: Vec<Arc<Node>>,
    node: Arc<Node>,
}

impl Joined {
    fn is_of(&self, others: &[Arc<Node>]) -> bool {
        self.others.len() == others.len() && self.others.iter().zip(others).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl Node {
    /// Returns the node that this one and others of its kind are joined to, in the place of this one.
    pub(crate) fn joined_with(&self, others: &[Arc<Node>]) -> Option<Arc<Node>> {
        let joint = self.joint.as_ref()?;
        let mut last = self.last_joined.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(joined) = last.as_ref().filter(|it| it.is_of(others)) {
            return Some(Arc::clone(&joined.node));
        }
        let parts = others.iter().filter_map(|it| Some(Arc::clone(&it.joint.as_ref()?.part)));
        let parts: Vec<_> = std::iter::once(Arc::clone(&joint.part)).chain(parts).collect();
        let node = Arc::new(self.joined((joint.join)(&parts)));
        *last = Some(Joined { others: others.to_vec(), node: Arc::clone(&node) });
        Some(node)
    }

    fn joined(&self, contributor: Arc<dyn Contributor>) -> Self {
        Self {
            source: self.source.clone(),
            identity: Arc::as_ptr(&contributor).cast::<()>().addr(),
            place: self.place.clone(),
            contributor,
            stamp: self.stamp,
            stability: Stability::Turn,
            profile: self.profile.clone(),
            gate_reason: self.gate_reason,
            condition: None,
            is_provider: false,
            conversation: self.conversation,
            joint: None,
            last_joined: Mutex::default(),
            input: None,
            children: Vec::new(),
            is_gated: false,
            height: self.height,
            family: self.family.clone(),
        }
    }

    /// Returns whether it is a contributor or an injectable with a gate, which may read the keys of its own schema.
    pub(crate) fn has_own_gate(&self) -> bool {
        self.is_gated && matches!(self.source, Source::Contributor(_) | Source::Injectable(_))
    }

    /// Returns whether a condition of its own may exclude it.
    pub(super) fn is_gated(&self) -> bool {
        self.is_gated
    }

    /// Returns whether it is a prompt block, which contributes only text.
    pub(crate) fn is_block(&self) -> bool {
        matches!(self.source, Source::Block(_))
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
pub(super) struct LoweredEntry {
    pub(super) contributor: Arc<dyn Contributor>,
    pub(super) gate_reason: Option<&'static str>,
    pub(super) condition: Option<Predicate>,
    /// If not set, it follows from the volatility that the entry declares.
    pub(super) stability: Option<Stability>,
    pub(super) is_provider: bool,
}

impl LoweredEntry {
    pub(super) fn new(contributor: Arc<dyn Contributor>) -> Self {
        Self { contributor, gate_reason: None, condition: None, stability: None, is_provider: false }
    }
}
