//! Encodes and decodes stop reasons and token counts.

use contexture_message::{StopReason, Usage};
use serde_json::{Value, json};

use crate::DecodeError;
use crate::loss::Losses;
use crate::read::Place;

pub(super) fn write_stop(stop: &StopReason, losses: &mut Losses) -> (&'static str, Option<&'static str>) {
    match stop {
        StopReason::End | StopReason::ToolCalls => ("completed", None),
        StopReason::MaxTokens => ("incomplete", Some("max_output_tokens")),
        StopReason::Refused => ("incomplete", Some("content_filter")),
        StopReason::StopText | StopReason::Paused | StopReason::Other(_) => {
            losses.add("stop", "the dialect has no word for it, sent as `completed`");
            ("completed", None)
        }
    }
}

pub(super) fn write_usage(usage: Usage, losses: &mut Losses) -> Value {
    // The dialect requires both counts.
    if usage.cache_read_tokens.is_none() || usage.cache_write_tokens.is_none() {
        losses.add("usage", "the cache counts that were not reported are sent as 0");
    }
    let read = json!({
        "cached_tokens": usage.cache_read_tokens.unwrap_or_default(),
        "cache_write_tokens": usage.cache_write_tokens.unwrap_or_default(),
    });
    json!({
        "input_tokens": usage.input_tokens,
        "input_tokens_details": read,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total(),
    })
}

/// Decodes the stop reason of a response.
pub(super) fn read_stop(body: &Place<'_>) -> Result<StopReason, DecodeError> {
    let reason = body.get("incomplete_details").map(|it| it.get_str("reason")).transpose()?.flatten();
    Ok(match (body.get_str("status")?.unwrap_or("completed"), reason) {
        ("completed", _) => StopReason::End,
        (_, Some("max_output_tokens" | "max_tokens")) => StopReason::MaxTokens,
        (_, Some("content_filter")) => StopReason::Refused,
        (status, reason) => StopReason::Other(reason.unwrap_or(status).to_owned()),
    })
}

/// Decodes the token counts of a response.
pub(super) fn read_usage(place: &Place<'_>) -> Usage {
    let read = |name| place.get("input_tokens_details")?.count(name);
    let written = |name| place.get("output_tokens_details")?.count(name);
    Usage {
        input_tokens: place.count("input_tokens").unwrap_or_default(),
        cache_read_tokens: read("cached_tokens"),
        cache_write_tokens: read("cache_write_tokens"),
        output_tokens: place.count("output_tokens").unwrap_or_default(),
        reasoning_tokens: written("reasoning_tokens").unwrap_or_default(),
    }
}
