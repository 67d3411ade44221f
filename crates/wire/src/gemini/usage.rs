//! Encodes and decodes stop reasons and token counts.
//!
//! Gemini counts thinking separately from the output, and what its built-in tools add to the prompt separately from
//! the prompt; our output and input counts include both.

use contexture_message::{StopReason, Usage};
use serde_json::{Map, Value};

use crate::read::Place;

/// Converts the API's finish reason.
pub(super) fn read_stop(word: &str) -> StopReason {
    match word {
        "STOP" => StopReason::End,
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::Refused,
        other => StopReason::Other(other.to_owned()),
    }
}

pub(super) fn write_stop(stop: &StopReason) -> &str {
    match stop {
        StopReason::End | StopReason::ToolCalls | StopReason::StopText => "STOP",
        StopReason::MaxTokens => "MAX_TOKENS",
        StopReason::Refused => "SAFETY",
        StopReason::Paused => "OTHER",
        StopReason::Other(word) => word,
    }
}

/// Decodes token counts. The API omits counts of 0: if there is a prompt count, a missing cached count is 0.
pub(super) fn read_usage(usage: &Place<'_>) -> Usage {
    let count = |name: &str| usage.count(name).unwrap_or_default();
    let thoughts = count("thoughtsTokenCount");
    let cached =
        usage.count("cachedContentTokenCount").or_else(|| usage.count("promptTokenCount").map(|_| 0));
    Usage {
        input_tokens: count("promptTokenCount").saturating_add(count("toolUsePromptTokenCount")),
        cache_read_tokens: cached,
        // Cache writes are neither billed nor reported.
        cache_write_tokens: None,
        output_tokens: count("candidatesTokenCount").saturating_add(thoughts),
        reasoning_tokens: thoughts,
    }
}

pub(super) fn write_usage(usage: &Usage) -> Value {
    let mut json = Map::new();
    json.insert("promptTokenCount".to_owned(), usage.input_tokens.into());
    if let Some(cached) = usage.cache_read_tokens.filter(|it| *it > 0) {
        json.insert("cachedContentTokenCount".to_owned(), cached.into());
    }
    let written = usage.output_tokens.saturating_sub(usage.reasoning_tokens);
    json.insert("candidatesTokenCount".to_owned(), written.into());
    if usage.reasoning_tokens > 0 {
        json.insert("thoughtsTokenCount".to_owned(), usage.reasoning_tokens.into());
    }
    json.insert("totalTokenCount".to_owned(), usage.total().into());
    Value::Object(json)
}
