//! The parsed body of a chat completion request.
//!
//! The dialect itself is parsed by `contexture_wire`. This module handles the delivery options and the refusals: a
//! parameter that would change the answer and that is not supported is an error that names it, unless its value
//! changes nothing.

use std::sync::Arc;

use contexture_compose::SchemaValidator;
use contexture_message::{ErrorCode, Message, Part, Role, Settings, ToolChoice, ToolDefinition};
use contexture_wire::{Dialect, Target, decode_request};
use serde_json::{Map, Value};

use crate::Problem;

/// A parsed chat completion request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChatRequest {
    pub(crate) model: String,
    /// All messages, system ones as well.
    pub(crate) messages: Vec<Message>,
    /// Tools that the client runs.
    pub(crate) tools: Vec<ToolDefinition>,
    pub(crate) tool_choice: Option<ToolChoice>,
    /// The schema that the answer must fit.
    pub(crate) output: Option<Arc<Value>>,
    pub(crate) settings: Settings,
    pub(crate) stream: bool,
    pub(crate) include_usage: bool,
    /// The end user, as named by the client.
    pub(crate) user: Option<String>,
    pub(crate) metadata: Map<String, Value>,
    /// The prompt's input, which OpenAI has no place for: `{"contexture": {"input": …}}`.
    pub(crate) input: Value,
}

impl ChatRequest {
    /// Parses a body.
    pub(crate) fn read(body: &Value) -> Result<Self, Problem> {
        let Value::Object(fields) = body else {
            return Err(Problem::in_body("body", "the body must be a JSON object"));
        };
        if let Some((name, _)) = fields.iter().find(|(name, value)| !is_followed(name, value)) {
            return Err(unsupported(name));
        }
        check_parts(body)?;
        let target = Target::new(Dialect::Openai, "openai", "");
        let request = decode_request(&target, body)
            .map_err(|err| Problem::in_body(&err.at, format!("{}: {}", err.at, err.reason)))?;
        let request = request.value;
        for tool in &request.tools {
            SchemaValidator::check(&tool.parameters).map_err(|err| {
                Problem::in_body("tools", format!("the parameters of `{}`: {err}", tool.name))
            })?;
        }
        let model = request.model.filter(|it| !it.is_empty());
        if request.messages.is_empty() {
            return Err(Problem::in_body("messages", "`messages` must have at least one message"));
        }
        Ok(Self {
            model: model.ok_or_else(|| Problem::in_body("model", "you must provide a model parameter"))?,
            messages: request.messages.into_iter().map(Arc::unwrap_or_clone).collect(),
            tools: request.tools.into_iter().map(Arc::unwrap_or_clone).collect(),
            tool_choice: request.tool_choice,
            output: request.output,
            settings: request.settings,
            stream: flag(fields.get("stream"), "stream")?,
            include_usage: flag(body["stream_options"].get("include_usage"), "stream_options.include_usage")?,
            user: text(fields.get("user"), "user")?,
            input: body["contexture"].get("input").cloned().unwrap_or_default(),
            metadata: match fields.get("metadata") {
                None | Some(Value::Null) => Map::new(),
                Some(Value::Object(metadata)) => metadata.clone(),
                Some(_) => return Err(Problem::in_body("metadata", "`metadata` must be an object")),
            },
        })
    }

    /// Returns what the system messages say together.
    pub(crate) fn instructions(&self) -> Option<String> {
        let texts = self.messages.iter().filter(|it| it.role == Role::System).flat_map(|it| &it.content);
        let texts = texts.filter_map(|it| match it {
            Part::Text { text, .. } if !text.trim().is_empty() => Some(text.as_str()),
            _ => None,
        });
        Some(texts.collect::<Vec<_>>().join("\n\n")).filter(|it| !it.is_empty())
    }

    /// Returns the name of the session that the body asks for: of its metadata, or else its user.
    pub(crate) fn session(&self) -> Option<(&'static str, &str)> {
        let named = ["contexture_session", "session"].iter().find_map(|it| self.metadata.get(*it)?.as_str());
        named.map(|it| ("metadata", it)).or_else(|| self.user.as_deref().map(|it| ("user", it)))
    }
}

/// Whether a field of the body is supported, or has a value that does not change the answer.
fn is_followed(name: &str, value: &Value) -> bool {
    let is_none = match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    match name {
        "model"
        | "messages"
        | "tools"
        | "tool_choice"
        | "response_format"
        | "temperature"
        | "top_p"
        | "max_tokens"
        | "max_completion_tokens"
        | "stop"
        | "seed"
        | "reasoning_effort"
        | "stream"
        | "stream_options"
        | "user"
        | "metadata"
        | "contexture" => true,
        // They say how the provider should go about it, not what it should answer.
        "store" | "service_tier" | "safety_identifier" | "prompt_cache_key" | "prompt_cache_retention" => {
            true
        }
        _ if is_none => true,
        "n" => value.as_u64() == Some(1),
        "parallel_tool_calls" => value == &Value::Bool(true),
        "logprobs" => value == &Value::Bool(false),
        "frequency_penalty" | "presence_penalty" | "top_logprobs" => value.as_f64() == Some(0.0),
        "modalities" => value.as_array().is_some_and(|it| it.iter().all(|it| it == "text")),
        "verbosity" => value == "medium",
        _ => false,
    }
}

/// Refuses what has no place in a conversation here, such as audio.
fn check_parts(body: &Value) -> Result<(), Problem> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for (idx, message) in list(&body["messages"]).iter().enumerate() {
        if message["role"] == "function" || !message["function_call"].is_null() {
            return Err(unsupported(&format!("messages[{idx}].function_call")));
        }
        for (part_idx, part) in list(&message["content"]).iter().enumerate() {
            let kind = part["type"].as_str().unwrap_or_default();
            if !["text", "image_url", "file", "refusal"].contains(&kind) {
                return Err(unsupported(&format!("messages[{idx}].content[{part_idx}].type")));
            }
        }
    }
    let tools = list(&body["tools"]);
    match tools.iter().position(|it| it["type"] != "function") {
        Some(idx) => Err(unsupported(&format!("tools[{idx}].type"))),
        None => Ok(()),
    }
}

fn unsupported(param: &str) -> Problem {
    let shown = crate::http::input::shown(param);
    let message = format!("Unsupported parameter or value: `{shown}` is not supported here.");
    Problem::new(ErrorCode::UnknownField, message).at(shown)
}

fn flag(value: Option<&Value>, param: &str) -> Result<bool, Problem> {
    match value {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Problem::in_body(param, format!("`{param}` must be true or false"))),
    }
}

fn text(value: Option<&Value>, param: &str) -> Result<Option<String>, Problem> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|it| !it.is_empty())),
        Some(_) => Err(Problem::in_body(param, format!("`{param}` must be a text"))),
    }
}
