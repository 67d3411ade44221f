//! The policy port, with which an organisation controls what a model may see.

use serde_json::Value;

use crate::Segment;

/// Reviews every Segment before the budget is applied.
///
/// Implementors promise to be pure: the same Segment always gets the same verdict.
pub trait Policy: Send + Sync {
    /// Reviews one Segment. For a share of the tag block, `value` is what it would add; other Segments have their
    /// content in their body.
    fn review(&self, segment: &Segment, value: Option<&Value>) -> PolicyVerdict;
}

/// The decision of a policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PolicyVerdict {
    /// The Segment may be sent.
    Allow,
    /// The Segment is excluded for this reason.
    Exclude(String),
}

/// A policy that allows everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl Policy for AllowAll {
    fn review(&self, _segment: &Segment, _value: Option<&Value>) -> PolicyVerdict {
        PolicyVerdict::Allow
    }
}

/// A policy that excludes some sources by name.
#[derive(Clone, Debug, Default)]
pub struct DenySources(pub Vec<String>);

impl Policy for DenySources {
    fn review(&self, segment: &Segment, _value: Option<&Value>) -> PolicyVerdict {
        match self.0.iter().any(|it| *it == segment.source.notation()) {
            true => PolicyVerdict::Exclude("denied by policy".to_owned()),
            false => PolicyVerdict::Allow,
        }
    }
}
