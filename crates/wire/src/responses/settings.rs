//! Encodes and decodes generation settings and the output schema.

use std::sync::Arc;

use contexture_message::{Request, Settings};
use serde_json::{Map, Value, json};

use crate::loss::Losses;
use crate::openai::schema::is_strict;
use crate::openai::settings::{decode_format, effort, output_schema, output_tokens, read_effort, sampling};
use crate::read::Place;
use crate::{DecodeError, Target};

/// Encodes the output schema.
pub(super) fn encode_output(
    target: &Target,
    request: &Request,
    body: &mut Map<String, Value>,
    losses: &mut Losses,
) {
    let Some(schema) = output_schema(target, request, losses) else { return };
    let strict = is_strict(schema);
    let format = json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": strict});
    body.insert("text".to_owned(), json!({"format": format}));
}

/// Encodes the settings.
pub(super) fn encode(target: &Target, request: &Request, body: &mut Map<String, Value>, losses: &mut Losses) {
    let settings = &request.settings;
    sampling(target, "temperature", settings.temperature.as_ref(), body, losses);
    if let Some(tokens) = output_tokens(target, settings, losses) {
        body.insert("max_output_tokens".to_owned(), json!(tokens));
    }
    sampling(target, "top_p", settings.top_p.as_ref(), body, losses);
    let absent = [
        ("top_k", settings.top_k.is_some()),
        ("stop", !settings.stop.is_empty()),
        ("seed", settings.seed.is_some()),
    ];
    for (name, _) in absent.into_iter().filter(|(_, set)| *set) {
        losses.add(format!("settings.{name}"), "the dialect has no such setting, left out");
    }
    if let Some(effort) = effort(target, settings, losses) {
        body.insert("reasoning".to_owned(), json!({"effort": effort, "summary": "auto"}));
    }
}

/// Decodes the output schema.
pub(super) fn decode_output(
    body: &Place<'_>,
    losses: &mut Losses,
) -> Result<Option<Arc<Value>>, DecodeError> {
    let Some(text) = body.get("text") else { return Ok(None) };
    let format = text.get("format").map_or(Ok(None), |it| decode_format(&it, &it, losses))?;
    text.report(losses);
    Ok(format)
}

/// Decodes the settings.
pub(super) fn decode(body: &Place<'_>, losses: &mut Losses) -> Result<Settings, DecodeError> {
    let mut settings = Settings {
        temperature: body.get_number("temperature")?,
        max_tokens: body.get_u32("max_output_tokens")?,
        top_p: body.get_number("top_p")?,
        ..Settings::default()
    };
    if let Some(reasoning) = body.get("reasoning") {
        if let Some(effort) = reasoning.get("effort") {
            settings.reasoning = read_effort(effort.str()?, &effort.at(), losses);
        }
        reasoning.ignore(&["summary"]);
        reasoning.report(losses);
    }
    Ok(settings)
}
