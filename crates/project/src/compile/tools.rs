//! Collects the tools that all files of a project declare.
//!
//! Several files may declare the same tool if the declarations are equal; only one of them has to define how it runs.
//! Conflicting declarations are a fault, because a tool is looked up by name when it runs.

use std::collections::BTreeMap;

use crate::compile::Compiled;
use crate::error::{Fault, Place, ProjectError};
use crate::read::tools::ProjectTool;
use contexture_message::ErrorCode;

impl Compiled {
    /// Returns all tools that the project can run, or a fault for each conflicting declaration.
    pub(crate) fn tools(&self) -> Result<Vec<ProjectTool>, ProjectError> {
        let of_contexts = self.contexts.values().map(|unit| (&unit.file, &unit.facts));
        let of_prompts = self.prompts.iter().map(|(file, unit)| (file, &unit.facts));
        let mut known: BTreeMap<&str, (&ProjectTool, &str)> = BTreeMap::new();
        let mut faults = Vec::new();
        let files: Vec<_> = of_contexts.chain(of_prompts).collect();
        for &(file, facts) in &files {
            for (tool, place) in &facts.tools {
                let (first, first_file) = *known.entry(&tool.tool.name).or_insert((tool, file));
                if first != tool {
                    faults.push(different(&tool.tool.name, first_file, file, *place));
                }
            }
        }
        for &(file, facts) in &files {
            for (tool, place) in &facts.plain_tools {
                let run = known.get(tool.name.as_str()).filter(|(run, _)| run.tool != *tool);
                faults.extend(run.map(|(_, first_file)| different(&tool.name, first_file, file, *place)));
            }
        }
        match faults.is_empty() {
            true => Ok(known.into_values().map(|(tool, _)| tool.clone()).collect()),
            false => Err(ProjectError::new(faults)),
        }
    }
}

fn different(name: &str, first: &str, second: &str, place: Place) -> Fault {
    let message = format!("tool `{name}` is declared differently in {first} and {second}");
    let fault = Fault::new(ErrorCode::ToolCollision, message).in_file(second);
    Fault {
        sources: vec![first.to_owned(), second.to_owned()],
        line: Some(place.line),
        column: Some(place.column),
        ..fault
    }
}
