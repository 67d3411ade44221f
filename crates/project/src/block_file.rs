//! Reads a file of `blocks/`: the fields of a block from the front matter, its text from the body.

use contexture_compose::tags::block_tag_name;
use contexture_compose::{Block, BlockBody, BlockDefinition, BlockMessage, BlockMode, BlockScope, Text};
use contexture_message::ErrorCode;

use crate::blocks::file_name;
use crate::decode;
use crate::error::{Place, Problem};
use crate::facts::{Remark, Spot};
use crate::front::Document;
use crate::reader::{Fields, Reader, changes_each_turn};
use crate::sections::stripped;
use crate::yaml::{Data, Node};
use contexture_template::did_you_mean;

/// The fields of a block file.
const FIELDS: [&str; 12] = [
    "name",
    "description",
    "message",
    "scope",
    "mode",
    "type",
    "tags",
    "order",
    "ttl",
    "agents",
    "enabled",
    "raw",
];

/// Names that other tools use for a block's fields, with a hint on what to write here instead.
const ELSEWHERE: [(&str, &str); 6] = [
    ("content", "the text of a block is the body of its file, below the front matter"),
    ("template", "the text of a block is the body of its file, below the front matter; it is a template"),
    ("body", "the text of a block is the body of its file, below the front matter"),
    ("text", "the text of a block is the body of its file, below the front matter"),
    ("source", "a file says everything itself; a block that asks somebody else is written in Rust"),
    ("kind", "a block's place is said by `message`, `scope` and `mode`"),
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
pub(crate) fn block_file<'p>(
    reader: &mut Reader<'_>,
    document: Document,
    prompts: impl Iterator<Item = &'p str> + Clone,
) -> BlockFile {
    reader.problems(document.problems);
    let fields = fields(reader, &document.front);
    let body = stripped(&document.body, Place { line: document.body_line, column: 1 });
    let text = reader.section(&body.text, body.place).unwrap_or_else(|| Text::literal(""));
    let volatility = text.volatility();
    let (given, name) = name(reader, fields);
    let mut words = |name: &str| fields.get(name).and_then(|it| reader.take(name, decode::word(it)));
    let description = words("description");
    if let Some(node) = fields.get("type") {
        let only = decode::choice(node, &[("static", ())]);
        let hint =
            "a file is a static block; functions are written in Rust, and inline blocks come with a request";
        reader.take("type", only.map_err(|it| it.hint(Some(hint.to_owned()))));
    }
    let (message, scope, mode) = place(reader, fields);
    let tags = fields.get("tags").and_then(|it| reader.take("tags", decode::texts(it))).unwrap_or_default();
    let order = fields.get("order").and_then(|it| reader.take("order", whole_number(it))).unwrap_or(0);
    let ttl = fields.get("ttl").and_then(|it| reader.take("ttl", decode::duration(it)));
    let agents = agents(reader, fields, prompts);
    let mut flag = |name: &str| fields.get(name).and_then(|it| reader.take(name, decode::value::<bool>(it)));
    let (enabled, raw) = (flag("enabled").unwrap_or(true), flag("raw").unwrap_or(false));

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
        description,
        message,
        scope,
        mode,
        body: BlockBody::Static(text),
        tags,
        order,
        ttl,
        agents,
        enabled,
        raw,
        file: Some(reader.file.to_owned()),
        ..BlockDefinition::default()
    };
    BlockFile { block: Block::from(definition), name, spot }
}

/// Opens the front matter and records unknown keys.
fn fields<'n>(reader: &mut Reader<'_>, front: &'n Node) -> Fields<'n> {
    let elsewhere = |key: &str| ELSEWHERE.iter().find(|(it, _)| *it == key).map(|(_, hint)| *hint);
    reader.fields_but(front, &FIELDS, |pair| {
        let hint = elsewhere(&pair.key)?;
        let problem =
            Problem::new(ErrorCode::UnknownField, format!("unknown field `{}`", pair.key)).at(pair.place);
        Some(problem.hint(Some(hint.to_owned())))
    })
}

fn whole_number(node: &Node) -> Result<i32, Problem> {
    decode::value(node).map_err(|_| decode::wrong(node, "a whole number"))
}

/// Returns the name as given and in tag form.
fn name(reader: &mut Reader<'_>, fields: Fields<'_>) -> (String, String) {
    let node = fields.get("name");
    let given = node.and_then(|it| reader.take("name", decode::word(it)));
    let given = given.unwrap_or_else(|| file_name(reader.file).to_owned());
    match block_tag_name(&given) {
        Ok(name) => {
            reader.places.id(&name, node.map_or(Place::START, |it| it.place));
            (given, name)
        }
        Err(err) => {
            let place = node.map_or(Place::START, |it| it.place);
            reader
                .problem(Problem::new(err.code(), err.to_string()).at(place).under("name").hint(err.hint()));
            (given.clone(), given)
        }
    }
}

fn place(reader: &mut Reader<'_>, fields: Fields<'_>) -> (BlockMessage, BlockScope, BlockMode) {
    let messages = [("system", BlockMessage::System), ("user", BlockMessage::User)];
    let scopes = [("conversation", BlockScope::Conversation), ("turn", BlockScope::Turn)];
    let modes = [("cached", BlockMode::Cached), ("real_time", BlockMode::RealTime)];
    let message = fields.get("message").and_then(|it| reader.take("message", decode::choice(it, &messages)));
    let scope = fields.get("scope").and_then(|it| reader.take("scope", decode::choice(it, &scopes)));
    let mode = fields.get("mode").and_then(|it| reader.take("mode", decode::choice(it, &modes)));
    (message.unwrap_or_default(), scope.unwrap_or_default(), mode.unwrap_or_default())
}

/// Reads the ids of the prompts that the block applies to.
fn agents<'p>(
    reader: &mut Reader<'_>,
    fields: Fields<'_>,
    prompts: impl Iterator<Item = &'p str> + Clone,
) -> Vec<String> {
    let nodes = fields.get("agents").map(decode::one_or_many).unwrap_or_default();
    if !nodes.is_empty() {
        reader.reads.insert(crate::blocks::PROMPTS.to_owned());
    }
    let mut agents = Vec::with_capacity(nodes.len());
    for node in nodes {
        let Some(id) = reader.take("agents", decode::word(node)) else { continue };
        if !matches!(node.data, Data::Null) && !prompts.clone().any(|it| it == id) {
            let hint = did_you_mean(&id, prompts.clone());
            let problem =
                Problem::new(ErrorCode::UnknownPrompt, format!("there is no prompt `{id}`")).at(node.place);
            reader.problem(problem.under("agents").hint(hint));
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
            format!(
                "{source} changes each turn and stands before the history: caches can't keep the history"
            ),
            Some("set `message: user`: it then stands behind the history"),
        ),
        (BlockMessage::System, BlockScope::Conversation, BlockMode::RealTime)
        | (BlockMessage::User, _, _) => {}
    }
}
