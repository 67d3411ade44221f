//! Which skills an entry lists, and from where.

use std::collections::BTreeSet;
use std::sync::Arc;

use contexture_compose::BoxError;
use contexture_compose::ports::{SkillSource, SkillSummary, SkillVersion};

/// A name that is not that of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownSkill {
    /// The unknown name.
    pub name: String,
    /// The names that there are.
    pub known: Vec<String>,
}

impl std::fmt::Display for UnknownSkill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "there is no skill `{}`; there are: {}", self.name, self.known.join(", "))
    }
}

impl std::error::Error for UnknownSkill {}

/// Some skills of a source.
#[derive(Clone)]
pub(super) struct Selection {
    pub(super) source: Arc<dyn SkillSource>,
    /// The names, or all.
    pub(super) names: Option<BTreeSet<String>>,
}

impl Selection {
    fn has(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|it| it.contains(name))
    }
}

/// The skills of several selections. If two have a skill of the same name, the first one counts.
#[derive(Clone)]
pub(super) struct SkillSet(pub(super) Arc<[Selection]>);

impl SkillSet {
    pub(super) fn new(selections: impl IntoIterator<Item = Selection>) -> Self {
        Self(selections.into_iter().collect())
    }

    /// Lists the skills, sorted by name.
    pub(super) fn list(&self) -> Vec<SkillSummary> {
        let mut all: Vec<SkillSummary> = Vec::new();
        for selection in self.0.iter() {
            let own = selection.source.list().into_iter().filter(|it| selection.has(&it.name));
            let new: Vec<_> = own.filter(|it| !all.iter().any(|known| known.name == it.name)).collect();
            all.extend(new);
        }
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.list().into_iter().map(|it| it.name).collect()
    }

    pub(super) async fn load(&self, name: &str) -> Result<Option<SkillVersion>, BoxError> {
        for selection in self.0.iter().filter(|it| it.has(name)) {
            if let Some(found) = selection.source.load(name).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    pub(super) async fn read(&self, name: &str, file: &str) -> Result<Option<Arc<str>>, BoxError> {
        for selection in self.0.iter().filter(|it| it.has(name)) {
            if let Some(found) = selection.source.read(name, file).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
