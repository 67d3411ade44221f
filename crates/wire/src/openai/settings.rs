//! Encodes and decodes generation settings and the output schema.
//!
//! OpenAI's two dialects share the limits of settings, under different names. Each function applies the model's facts to a setting and returns what to send; what the model does not accept is a
//! loss.

use std::sync::Arc;

use contexture_message::{Effort, Family, Reasoning, Request, Settings};
use serde_json::{Map, Value, json};

use super::schema::is_strict;
use crate::loss::Losses;
use crate::read::Place;
use crate::{DecodeError, Target};

/// Returns whether this is one of OpenAI's own models, which reject the older `max_tokens` field.
pub(crate) fn is_openai_own(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    match Family::of_model(&model) {
        Family::OpenAiO200k | Family::OpenAiCl100k => !model.contains("gpt-oss"),
        Family::Claude | Family::Gemini | Family::Llama => false,
        // A model that is newer than the table of families.
        Family::Other => {
            let number = model.rsplit('/').next().and_then(|it| it.strip_prefix("gpt-"));
            number.is_some_and(|it| it.starts_with(|it: char| it.is_ascii_digit()))
        }
    }
}

/// Returns the output limit, if the settings determine one.
pub(crate) fn output_tokens(target: &Target, settings: &Settings, losses: &mut Losses) -> Option<u32> {
    let thinks = settings.reasoning.is_some() && target.facts.capabilities.reasoning != Some(false);
    let wanted = match settings.max_tokens {
        limit if !thinks => limit?,
        _ => settings.output_tokens(target.facts.output_reserve.map(|it| it.0))?,
    };
    let most = target.facts.max_output.map_or(u32::MAX, |it| it.0);
    if wanted > most {
        losses.add("settings.max_tokens", format!("{wanted} tokens, the model writes at most {most}"));
    }
    Some(wanted.min(most))
}

/// Encodes a sampling setting, unless the model does not accept any.
pub(crate) fn sampling(
    target: &Target,
    name: &str,
    value: Option<&serde_json::Number>,
    body: &mut Map<String, Value>,
    losses: &mut Losses,
) {
    let Some(value) = value else { return };
    if target.facts.capabilities.sampling == Some(false) {
        losses.add(format!("settings.{name}"), format!("`{}` does not accept it, left out", target.model));
    } else {
        body.insert(name.to_owned(), Value::Number(value.clone()));
    }
}

/// Returns the thinking effort, unless the model does not think. OpenAI's dialects have no thinking budgets.
pub(crate) fn effort(target: &Target, settings: &Settings, losses: &mut Losses) -> Option<&'static str> {
    let reasoning = settings.reasoning?;
    let at = "settings.reasoning";
    if target.facts.capabilities.reasoning == Some(false) {
        losses.add(at, format!("`{}` does not support thinking, left out", target.model));
        return None;
    }
    let name = effort_name(reasoning.effort());
    if let Reasoning::Budget(tokens) = reasoning {
        losses.add(at, format!("a budget of {tokens} tokens is sent as the effort `{name}`"));
    }
    Some(name)
}

fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    }
}

/// Decodes an effort. An unknown one is a loss; one above `high` is read as `high`.
pub(crate) fn read_effort(name: &str, at: &str, losses: &mut Losses) -> Option<Reasoning> {
    let efforts = [Effort::Minimal, Effort::Low, Effort::Medium, Effort::High];
    if let Some(effort) = efforts.into_iter().find(|it| effort_name(*it) == name) {
        return Some(Reasoning::Effort(effort));
    }
    if matches!(name, "xhigh" | "max") {
        losses.add(at, format!("the effort `{name}` is read as `high`"));
        return Some(Reasoning::Effort(Effort::High));
    }
    losses.add(at, format!("unknown effort `{name}`, left out"));
    None
}

/// The maximum number of stop sequences that the API accepts.
const MAX_STOPS: usize = 4;

/// Returns the output schema, unless the model does not support one.
pub(crate) fn output_schema<'a>(
    target: &Target,
    request: &'a Request,
    losses: &mut Losses,
) -> Option<&'a Value> {
    let schema = request.output.as_deref()?;
    if target.facts.capabilities.structured_output == Some(false) {
        losses.add("output", format!("`{}` does not support structured output, left out", target.model));
        return None;
    }
    Some(schema)
}

/// Encodes the output schema.
pub(super) fn encode_output(
    target: &Target,
    request: &Request,
    body: &mut Map<String, Value>,
    losses: &mut Losses,
) {
    let Some(schema) = output_schema(target, request, losses) else { return };
    let format = json!({"name": "answer", "schema": schema, "strict": is_strict(schema)});
    body.insert("response_format".to_owned(), json!({"type": "json_schema", "json_schema": format}));
}

/// Encodes the settings.
pub(super) fn encode(target: &Target, request: &Request, body: &mut Map<String, Value>, losses: &mut Losses) {
    let settings = &request.settings;
    sampling(target, "temperature", settings.temperature.as_ref(), body, losses);
    if let Some(tokens) = output_tokens(target, settings, losses) {
        let own = is_openai_own(&target.model);
        let name = if own { "max_completion_tokens" } else { "max_tokens" };
        body.insert(name.to_owned(), json!(tokens));
    }
    sampling(target, "top_p", settings.top_p.as_ref(), body, losses);
    if settings.top_k.is_some() {
        losses.add("settings.top_k", "the dialect has no such setting, left out");
    }
    if !settings.stop.is_empty() {
        let kept = &settings.stop[..settings.stop.len().min(MAX_STOPS)];
        body.insert("stop".to_owned(), json!(kept));
        for idx in kept.len()..settings.stop.len() {
            losses.add(format!("settings.stop[{idx}]"), format!("at most {MAX_STOPS} texts, left out"));
        }
    }
    if let Some(seed) = settings.seed {
        body.insert("seed".to_owned(), json!(seed));
    }
    if let Some(effort) = effort(target, settings, losses) {
        body.insert("reasoning_effort".to_owned(), json!(effort));
    }
}

/// Decodes the output schema.
pub(super) fn decode_output(
    place: &Place<'_>,
    losses: &mut Losses,
) -> Result<Option<Arc<Value>>, DecodeError> {
    let schema = place.get("json_schema").unwrap_or_else(|| place.clone());
    decode_format(place, &schema, losses)
}

/// Decodes the answer format: `place` has its type, `holder` the schema.
pub(crate) fn decode_format(
    place: &Place<'_>,
    holder: &Place<'_>,
    losses: &mut Losses,
) -> Result<Option<Arc<Value>>, DecodeError> {
    match place.need("type")?.str()? {
        "text" => Ok(None),
        "json_schema" => {
            let schema = holder.get_value("schema");
            holder.ignore(&["type", "name", "strict"]);
            holder.report(losses);
            Ok(schema.map(Arc::new))
        }
        "json_object" => {
            losses.add(place.at(), "`json_object` is read as the schema of any object");
            Ok(Some(Arc::new(json!({"type": "object"}))))
        }
        other => {
            losses.add(place.at(), format!("unknown format `{other}`, left out"));
            Ok(None)
        }
    }
}

/// Decodes the settings.
pub(super) fn decode(body: &Place<'_>, losses: &mut Losses) -> Result<Settings, DecodeError> {
    let limits = (body.get_u32("max_completion_tokens")?, body.get_u32("max_tokens")?);
    let effort = body.get("reasoning_effort").map(|it| Ok((it.str()?, it.at().to_owned()))).transpose()?;
    Ok(Settings {
        temperature: body.get_number("temperature")?,
        max_tokens: limits.0.or(limits.1),
        top_p: body.get_number("top_p")?,
        stop: body.get("stop").map_or(Ok(Vec::new()), |it| stop(&it))?,
        seed: body.get_i64("seed")?,
        reasoning: effort.and_then(|(name, at)| read_effort(name, &at, losses)),
        ..Settings::default()
    })
}

fn stop(place: &Place<'_>) -> Result<Vec<String>, DecodeError> {
    match place.value {
        Value::String(one) => Ok(vec![one.clone()]),
        _ => place.list()?.iter().map(|it| it.str().map(str::to_owned)).collect(),
    }
}
