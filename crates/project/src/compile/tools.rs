//! The tools of a project that can be called by name alone, outside of the prompt or context that brings them.
//!
//! A tool travels with the file that declares it, so two files may declare different tools of one name. A flow calls
//! tools by name, and an application may offer one to any prompt; both need a name that means one tool. The rule:
//!
//! 1. A name means a tool if every declaration of it in the project has the same definition.
//! 2. Only one of these files has to declare how the tool runs; if several do, they declare it alike.

use std::collections::BTreeMap;

use contexture_message::ToolDefinition;

use crate::compile::Compiled;
use crate::read::facts::Facts;
use crate::read::tools::ProjectTool;

/// What the files of a project declare under one name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NamedTool {
    /// A tool that the project runs.
    Runs(Box<ProjectTool>),
    /// A tool that the application runs.
    Declared,
    /// Different tools, in the two files.
    Several(String, String),
}

impl Compiled {
    /// Returns what each tool name of the project means.
    pub(crate) fn named_tools(&self) -> BTreeMap<String, NamedTool> {
        let mut known: BTreeMap<&str, Declaration<'_>> = BTreeMap::new();
        let mut several: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
        for (file, facts) in self.facts() {
            let run = facts.tools.iter().map(|(it, _)| (&it.tool, Some(it)));
            let plain = facts.plain_tools.iter().map(|(it, _)| (it, None));
            for (tool, runs) in run.chain(plain) {
                let first = known.entry(&tool.name).or_insert(Declaration { file, tool, runs });
                if first.tool != tool || matches!((first.runs, runs), (Some(a), Some(b)) if a != b) {
                    several.entry(&tool.name).or_insert((first.file, file));
                }
                first.runs = first.runs.or(runs);
            }
        }
        let named = known.into_iter().map(|(name, it)| {
            let meaning = match (several.get(name), it.runs) {
                (Some((first, second)), _) => NamedTool::Several((*first).to_owned(), (*second).to_owned()),
                (None, Some(runs)) => NamedTool::Runs(Box::new(runs.clone())),
                (None, None) => NamedTool::Declared,
            };
            (name.to_owned(), meaning)
        });
        named.collect()
    }

    /// Returns whether any file declares a tool that is an HTTP call.
    pub(crate) fn runs_tools(&self) -> bool {
        self.facts().any(|(_, it)| !it.tools.is_empty())
    }

    /// Returns the facts about every context, capability and prompt, with its file.
    pub(crate) fn facts(&self) -> impl Iterator<Item = (&str, &Facts)> {
        let of_contexts = self.contexts.values().map(|unit| (unit.file.as_str(), &unit.facts));
        of_contexts.chain(self.prompts.iter().map(|(file, unit)| (file.as_str(), &unit.facts)))
    }
}

/// The first declaration of a name, and the first that says how the tool runs.
struct Declaration<'a> {
    file: &'a str,
    tool: &'a ToolDefinition,
    runs: Option<&'a ProjectTool>,
}
