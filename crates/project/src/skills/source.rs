//! Serves the skills of a project.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use contexture_compose::ports::{SkillSource, SkillSummary, SkillVersion};
use contexture_compose::{BoxError, BoxFuture};

use crate::files::read_inside;

/// The skills of a project, by name.
pub(super) struct FolderSkills(pub(super) BTreeMap<String, StoredSkill>);

pub(super) struct StoredSkill {
    pub(super) description: String,
    pub(super) version: SkillVersion,
    pub(super) contents: Contents,
}

/// Where the files of a skill are.
pub(super) enum Contents {
    /// In a folder, from which they are read when a model asks for them.
    Folder(PathBuf),
    Memory(BTreeMap<String, Arc<str>>),
}

impl SkillSource for FolderSkills {
    fn list(&self) -> Vec<SkillSummary> {
        let summary = |(name, skill): (&String, &StoredSkill)| SkillSummary {
            name: name.clone(),
            description: skill.description.clone(),
            words: Arc::clone(&skill.version.instructions),
        };
        self.0.iter().map(summary).collect()
    }

    fn load<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<SkillVersion>, BoxError>> {
        Box::pin(std::future::ready(Ok(self.0.get(name).map(|it| it.version.clone()))))
    }

    fn read<'a>(
        &'a self,
        skill: &'a str,
        file: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<str>>, BoxError>> {
        Box::pin(std::future::ready(self.contents(skill, file)))
    }
}

impl FolderSkills {
    fn contents(&self, skill: &str, file: &str) -> Result<Option<Arc<str>>, BoxError> {
        // Only what was listed is read, so that no path leads out of the folder.
        let Some(skill) = self.0.get(skill).filter(|it| it.version.files.iter().any(|it| it == file)) else {
            return Ok(None);
        };
        match &skill.contents {
            Contents::Memory(files) => Ok(files.get(file).cloned()),
            Contents::Folder(folder) => Ok(Some(read_inside(folder, file)?.into())),
        }
    }
}
