//! Reads `use`: context names, inline contexts, blocks, `when` and `match`; the other kinds have modules of their own.

use contexture_message::ErrorCode;
use std::sync::Arc;

use contexture_capabilities::DEFAULTS;
use contexture_capabilities::artifacts as artifacts_entry;
use contexture_compose::{Branch, Entry, MAX_DEPTH, Match, Predicate, Selector, When};
use serde::Deserialize;
use serde_json::Value;

use crate::error::{Place, Problem};
use crate::files::{FileKind, is_plain};
use crate::read::blackboard;
use crate::read::block_file::BLOCKS;
use crate::read::capability;
use crate::read::catalogue::{CATALOGUES, catalogue};
use crate::read::circles::{chain, circle};
use crate::read::context::{Content, ContextFields, Entries, context};
use crate::read::facts::{Spot, Use};
use crate::read::index::{INDEX, Located, context_name, context_path};
use crate::read::injectable;
use crate::read::knowledge;
use crate::read::memory;
use crate::read::pipeline;
use crate::read::reader::{Lookup, Reader};
use crate::read::skills;
use crate::read::unit::BlockUnit;
use crate::source::decode::{Cursor, Given, Raw};
use crate::source::yaml::{Data, Node, Pair};
use contexture_template::did_you_mean;

/// The kinds of entries that are maps, by the key that identifies them.
const KINDS: [&str; 16] = [
    "context",
    "block",
    "when",
    "match",
    "retriever",
    "pipeline",
    "grounding",
    "skill",
    "memory",
    "blackboard",
    "capability",
    "defaults",
    "provider",
    "injectable",
    "contributor",
    "artifacts",
];

/// Reads one entry or a list of entries.
pub(crate) fn entries<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entries {
    let mut uses = Vec::new();
    let entries = at.items().iter().map(|it| entry(reader, it, &mut uses)).collect();
    Entries { entries, uses }
}

/// A unit that a `use` names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NamedUnit<'n> {
    Context(&'n str),
    Capability { name: &'n str, preset: Option<&'n str> },
}

/// Collects the contexts and capabilities that a `use` names, at any depth.
pub(crate) fn names<'n>(node: &'n Node, found: &mut Vec<NamedUnit<'n>>) {
    match &node.data {
        Data::Text(name) => found.push(NamedUnit::Context(name)),
        Data::List(items) => items.iter().for_each(|it| names(it, found)),
        Data::Map(pairs) => pairs.iter().for_each(|pair| match pair.key.as_str() {
            "use" | "default" | "context" => names(&pair.value, found),
            "capability" => {
                let text = |it: &'n Pair| match &it.value.data {
                    Data::Text(text) => Some(text.as_str()),
                    _ => None,
                };
                if let Some(name) = text(pair) {
                    let preset = node.get("preset").and_then(text);
                    found.push(NamedUnit::Capability { name, preset });
                }
            }
            "cases" => {
                if let Data::Map(cases) = &pair.value.data {
                    cases.iter().for_each(|it| names(&it.value, found));
                }
            }
            _ => {}
        }),
        Data::Null | Data::Bool(_) | Data::Number(_) => {}
    }
}

// Problems are recorded and the entry becomes `Nothing`: a file with problems is not built.
fn entry<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>, uses: &mut Vec<Use>) -> Entry {
    match &at.node.data {
        Data::Null | Data::Bool(false) => Entry::Nothing,
        Data::Text(name) => named(reader, name, at.node.place, uses),
        Data::Map(_) => mapped(reader, at, uses),
        Data::Bool(true) | Data::Number(_) | Data::List(_) => {
            reader.problem(at.wrong("the name of a context, or a map"));
            Entry::Nothing
        }
    }
}

fn named(reader: &mut Reader<'_>, name: &str, place: Place, uses: &mut Vec<Use>) -> Entry {
    let lookup = reader.lookup;
    reader.reads.insert(context_path(name));
    let located = lookup.index.locate(name);
    if !matches!(located, Located::Path(_)) {
        reader.reads.insert(INDEX.to_owned());
    }
    let path = match located {
        Located::Path(path) | Located::Found(path) => path.to_owned(),
        Located::Several(files) => {
            let names: Vec<String> =
                files.iter().filter_map(|it| context_name(it)).map(|it| format!("`{it}`")).collect();
            let problem =
                Problem::new(ErrorCode::UnknownEntry, format!("`{name}` may be {}", files.join(" or ")));
            let hint = format!("name one by its path: {}", names.join(" or "));
            reader.problem(problem.at(place).sources(files.to_vec()).hint(Some(hint)));
            return Entry::Nothing;
        }
        Located::Nowhere if name == DEFAULTS => return capability::all_defaults(reader),
        Located::Nowhere => {
            reader.problem(nowhere(lookup, name).at(place));
            return Entry::Nothing;
        }
    };
    if let Some(unit) = lookup.contexts.get(&path) {
        reader.reads.extend(unit.reads.iter().cloned());
        if unit.height >= MAX_DEPTH {
            let message = format!("context `{name}` is nested more than {MAX_DEPTH} deep");
            reader.problem(Problem::new(ErrorCode::DepthExceeded, message).at(place));
            return Entry::Nothing;
        }
        reader.height = reader.height.max(unit.height + 1);
        uses.push(Use::File { path, place });
        return unit.entry.clone().unwrap_or(Entry::Nothing);
    }
    if let Some(chain) = chain(reader, &path) {
        reader.problem(circle(lookup, &chain).at(place));
    }
    uses.push(Use::File { path, place });
    Entry::Nothing
}

fn nowhere(lookup: Lookup<'_>, name: &str) -> Problem {
    let path = context_path(name);
    let known = lookup.sources.of_kind(FileKind::Context).filter_map(context_name);
    let write = || is_plain(name).then(|| format!("write `{path}`, or an inline `context:`"));
    let hint = did_you_mean(name, known).or_else(write);
    Problem::new(ErrorCode::UnknownEntry, format!("there is no context `{name}`, no file `{path}`"))
        .hint(hint)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContextEntry {
    context: Option<Raw>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BlockEntry {
    block: Option<Raw>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WhenEntry {
    when: Option<Raw>,
    #[serde(rename = "use")]
    branch: Given,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MatchEntry {
    #[serde(rename = "match")]
    on: Option<Raw>,
    cases: Option<Raw>,
    default: Given,
}

fn mapped<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>, uses: &mut Vec<Use>) -> Entry {
    let pairs = at.node.pairs();
    let of_kind = |kinds: &[&str]| pairs.iter().find(|it| kinds.contains(&it.key.as_str()));
    match of_kind(&KINDS).map(|it| it.key.as_str()) {
        Some("context") => {
            let fields: ContextEntry = reader.decode(at.clone());
            let Some(inner) = reader.given(fields.context) else { return Entry::Nothing };
            match &inner.node.data {
                Data::Text(name) => named(reader, name, inner.node.place, uses),
                _ => inline_context(reader, &inner, uses),
            }
        }
        Some("block") => {
            let fields: BlockEntry = reader.decode(at.clone());
            reader.given(fields.block).map_or(Entry::Nothing, |it| named_block(reader, &it, uses))
        }
        Some("retriever") => defined(reader, at, knowledge::retriever),
        Some("pipeline") => defined(reader, at, knowledge::pipeline),
        Some("grounding") => defined(reader, at, knowledge::grounding),
        Some("skill") => defined(reader, at, skills::skill),
        Some("memory") => memory::memory(reader, at),
        Some("blackboard") => blackboard::blackboard(reader, at),
        Some("capability") => capability::capability(reader, at, uses),
        Some("defaults") => capability::defaults(reader, at),
        Some("provider") => defined(reader, at, pipeline::provider_entry),
        Some("injectable") => defined(reader, at, injectable::injectable_entry),
        Some("contributor") => defined(reader, at, injectable::contributor),
        Some("artifacts") => defined(reader, at, artifacts),
        Some("when") => when(reader, at, uses),
        Some("match") => matching(reader, at, uses),
        _ => {
            let known = KINDS.iter().copied();
            let problem = match pairs.first() {
                Some(pair) => {
                    Problem::new(ErrorCode::UnknownEntry, format!("unknown kind of entry `{}`", pair.key))
                        .at(pair.place)
                        .hint(did_you_mean(&pair.key, known))
                }
                None => Problem::new(ErrorCode::UnknownEntry, "an entry is an empty map").at(at.node.place),
            };
            reader.problem(problem);
            Entry::Nothing
        }
    }
}

/// What an entry of a file follows from.
#[derive(PartialEq)]
struct Written {
    entry: Value,
    /// The folder whose partials its templates find, if it has any.
    folder: Option<String>,
}

/// Reads an entry that is the same wherever a file of the project writes it.
fn defined<'a>(
    reader: &mut Reader<'a>,
    at: &Cursor<'a>,
    read: impl FnOnce(&mut Reader<'a>, &Cursor<'a>) -> Entry,
) -> Entry {
    Entry::defined(written(reader, at), read(reader, at))
}

fn written(reader: &Reader<'_>, at: &Cursor<'_>) -> Written {
    let entry = at.node.to_json();
    let has_tags = entry.to_string().contains("{%");
    let folder = || reader.file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    Written { entry, folder: has_tags.then(folder) }
}

/// The entry `artifacts`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ArtifactsEntry {
    artifacts: bool,
}

/// Reads `artifacts: true`.
fn artifacts<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Entry {
    let fields: ArtifactsEntry = reader.decode(at.clone());
    if fields.artifacts { artifacts_entry(reader.lookup.knowledge.artifacts()) } else { Entry::Nothing }
}

fn when<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>, uses: &mut Vec<Use>) -> Entry {
    let fields: WhenEntry = reader.decode(at.clone());
    let condition = reader.given(fields.when).and_then(|it| reader.condition(&it));
    let branch = match reader.given(fields.branch.0) {
        Some(it) => Some(branch(reader, &it, uses)),
        None => missing(reader, at, "use"),
    };
    match (condition, branch) {
        (Some(condition), Some(branch)) => {
            Entry::When(Arc::new(When { predicate: Predicate::condition(condition, None), branch }))
        }
        _ => Entry::Nothing,
    }
}

fn matching<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>, uses: &mut Vec<Use>) -> Entry {
    let fields: MatchEntry = reader.decode(at.clone());
    let on = reader.given(fields.on).and_then(|it| reader.expression(&it));
    let cases = match reader.given(fields.cases) {
        Some(cases) => reader.take(cases.pairs()).map(|pairs| {
            pairs.iter().map(|(key, it)| ((*key).to_owned(), branch(reader, it, uses))).collect::<Vec<_>>()
        }),
        None => missing(reader, at, "cases"),
    };
    let default = reader.given(fields.default.0).map(|it| branch(reader, &it, uses));
    match (on, cases) {
        (Some(on), Some(cases)) => {
            Entry::Match(Arc::new(Match { on: Selector::expression(on), cases, default }))
        }
        _ => Entry::Nothing,
    }
}

fn branch<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>, uses: &mut Vec<Use>) -> Branch {
    match &at.node.data {
        Data::List(_) => Branch::Many(at.items().iter().map(|it| entry(reader, it, uses)).collect()),
        _ => Branch::One(entry(reader, at, uses)),
    }
}

fn missing<T>(reader: &mut Reader<'_>, at: &Cursor<'_>, field: &str) -> Option<T> {
    reader.problem(at.invalid(format!("`{field}` is missing")));
    None
}

/// Reads an entry that names a block. Problems are recorded and the entry becomes `Nothing`.
pub(super) fn named_block<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>, uses: &mut Vec<Use>) -> Entry {
    let lookup = reader.lookup;
    reader.reads.insert(BLOCKS.to_owned());
    let node = at.node;
    let Data::Text(name) = &node.data else {
        reader.problem(at.wrong("the name of a block"));
        return Entry::Nothing;
    };
    let tag = contexture_compose::tags::block_tag_name(name).unwrap_or_else(|_| name.clone());
    let found: Vec<(&String, &Arc<BlockUnit>)> =
        lookup.blocks.iter().filter(|(_, it)| it.name == tag).collect();
    match found[..] {
        [] => {
            if let Some(entry) = catalogue(reader, &tag) {
                return entry;
            }
            let known = lookup.blocks.values().map(|it| it.name.as_str()).chain(CATALOGUES);
            let hint = did_you_mean(name, known);
            let problem =
                Problem::new(ErrorCode::UnknownEntry, format!("there is no block `{name}`")).at(node.place);
            reader.problem(problem.hint(hint));
            Entry::Nothing
        }
        [(file, unit)] => {
            reader.reads.extend(unit.reads.iter().cloned());
            reader.facts.blocks.insert(file.clone());
            uses.extend(unit.spot.clone().map(|it| Use::Inline(Spot { place: node.place, ..it })));
            unit.block.clone().map_or(Entry::Nothing, Entry::Block)
        }
        _ => {
            let files: Vec<String> = found.iter().map(|(file, _)| (*file).clone()).collect();
            let message = format!("two blocks have the name `{tag}`: {}", files.join(" and "));
            let problem = Problem::new(ErrorCode::DuplicateId, message).at(node.place).sources(files);
            reader.problem(problem.hint(Some("give one of them another `name`".to_owned())));
            Entry::Nothing
        }
    }
}

/// Reads an inline context.
fn inline_context<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>, uses: &mut Vec<Use>) -> Entry {
    let fields: ContextFields = reader.decode(at.clone());
    let noted = reader.facts.variables.len();
    let id = reader.id(&fields.id).map(|(id, _)| id);
    let text = reader.text_of(fields.text);
    let nested = reader.given(fields.entries).map(|it| entries(reader, &it)).unwrap_or_default();
    let is_named = id.is_some();
    let content = Content { kind: "context", id, text, noted };
    let (context, spot) = context(reader, fields, content, nested, at.node.place);
    uses.push(Use::Inline(spot));
    match is_named {
        true => Entry::defined(written(reader, at), context),
        // Without an id, an entry is its position.
        false => Entry::Context(context),
    }
}
