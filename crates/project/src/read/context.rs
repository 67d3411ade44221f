//! Builds a context from its fields, whether it is a file or inline.

use contexture_agent::{check_constraint, check_guardrail};
use contexture_compose::{
    BlockMessage, BlockScope, Constraint, Context, Entry, Guardrail, OnError, Placement, Predicate, Priority,
    TagValue, Text, Trust, Volatility,
};
use contexture_message::Tokens;
use serde::Deserialize;

use crate::error::Place;
use crate::read::facts::{Remark, Spot, Use};
use crate::read::reader::{Reader, changes_each_turn};
use crate::read::tools::DeclaredTool;
use crate::source::decode::{Cursor, Each, Field, Many, Raw, TimeSpan, Word};

/// The fields of a context; in a file, the text is the body.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContextFields {
    pub(crate) id: Field<Word>,
    /// Only for readers of the file.
    #[serde(rename = "description")]
    _description: Field<Word>,
    priority: Field<f64>,
    pinned: Field<bool>,
    max_tokens: Field<Tokens>,
    shorter: Field<Many<Raw>>,
    cached: Field<bool>,
    message: Field<BlockMessage>,
    scope: Field<BlockScope>,
    when: Option<Raw>,
    input: Option<Raw>,
    #[serde(rename = "use")]
    pub(crate) entries: Option<Raw>,
    tools: Each<DeclaredTool>,
    values: Option<Raw>,
    constraints: Each<Constraint>,
    guardrails: Each<Guardrail>,
    deadline: Field<TimeSpan>,
    on_error: Field<ErrorPolicy>,
    remember: Field<TimeSpan>,
    trust: Field<Trust>,
    pub(crate) text: Option<Raw>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorPolicy {
    Fail,
    Skip,
}

/// Entries, and the uses that `lint` checks.
#[derive(Default)]
pub(crate) struct Entries {
    pub(crate) entries: Vec<Entry>,
    pub(crate) uses: Vec<Use>,
}

/// The content of a context, from its body or from `text`.
pub(crate) struct Content {
    /// `context` or `capability`.
    pub(crate) kind: &'static str,
    pub(crate) id: Option<String>,
    pub(crate) text: Option<Text>,
    /// The number of variables recorded before the text was read.
    pub(crate) noted: usize,
}

/// Builds a context from its fields; its entries were read before.
pub(crate) fn context(
    reader: &mut Reader<'_>,
    fields: ContextFields,
    content: Content,
    entries: Entries,
    place: Place,
) -> (Context, Spot) {
    let Content { kind, id, text, noted } = content;
    let name = id.as_ref().map_or(kind.to_owned(), |id| format!("{kind}:{id}"));
    reader.places.owner(&name, place);
    if let Some((id, at)) = id.as_deref().zip(reader.given(fields.id.raw)) {
        reader.places.id(id, at.node.place);
    }
    let (volatility, has_text) = (text.as_ref().map(Text::volatility), text.is_some());
    let mut context = match (id, text) {
        (Some(id), Some(text)) => Context::text(id, text),
        (Some(id), None) => Context::new(id),
        (None, text) => Context::unnamed(text.unwrap_or_else(|| Text::literal(""))),
    };
    let values = reader.given(fields.values).and_then(|it| values(reader, &name, &it));
    let volatility = volatility.max(values.as_ref().map(TagValue::volatility));
    context = values.into_iter().fold(context, Context::values);
    let is_cached = fields.cached.value.unwrap_or(false);
    if is_cached {
        remark_if_volatile(reader, &name, noted, fields.cached.raw);
    }
    context = entries.entries.into_iter().fold(context, Context::include);

    context = priority(reader, &fields.priority).into_iter().fold(context, Context::priority);
    context = if fields.pinned.value == Some(true) { context.pinned() } else { context };
    context = if is_cached { context.cached() } else { context };
    context = fields.max_tokens.value.into_iter().fold(context, Context::max_tokens);
    for raw in fields.shorter.many() {
        context = reader.text_of(Some(raw)).into_iter().fold(context, Context::shorter);
    }
    let in_system = fields.message.value.unwrap_or_default() == BlockMessage::System;
    context = context.placement(if in_system { Placement::System } else { Placement::User });
    let scope = fields.scope.value.map(|it| match it {
        BlockScope::Conversation => Volatility::Conversation,
        BlockScope::Turn => Volatility::Turn,
    });
    context = scope.into_iter().fold(context, Context::volatility);
    context = fields.trust.value.into_iter().fold(context, Context::trust);
    if let Some(condition) = reader.given(fields.when).and_then(|it| reader.condition(&it)) {
        context = context.when_predicate(Predicate::condition(condition, None));
    }
    context = fields.deadline.value.into_iter().fold(context, |context, it| context.deadline(it.0));
    context = fields.remember.value.into_iter().fold(context, |context, it| context.remember(it.0));
    context = fields.on_error.value.into_iter().fold(context, |context, it| match it {
        ErrorPolicy::Fail => context.on_error(OnError::Fail),
        ErrorPolicy::Skip => context.on_error(OnError::Skip),
    });
    if let Some(schema) = reader.given(fields.input).and_then(|it| reader.schema(&name, &it)) {
        reader.facts.schemas.push((**schema.value()).clone());
        context = context.input_schema(schema);
    }
    context = reader.tools(fields.tools).into_iter().fold(context, Context::tool);
    let constraints = reader.checked(fields.constraints, check_constraint);
    context = constraints.into_iter().fold(context, Context::constraint);
    let guardrails = reader.checked(fields.guardrails, check_guardrail);
    context = guardrails.into_iter().fold(context, Context::guardrail);

    let inferred = volatility.unwrap_or_default();
    // A `cached` text that reads the input may differ between threads, but not between turns.
    let inferred = if is_cached { inferred.min(Volatility::Conversation) } else { inferred };
    let spot = Spot {
        name,
        place,
        volatility: scope.unwrap_or(inferred),
        cached: is_cached,
        in_system: in_system && has_text,
        uses: entries.uses,
    };
    (context, spot)
}

fn values<'a>(reader: &mut Reader<'a>, owner: &str, at: &Cursor<'a>) -> Option<TagValue> {
    reader.take(at.pairs())?;
    reader.places.tags(owner, at.node);
    reader.slot_keys(at.node);
    reader.tag_value(at.node)
}

pub(crate) fn priority(reader: &mut Reader<'_>, field: &Field<f64>) -> Option<f64> {
    let (value, at) = field.value.zip(reader.given(field.raw))?;
    if let Err(err) = Priority::new(value) {
        let hint = "priorities go from 0 (dropped first) to 100".to_owned();
        reader.problem(at.invalid(err.to_string()).hint(Some(hint)));
    }
    Some(value)
}

/// Warns if a context declared `cached` reads variables that change between turns.
fn remark_if_volatile(reader: &mut Reader<'_>, name: &str, noted: usize, cached: Option<Raw>) {
    let read =
        reader.facts.variables.get(noted..).into_iter().flatten().find(|it| changes_each_turn(&it.path));
    let Some(read) = read.map(|it| it.path.join(".")) else { return };
    let place = reader.given(cached).map_or(Place::START, |it| it.key);
    reader.remark(Remark {
        code: "cached_volatile",
        message: format!("{name} is `cached` but reads `{read}`, which changes from turn to turn"),
        place,
        hint: Some("remove `cached`, or move what changes to a context of its own"),
    });
}
