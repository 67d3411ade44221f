//! The port that lists and loads skills.

use futures_util::future::{BoxFuture, FutureExt};

use crate::BoxError;

/// A skill as it is listed, without its content.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Skill {
    /// The name that loads it.
    pub name: String,
    /// When to load it.
    pub description: String,
}

/// Lists and loads skills.
///
/// Implementors promise a stable order, and that a listed skill can be loaded.
pub trait SkillSource: Send + Sync {
    /// Lists the skills that can be loaded.
    fn list(&self) -> Vec<Skill>;

    /// Returns the instructions of one skill, or `None` if there is no such skill.
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, BoxError>>;
}

/// Skills held in memory: `(name, description, instructions)`.
#[derive(Clone, Debug, Default)]
pub struct FixedSkills(pub Vec<(String, String, String)>);

impl SkillSource for FixedSkills {
    fn list(&self) -> Vec<Skill> {
        let skill = |(name, description, _): &(String, String, String)| Skill {
            name: name.clone(),
            description: description.clone(),
        };
        self.0.iter().map(skill).collect()
    }

    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, BoxError>> {
        let found = self.0.iter().find(|(it, _, _)| it == name).map(|(_, _, text)| text.clone());
        std::future::ready(Ok(found)).boxed()
    }
}
