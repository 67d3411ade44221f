//! The port that lists and loads skills.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use xxhash_rust::xxh3::xxh3_128;

use crate::BoxError;

/// A skill as a catalogue lists it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkillSummary {
    /// The name that loads it.
    pub name: String,
    /// What it is for, and when to load it.
    pub description: String,
    /// Further words to find it by, such as its instructions; may be empty.
    pub words: Arc<str>,
}

/// A skill at one version. A thread that loads it keeps this version until it is refreshed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkillVersion {
    /// The name that loads it.
    pub name: String,
    /// The hash of its content: two versions with the same hash are the same.
    pub hash: String,
    /// The instructions for the model.
    pub instructions: Arc<str>,
    /// The tools that may run without approval while it is active. If there are none, it says nothing about tools.
    pub allowed_tools: Vec<String>,
    /// The paths of its other files, relative to its folder, sorted.
    pub files: Vec<String>,
}

impl SkillVersion {
    /// Returns a version without files, whose hash is made of its instructions.
    ///
    /// ```
    /// use contexture_compose::ports::SkillVersion;
    ///
    /// let first = SkillVersion::new("refunds", "Ask for the order number.");
    /// assert_eq!(first, SkillVersion::new("refunds", "Ask for the order number."));
    /// assert_ne!(first.hash, SkillVersion::new("refunds", "Ask for the date.").hash);
    /// ```
    pub fn new(name: impl Into<String>, instructions: impl Into<Arc<str>>) -> Self {
        let instructions = instructions.into();
        let hash = Self::hash_of(&instructions);
        Self { name: name.into(), hash, instructions, allowed_tools: Vec::new(), files: Vec::new() }
    }

    /// Returns the hash of a version with this content.
    pub fn hash_of(content: &str) -> String {
        format!("{:032x}", xxh3_128(content.as_bytes()))
    }
}

/// Lists and loads skills.
///
/// Implementors promise a stable order, that a listed skill can be loaded, and that reading a file never leaves the
/// folder of its skill. A name that is not listed is no error: it gives nothing.
pub trait SkillSource: Send + Sync {
    /// Lists the skills that can be loaded.
    fn list(&self) -> Vec<SkillSummary>;

    /// Returns the current version of a skill, or `None` if there is no such skill.
    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<SkillVersion>, BoxError>>;

    /// Returns the text of a file of a skill, or `None` if there is no such file.
    fn read<'a>(&'a self, skill: &'a str, file: &'a str)
    -> BoxFuture<'a, Result<Option<Arc<str>>, BoxError>>;
}

/// Skills held in memory.
#[derive(Clone, Debug, Default)]
pub struct FixedSkills(pub Vec<FixedSkill>);

/// A skill held in memory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FixedSkill {
    /// What it is for, and when to load it.
    pub description: String,
    /// The version that is loaded.
    pub version: SkillVersion,
    /// The texts of its files, by their paths.
    pub files: Vec<(String, Arc<str>)>,
}

impl FixedSkill {
    /// Returns a skill without files.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        instructions: impl Into<Arc<str>>,
    ) -> Self {
        let version = SkillVersion::new(name, instructions);
        Self { description: description.into(), version, files: Vec::new() }
    }

    /// Adds a file.
    #[must_use]
    pub fn file(mut self, path: impl Into<String>, text: impl Into<Arc<str>>) -> Self {
        let path = path.into();
        self.version.files.push(path.clone());
        self.version.files.sort();
        self.files.push((path, text.into()));
        self
    }

    /// Sets the tools that may run without approval while the skill is active.
    #[must_use]
    pub fn allowed_tools<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        self.version.allowed_tools = tools.into_iter().map(Into::into).collect();
        self
    }
}

impl FixedSkills {
    fn get(&self, name: &str) -> Option<&FixedSkill> {
        self.0.iter().find(|it| it.version.name == name)
    }
}

impl SkillSource for FixedSkills {
    fn list(&self) -> Vec<SkillSummary> {
        let summary = |skill: &FixedSkill| SkillSummary {
            name: skill.version.name.clone(),
            description: skill.description.clone(),
            words: Arc::clone(&skill.version.instructions),
        };
        self.0.iter().map(summary).collect()
    }

    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<SkillVersion>, BoxError>> {
        std::future::ready(Ok(self.get(name).map(|it| it.version.clone()))).boxed()
    }

    fn read<'a>(
        &'a self,
        skill: &'a str,
        file: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<str>>, BoxError>> {
        let files = self.get(skill).map(|it| it.files.as_slice()).unwrap_or_default();
        let found = files.iter().find(|(path, _)| path == file).map(|(_, text)| Arc::clone(text));
        std::future::ready(Ok(found)).boxed()
    }
}
