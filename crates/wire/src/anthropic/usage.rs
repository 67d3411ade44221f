//! Encodes and decodes stop reasons and token counts.
//!
//! Anthropic's `input_tokens` excludes the tokens read from and written to the cache; our input count includes them.

use contexture_message::{StopReason, Usage};
use serde_json::{Value, json};

use crate::read::Place;

/// Converts the API's stop reason. A full context window truncates the answer just as a limit does.
pub(super) fn read_stop(word: &str) -> StopReason {
    match word {
        "end_turn" => StopReason::End,
        "tool_use" => StopReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopText,
        "refusal" => StopReason::Refused,
        "pause_turn" => StopReason::Paused,
        other => StopReason::Other(other.to_owned()),
    }
}

/// Returns the API's name for a stop reason.
pub(super) fn write_stop(stop: &StopReason) -> &str {
    match stop {
        StopReason::End => "end_turn",
        StopReason::ToolCalls => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::StopText => "stop_sequence",
        StopReason::Refused => "refusal",
        StopReason::Paused => "pause_turn",
        StopReason::Other(word) => word,
    }
}

/// Token counts in the API's form; later counts in a stream replace earlier ones.
#[derive(Debug, Default)]
pub(super) struct RawUsage {
    input: u64,
    read: Option<u64>,
    written: Option<u64>,
    output: u64,
    thinking: u64,
}

impl RawUsage {
    /// Updates the counts from the `usage` of `doc`.
    pub(super) fn update(&mut self, doc: &Place<'_>) {
        let Some(usage) = doc.get("usage") else { return };
        let details = usage.get("output_tokens_details");
        let take = |own: &mut u64, count: Option<u64>| *own = count.unwrap_or(*own);
        take(&mut self.input, usage.count("input_tokens"));
        self.read = usage.count("cache_read_input_tokens").or(self.read);
        self.written = usage.count("cache_creation_input_tokens").or(self.written);
        take(&mut self.output, usage.count("output_tokens"));
        take(&mut self.thinking, details.and_then(|it| it.count("thinking_tokens")));
    }

    /// Returns the counts with cached tokens included in the input.
    pub(super) fn usage(&self) -> Usage {
        let usage = Usage {
            input_tokens: self.input,
            cache_read_tokens: self.read,
            cache_write_tokens: self.written,
            output_tokens: self.output,
            reasoning_tokens: self.thinking,
        };
        // The API counts cached tokens separately.
        Usage { input_tokens: self.input.saturating_add(usage.cached()), ..usage }
    }
}

/// Encodes token counts.
pub(super) fn write_usage(usage: &Usage) -> Value {
    let mut json = json!({
        "input_tokens": usage.input_tokens.saturating_sub(usage.cached()),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    });
    if usage.reasoning_tokens > 0 {
        json["output_tokens_details"] = json!({"thinking_tokens": usage.reasoning_tokens});
    }
    json
}
