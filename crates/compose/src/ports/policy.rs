//! An organisation's last word on what a model may see.

use serde_json::Value;

use crate::Segment;

/// Looks at every Segment before the budget does.
///
/// Implementors promise to be pure: the same Segment always gets the same verdict.
pub trait Policy: Send + Sync {
    /// Decides about one Segment. For a share of the tag block, `value` is what it would add; other Segments hold
    /// their words in their body.
    fn review(&self, segment: &Segment, value: Option<&Value>) -> PolicyVerdict;
}

/// What a policy says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PolicyVerdict {
    /// It may go on.
    Allow,
    /// It is excluded, for this reason.
    Exclude(String),
}

/// Allows everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl Policy for AllowAll {
    fn review(&self, _segment: &Segment, _value: Option<&Value>) -> PolicyVerdict {
        PolicyVerdict::Allow
    }
}

/// Excludes some sources by name.
#[derive(Clone, Debug, Default)]
pub struct DenySources(pub Vec<String>);

impl Policy for DenySources {
    fn review(&self, segment: &Segment, _value: Option<&Value>) -> PolicyVerdict {
        match self.0.iter().any(|it| it == segment.source.as_str()) {
            true => PolicyVerdict::Exclude("denied by policy".to_owned()),
            false => PolicyVerdict::Allow,
        }
    }
}
