//! An organisation's last word on what a model may see.

use crate::Segment;

/// Looks at every Segment before the budget does.
///
/// Implementors promise to be pure: the same Segment always gets the same verdict.
pub trait Policy: Send + Sync {
    /// Decides about one Segment.
    fn review(&self, segment: &Segment) -> Verdict;
}

/// What a policy says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It may go on.
    Allow,
    /// It is excluded, for this reason.
    Exclude(String),
}

/// Allows everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllowAll;

impl Policy for AllowAll {
    fn review(&self, _segment: &Segment) -> Verdict {
        Verdict::Allow
    }
}

/// Excludes some sources by name.
#[derive(Clone, Debug, Default)]
pub struct DenySources(pub Vec<String>);

impl Policy for DenySources {
    fn review(&self, segment: &Segment) -> Verdict {
        match self.0.iter().any(|it| it == segment.source.as_str()) {
            true => Verdict::Exclude("denied by policy".to_owned()),
            false => Verdict::Allow,
        }
    }
}
