//! Source positions of definitions that the engine validates later.
//!
//! While a file is read, its schemas, ids, tags and input keys are recorded in [`Places`], under the names that the
//! engine's errors use. When the engine rejects a definition, [`located`] looks up the line of what the error names.

use contexture_message::ErrorCode;
use std::collections::BTreeMap;

use contexture_compose::tags::{TagError, validate_tag_name};
use contexture_compose::{Error, ErrorKind, Source};

use crate::error::{Fault, Place};
use crate::source::yaml::{Data, Node};

/// Engine error codes for definitions that are invalid whatever the input. For the author of a file they all mean that
/// the file is invalid.
const OF_DEFINITIONS: [ErrorCode; 4] = [
    ErrorCode::SchemaInvalid,
    ErrorCode::ToolNameInvalid,
    ErrorCode::PriorityInvalid,
    ErrorCode::DefinitionInvalid,
];

/// The recorded positions of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// Positions of owners, such as `prompt:output` or `context:brand`.
    owners: BTreeMap<String, Place>,
    /// Positions where contexts declare their ids, by id.
    ids: BTreeMap<String, Place>,
    /// Positions of tags, by owner and path, such as `documents.recent`.
    tags: BTreeMap<(String, String), Place>,
    /// Positions of input key declarations, by owner and key.
    keys: BTreeMap<(String, String), Place>,
    /// Positions of tools, by name.
    tools: BTreeMap<String, Place>,
    /// Positions of entries that include a capability, by its name and the preset.
    capabilities: BTreeMap<(String, String), Place>,
}

impl Places {
    pub(crate) fn owner(&mut self, owner: &str, place: Place) {
        self.owners.insert(owner.to_owned(), place);
    }

    pub(crate) fn id(&mut self, id: &str, place: Place) {
        self.ids.insert(id.to_owned(), place);
    }

    pub(crate) fn tool(&mut self, name: &str, place: Place) {
        self.tools.insert(name.to_owned(), place);
    }

    /// Records the first entry that includes a capability with a preset.
    pub(crate) fn capability(&mut self, name: &str, preset: &str, place: Place) {
        self.capabilities.entry((name.to_owned(), preset.to_owned())).or_insert(place);
    }

    /// Records the keys that a schema declares.
    pub(crate) fn schema(&mut self, owner: &str, schema: &Node) {
        let keys = schema.get("properties").map(|it| it.value.pairs()).unwrap_or_default();
        self.keys.extend(keys.iter().map(|it| ((owner.to_owned(), it.key.clone()), it.place)));
    }

    /// Records the tags in a value, at any depth.
    pub(crate) fn tags(&mut self, owner: &str, value: &Node) {
        self.tags.insert((owner.to_owned(), String::new()), value.place);
        self.tags_under(owner, "", value);
    }

    fn tags_under(&mut self, owner: &str, parent: &str, value: &Node) {
        match &value.data {
            Data::List(items) => items.iter().for_each(|it| self.tags_under(owner, parent, it)),
            Data::Map(pairs) => {
                for pair in pairs {
                    let name = validate_tag_name(&pair.key).unwrap_or_else(|err| err.path().to_owned());
                    let path = if parent.is_empty() { name } else { format!("{parent}.{name}") };
                    self.tags_under(owner, &path, &pair.value);
                    self.tags.insert((owner.to_owned(), path), pair.place);
                }
            }
            Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) => {}
        }
    }

    /// Returns the position of a tag, or of its closest recorded ancestor.
    fn tag(&self, owner: &str, path: &str) -> Option<Place> {
        let mut path = path;
        loop {
            if let Some(place) = self.tags.get(&(owner.to_owned(), path.to_owned())) {
                return Some(*place);
            }
            if path.is_empty() {
                return None;
            }
            path = path.rsplit_once('.').map_or("", |(around, _)| around);
        }
    }
}

/// The positions in all files of a prompt, the prompt's own file first.
pub(crate) type Files<'a> = [(&'a str, &'a Places)];

/// Converts an engine error to faults, each with its file and line where known.
pub(crate) fn located(err: &Error, files: &Files<'_>) -> Vec<Fault> {
    let each = std::iter::once(err).chain(err.others());
    each.map(|it| {
        let mut fault = Fault::from(it);
        fault.file = fault.file.or_else(|| err.at().map(str::to_owned));
        if OF_DEFINITIONS.contains(&fault.code) {
            fault.code = ErrorCode::FileInvalid;
            fault.file = fault.file.or_else(|| files.first().map(|(file, _)| (*file).to_owned()));
        }
        match fault.line.is_none().then(|| place(it.kind(), &fault, files)).flatten() {
            Some((file, place)) => fault.in_file(file).at_place(place),
            None => fault,
        }
    })
    .collect()
}

fn place<'a>(kind: &ErrorKind, fault: &Fault, files: &Files<'a>) -> Option<(&'a str, Place)> {
    let first = |find: &dyn Fn(&Places) -> Option<Place>| {
        files.iter().find_map(|(file, places)| Some((*file, find(places)?)))
    };
    let owner = |owner: &str| first(&|it| it.owners.get(owner).copied());
    let exact = match kind {
        ErrorKind::SchemaConflict { key, first: one, second: other, .. } => {
            let of = |owner: &str| first(&|it| it.keys.get(&(owner.to_owned(), key.clone())).copied());
            // A context may be right for other prompts, so the prompt's own key is shown if there is one.
            let (one, other) = (one.to_string(), other.to_string());
            if one == "prompt" { of(&one).or_else(|| of(&other)) } else { of(&other).or_else(|| of(&one)) }
        }
        ErrorKind::DuplicateId { id, second, .. } => {
            let in_second = files.iter().find(|(file, _)| file == second);
            let of = |(file, places): &(&'a str, &Places)| Some((*file, *places.ids.get(id)?));
            in_second.and_then(of).or_else(|| files.iter().find_map(of))
        }
        ErrorKind::ToolCollision { tool, .. } => first(&|it| it.tools.get(tool).copied()),
        ErrorKind::Tag(err) => tag(err, files),
        ErrorKind::PresetConflict { capability, second, .. } => {
            first(&|it| it.capabilities.get(&(capability.clone(), second.clone())).copied())
        }
        ErrorKind::Conditional { owner: Source::Capability(name), .. } => {
            let of_name = |it: &Places| {
                it.capabilities.iter().find(|((known, _), _)| **known == **name).map(|(_, it)| *it)
            };
            first(&of_name)
        }
        _ => None,
    };
    let single = || match fault.sources.as_slice() {
        [one] => owner(one),
        _ => None,
    };
    exact.or_else(single)
}

/// Returns the position of the tag that an error is about, searching the sources from the last: it is the one that
/// conflicts with the earlier ones.
fn tag<'a>(err: &TagError, files: &Files<'a>) -> Option<(&'a str, Place)> {
    let sources = err.sources();
    sources.iter().rev().find_map(|source| {
        files.iter().find_map(|(file, places)| Some((*file, places.tag(source, err.path())?)))
    })
}
