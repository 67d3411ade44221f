//! Reads contexts: a file of `contexts/`, or the map of an inline `context:`.

use contexture_agent::{check_constraint, check_guardrail};
use contexture_compose::{
    Constraint, Context, Entry, Guardrail, OnError, Placement, Predicate, Priority, TagValue, Text, Trust,
    Volatility,
};
use contexture_message::{ErrorCode, Tokens};

use crate::decode;
use crate::entries::entries;
use crate::error::{Place, Problem};
use crate::facts::{Remark, Spot, Use};
use crate::front::Document;
use crate::index::default_id;
use crate::reader::{Fields, Reader, changes_each_turn};
use crate::sections::{Section, stripped};
use crate::yaml::{Data, Node};

/// The fields of a context; in a file, the text is the body.
const FIELDS: [&str; 21] = [
    "id",
    "description",
    "priority",
    "pinned",
    "max_tokens",
    "shorter",
    "cached",
    "message",
    "scope",
    "when",
    "input",
    "use",
    "tools",
    "values",
    "constraints",
    "guardrails",
    "deadline",
    "on_error",
    "remember",
    "trust",
    "text",
];

/// Reads a context file.
pub(crate) fn context_file(reader: &mut Reader<'_>, document: Document) -> (Context, Spot) {
    reader.problems(document.problems);
    let fields = reader.fields(&document.front, &FIELDS);
    if let Some(pair) = fields.pair("text") {
        let problem = Problem::new(
            ErrorCode::UnknownField,
            "unknown field `text`: the text of a context file is its body",
        );
        reader.problem(problem.at(pair.place));
    }
    let noted = reader.facts.variables.len();
    let begin = Place { line: document.body_line, column: 1 };
    let body = stripped(&document.body, begin);
    let body = Some(body).filter(|it| !it.text.is_empty());
    let text = body.as_ref().and_then(|it| reader.section(&it.text, it.place));
    let id = id(reader, fields).unwrap_or_else(|| default_id(reader.file).to_owned());
    let place = document.front.place;
    let (context, spot) = context(reader, fields, Content { id: Some(id), text, noted }, place);
    remark_if_empty(reader, fields, body.as_ref());
    (context.file(reader.file), spot)
}

/// Reads an inline context.
pub(crate) fn inline_context(reader: &mut Reader<'_>, node: &Node, uses: &mut Vec<Use>) -> Entry {
    let fields = reader.fields(node, &FIELDS);
    let noted = reader.facts.variables.len();
    let id = id(reader, fields);
    let text = fields.get("text").and_then(|it| reader.text("text", it));
    let (context, spot) = context(reader, fields, Content { id, text, noted }, node.place);
    uses.push(Use::Inline(spot));
    Entry::Context(context)
}

fn id(reader: &mut Reader<'_>, fields: Fields<'_>) -> Option<String> {
    let node = fields.get("id")?;
    let id = reader.take("id", decode::word(node))?;
    if id.trim().is_empty() {
        reader.problem(decode::wrong(node, "a name").under("id"));
    }
    Some(id)
}

/// The content of a context, from its body or from `text`.
struct Content {
    id: Option<String>,
    text: Option<Text>,
    /// The number of variables recorded before the text was read.
    noted: usize,
}

fn context(reader: &mut Reader<'_>, fields: Fields<'_>, content: Content, place: Place) -> (Context, Spot) {
    let Content { id, text, noted } = content;
    let name = id.as_ref().map_or("context".to_owned(), |id| format!("context:{id}"));
    reader.places.owner(&name, place);
    if let Some((id, node)) = id.as_deref().zip(fields.get("id")) {
        reader.places.id(id, node.place);
    }
    let (volatility, has_text) = (text.as_ref().map(Text::volatility), text.is_some());
    let mut context = match (id, text) {
        (Some(id), Some(text)) => Context::text(id, text),
        (Some(id), None) => Context::new(id),
        (None, text) => Context::unnamed(text.unwrap_or_else(|| Text::literal(""))),
    };
    let values = fields.get("values").and_then(|it| values(reader, &name, it));
    let volatility = volatility.max(values.as_ref().map(TagValue::volatility));
    if let Some(values) = values {
        context = context.values(values);
    }
    let layout = layout(reader, fields);
    if layout.cached {
        remark_if_volatile(reader, &name, noted, fields);
    }
    let entries = fields.get("use").map(|it| entries(reader, it));
    let (entries, uses) = entries.map(|it| (it.entries, it.uses)).unwrap_or_default();
    context = entries.into_iter().fold(context, Context::include);
    context = layout.apply(context);
    context = conditions(reader, fields, context);
    context = belongings(reader, &name, fields, context);
    let inferred = volatility.unwrap_or_default();
    // A `cached` text that reads the input may differ between threads, but not between turns.
    let inferred = if layout.cached { inferred.min(Volatility::Conversation) } else { inferred };
    let spot = Spot {
        name,
        place,
        volatility: layout.volatility.unwrap_or(inferred),
        cached: layout.cached,
        in_system: layout.placement == Placement::System && has_text,
        uses,
    };
    (context, spot)
}

fn values(reader: &mut Reader<'_>, owner: &str, node: &Node) -> Option<TagValue> {
    reader.take("values", decode::map(node))?;
    reader.places.tags(owner, node);
    reader.slot_keys(node);
    reader.tag_value(node)
}

/// The priority and placement of a context.
#[derive(Default)]
struct Layout {
    priority: Option<f64>,
    pinned: bool,
    cached: bool,
    max_tokens: Option<u32>,
    shorter: Vec<Text>,
    placement: Placement,
    volatility: Option<Volatility>,
    trust: Option<Trust>,
}

fn layout(reader: &mut Reader<'_>, fields: Fields<'_>) -> Layout {
    let flag = |reader: &mut Reader<'_>, name: &str| {
        fields.get(name).and_then(|it| reader.take(name, decode::value(it))).unwrap_or(false)
    };
    let shorter = fields.get("shorter").map(decode::one_or_many).unwrap_or_default();
    let placements = [("system", Placement::System), ("user", Placement::User)];
    let scopes = [("conversation", Volatility::Conversation), ("turn", Volatility::Turn)];
    Layout {
        priority: fields.get("priority").and_then(|it| reader.take("priority", priority(it))),
        pinned: flag(reader, "pinned"),
        cached: flag(reader, "cached"),
        max_tokens: fields.get("max_tokens").and_then(|it| reader.take("max_tokens", decode::value(it))),
        shorter: shorter.iter().filter_map(|it| reader.text("shorter", it)).collect(),
        placement: fields
            .get("message")
            .and_then(|it| reader.take("message", decode::choice(it, &placements)))
            .unwrap_or_default(),
        volatility: fields.get("scope").and_then(|it| reader.take("scope", decode::choice(it, &scopes))),
        trust: fields.get("trust").and_then(|it| reader.take("trust", decode::value(it))),
    }
}

fn priority(node: &Node) -> Result<f64, Problem> {
    let Data::Number(number) = &node.data else { return Err(decode::wrong(node, "a number from 0 to 100")) };
    let value = number.as_f64().unwrap_or(f64::NAN);
    let hint = || "priorities go from 0 (gives way first) to 100".to_owned();
    match Priority::new(value) {
        Ok(_) => Ok(value),
        Err(err) => Err(Problem::invalid(err.to_string()).at(node.place).hint(Some(hint()))),
    }
}

impl Layout {
    fn apply(&self, mut context: Context) -> Context {
        context = self.priority.into_iter().fold(context, Context::priority);
        context = if self.pinned { context.pinned() } else { context };
        context = if self.cached { context.cached() } else { context };
        context = self.max_tokens.into_iter().map(Tokens).fold(context, Context::max_tokens);
        context = self.shorter.iter().cloned().fold(context, Context::shorter);
        context = self.volatility.into_iter().fold(context, Context::volatility);
        context = self.trust.into_iter().fold(context, Context::trust);
        context.placement(self.placement)
    }
}

fn conditions(reader: &mut Reader<'_>, fields: Fields<'_>, mut context: Context) -> Context {
    if let Some(condition) = fields.get("when").and_then(|it| reader.condition("when", it)) {
        context = context.when_predicate(Predicate::condition(condition, None));
    }
    if let Some(deadline) =
        fields.get("deadline").and_then(|it| reader.take("deadline", decode::duration(it)))
    {
        context = context.deadline(deadline);
    }
    if let Some(time) = fields.get("remember").and_then(|it| reader.take("remember", decode::duration(it))) {
        context = context.remember(time);
    }
    let policies = [("fail", OnError::Fail), ("skip", OnError::Skip)];
    let on_error =
        fields.get("on_error").and_then(|it| reader.take("on_error", decode::choice(it, &policies)));
    on_error.into_iter().fold(context, Context::on_error)
}

fn belongings(reader: &mut Reader<'_>, name: &str, fields: Fields<'_>, mut context: Context) -> Context {
    if let Some(description) = fields.get("description") {
        reader.take("description", decode::word(description));
    }
    if let Some(node) = fields.get("input") {
        reader.places.schema(name, node);
    }
    if let Some(schema) = fields.get("input").and_then(|it| reader.schema("input", it)) {
        reader.facts.schemas.push((**schema.value()).clone());
        context = context.input_schema(schema);
    }
    if let Some(node) = fields.get("tools") {
        context = reader.tools(node).into_iter().fold(context, Context::tool);
    }
    if let Some(node) = fields.get("constraints") {
        let constraints: Vec<Constraint> = reader.checked_list("constraints", node, check_constraint);
        context = constraints.into_iter().fold(context, Context::constraint);
    }
    if let Some(node) = fields.get("guardrails") {
        let guardrails: Vec<Guardrail> = reader.checked_list("guardrails", node, check_guardrail);
        context = guardrails.into_iter().fold(context, Context::guardrail);
    }
    context
}

/// Warns if a context declared `cached` reads variables that change between turns.
fn remark_if_volatile(reader: &mut Reader<'_>, name: &str, noted: usize, fields: Fields<'_>) {
    let read =
        reader.facts.variables.get(noted..).into_iter().flatten().find(|it| changes_each_turn(&it.path));
    let Some(read) = read.map(|it| it.path.join(".")) else { return };
    let place = fields.pair("cached").map_or(Place::START, |it| it.place);
    reader.remark(Remark {
        code: "cached_volatile",
        message: format!("{name} is `cached` but reads `{read}`, which changes from turn to turn"),
        place,
        hint: Some("remove `cached`, or move what changes to a context of its own"),
    });
}

fn remark_if_empty(reader: &mut Reader<'_>, fields: Fields<'_>, body: Option<&Section>) {
    let blank = body.is_none_or(|it| it.text.trim().is_empty());
    let gives = ["values", "tools", "use", "constraints", "guardrails"];
    if blank && gives.iter().all(|it| fields.get(it).is_none()) {
        reader.remark(Remark {
            code: "empty_context",
            message: "the context says nothing: it has no text, values, tools or entries".to_owned(),
            place: Place::START,
            hint: None,
        });
    }
}
