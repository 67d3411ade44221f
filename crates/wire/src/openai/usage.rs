//! Encodes and decodes stop reasons and token counts.

use contexture_message::{StopReason, Usage};
use serde_json::{Map, Value, json};

use crate::loss::Losses;
use crate::read::Place;

/// Returns the API's name for a stop reason.
pub(super) fn write_stop(stop: &StopReason, losses: &mut Losses) -> &'static str {
    match stop {
        StopReason::End => "stop",
        StopReason::ToolCalls => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refused => "content_filter",
        StopReason::StopText | StopReason::Paused | StopReason::Other(_) => {
            losses.add("stop", "the dialect has no word for it, sent as `stop`");
            "stop"
        }
    }
}

/// Converts the API's stop reason.
pub(super) fn read_stop(word: &str) -> StopReason {
    match word {
        "stop" => StopReason::End,
        "length" => StopReason::MaxTokens,
        "tool_calls" | "function_call" => StopReason::ToolCalls,
        "content_filter" => StopReason::Refused,
        other => StopReason::Other(other.to_owned()),
    }
}

pub(super) fn write_usage(usage: Usage) -> Value {
    let mut read = Map::new();
    read.extend(usage.cache_read_tokens.map(|it| ("cached_tokens".to_owned(), it.into())));
    let written = usage.cache_write_tokens.filter(|it| *it > 0);
    read.extend(written.map(|it| ("cache_write_tokens".to_owned(), it.into())));
    json!({
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total(),
        "prompt_tokens_details": read,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    })
}

pub(super) fn read_usage(place: &Place<'_>) -> Usage {
    let read = |name| place.get("prompt_tokens_details")?.count(name);
    let written = |name| place.get("completion_tokens_details")?.count(name);
    // DeepSeek uses a different field for it.
    let cached = read("cached_tokens").or_else(|| place.count("prompt_cache_hit_tokens"));
    Usage {
        input_tokens: place.count("prompt_tokens").unwrap_or_default(),
        cache_read_tokens: cached,
        cache_write_tokens: read("cache_write_tokens"),
        output_tokens: place.count("completion_tokens").unwrap_or_default(),
        reasoning_tokens: written("reasoning_tokens").unwrap_or_default(),
    }
}
