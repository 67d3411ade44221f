//! Reads a file of `blocks/`: the fields of a block from the front matter, its text from the body.

use std::collections::BTreeSet;

use contexture_compose::tags::block_tag_name;
use contexture_compose::{Block, BlockBody, BlockDefinition, BlockMessage, BlockMode, BlockScope, Text};
use serde::Deserialize;

use crate::error::{Place, Problem};
use crate::read::facts::{Remark, Spot};
use crate::read::reader::{Reader, changes_each_turn};
use crate::source::decode::{Cursor, Field, Many, Raw, TimeSpan, Word};
use crate::source::front::Document;
use crate::source::sections::stripped;
use contexture_message::ErrorCode;
use contexture_template::did_you_mean;

/// Recorded as a dependency of a unit that names a block.
pub(crate) const BLOCKS: &str = "blocks/";
/// Recorded as a dependency of a unit that names a prompt.
pub(crate) const PROMPTS: &str = "prompts/";

/// The front matter of a block file.
#[derive(Default, Deserialize)]
#[serde(default)]
struct BlockFields {
    name: Field<Word>,
    description: Field<Word>,
    message: Field<BlockMessage>,
    scope: Field<BlockScope>,
    mode: Field<BlockMode>,
    #[serde(rename = "type")]
    kind: Field<Word>,
    tags: Field<Many<Word>>,
    order: Field<i32>,
    ttl: Field<TimeSpan>,
    agents: Field<Many<Raw>>,
    enabled: Field<bool>,
    raw: Field<bool>,
}

/// Names that other tools use for a block's fields, with a hint on what to write here instead.
const ELSEWHERE: [(&str, &str); 6] = [
    ("content", "the text of a block is the body of its file, below the front matter"),
    ("template", "the text of a block is the body of its file, below the front matter; it is a template"),
    ("body", "the text of a block is the body of its file, below the front matter"),
    ("text", "the text of a block is the body of its file, below the front matter"),
    ("source", "a file says everything itself; a block with another source is written in Rust"),
    ("kind", "the position of a block is set by `message`, `scope` and `mode`"),
];

/// A parsed block definition.
pub(crate) struct BlockFile {
    pub(crate) block: Block,
    /// Its name in tag form.
    pub(crate) name: String,
    /// Its place in the system message, if it appears at the position the author chose.
    pub(crate) spot: Option<Spot>,
}

/// Reads a block file; `prompts` has the ids of all prompts.
pub(crate) fn block_file<'a>(
    reader: &mut Reader<'a>,
    document: &'a Document,
    prompts: &BTreeSet<String>,
) -> BlockFile {
    reader.problems(document.problems.clone());
    let fields: BlockFields = reader.decode_with(Cursor::root(&document.front), |key| {
        ELSEWHERE.iter().find(|(it, _)| *it == key).map(|(_, hint)| *hint)
    });
    let body = stripped(&document.body, Place { line: document.body_line, column: 1 });
    let text = reader.section(&body.text, body.place).unwrap_or_else(|| Text::literal(""));
    let volatility = text.volatility();
    let (given, name) = name(reader, fields.name);
    if let Some((kind, at)) = fields.kind.value.zip(reader.given(fields.kind.raw))
        && kind.0 != "static"
    {
        let hint =
            "a file is a static block; functions are written in Rust, and inline blocks come with a request";
        reader.problem(at.wrong("`static`").hint(Some(hint.to_owned())));
    }
    let message = fields.message.value.unwrap_or_default();
    let scope = fields.scope.value.unwrap_or_default();
    let mode = fields.mode.value.unwrap_or_default();
    let agents = agents(reader, fields.agents, prompts);

    let source = format!("block:{name}");
    remarks(reader, &source, body.text.trim().is_empty(), (message, scope, mode));
    let in_place =
        (message, scope, mode) == (BlockMessage::System, BlockScope::Conversation, BlockMode::RealTime);
    let spot = in_place.then(|| Spot {
        name: source,
        place: document.front.place,
        volatility,
        cached: false,
        in_system: true,
        uses: Vec::new(),
    });
    let definition = BlockDefinition {
        name: given,
        description: fields.description.word(),
        message,
        scope,
        mode,
        body: BlockBody::Static(text),
        tags: fields.tags.words(),
        order: fields.order.value.unwrap_or_default(),
        ttl: fields.ttl.value.map(|it| it.0),
        agents,
        enabled: fields.enabled.value.unwrap_or(true),
        raw: fields.raw.value.unwrap_or(false),
        file: Some(reader.file.to_owned()),
        ..BlockDefinition::default()
    };
    BlockFile { block: Block::from(definition), name, spot }
}

/// Returns the name as given and in tag form.
fn name(reader: &mut Reader<'_>, field: Field<Word>) -> (String, String) {
    let place = reader.given(field.raw).map_or(Place::START, |it| it.node.place);
    let given = field.word().unwrap_or_else(|| file_name(reader.file).to_owned());
    match block_tag_name(&given) {
        Ok(name) => {
            reader.places.id(&name, place);
            (given, name)
        }
        Err(err) => {
            let problem = Problem::new(err.code(), err.to_string()).at(place).within("name");
            reader.problem(problem.hint(err.hint()));
            (given.clone(), given)
        }
    }
}

/// Reads the ids of the prompts that the block applies to.
fn agents(reader: &mut Reader<'_>, field: Field<Many<Raw>>, prompts: &BTreeSet<String>) -> Vec<String> {
    let raws = field.many();
    if !raws.is_empty() {
        reader.reads.insert(PROMPTS.to_owned());
    }
    let mut agents = Vec::with_capacity(raws.len());
    for raw in raws {
        let at = reader.cursor(raw);
        let Some(id) = reader.take(at.word()) else { continue };
        if !prompts.contains(&id) {
            let hint = did_you_mean(&id, prompts.iter().map(String::as_str));
            let problem = Problem::new(ErrorCode::UnknownPrompt, format!("there is no prompt `{id}`"));
            reader.problem(problem.at(at.node.place).within("agents").hint(hint));
        }
        agents.push(id);
    }
    agents
}

fn remarks(
    reader: &mut Reader<'_>,
    source: &str,
    is_blank: bool,
    place: (BlockMessage, BlockScope, BlockMode),
) {
    let mut remark = |code, message: String, hint| {
        reader.remark(Remark { code, message, place: Place::START, hint });
    };
    if is_blank {
        remark("empty_block", "the block has no text".to_owned(), None);
    }
    match place {
        (BlockMessage::System, BlockScope::Conversation, BlockMode::Cached) => {
            let read = reader.facts.variables.iter().find(|it| changes_each_turn(&it.path));
            let Some(read) = read.map(|it| it.path.join(".")) else { return };
            reader.remark(Remark {
                code: "cached_volatile",
                message: format!(
                    "{source} is `cached` but reads `{read}`: a thread keeps what it said first"
                ),
                place: Place::START,
                hint: Some("set `mode: real_time`, or `message: user` and `scope: turn`"),
            });
        }
        (BlockMessage::System, BlockScope::Turn, _) => remark(
            "cache_order",
            format!("{source} changes each turn and precedes the history: caches cannot keep the history"),
            Some("set `message: user`: it then follows the history"),
        ),
        (BlockMessage::System, BlockScope::Conversation, BlockMode::RealTime)
        | (BlockMessage::User, _, _) => {}
    }
}

/// Returns the default name of a block: its file name without folder and extension.
pub(crate) fn file_name(file: &str) -> &str {
    let name = file.strip_prefix(BLOCKS).unwrap_or(file);
    name.strip_suffix(".md").unwrap_or(name)
}
