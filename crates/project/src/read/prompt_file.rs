//! Reads a prompt file into a [`Definition`].

use contexture_agent::{check_constraint, check_guardrail, check_middleware};
use contexture_compose::{
    Adaptation, Budget, CacheConfig, Constraint, Definition, Guardrail, InputPolicy, MessageText, Schema,
    StopCondition, TagValue, Text, ToolMiddleware, UserMessage, UserPart,
};
use contexture_history::Visibility;
use contexture_message::{Part, Role, Settings, ToolChoice};
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::config::{Config, HistoryDefault};
use crate::error::Problem;
use crate::read::entries::entries;
use crate::read::facts::{ChosenTool, Remark};
use crate::read::pipeline::{providers, transforms};
use crate::read::reader::Reader;
use crate::read::tools::DeclaredTool;
use crate::source::decode::{Cursor, Each, Field, Many, Raw, Word};
use crate::source::front::Document;
use crate::source::sections::{Body, Section, sections};
use crate::source::yaml::{Data, Node};

/// The front matter of a prompt file.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PromptFields {
    id: Field<Word>,
    description: Field<Word>,
    tags: Field<Many<Word>>,
    model: Field<String>,
    #[serde(rename = "use")]
    entries: Option<Raw>,
    input: Option<Raw>,
    output: Option<Raw>,
    #[serde(rename = "override")]
    overrides: Field<Many<Word>>,
    input_policy: Field<InputPolicy>,
    system: Option<Raw>,
    prompt: Option<Raw>,
    messages: Each<MessageFields>,
    context: Option<Raw>,
    history: Field<HistoryDefault>,
    user: Option<Raw>,
    user_message: Option<Raw>,
    visibility: Field<Visibility>,
    settings: Field<Settings>,
    adapt: Field<IndexMap<String, Field<AdaptFields>>>,
    tools: Each<DeclaredTool>,
    tool_middleware: Each<ToolMiddleware>,
    tool_choice: Field<ToolChoice>,
    stop_when: Each<StopCondition>,
    tests: Each<Map<String, Value>>,
    constraints: Each<Constraint>,
    guardrails: Each<Guardrail>,
    cache: Field<CacheConfig>,
    budget: Field<Budget>,
    transforms: Field<Vec<Raw>>,
    providers: Field<Vec<Raw>>,
}

/// A message of `messages`.
#[derive(Deserialize)]
struct MessageFields {
    role: Field<Role>,
    content: Raw,
}

/// A message of `user`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct UserFields {
    role: Field<Role>,
    content: Option<Raw>,
}

/// A text part of a user message.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PartFields {
    #[serde(rename = "type")]
    _kind: Option<Word>,
    text: Option<Raw>,
}

/// The changes for a provider or model, under `adapt`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AdaptFields {
    prepend_system: Option<Raw>,
    append_system: Option<Raw>,
    prepend_prompt: Option<Raw>,
    append_prompt: Option<Raw>,
    settings: Field<Settings>,
    tool_choice: Field<ToolChoice>,
}

/// Returns the path that identifies a prompt file, such as `support/refund`.
pub(crate) fn prompt_name(file: &str) -> Option<&str> {
    file.strip_prefix("prompts/")?.strip_suffix(".md")
}

/// Reads a prompt file. Problems are recorded in the reader.
pub(crate) fn prompt_file<'a>(
    reader: &mut Reader<'a>,
    document: &'a Document,
    config: &Config,
) -> Definition {
    reader.problems(document.problems.clone());
    let fields: PromptFields = reader.decode(Cursor::root(&document.front));
    let (body, problems) = sections(&document.body, document.body_line);
    reader.problems(problems);
    check_exclusive(reader, &document.front, &body);
    for (field, owner) in [("input", "prompt"), ("output", "prompt:output")] {
        if let Some(pair) = document.front.get(field).filter(|it| !it.value.is_null()) {
            reader.places.owner(owner, pair.place);
        }
    }
    remarks(reader, &body);

    let file = reader.file;
    let id = reader.id(&fields.id);
    reader.facts.id = id.as_ref().map(|(_, place)| *place);
    let (system, context_in_system, prompt, user) = texts(reader, &fields, &body);
    let user_message = reader.given(fields.user_message).and_then(|it| match &it.node.data {
        Data::Text(_) => reader.stated(&it),
        _ => {
            reader.problem(it.wrong("a text"));
            None
        }
    });
    let messages = messages(reader, fields.messages);
    let (context, context_section) = slot(reader, fields.context, &body);
    let mut overrides = fields.overrides.words();
    let input = reader.given(fields.input).and_then(|it| input(reader, &it, &mut overrides));
    let read = reader.given(fields.entries).map(|it| entries(reader, &it)).unwrap_or_default();
    reader.facts.uses = read.uses;
    Definition {
        id: id.map_or_else(|| prompt_name(file).unwrap_or(file).to_owned(), |(id, _)| id),
        description: fields.description.word(),
        tags: fields.tags.words(),
        file: Some(file.to_owned()),
        model: fields.model.value,
        entries: read.entries,
        input,
        overrides,
        input_policy: fields.input_policy.value.unwrap_or_default(),
        output: reader.given(fields.output).and_then(|it| reader.schema("prompt:output", &it)),
        system,
        prompt,
        user,
        user_message,
        visibility: fields.visibility.value,
        messages: messages.into(),
        context,
        context_section,
        context_in_system,
        history: fields.history.value.unwrap_or(config.history.default).config(),
        settings: fields.settings.value.unwrap_or_default(),
        adapt: adaptations(reader, fields.adapt),
        tools: reader.tools(fields.tools),
        tool_middleware: reader.checked(fields.tool_middleware, check_middleware),
        tool_choice: tool_choice(reader, fields.tool_choice),
        stop_when: fields.stop_when.items().map(|(it, _)| it).collect(),
        tests: fields.tests.items().map(|(it, _)| Value::Object(it)).collect(),
        constraints: reader.checked(fields.constraints, check_constraint),
        guardrails: reader.checked(fields.guardrails, check_guardrail),
        cache: fields.cache.value.unwrap_or(config.cache),
        budget: fields.budget.value.unwrap_or_default(),
        transforms: transforms(reader, fields.transforms),
        providers: providers(reader, fields.providers),
    }
}

/// Reads the texts of the front matter and the body: system text, its `<context>` section, prompt and user messages.
fn texts<'a>(
    reader: &mut Reader<'a>,
    fields: &PromptFields,
    body: &Body,
) -> (Option<Text>, bool, Option<Text>, Vec<UserMessage>) {
    let section = |reader: &mut Reader<'a>, it: &Option<Section>| {
        it.as_ref().and_then(|it| reader.section(&it.text, it.place))
    };
    let given = reader.text_of(fields.system);
    let before = reader.facts.variables.len();
    let prompt = reader.text_of(fields.prompt);
    let user = match reader.given(fields.user) {
        Some(at) => at.items().iter().filter_map(|it| user_message(reader, it)).collect(),
        None => section(reader, &body.user).map(UserMessage::text).into_iter().collect(),
    };
    reader.facts.user = reader.facts.variables.get(before..).unwrap_or_default().to_vec();
    if given.is_some() {
        return (given, false, prompt, user);
    }
    let before = reader.facts.variables.len();
    let system = section(reader, &body.system);
    if body.context_in_system {
        reader.facts.section = reader.facts.variables.get(before..).map(<[_]>::to_vec);
    }
    (system, body.context_in_system, prompt, user)
}

/// Reads a message of the user slot: a text, or a map with a role and content.
fn user_message<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Option<UserMessage> {
    if !matches!(at.node.data, Data::Map(_)) {
        return reader.text(at).map(UserMessage::text);
    }
    let fields: UserFields = reader.decode(at.clone());
    let role = reader.given(fields.role.raw);
    if let Some(role) = role.filter(|_| fields.role.value.is_some_and(|it| it != Role::User)) {
        reader.problem(role.wrong("`user`"));
        return None;
    }
    let Some(content) = reader.given(fields.content) else {
        reader.problem(at.invalid("`content` is missing"));
        return None;
    };
    match content.node.data {
        Data::List(_) => {
            let parts = content.items();
            Some(UserMessage { content: parts.iter().filter_map(|it| user_part(reader, it)).collect() })
        }
        _ => reader.text(&content).map(UserMessage::text),
    }
}

fn user_part<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) -> Option<UserPart> {
    if !matches!(at.node.data, Data::Map(_)) {
        return reader.text(at).map(UserPart::Text);
    }
    if at.node.get("text").is_some() {
        let fields: PartFields = reader.decode(at.clone());
        return reader.text_of(fields.text).map(UserPart::Text);
    }
    match reader.decode::<Option<Part>>(at.clone())? {
        media @ (Part::Image(_) | Part::File(_)) => Some(UserPart::Media(media)),
        Part::Text { .. }
        | Part::Evidence(_)
        | Part::Thinking(_)
        | Part::ToolCall(_)
        | Part::ToolResult(_) => {
            reader.problem(at.wrong("text, an image or a file"));
            None
        }
    }
}

fn messages(reader: &mut Reader<'_>, messages: Each<MessageFields>) -> Vec<MessageText> {
    let read = messages.items().filter_map(|(fields, _)| {
        let text = reader.text_of(Some(fields.content));
        Some(MessageText { role: fields.role.value?, text: text? })
    });
    read.collect()
}

/// Reads the context slot and the `<context>` section.
fn slot(reader: &mut Reader<'_>, context: Option<Raw>, body: &Body) -> (Vec<TagValue>, Option<Text>) {
    let mut values = Vec::new();
    if let Some(at) = reader.given(context) {
        reader.places.tags("prompt", at.node);
        for item in at.items() {
            reader.slot_keys(item.node);
            roles(reader, &item);
            values.extend(reader.tag_value(item.node));
        }
    }
    let section = body.context.as_ref().and_then(|section| {
        let before = reader.facts.variables.len();
        let text = reader.section(&section.text, section.place);
        reader.facts.section = reader.facts.variables.get(before..).map(<[_]>::to_vec);
        text
    });
    (values, section)
}

/// Checks the roles of the messages in the context slot.
fn roles<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>) {
    if let Data::List(_) = at.node.data {
        at.items().iter().for_each(|it| roles(reader, it));
    }
    let Some(role) = at.get("role") else { return };
    let is_template = matches!(&role.node.data, Data::Text(text) if text.contains('{'));
    if !is_template && let Err(problem) = role.value::<Role>() {
        let hint = "rename the key, such as `userRole`, unless the object is a message".to_owned();
        reader.problem(problem.hint(Some(hint)));
    }
}

/// Reads the input schema, which may also list the keys that override entries.
fn input<'a>(reader: &mut Reader<'a>, at: &Cursor<'a>, overrides: &mut Vec<String>) -> Option<Schema> {
    let keys = at.get("override").map(|it| it.items()).unwrap_or_default();
    overrides.extend(keys.iter().filter_map(|it| reader.take(it.word())));
    let schema = reader.schema("prompt", at)?;
    let mut json = (**schema.value()).clone();
    if let Value::Object(fields) = &mut json {
        fields.shift_remove("override");
    }
    reader.facts.schemas.push(json.clone());
    Some(Schema::from_json(json))
}

fn tool_choice(reader: &mut Reader<'_>, field: Field<ToolChoice>) -> Option<ToolChoice> {
    let (choice, at) = field.value.zip(reader.given(field.raw))?;
    if let ToolChoice::Tool(tool) = &choice {
        let place = at.get("tool").map_or(at.node.place, |it| it.node.place);
        reader.facts.chosen_tools.push(ChosenTool { field: at.path, tool: tool.clone(), place });
    }
    Some(choice)
}

fn adaptations(
    reader: &mut Reader<'_>,
    adapt: Field<IndexMap<String, Field<AdaptFields>>>,
) -> IndexMap<String, Adaptation> {
    let each = adapt.value.into_iter().flatten();
    each.map(|(name, fields)| (name, adaptation(reader, fields.value.unwrap_or_default()))).collect()
}

fn adaptation(reader: &mut Reader<'_>, fields: AdaptFields) -> Adaptation {
    Adaptation {
        prepend_system: reader.text_of(fields.prepend_system),
        append_system: reader.text_of(fields.append_system),
        prepend_prompt: reader.text_of(fields.prepend_prompt),
        append_prompt: reader.text_of(fields.append_prompt),
        settings: fields.settings.value.unwrap_or_default(),
        tool_choice: tool_choice(reader, fields.tool_choice),
    }
}

/// Checks that no text is given both in the front matter and in the body.
fn check_exclusive(reader: &mut Reader<'_>, front: &Node, body: &Body) {
    let field = |name: &str| front.get(name).filter(|it| !it.value.is_null());
    let pairs = [
        ("system", "<system>", &body.system),
        ("prompt", "<user>", &body.user),
        ("user", "<user>", &body.user),
    ];
    for (name, tag, section) in pairs {
        let Some((pair, section)) = field(name).zip(section.as_ref()) else { continue };
        let message = format!(
            "`{name}` on line {} and the text of `{tag}` on line {} are the same thing: give one",
            pair.place.line, section.tag.line
        );
        reader.problem(Problem::invalid(message).at(pair.place));
    }
    for (second, why) in [("user", "are the same thing"), ("messages", "exclude each other")] {
        let Some((one, other)) = field("prompt").zip(field(second)) else { continue };
        let (one, other) = if one.place <= other.place { (one, other) } else { (other, one) };
        let message = format!(
            "`{}` on line {} and `{}` on line {} {why}: give one",
            one.key, one.place.line, other.key, other.place.line
        );
        reader.problem(Problem::invalid(message).at(other.place));
    }
}

/// Warns about text of the body that is ignored.
fn remarks(reader: &mut Reader<'_>, body: &Body) {
    for (name, place) in &body.overlooked {
        reader.remark(Remark {
            code: "section_overlooked",
            message: format!(
                "`<{name}>` does not start a line, so it is not a section and its text is ignored"
            ),
            place: *place,
            hint: Some("begin a new line before the tag"),
        });
    }
    if let Some(place) = body.outside.filter(|_| body.system.is_some()) {
        reader.remark(Remark {
            code: "text_outside",
            message: "this text is outside of all sections, so it is ignored".to_owned(),
            place,
            hint: Some("move it into a section, or delete it"),
        });
    }
}
