//! Traces of calls, following OpenTelemetry's conventions for generative AI.
//!
//! There is one span for each call, whatever the number of attempts: `chat`, shown as `chat {model}`. It records the
//! model, the outcome and the usage; the conversation only if the client's configuration allows it, and never a key.

use contexture_message::{Answer, MediaSource, Message, Part, Request, StopReason, ToolOutput};
use serde_json::{Value, json};
use tracing::Span;
use tracing::field::Empty;

use crate::ModelError;
use crate::endpoint::Prepared;

/// The span of one call.
#[derive(Debug)]
pub(crate) struct Trace {
    span: Span,
    /// The span around it.
    outer: Span,
    record_content: bool,
    is_over: bool,
}

impl Trace {
    /// Starts the span.
    pub(crate) fn begin(prepared: &Prepared, request: &Request, record_content: bool) -> Self {
        let Prepared { target, url, traced_as, .. } = prepared;
        let outer = Span::current();
        let span = tracing::info_span!(
            "chat",
            otel.name = format!("chat {}", target.model),
            otel.kind = "client",
            otel.status_code = Empty,
            gen_ai.operation.name = "chat",
            gen_ai.provider.name = traced_as,
            gen_ai.request.model = target.model,
            gen_ai.request.max_tokens = request.settings.max_tokens,
            gen_ai.request.temperature = request.settings.temperature.as_ref().and_then(|it| it.as_f64()),
            gen_ai.response.model = Empty,
            gen_ai.response.id = Empty,
            gen_ai.response.finish_reasons = Empty,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            gen_ai.usage.cache_read.input_tokens = Empty,
            gen_ai.usage.cache_creation.input_tokens = Empty,
            gen_ai.input.messages = Empty,
            gen_ai.output.messages = Empty,
            server.address = url.host_str(),
            server.port = url.port_or_known_default(),
            error.type = Empty,
        );
        if record_content && !span.is_disabled() {
            let messages: Vec<Value> = request.messages.iter().map(|it| shown(it)).collect();
            span.record("gen_ai.input.messages", Value::from(messages).to_string());
        }
        Self { span, outer, record_content, is_over: false }
    }

    /// Returns the span around the call's span.
    pub(crate) fn outer(&self) -> &Span {
        &self.outer
    }

    /// Returns the call's span.
    pub(crate) fn span(&self) -> Span {
        self.span.clone()
    }

    /// Records a successful answer.
    pub(crate) fn answered(&mut self, answer: &Answer) {
        self.is_over = true;
        let Answer { message, stop, usage, model, id } = answer;
        let span = &self.span;
        let reason = finish_reason(stop);
        span.record("gen_ai.response.model", model.as_deref());
        span.record("gen_ai.response.id", id.as_deref());
        // A list, which spans cannot hold, so it is written as JSON.
        span.record("gen_ai.response.finish_reasons", json!([reason]).to_string());
        span.record("gen_ai.usage.input_tokens", usage.input_tokens);
        span.record("gen_ai.usage.output_tokens", usage.output_tokens);
        span.record("gen_ai.usage.cache_read.input_tokens", usage.cache_read_tokens);
        span.record("gen_ai.usage.cache_creation.input_tokens", usage.cache_write_tokens);
        if self.record_content && !span.is_disabled() {
            let mut output = shown(message);
            output["finish_reason"] = json!(reason);
            span.record("gen_ai.output.messages", json!([output]).to_string());
        }
    }

    /// Records a failure: the kind of error, not its message, which may quote the conversation.
    pub(crate) fn failed(&mut self, error: &ModelError) {
        self.over(error.kind().code().as_str());
    }

    fn over(&mut self, error: &str) {
        self.is_over = true;
        self.span.record("error.type", error);
        self.span.record("otel.status_code", "ERROR");
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if !self.is_over {
            self.over("cancelled");
        }
    }
}

fn finish_reason(stop: &StopReason) -> &str {
    match stop {
        StopReason::End | StopReason::StopText => "stop",
        StopReason::ToolCalls => "tool_call",
        StopReason::MaxTokens => "length",
        StopReason::Refused => "content_filter",
        StopReason::Paused => "paused",
        StopReason::Other(word) => word,
    }
}

/// Returns a message in the form of the conventions, without the bytes of images and files.
fn shown(message: &Message) -> Value {
    let parts: Vec<Value> = message.content.iter().map(shown_part).collect();
    json!({"role": message.role.as_str(), "parts": parts})
}

fn shown_part(part: &Part) -> Value {
    let media = |modality: &str, source: &MediaSource, media_type: &Option<String>| match source {
        MediaSource::Data(_) => json!({"type": "blob", "modality": modality, "mime_type": media_type}),
        MediaSource::Url(uri) => {
            json!({"type": "uri", "modality": modality, "mime_type": media_type, "uri": uri})
        }
        MediaSource::Id(id) => {
            json!({"type": "file", "modality": modality, "mime_type": media_type, "file_id": id})
        }
    };
    match part {
        Part::Text { text, .. } => json!({"type": "text", "content": text}),
        Part::Thinking(thinking) => json!({"type": "reasoning", "content": thinking.text}),
        Part::Evidence(it) => {
            json!({"type": "evidence", "id": it.chunk, "source": it.source, "content": it.text})
        }
        Part::Image(image) => media("image", &image.source, &image.media_type),
        Part::File(file) => media("document", &file.source, &file.media_type),
        Part::ToolCall(call) => {
            json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments})
        }
        Part::ToolResult(result) => {
            json!({"type": "tool_call_response", "id": result.call_id, "response": shown_output(&result.output)})
        }
    }
}

fn shown_output(output: &ToolOutput) -> Value {
    match output {
        ToolOutput::Content(parts) => parts.iter().map(shown_part).collect(),
        ToolOutput::Text(text) | ToolOutput::ErrorText(text) => json!(text),
        ToolOutput::Json(value) | ToolOutput::ErrorJson(value) => value.clone(),
        ToolOutput::ExecutionDenied { reason } => json!({"denied": true, "reason": reason}),
    }
}
