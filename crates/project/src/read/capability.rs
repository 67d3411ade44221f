//! Reads the entries `capability` and `defaults`.

use std::collections::BTreeSet;

use contexture_capabilities::{Defaults, defaults as stack};
use contexture_compose::{DEFAULT_PRESET, Entry, MAX_DEPTH};
use contexture_message::ErrorCode;
use contexture_template::did_you_mean;
use serde::Deserialize;

use crate::error::Problem;
use crate::files::{FileKind, is_plain};
use crate::read::circles::{chain, circle};
use crate::read::facts::Use;
use crate::read::index::{capability_name, capability_path, unit_key};
use crate::read::knowledge;
use crate::read::memory;
use crate::read::pipeline;
use crate::read::reader::{Lookup, Reader};
use crate::read::skills;
use crate::source::decode::{Cursor, Field, Given, Raw, Word};
use crate::source::front;
use crate::source::yaml::Data;

#[derive(Default, Deserialize)]
#[serde(default)]
struct CapabilityEntry {
    capability: Field<Word>,
    preset: Field<Word>,
}

/// Reads `capability: NAME`, with `preset: NAME` beside it. Problems are recorded and the entry becomes `Nothing`.
pub(crate) fn capability<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>, uses: &mut Vec<Use>) -> Entry {
    let fields: CapabilityEntry = reader.decode(at.clone());
    let Some((name, place)) = reader.id(&fields.capability) else { return Entry::Nothing };
    let preset = reader.id(&fields.preset);
    let named = preset.as_ref().map_or(DEFAULT_PRESET, |(it, _)| it.as_str());
    reader.places.capability(&name, named, at.node.place);
    let (lookup, file) = (reader.lookup, capability_path(&name));
    reader.reads.insert(file.clone());
    let key = unit_key(&name, preset.as_ref().map(|(it, _)| it.as_str()));
    if let Some(unit) = lookup.contexts.get(&key) {
        reader.reads.extend(unit.reads.iter().cloned());
        if unit.height >= MAX_DEPTH {
            let message = format!("capability `{name}` is nested more than {MAX_DEPTH} deep");
            reader.problem(Problem::new(ErrorCode::DepthExceeded, message).at(place));
            return Entry::Nothing;
        }
        reader.height = reader.height.max(unit.height + 1);
        uses.push(Use::File { path: key, place });
        return unit.entry.clone().unwrap_or(Entry::Nothing);
    }
    if !lookup.sources.contains(&file) {
        reader.problem(unknown_capability(lookup, &name).at(place));
    } else if let Some(way) = chain(reader, &key) {
        reader.problem(circle(lookup, &way).at(place));
        uses.push(Use::File { path: key, place });
    } else if let Some((preset, place)) = preset {
        let known = presets_of(lookup, &file);
        if known.contains(&preset) {
            uses.push(Use::File { path: key, place });
        } else {
            reader.problem(unknown_preset(&name, &preset, &known).at(place));
        }
    }
    Entry::Nothing
}

fn unknown_capability(lookup: Lookup<'_>, name: &str) -> Problem {
    let path = capability_path(name);
    let known = lookup.sources.of_kind(FileKind::Capability).filter_map(capability_name);
    let hint = did_you_mean(name, known).or_else(|| is_plain(name).then(|| format!("write `{path}`")));
    let message = format!("there is no capability `{name}`, no file `{path}`");
    Problem::new(ErrorCode::UnknownEntry, message).hint(hint)
}

fn unknown_preset(name: &str, preset: &str, known: &BTreeSet<String>) -> Problem {
    let all: Vec<&str> = known.iter().map(String::as_str).collect();
    let hint = did_you_mean(preset, all.iter().copied());
    let hint = hint.unwrap_or_else(|| format!("there are: {}", all.join(", ")));
    let message = format!("capability `{name}` has no preset `{preset}`");
    Problem::new(ErrorCode::UnknownEntry, message).hint(Some(hint))
}

fn presets_of(lookup: Lookup<'_>, file: &str) -> BTreeSet<String> {
    let document = lookup.sources.text(file).map(front::split).ok();
    let presets = document.as_ref().and_then(|it| it.front.get("presets")).map(|it| it.value.pairs());
    let named = presets.unwrap_or_default().iter().map(|it| it.key.clone());
    named.chain([DEFAULT_PRESET.to_owned()]).collect()
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefaultsEntry {
    defaults: Given,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DefaultsFields {
    identity: Option<Raw>,
    memory: Option<Raw>,
    knowledge: Field<bool>,
    skills: Option<Raw>,
    workspace: Option<Raw>,
}

/// Reads `defaults: {…}`; `defaults: true` has what the project has.
pub(crate) fn defaults<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entry {
    let fields: DefaultsEntry = reader.decode(at.clone());
    let Some(inner) = reader.given(fields.defaults.0) else { return Entry::Nothing };
    match &inner.node.data {
        Data::Bool(true) | Data::Null => all_defaults(reader),
        Data::Bool(false) => Entry::Nothing,
        _ => chosen_defaults(reader, &inner),
    }
}

/// Returns the stack of what the project has: the date, a memory, and the catalogues that are not empty.
pub(crate) fn all_defaults(reader: &mut Reader<'_>) -> Entry {
    let lookup = reader.lookup;
    let memory = memory::entry(reader, None);
    let stack = memory.into_iter().fold(stack(), |stack, memory| stack.defined_memory(memory.0, memory.1));
    let stack = with_knowledge(reader, stack);
    skills::depends(reader);
    let has_skills = lookup.skills.names().next().is_some();
    let stack = if has_skills { stack.skills(lookup.skills.entry().clone()) } else { stack };
    stack.into()
}

fn with_knowledge(reader: &mut Reader<'_>, stack: Defaults) -> Defaults {
    knowledge::depends(reader);
    match reader.lookup.knowledge.bases().is_empty() {
        true => stack,
        false => stack.knowledge(reader.lookup.knowledge.catalogue()),
    }
}

fn chosen_defaults<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entry {
    let fields: DefaultsFields = reader.decode(at.clone());
    let mut made = stack();
    if let Some(text) = reader.text_of(fields.identity) {
        made = made.identity(text);
    }
    if let Some(memory) = reader.given(fields.memory).and_then(|it| memory::entry(reader, Some(it))) {
        made = made.defined_memory(memory.0, memory.1);
    }
    if fields.knowledge.value == Some(true) {
        made = with_knowledge(reader, made);
    }
    if let Some(skills) = reader.given(fields.skills).and_then(|it| skills::listed(reader, &it)) {
        made = made.skills(skills);
    }
    if let Some(folder) = reader.given(fields.workspace) {
        let workspace = pipeline::workspace_provider(reader, &folder);
        made = workspace.into_iter().fold(made, Defaults::workspace);
    }
    made.into()
}
