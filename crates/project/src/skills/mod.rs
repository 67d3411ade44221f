//! The skills of a project: folders with a `SKILL.md`, in `skills/`, in `.agents/skills/`, and where `[skills] paths`
//! says.
//!
//! `scan` finds the folders, `parse` reads a `SKILL.md`, leniently: what can be understood is used, and every departure
//! from the specification is a finding. `lint` reports findings as errors; loading reports nothing and leaves out only
//! what no model could choose, a skill without a description. `source` serves the skills to entries and agents.

mod parse;
mod scan;
mod source;
mod strict;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use contexture_capabilities::{SkillIndexForm, Skills, skills};
use contexture_compose::Entry;
use contexture_compose::ports::{SkillSource, SkillVersion};
use contexture_message::{ErrorCode, Tokens};

use self::parse::parse;
use self::scan::{Found, scan};
use self::source::{FolderSkills, StoredSkill};
use crate::config::{Config, SkillsConfig};
use crate::error::{Fault, Problem};
use crate::files::Files;

/// Stands for the set of skills among the files that a unit reads.
pub(crate) const SKILLS: &str = "skills/";

/// A skill folder of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFolder {
    /// The name that loads it, or that of the folder if it can't be loaded.
    pub name: String,
    /// The folder, relative to the project where it lies inside.
    pub folder: String,
    /// What it is for; `None` if it can't be loaded.
    pub description: Option<String>,
    /// The version that is loaded; `None` if it can't be loaded.
    pub version: Option<SkillVersion>,
    /// What is not as the specification says.
    pub findings: Vec<Fault>,
}

/// The skills of a project.
#[derive(Clone)]
pub(crate) struct ProjectSkills {
    folders: Arc<[SkillFolder]>,
    source: Arc<FolderSkills>,
    config: SkillsConfig,
    /// The entry for all skills: the same wherever it is used.
    all: Entry,
    /// The entries for single skills.
    single: Arc<BTreeMap<String, Entry>>,
}

impl ProjectSkills {
    /// Finds and reads the skills.
    pub(crate) fn new(files: &dyn Files, config: &Config) -> Self {
        let mut stored: BTreeMap<String, StoredSkill> = BTreeMap::new();
        let mut folders = Vec::new();
        let scanned = scan(files, &config.skills.paths);
        for found in scanned.folders {
            let (folder, skill) = read(found, &stored);
            if let Some(skill) = skill {
                stored.insert(folder.name.clone(), skill);
            }
            folders.push(folder);
        }
        if let Some(folder) = folders.first_mut() {
            folder.findings.extend(scanned.faults);
        }
        let source = Arc::new(FolderSkills(stored));
        let entry = configured(&source, &config.skills);
        let single = source.0.keys().filter_map(|name| {
            let one = entry.clone().only([name.clone()]).ok()?;
            Some((name.clone(), one.into()))
        });
        let single = Arc::new(single.collect());
        Self { folders: folders.into(), all: entry.into(), single, source, config: config.skills.clone() }
    }

    /// Whether both have the same skills, at the same versions and with the same settings.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.folders == other.folders && self.config == other.config
    }

    /// Returns the folders, sorted by name.
    pub(crate) fn folders(&self) -> &[SkillFolder] {
        &self.folders
    }

    pub(crate) fn source(&self) -> Arc<dyn SkillSource> {
        Arc::clone(&self.source) as _
    }

    /// Returns the names of the skills that can be loaded.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.source.0.keys().map(String::as_str)
    }

    /// Returns the entry that lists all skills.
    pub(crate) fn all(&self) -> Entry {
        self.all.clone()
    }

    /// Returns the entry for one skill.
    pub(crate) fn one(&self, name: &str) -> Option<Entry> {
        self.single.get(name).cloned()
    }

    /// Returns an entry whose options can still be set.
    pub(crate) fn entry(&self) -> Skills {
        configured(&self.source, &self.config)
    }

    /// Returns the form in which all skills are listed.
    pub(crate) fn form(&self) -> SkillIndexForm {
        self.entry().list().1
    }
}

fn configured(source: &Arc<FolderSkills>, config: &SkillsConfig) -> Skills {
    skills(Arc::clone(source) as _)
        .full_index_tokens(Tokens(config.full_index_tokens))
        .max_hints(config.max_hints)
        .inject(config.inject)
}

impl fmt::Debug for ProjectSkills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// Reads the skill of a folder.
fn read(found: Found, known: &BTreeMap<String, StoredSkill>) -> (SkillFolder, Option<StoredSkill>) {
    let Found { name: folder_name, folder, file, text, files, contents, mut faults } = found;
    let is_loadable = faults.is_empty();
    let text = match text {
        Ok(text) => text,
        Err(fault) => {
            let findings = vec![fault];
            let folder =
                SkillFolder { name: folder_name, folder, description: None, version: None, findings };
            return (folder, None);
        }
    };
    let mut parsed = parse(&text, &folder_name);
    if known.contains_key(&parsed.name) {
        let message = format!("there is another skill `{}`, which is used", parsed.name);
        parsed.problems.push(Problem::new(ErrorCode::DuplicateId, message));
    }
    faults.extend(parsed.problems.into_iter().map(|it| it.into_fault(&file)));
    let description = parsed.description.filter(|_| is_loadable && !known.contains_key(&parsed.name));
    let version = SkillVersion {
        name: parsed.name.clone(),
        hash: SkillVersion::hash_of(&text),
        instructions: parsed.instructions,
        allowed_tools: parsed.allowed_tools,
        files,
    };
    let stored = description.clone().map(|description| StoredSkill {
        description,
        version: version.clone(),
        contents,
    });
    let version = stored.as_ref().map(|it| it.version.clone());
    (SkillFolder { name: parsed.name, folder, description, version, findings: faults }, stored)
}
