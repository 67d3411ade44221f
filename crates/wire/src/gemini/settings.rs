//! Encodes generation settings.
//!
//! Turns a request's settings, tool choice and output schema, together with the model's facts, into `toolConfig` and
//! `generationConfig`. The output limit never exceeds the model's maximum; a thinking budget of 0 turns thinking off.

use contexture_message::{Request, Settings, ToolChoice};
use serde_json::{Map, Value, json};

use crate::Target;
use crate::loss::Losses;

const MAX_STOP: usize = 5;

/// Encodes the tool choice.
pub(super) fn tool_config(request: &Request, losses: &mut Losses) -> Option<Value> {
    let choice = request.tool_choice.as_ref()?;
    if request.tools.is_empty() {
        losses.add("tool_choice", "left out: there are no tools");
        return None;
    }
    let config = match choice {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
    };
    Some(json!({"functionCallingConfig": config}))
}

/// Encodes the settings and the output schema.
pub(super) fn generation_config(
    target: &Target,
    request: &Request,
    losses: &mut Losses,
) -> Map<String, Value> {
    let mut fields = Map::new();
    let schema = request.output.as_deref();
    if schema.is_some() && target.facts.capabilities.structured_output == Some(false) {
        losses.add("output", "left out: the model keeps to no schema");
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
