//! Settings with the same limits but different names in OpenAI's two dialects.
//!
//! Each function applies the model's facts to a setting and returns what to send; what the model does not accept is a
//! loss.

use contexture_message::{Effort, Family, Reasoning, Settings};
use serde_json::{Map, Value};

use crate::Target;
use crate::loss::Losses;

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
        losses.add(format!("settings.{name}"), format!("`{}` takes none, left out", target.model));
    } else {
        body.insert(name.to_owned(), Value::Number(value.clone()));
    }
}

/// Returns the thinking effort, unless the model does not think. OpenAI's dialects have no thinking budgets.
pub(crate) fn effort(target: &Target, settings: &Settings, losses: &mut Losses) -> Option<&'static str> {
    let reasoning = settings.reasoning?;
    let at = "settings.reasoning";
    if target.facts.capabilities.reasoning == Some(false) {
        losses.add(at, format!("`{}` does not think, left out", target.model));
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
