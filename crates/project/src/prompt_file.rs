//! Reads a prompt file into a [`Definition`].

use contexture_agent::{check_constraint, check_guardrail, check_middleware};
use contexture_compose::{
    Adaptation, Definition, HistoryConfig, HistoryLimit, MessageText, Schema, TagValue, UserMessage, UserPart,
};
use contexture_message::{Part, Role, Settings, ToolChoice};
use indexmap::IndexMap;

use crate::config::Config;
use crate::decode;
use crate::entries::entries;
use crate::error::{Place, Problem};
use crate::facts::{ChosenTool, Remark};
use crate::front::Document;
use crate::pipeline::{providers, transforms};
use crate::reader::{Fields, Reader};
use crate::sections::{Body, Section, sections};
use crate::yaml::{Data, Node, Pair};

/// The fields of a prompt file.
const FIELDS: [&str; 28] = [
    "id",
    "description",
    "tags",
    "model",
    "use",
    "input",
    "output",
    "override",
    "input_policy",
    "system",
    "prompt",
    "messages",
    "context",
    "history",
    "user",
    "settings",
    "adapt",
    "tools",
    "tool_middleware",
    "tool_choice",
    "stop_when",
    "tests",
    "constraints",
    "guardrails",
    "cache",
    "budget",
    "transforms",
    "providers",
];

/// The fields of an adaptation.
const ADAPT_FIELDS: [&str; 6] =
    ["prepend_system", "append_system", "prepend_prompt", "append_prompt", "settings", "tool_choice"];

/// Returns the path that identifies a prompt file, such as `support/refund`.
pub(crate) fn prompt_name(file: &str) -> Option<&str> {
    file.strip_prefix("prompts/")?.strip_suffix(".md")
}

/// Reads a prompt file. Problems are recorded in the reader.
pub(crate) fn prompt_file(reader: &mut Reader<'_>, document: Document, config: &Config) -> Definition {
    reader.problems(document.problems);
    let fields = reader.fields(&document.front, &FIELDS);
    let (body, problems) = sections(&document.body, document.body_line);
    reader.problems(problems);
    exclusive(reader, fields, &body);
    note_owners(reader, fields);
    body.overlooked.iter().for_each(|(name, place)| remark_overlooked(reader, name, *place));
    if let Some(place) = body.outside.filter(|_| body.system.is_some()) {
        remark_outside(reader, place);
    }

    let mut definition = Definition {
        id: prompt_name(reader.file).unwrap_or(reader.file).to_owned(),
        file: Some(reader.file.to_owned()),
        cache: config.cache,
        history: config.history.default.config(),
        ..Definition::default()
    };
    about(reader, fields, &mut definition);
    texts(reader, fields, &body, &mut definition);
    slot(reader, fields, &body, &mut definition);
    schemas(reader, fields, &mut definition);
    generation(reader, fields, &mut definition);
    agent(reader, fields, &mut definition);
    if let Some(node) = fields.get("transforms") {
        definition.transforms = transforms(reader, node);
    }
    if let Some(node) = fields.get("providers") {
        definition.providers = providers(reader, node);
    }
    if let Some(node) = fields.get("use") {
        let read = entries(reader, node);
        definition.entries = read.entries;
        reader.facts.uses = read.uses;
    }
    definition
}

fn about(reader: &mut Reader<'_>, fields: Fields<'_>, definition: &mut Definition) {
    if let Some(node) = fields.get("id")
        && let Some(id) = reader.take("id", decode::word(node))
    {
        if id.trim().is_empty() {
            reader.problem(decode::wrong(node, "a name").under("id"));
        }
        reader.facts.id = Some(node.place);
        definition.id = id;
    }
    definition.description =
        fields.get("description").and_then(|it| reader.take("description", decode::word(it)));
    definition.model = fields.get("model").and_then(|it| reader.take("model", decode::text(it)));
    let mut words = |name: &str| fields.get(name).and_then(|it| reader.take(name, decode::texts(it)));
    definition.tags = words("tags").unwrap_or_default();
    definition.overrides = words("override").unwrap_or_default();
}

fn texts(reader: &mut Reader<'_>, fields: Fields<'_>, body: &Body, definition: &mut Definition) {
    let section = |reader: &mut Reader<'_>, it: &Option<Section>| {
        it.as_ref().and_then(|it| reader.section(&it.text, it.place))
    };
    let field = |reader: &mut Reader<'_>, name: &str| fields.get(name).and_then(|it| reader.text(name, it));
    definition.system = field(reader, "system");
    let before = reader.facts.variables.len();
    definition.prompt = field(reader, "prompt");
    if let Some(node) = fields.get("user") {
        definition.user = user_messages(reader, node);
    } else {
        definition.user = section(reader, &body.user).map(UserMessage::text).into_iter().collect();
    }
    reader.facts.user = reader.facts.variables.get(before..).unwrap_or_default().to_vec();
    if definition.system.is_none() {
        let before = reader.facts.variables.len();
        definition.system = section(reader, &body.system);
        definition.context_in_system = body.context_in_system;
        if body.context_in_system {
            reader.facts.section = reader.facts.variables.get(before..).map(<[_]>::to_vec);
        }
    }
    if let Some(node) = fields.get("messages") {
        definition.messages = messages(reader, node).into();
    }
}

/// Reads the user slot: a text, a message, or a list of them.
fn user_messages(reader: &mut Reader<'_>, node: &Node) -> Vec<UserMessage> {
    let messages = decode::one_or_many(node);
    messages.iter().filter_map(|it| user_message(reader, it)).collect()
}

fn user_message(reader: &mut Reader<'_>, node: &Node) -> Option<UserMessage> {
    if !matches!(node.data, Data::Map(_)) {
        return reader.text("user", node).map(UserMessage::text);
    }
    let fields = reader.fields(node, &["role", "content"]);
    if let Some(role) = fields.get("role")
        && reader.take("user", decode::value::<Role>(role).map_err(|it| it.under("role")))? != Role::User
    {
        reader.problem(decode::wrong(role, "`user`").under("user.role"));
        return None;
    }
    let Some(content) = fields.get("content") else {
        reader.problem(Problem::invalid("a message needs `content`").at(node.place).under("user"));
        return None;
    };
    let Data::List(parts) = &content.data else {
        return reader.text("user", content).map(UserMessage::text);
    };
    let content = parts.iter().filter_map(|it| user_part(reader, it)).collect();
    Some(UserMessage { content })
}

fn user_part(reader: &mut Reader<'_>, node: &Node) -> Option<UserPart> {
    let text = match &node.data {
        Data::Map(pairs) if pairs.iter().any(|it| it.key == "text") => {
            let fields = reader.fields(node, &["type", "text"]);
            fields.get("text").and_then(|it| reader.text("user", it))
        }
        Data::Map(_) => {
            let part = reader.take("user", decode::value::<Part>(node))?;
            return match part {
                media @ (Part::Image(_) | Part::File(_)) => Some(UserPart::Media(media)),
                Part::Text { .. } | Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => {
                    reader.problem(decode::wrong(node, "text, an image or a file").under("user"));
                    None
                }
            };
        }
        _ => reader.text("user", node),
    };
    text.map(UserPart::Text)
}

fn messages(reader: &mut Reader<'_>, node: &Node) -> Vec<MessageText> {
    let items = reader.take("messages", decode::list(node)).unwrap_or_default();
    let read = items.iter().enumerate().filter_map(|(idx, item)| {
        let fields = reader.fields(item, &["role", "content"]);
        let name = format!("messages[{idx}]");
        let Some((role, content)) = fields.get("role").zip(fields.get("content")) else {
            reader
                .problem(Problem::invalid("a message needs `role` and `content`").at(item.place).under(name));
            return None;
        };
        let role = reader.take(&name, decode::value::<Role>(role).map_err(|it| it.under("role")));
        let text = reader.text(&name, content);
        Some(MessageText { role: role?, text: text? })
    });
    read.collect()
}

fn slot(reader: &mut Reader<'_>, fields: Fields<'_>, body: &Body, definition: &mut Definition) {
    if let Some(node) = fields.get("context") {
        decode::one_or_many(node).iter().for_each(|it| reader.slot_keys(it));
        reader.places.tags("prompt", node);
        roles(reader, node);
        let values: Vec<Option<TagValue>> =
            decode::one_or_many(node).iter().map(|it| reader.tag_value(it)).collect();
        definition.context = values.into_iter().flatten().collect();
    }
    if let Some(section) = &body.context {
        let before = reader.facts.variables.len();
        definition.context_section = reader.section(&section.text, section.place);
        reader.facts.section = reader.facts.variables.get(before..).map(<[_]>::to_vec);
    }
}

/// Checks the roles of the messages in the context slot.
fn roles(reader: &mut Reader<'_>, node: &Node) {
    match &node.data {
        Data::List(items) => items.iter().for_each(|it| roles(reader, it)),
        Data::Map(pairs) => {
            let role = pairs.iter().find(|it| it.key == "role").map(|it| &it.value);
            let Some(role) = role.filter(|it| !matches!(&it.data, Data::Text(text) if text.contains('{')))
            else {
                return;
            };
            let read = decode::value::<Role>(role).map_err(|it| it.under("role"));
            let hint = "rename the key, such as `userRole`, unless the object is a message".to_owned();
            reader.take("context", read.map_err(|it| it.hint(Some(hint))));
        }
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::Text(_) => {}
    }
}

fn schemas(reader: &mut Reader<'_>, fields: Fields<'_>, definition: &mut Definition) {
    definition.input = fields.get("input").and_then(|it| input(reader, it, &mut definition.overrides));
    definition.output = fields.get("output").and_then(|it| reader.schema("output", it));
    if let Some(schema) = &definition.input {
        reader.facts.schemas.push((**schema.value()).clone());
    }
    if let Some(policy) = fields.get("input_policy") {
        definition.input_policy =
            reader.take_all("input_policy", decode::each_key(policy)).unwrap_or_default();
    }
}

/// Reads the input schema, which may also list the keys that override entries.
fn input(reader: &mut Reader<'_>, node: &Node, overrides: &mut Vec<String>) -> Option<Schema> {
    let pairs = reader.take("input", decode::map(node))?;
    reader.places.schema("prompt", node);
    let (own, schema): (Vec<Pair>, Vec<Pair>) = pairs.iter().cloned().partition(|it| it.key == "override");
    for pair in own.iter().filter(|it| !it.value.is_null()) {
        let keys = decode::texts(&pair.value).map_err(|it| it.under("override"));
        overrides.extend(reader.take("input", keys).unwrap_or_default());
    }
    reader.schema("input", &Node::new(Data::Map(schema), node.place))
}

fn generation(reader: &mut Reader<'_>, fields: Fields<'_>, definition: &mut Definition) {
    if let Some(node) = fields.get("settings") {
        definition.settings = reader.take_all("settings", decode::each_key(node)).unwrap_or_default();
    }
    if let Some(node) = fields.get("budget") {
        definition.budget = reader.take_all("budget", decode::each_key(node)).unwrap_or_default();
    }
    if let Some(node) = fields.get("cache") {
        definition.cache = reader.take_all("cache", decode::each_key(node)).unwrap_or_default();
    }
    if let Some(node) = fields.get("history") {
        definition.history = history(reader, node);
    }
    if let Some(node) = fields.get("adapt") {
        definition.adapt = adaptations(reader, node);
    }
    definition.tool_choice = tool_choice(reader, fields, "tool_choice");
}

/// Reads the history setting: `false` for none, `true` for the whole window.
pub(crate) fn history(reader: &mut Reader<'_>, node: &Node) -> HistoryConfig {
    if let Data::Bool(all) = node.data {
        return if all { HistoryConfig::default() } else { HistoryConfig::NONE };
    }
    let fields = reader.fields(node, &["limit"]);
    let limit = fields.get("limit").and_then(|it| {
        let limit = decode::value::<HistoryLimit>(it);
        let limit = limit.map_err(|_| decode::wrong(it, "a number, `{turns: N}` or `{tokens: N}`"));
        reader.take("history.limit", limit)
    });
    HistoryConfig { limit }
}

fn tool_choice(reader: &mut Reader<'_>, fields: Fields<'_>, name: &str) -> Option<ToolChoice> {
    let node = fields.get("tool_choice")?;
    let choice = decode::value::<ToolChoice>(node);
    let choice = choice.map_err(|_| decode::wrong(node, "`auto`, `none`, `required` or `{tool: NAME}`"));
    let choice = reader.take(name, choice)?;
    if let ToolChoice::Tool(tool) = &choice {
        let place = decode::one_pair(node).map_or(node.place, |it| it.value.place);
        reader.facts.chosen_tools.push(ChosenTool { field: name.to_owned(), tool: tool.clone(), place });
    }
    Some(choice)
}

fn adaptations(reader: &mut Reader<'_>, node: &Node) -> IndexMap<String, Adaptation> {
    let pairs = reader.take("adapt", decode::map(node)).unwrap_or_default();
    pairs.iter().map(|pair| (pair.key.clone(), adaptation(reader, pair))).collect()
}

fn adaptation(reader: &mut Reader<'_>, pair: &Pair) -> Adaptation {
    let name = format!("adapt.{}", pair.key);
    let fields = reader.fields(&pair.value, &ADAPT_FIELDS);
    let settings = fields
        .get("settings")
        .and_then(|it| reader.take_all(&format!("{name}.settings"), decode::each_key::<Settings>(it)));
    let [prepend_system, append_system, prepend_prompt, append_prompt] =
        ["prepend_system", "append_system", "prepend_prompt", "append_prompt"]
            .map(|it| fields.get(it).and_then(|node| reader.text(&format!("{name}.{it}"), node)));
    Adaptation {
        prepend_system,
        append_system,
        prepend_prompt,
        append_prompt,
        settings: settings.unwrap_or_default(),
        tool_choice: tool_choice(reader, fields, &format!("{name}.tool_choice")),
    }
}

fn agent(reader: &mut Reader<'_>, fields: Fields<'_>, definition: &mut Definition) {
    if let Some(node) = fields.get("tools") {
        definition.tools = reader.tools(node).into_iter().map(Into::into).collect();
    }
    if let Some(node) = fields.get("tool_middleware") {
        definition.tool_middleware = reader.checked_list("tool_middleware", node, check_middleware);
    }
    if let Some(node) = fields.get("stop_when") {
        definition.stop_when = reader.list("stop_when", node);
    }
    if let Some(node) = fields.get("constraints") {
        definition.constraints = reader.checked_list("constraints", node, check_constraint);
    }
    if let Some(node) = fields.get("guardrails") {
        definition.guardrails = reader.checked_list("guardrails", node, check_guardrail);
    }
    if let Some(node) = fields.get("tests") {
        let items = reader.take("tests", decode::list(node)).unwrap_or_default();
        for (idx, item) in items.iter().enumerate() {
            reader.take("tests", decode::map(item).map(drop).map_err(|it| it.under(format!("[{idx}]"))));
        }
        definition.tests = items.iter().map(Node::to_json).collect();
    }
}

/// Checks that no text is given both in the front matter and in the body.
fn exclusive(reader: &mut Reader<'_>, fields: Fields<'_>, body: &Body) {
    let pairs = [
        ("system", "<system>", &body.system),
        ("prompt", "<user>", &body.user),
        ("user", "<user>", &body.user),
    ];
    for (field, tag, section) in pairs {
        let Some((pair, section)) = fields.pair(field).zip(section.as_ref()) else { continue };
        let message = format!(
            "`{field}` on line {} and the text of `{tag}` on line {} are the same thing: give one",
            pair.place.line, section.tag.line
        );
        reader.problem(Problem::invalid(message).at(pair.place));
    }
    for (second, why) in [("user", "are the same thing"), ("messages", "exclude each other")] {
        let Some((one, other)) = fields.pair("prompt").zip(fields.pair(second)) else { continue };
        let (one, other) = if one.place <= other.place { (one, other) } else { (other, one) };
        let message = format!(
            "`{}` on line {} and `{}` on line {} {why}: give one",
            one.key, one.place.line, other.key, other.place.line
        );
        reader.problem(Problem::invalid(message).at(other.place));
    }
}

/// Records the positions of the schemas that the engine validates later.
fn note_owners(reader: &mut Reader<'_>, fields: Fields<'_>) {
    for (field, owner) in [("input", "prompt"), ("output", "prompt:output")] {
        if let Some(pair) = fields.pair(field) {
            reader.places.owner(owner, pair.place);
        }
    }
}

fn remark_outside(reader: &mut Reader<'_>, place: Place) {
    reader.remark(Remark {
        code: "text_outside",
        message: "the text stands outside of all sections, so it is ignored".to_owned(),
        place,
        hint: Some("move it into a section, or delete it"),
    });
}

fn remark_overlooked(reader: &mut Reader<'_>, name: &str, place: Place) {
    reader.remark(Remark {
        code: "section_overlooked",
        message: format!("`<{name}>` does not start a line, so it is no section and its text is ignored"),
        place,
        hint: Some("begin a new line before the tag"),
    });
}
