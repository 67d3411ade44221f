//! Encodes and decodes generation settings and the output schema.
//!
//! Turns a request's settings, tool choice and output schema, together with the model's facts, into fields of the
//! body. The rule, in full:
//!
//! 1. `max_tokens` is the configured limit, else the tokens reserved for the answer, else 4096; never more than the
//!    model's maximum.
//! 2. Thinking gets at least 1024 tokens and leaves room for the answer. A budget of 0 turns it off. A model that
//!    does not accept a token budget gets adaptive thinking with an effort.
//! 3. While the request answers calls that were made without thinking, no thinking budget is sent: the API rejects
//!    it.
//! 4. While the model thinks, temperature, top k and forced tools are not allowed, and top p must be at least 0.95.

use std::sync::Arc;

use contexture_message::{Effort, Reasoning, Request, Settings};
use serde_json::{Map, Value, json};

use super::schema;
use super::tools::encode_choice;
use crate::loss::Losses;
use crate::read::Place;
use crate::{DecodeError, Dialect, Target, passthrough};

const DEFAULT_MAX_TOKENS: u32 = 4096;
const MIN_THINKING: u32 = 1024;
const MIN_TOP_P: f64 = 0.95;

/// The fields of the body that the settings determine.
pub(super) struct Fields {
    pub(super) max_tokens: u32,
    pub(super) fields: Map<String, Value>,
}

/// Encodes the settings.
pub(super) fn encode(target: &Target, request: &Request, may_think: bool, losses: &mut Losses) -> Fields {
    let settings = &request.settings;
    let may_think = may_think || target.facts.thinking_budget == Some(false);
    let thinks = settings.reasoning.is_some_and(|it| it.budget() > 0)
        && may_think
        && target.facts.capabilities.reasoning != Some(false)
        && target.facts.max_output.is_none_or(|it| it.0 > MIN_THINKING);
    let mut fields = Map::new();
    if let Some(choice) = encode_choice(request, thinks, losses) {
        fields.insert("tool_choice".to_owned(), choice);
    }
    let output = output_format(target, request, losses);
    sampling(target, settings, thinks, &mut fields, losses);
    let (max_tokens, budget) = limits(target, settings, may_think, losses);
    let effort = match (settings.reasoning, budget) {
        (Some(reasoning), Some(1..)) if target.facts.thinking_budget == Some(false) => {
            Some(effort(reasoning, losses))
        }
        _ => None,
    };
    let thinking = match effort {
        Some(_) => Some(json!({"type": "adaptive"})),
        None => budget.map(|it| thinking(it, max_tokens, losses)),
    };
    fields.extend(thinking.map(|it| ("thinking".to_owned(), it)));
    let mut output_config = Map::new();
    output_config.extend(effort.map(|it| ("effort".to_owned(), it.into())));
    output_config.extend(output.map(|it| ("format".to_owned(), it)));
    if !output_config.is_empty() {
        fields.insert("output_config".to_owned(), Value::Object(output_config));
    }
    Fields { max_tokens, fields }
}

/// Whether the request has an output schema that is sent.
pub(super) fn has_schema(target: &Target, request: &Request) -> bool {
    output_format(target, request, &mut Losses::default()).is_some()
}

fn output_format(target: &Target, request: &Request, losses: &mut Losses) -> Option<Value> {
    let schema = request.output.as_deref()?;
    if target.facts.capabilities.structured_output == Some(false) {
        losses.add("output", "left out: the model does not support structured output");
        return None;
    }
    if !schema.is_object() {
        losses.add("output", "left out: the schema is not an object");
        return None;
    }
    let strict = schema::strict(schema);
    if strict != *schema {
        losses.add(
            "output",
            "the schema was reduced to what the API enforces; the rest is in the descriptions",
        );
    }
    Some(json!({"type": "json_schema", "schema": strict}))
}

fn sampling(
    target: &Target,
    settings: &Settings,
    thinks: bool,
    fields: &mut Map<String, Value>,
    losses: &mut Losses,
) {
    let refusal = match (target.facts.capabilities.sampling, thinks) {
        (Some(false), _) => Some("left out: the model does not take it"),
        (_, true) => Some("left out: the model does not take it while it thinks"),
        (_, false) => None,
    };
    if let Some(temperature) = &settings.temperature {
        match refusal {
            Some(reason) => losses.add("settings.temperature", reason),
            None if temperature.as_f64().is_some_and(|it| it > 1.0) => {
                losses.add("settings.temperature", "lowered to 1, the highest");
                fields.insert("temperature".to_owned(), 1.into());
            }
            None => drop(fields.insert("temperature".to_owned(), Value::Number(temperature.clone()))),
        }
    }
    if let Some(top_p) = &settings.top_p {
        let high = thinks && top_p.as_f64().is_some_and(|it| it >= MIN_TOP_P);
        match refusal.filter(|_| !high || target.facts.capabilities.sampling == Some(false)) {
            Some(reason) => losses.add("settings.top_p", reason),
            None => drop(fields.insert("top_p".to_owned(), Value::Number(top_p.clone()))),
        }
    }
    if let Some(top_k) = settings.top_k {
        match refusal {
            Some(reason) => losses.add("settings.top_k", reason),
            None => drop(fields.insert("top_k".to_owned(), top_k.into())),
        }
    }
    stop(&settings.stop, fields, losses);
    if settings.seed.is_some() {
        losses.add("settings.seed", "left out: there is no seed");
    }
}

/// Encodes stop sequences, without blank ones: the API rejects them.
fn stop(stop: &[String], fields: &mut Map<String, Value>, losses: &mut Losses) {
    let (blank, kept): (Vec<&String>, Vec<&String>) = stop.iter().partition(|it| it.trim().is_empty());
    if !blank.is_empty() {
        losses.add("settings.stop", "blank texts were left out");
    }
    if !kept.is_empty() {
        fields.insert("stop_sequences".to_owned(), json!(kept));
    }
}

/// Returns the output limit, and the thinking budget within it if one is set.
fn limits(target: &Target, settings: &Settings, may_think: bool, losses: &mut Losses) -> (u32, Option<u32>) {
    let most = target.facts.max_output.map_or(u32::MAX, |it| it.0);
    let budget = budget(target, settings, most, losses);
    let budget = budget.filter(|it| {
        let is_kept = may_think || *it == 0;
        if !is_kept {
            losses.add("settings.reasoning", "left out: the calls that are answered came without thinking");
        }
        is_kept
    });
    let own = Settings {
        max_tokens: settings.max_tokens,
        reasoning: budget.filter(|it| *it > 0).map(Reasoning::Budget),
        ..Settings::default()
    };
    let default = target.facts.reserve().map_or(DEFAULT_MAX_TOKENS, |it| it.0);
    let wanted = own.output_tokens(Some(default)).unwrap_or(default);
    let max_tokens = wanted.min(most);
    if max_tokens < wanted {
        losses.add("settings.max_tokens", format!("lowered from {wanted} to {max_tokens}, the model's most"));
    }
    (max_tokens, budget)
}

/// Returns the thinking budget, or `None` if the request does not set one.
fn budget(target: &Target, settings: &Settings, most: u32, losses: &mut Losses) -> Option<u32> {
    let budget = settings.reasoning?.budget();
    if target.facts.capabilities.reasoning == Some(false) {
        losses.add("settings.reasoning", "left out: the model does not think");
        return None;
    }
    if budget > 0 && most <= MIN_THINKING {
        losses.add("settings.reasoning", "left out: the model writes too little to think");
        return None;
    }
    if budget > 0 && budget < MIN_THINKING {
        losses.add("settings.reasoning", format!("raised from {budget} to {MIN_THINKING}, the least"));
        return Some(MIN_THINKING);
    }
    Some(budget)
}

/// Returns the API's name for a thinking effort.
fn effort(reasoning: Reasoning, losses: &mut Losses) -> &'static str {
    let word = match reasoning.effort() {
        Effort::Minimal | Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    };
    match reasoning {
        Reasoning::Budget(_) | Reasoning::Effort(Effort::Minimal) => {
            losses.add("settings.reasoning", format!("said as the effort `{word}`"));
        }
        Reasoning::Effort(Effort::Low | Effort::Medium | Effort::High) => {}
    }
    word
}

fn thinking(budget: u32, max_tokens: u32, losses: &mut Losses) -> Value {
    if budget == 0 {
        return json!({"type": "disabled"});
    }
    // If the budget would use up the whole limit, half of the limit stays for the answer.
    let fits = if budget < max_tokens { budget } else { (max_tokens / 2).max(MIN_THINKING) };
    if fits < budget {
        losses.add(
            "settings.reasoning",
            format!("lowered from {budget} to {fits} to leave room for the answer"),
        );
    }
    json!({"type": "enabled", "budget_tokens": fits})
}

type OutputSchema = Option<Arc<Value>>;

/// Decodes the settings and the output schema.
pub(super) fn decode(doc: &Place<'_>) -> Result<(Settings, OutputSchema), DecodeError> {
    let mut left = Map::new();
    let reasoning = reasoning(doc, &mut left)?;
    let output = output_schema(doc, &mut left)?;
    let mut settings = Settings {
        temperature: doc.get_number("temperature")?,
        max_tokens: doc.get_u32("max_tokens")?,
        top_p: doc.get_number("top_p")?,
        top_k: doc.get_u32("top_k")?,
        stop: doc.get_strings("stop_sequences")?,
        seed: None,
        reasoning,
        provider: Map::new(),
    };
    left.extend(doc.left());
    settings.provider = passthrough::wrap(Dialect::Anthropic, left);
    Ok((settings, output))
}

/// Decodes a thinking budget; any other thinking setting is kept unchanged.
fn reasoning(doc: &Place<'_>, left: &mut Map<String, Value>) -> Result<Option<Reasoning>, DecodeError> {
    let Some(thinking) = doc.get_object("thinking")? else { return Ok(None) };
    let reasoning = match thinking.need_string("type")?.as_str() {
        "enabled" => thinking.get_u32("budget_tokens")?.map(Reasoning::Budget),
        "disabled" => Some(Reasoning::Budget(0)),
        _ => None,
    };
    let rest = if reasoning.is_some() { Value::Object(thinking.left()) } else { thinking.value.clone() };
    if rest.as_object().is_some_and(|it| !it.is_empty()) {
        left.insert("thinking".to_owned(), rest);
    }
    Ok(reasoning)
}

fn output_schema(doc: &Place<'_>, left: &mut Map<String, Value>) -> Result<OutputSchema, DecodeError> {
    let Some(config) = doc.get_object("output_config")? else { return Ok(None) };
    let schema = match config.get_object("format")? {
        None => None,
        Some(format) => {
            format.get_string("type")?;
            format.get_value("schema").map(Arc::new)
        }
    };
    let rest = config.left();
    if !rest.is_empty() {
        left.insert("output_config".to_owned(), Value::Object(rest));
    }
    Ok(schema)
}
