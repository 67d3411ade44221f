//! Encodes and decodes generation settings and the output schema.
//!
//! Turns a request's settings and output schema, together with the model's facts, into `generationConfig`. The output limit never exceeds the model's maximum; a thinking budget of 0 turns thinking off.

use std::sync::Arc;

use contexture_message::{Reasoning, Request, Settings};
use serde_json::{Map, Value, json};

use super::tools::{Rest, json_schema};
use crate::loss::Losses;
use crate::read::Place;
use crate::{DecodeError, Target};

const MAX_STOP: usize = 5;

/// Encodes the settings and the output schema.
pub(super) fn encode(target: &Target, request: &Request, losses: &mut Losses) -> Map<String, Value> {
    let mut fields = Map::new();
    let schema = request.output.as_deref();
    if schema.is_some() && target.facts.capabilities.structured_output == Some(false) {
        losses.add("output", "left out: the model does not support structured output");
    }
    sampling(target, &request.settings, &mut fields, losses);
    limits(target, &request.settings, &mut fields, losses);
    if let Some(schema) = schema.filter(|_| target.facts.capabilities.structured_output != Some(false)) {
        fields.insert("responseMimeType".to_owned(), "application/json".into());
        fields.insert("responseJsonSchema".to_owned(), schema.clone());
    }
    fields
}

fn sampling(target: &Target, settings: &Settings, fields: &mut Map<String, Value>, losses: &mut Losses) {
    let temperature = settings.temperature.clone().map(Value::Number);
    let top_p = settings.top_p.clone().map(Value::Number);
    let known = [
        ("temperature", "settings.temperature", temperature),
        ("topP", "settings.top_p", top_p),
        ("topK", "settings.top_k", settings.top_k.map(Value::from)),
    ];
    for (key, at, value) in known {
        match value {
            None => {}
            Some(_) if target.facts.capabilities.sampling == Some(false) => {
                losses.add(at, "left out: the model does not take it");
            }
            Some(value) => drop(fields.insert(key.to_owned(), value)),
        }
    }
}

fn limits(target: &Target, settings: &Settings, fields: &mut Map<String, Value>, losses: &mut Losses) {
    let thinks = target.facts.capabilities.reasoning != Some(false);
    let own = Settings {
        max_tokens: settings.max_tokens,
        reasoning: settings.reasoning.filter(|_| thinks),
        ..Settings::default()
    };
    if let Some(wanted) = settings.max_tokens.and(own.output_tokens(None)) {
        let most = wanted.min(target.facts.max_output.map_or(u32::MAX, |it| it.0));
        if most < wanted {
            losses.add("settings.max_tokens", format!("lowered from {wanted} to {most}, the model's most"));
        }
        fields.insert("maxOutputTokens".to_owned(), most.into());
    }
    if settings.stop.len() > MAX_STOP {
        losses.add("settings.stop", format!("only the first {MAX_STOP} are sent"));
    }
    if !settings.stop.is_empty() {
        let stop = &settings.stop[..settings.stop.len().min(MAX_STOP)];
        fields.insert("stopSequences".to_owned(), json!(stop));
    }
    match settings.seed.map(i32::try_from) {
        None => {}
        Some(Ok(seed)) => drop(fields.insert("seed".to_owned(), seed.into())),
        Some(Err(_)) => losses.add("settings.seed", "left out: a seed has 32 bits"),
    }
    match settings.reasoning.map(|it| it.budget()) {
        None => {}
        Some(_) if !thinks => losses.add("settings.reasoning", "left out: the model does not think"),
        Some(0) => drop(fields.insert("thinkingConfig".to_owned(), json!({"thinkingBudget": 0}))),
        Some(budget) => {
            let config = json!({"thinkingBudget": budget, "includeThoughts": true});
            fields.insert("thinkingConfig".to_owned(), config);
        }
    }
}

type OutputSchema = Option<Arc<Value>>;

/// Decodes the settings, and returns the fields they do not cover unchanged.
pub(super) fn decode(doc: &Place<'_>) -> Result<(Settings, OutputSchema, Rest), DecodeError> {
    let Some(config) = doc.get_object("generationConfig")? else {
        return Ok((Settings::default(), None, Rest::new()));
    };
    let output = output_schema(&config)?;
    let mut thinking = Rest::new();
    let settings = Settings {
        temperature: config.get_number("temperature")?,
        max_tokens: config.get_u32("maxOutputTokens")?,
        top_p: config.get_number("topP")?,
        top_k: config.get_u32("topK")?,
        stop: config.get_strings("stopSequences")?,
        seed: config.get_i64("seed")?,
        reasoning: reasoning(&config, &mut thinking)?,
        provider: Map::new(),
    };
    let mut rest = config.left();
    if !thinking.is_empty() {
        rest.insert("thinkingConfig".to_owned(), thinking.into());
    }
    Ok((settings, output, rest))
}

/// Decodes the output schema. With a schema, the MIME type is implied; a MIME type without a schema is left unread.
fn output_schema(config: &Place<'_>) -> Result<OutputSchema, DecodeError> {
    let schema = config.get_value("responseJsonSchema");
    let schema = schema.or_else(|| config.get_value("responseSchema").map(json_schema));
    if schema.is_some() {
        config.get_string("responseMimeType")?;
    }
    Ok(schema.map(Arc::new))
}

/// Decodes a thinking budget; a level, or a budget that the model chooses, is left unchanged.
fn reasoning(config: &Place<'_>, left: &mut Rest) -> Result<Option<Reasoning>, DecodeError> {
    let Some(thinking) = config.get_object("thinkingConfig")? else { return Ok(None) };
    let budget = thinking.get_number("thinkingBudget")?.and_then(|it| it.as_u64());
    let budget = budget.and_then(|it| u32::try_from(it).ok());
    match budget {
        None => left.extend(thinking.object()?.clone()),
        Some(_) => {
            thinking.flag("includeThoughts")?;
            left.extend(thinking.left());
        }
    }
    Ok(budget.map(Reasoning::Budget))
}
