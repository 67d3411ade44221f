//! Reads `capabilities/NAME/capability.md`.
//!
//! The full rule: the front matter has the keys of a context, and `blocks`, `providers`, `transforms`,
//! `tool_middleware`, `values` and `presets`; the body is the instruction text. A preset is the same front matter with
//! some keys replaced; of `values` it replaces single ones. The preset `defaults` is what an entry includes that names
//! none. Each variant is a unit of its own, and is read from the file as if it had been written out.

use contexture_agent::check_middleware;
use contexture_capabilities::DEFAULTS;
use contexture_compose::{Capability, CapabilityVariant, DEFAULT_PRESET, Entry, ToolMiddleware};
use contexture_message::ErrorCode;
use contexture_template::did_you_mean;
use serde::Deserialize;

use crate::error::{Place, Problem};
use crate::files::is_plain;
use crate::read::context::{Content, ContextFields, context};
use crate::read::entries::{entries, named_block};
use crate::read::facts::{Read, Spot};
use crate::read::index::capability_name;
use crate::read::pipeline::{providers, transforms};
use crate::read::reader::Reader;
use crate::source::decode::{Cursor, Each, Field, Raw};
use crate::source::front::Document;
use crate::source::sections::stripped;
use crate::source::yaml::{Data, Node, Pair};

/// The keys of a capability that a context does not have, or not with this meaning.
const OWN_KEYS: [&str; 6] = ["blocks", "providers", "transforms", "tool_middleware", "values", "presets"];

/// One variant of a capability file.
#[derive(Debug)]
pub(crate) struct Variant {
    /// The name of the preset; nothing for the default one.
    pub(crate) preset: Option<String>,
    /// The front matter with the preset's keys.
    pub(crate) front: Node,
    /// The part of it that a context has too.
    context: Node,
    own: Node,
}

/// Lists the variants of a capability file, the default one first.
pub(crate) fn variants(document: &Document) -> Vec<Variant> {
    let front = &document.front;
    let presets = front.get("presets").map(|it| it.value.pairs()).unwrap_or_default();
    let default = presets.iter().find(|it| it.key == DEFAULT_PRESET);
    let first = variant(front, None, default.map(|it| &it.value));
    let others = presets.iter().filter(|it| it.key != DEFAULT_PRESET);
    std::iter::once(first)
        .chain(others.map(|it| variant(front, Some(it.key.clone()), Some(&it.value))))
        .collect()
}

fn variant(front: &Node, preset: Option<String>, changes: Option<&Node>) -> Variant {
    let changed = changes.map_or_else(|| front.clone(), |it| replaced(front, it));
    let (own, context) = changed.pairs().iter().cloned().partition(|it| OWN_KEYS.contains(&it.key.as_str()));
    let of = |pairs: Vec<Pair>| Node::new(Data::Map(pairs), front.place);
    Variant { preset, context: of(context), own: of(own), front: changed }
}

/// Returns a map with the pairs of another in place of its own. The values of a capability are replaced one by one.
fn replaced(node: &Node, changes: &Node) -> Node {
    let keep = |it: &&Pair| changes.get(&it.key).is_none();
    let mut pairs: Vec<Pair> = node.pairs().iter().filter(keep).cloned().collect();
    for change in changes.pairs() {
        let before = node.get(&change.key).filter(|_| change.key == "values");
        let value = before.map_or_else(|| change.value.clone(), |it| replaced(&it.value, &change.value));
        pairs.push(Pair { value, ..change.clone() });
    }
    Node::new(Data::Map(pairs), node.place)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CapabilityFields {
    blocks: Option<Raw>,
    providers: Field<Vec<Raw>>,
    transforms: Field<Vec<Raw>>,
    tool_middleware: Each<ToolMiddleware>,
    values: Option<Raw>,
    presets: Option<Raw>,
}

/// Reads one variant of a capability file.
pub(crate) fn capability_file<'a>(
    reader: &mut Reader<'a>,
    document: &'a Document,
    variant: &'a Variant,
) -> (CapabilityVariant, Spot) {
    reader.problems(document.problems.clone());
    let name = capability_name(reader.file).unwrap_or(reader.file).to_owned();
    check_file(reader, document, &name);
    let fields: ContextFields = reader.decode_with(Cursor::root(&variant.context), advice);
    let own: CapabilityFields = reader.decode(Cursor::root(&variant.own));
    check_presets(reader, own.presets);
    let noted = reader.facts.variables.len();
    let text = match fields.text {
        Some(_) => reader.text_of(fields.text),
        None => {
            let body = stripped(&document.body, Place { line: document.body_line, column: 1 });
            Some(body).filter(|it| !it.text.is_empty()).and_then(|it| reader.section(&it.text, it.place))
        }
    };
    let mut nested = reader.given(fields.entries).map(|it| entries(reader, &it)).unwrap_or_default();
    if let Some(blocks) = reader.given(own.blocks) {
        for item in blocks.items() {
            let block = named_block(reader, &item, &mut nested.uses);
            nested.entries.push(block);
        }
    }
    nested.entries.extend(providers(reader, own.providers).into_iter().map(Entry::from));
    let content = Content { kind: "capability", id: Some(name.clone()), text, noted };
    let (context, spot) = context(reader, fields, content, nested, document.front.place);
    let context = context.file(reader.file);

    let mut builder = Capability::builder(name.clone()).context(|_| context);
    let mut keys = Vec::new();
    let n_read = reader.facts.variables.len();
    if let Some(values) = reader.given(own.values) {
        for (key, value) in reader.take(values.pairs()).unwrap_or_default() {
            keys.push(key.to_owned());
            builder = match reader.tag_value(value.node) {
                Some(value) => builder.value(key, value),
                None => builder,
            };
        }
    }
    let of_values = reader.facts.variables.get(n_read..).unwrap_or_default();
    let reads_value =
        |it: &&Read| matches!(it.path.as_slice(), [ctx, cap, ..] if ctx == "ctx" && cap == "cap");
    let problems = of_values.iter().filter(reads_value).map(|it| {
        let message = format!("a value of a bundle can't read another: `{}`", it.path.join("."));
        Problem::invalid(message).at(it.place).within("values")
    });
    let problems: Vec<Problem> = problems.collect();
    reader.problems(problems);
    reader.facts.capability = Some((name, keys));
    builder = builder.transforms(&transforms(reader, own.transforms));
    let middleware = reader.checked(own.tool_middleware, check_middleware);
    builder = middleware.into_iter().fold(builder, |builder, it| builder.tool_middleware(it));
    (builder.build_variant(variant.preset.clone()), spot)
}

/// Returns a hint for a key that neither a context nor a capability has.
fn advice(key: &str) -> Option<&'static str> {
    let own = OWN_KEYS.into_iter().find(|it| did_you_mean(key, std::iter::once(*it)).is_some());
    Some(match own {
        Some("blocks") => "did you mean `blocks`?",
        Some("providers") => "did you mean `providers`?",
        Some("transforms") => "did you mean `transforms`?",
        Some("tool_middleware") => "did you mean `tool_middleware`?",
        Some("values") => "did you mean `values`?",
        Some("presets") => "did you mean `presets`?",
        _ => return None,
    })
}

/// Checks what only the file as a whole can have wrong.
fn check_file(reader: &mut Reader<'_>, document: &Document, name: &str) {
    let is_name = name.starts_with(|it: char| it.is_ascii_alphabetic())
        && name.len() <= 64
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-');
    if !is_name || name == DEFAULTS {
        let message = match name == DEFAULTS {
            true => "`defaults` is the standard stack: a capability can't have that name".to_owned(),
            false => format!("`{name}` can't be the name of a capability"),
        };
        let hint = "rename the folder: a letter, then letters, digits, `_` or `-`, 64 at most".to_owned();
        reader.problem(Problem::invalid(message).at(Place::START).hint(Some(hint)));
    }
    for (key, why) in [
        ("id", "the name of a capability is that of its folder"),
        ("text", "the text of a capability file is its body"),
    ] {
        if let Some(pair) = document.front.get(key).filter(|it| !it.value.is_null()) {
            let problem = Problem::new(ErrorCode::UnknownField, format!("unknown field `{key}`: {why}"));
            reader.problem(problem.at(pair.place));
        }
    }
}

fn check_presets(reader: &mut Reader<'_>, presets: Option<Raw>) {
    let Some(presets) = reader.given(presets) else { return };
    for (name, preset) in reader.take(presets.pairs()).unwrap_or_default() {
        if !is_plain(name) || name.contains(['#', '/']) {
            reader.problem(preset.invalid(format!("`{name}` can't be the name of a preset")));
        }
        match preset.pairs() {
            Err(problem) => reader.problem(problem),
            Ok(pairs) => {
                if let Some((_, at)) = pairs.iter().find(|(key, _)| *key == "presets") {
                    reader.problem(at.invalid("a preset can't have presets"));
                }
            }
        }
    }
}
