//! Classifies provider errors.
//!
//! [`classify`] turns an error body from any server into a [`ProviderError`]. The known codes and wordings are data,
//! in the tables below. A prompt that is too long must be distinguished from a rate limit, since both mention tokens.

use serde_json::Value;

use super::{ProviderError, ProviderErrorKind, shortened};
use crate::Dialect;

/// Classifies an error body from any server.
///
/// `status` is the HTTP status, or 0 for an error inside a stream. The body may be JSON from any provider, or a
/// string if it was not JSON. The checks run in this order: unambiguous codes, unambiguous statuses, known wordings,
/// other statuses, ambiguous codes.
///
/// ```
/// use contexture_wire::{Dialect, ProviderErrorKind, classify};
/// use serde_json::json;
///
/// let body = json!({"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}});
/// assert_eq!(classify(Dialect::Anthropic, 400, &body).kind, ProviderErrorKind::PromptTooLong);
/// ```
pub fn classify(dialect: Dialect, status: u16, body: &Value) -> ProviderError {
    let said = Said::read(dialect, body);
    // Some servers report an error under a success status.
    let status = if status < 400 { said.status } else { status };
    let kind = by_code(SURE_CODES, &said.codes)
        .or_else(|| sure_status(status))
        .or_else(|| by_words(&said.words))
        .or_else(|| likely_status(status))
        .or_else(|| by_code(VAGUE_CODES, &said.codes))
        .unwrap_or(ProviderErrorKind::Overloaded);
    let message = if said.message.is_empty() { no_reason(status) } else { said.message };
    ProviderError { kind, code: said.codes.into_iter().next(), message }
}

/// Returns the error in a body that should hold an answer or a chunk of one, or `None` if there is no error. Servers
/// write `{"error": …}`, `{"type": "error"}`, `{"object": "error"}`, or a list of these.
///
/// ```
/// use contexture_wire::{Dialect, ProviderErrorKind, failure};
/// use serde_json::json;
///
/// let body = json!({"object": "error", "message": "maximum context length exceeded", "code": 400});
/// assert_eq!(failure(Dialect::Openai, &body).map(|it| it.kind), Some(ProviderErrorKind::PromptTooLong));
/// assert_eq!(failure(Dialect::Openai, &json!({"error": null, "choices": []})), None);
/// ```
pub fn failure(dialect: Dialect, body: &Value) -> Option<ProviderError> {
    let says_so = |it: &Value| {
        let is_called = |name| it.get(name).is_some_and(|it| it == "error");
        it.get("error").is_some_and(|it| !it.is_null()) || is_called("type") || is_called("object")
    };
    let fails = says_so(body) || body.get(0).is_some_and(says_so);
    fails.then(|| classify(dialect, 0, body))
}

fn no_reason(status: u16) -> String {
    match status {
        0 => "the provider gave no reason".to_owned(),
        _ => format!("the provider gave no reason, the status is {status}"),
    }
}

/// The information found in an error body.
#[derive(Default)]
struct Said {
    /// Codes and types, the most specific first.
    codes: Vec<String>,
    /// An HTTP status inside the body; 0 if there is none.
    status: u16,
    message: String,
    /// All messages in the body, in lower case.
    words: String,
}

/// The maximum length of a provider's message, in characters.
const MAX_MESSAGE: usize = 1000;

impl Said {
    fn read(dialect: Dialect, body: &Value) -> Said {
        match body {
            Value::String(text) => match serde_json::from_str(text) {
                Ok(inner @ (Value::Object(_) | Value::Array(_))) => Said::read(dialect, &inner),
                _ => Said::worded(plain(text)),
            },
            // Gemini streams errors as a list of one.
            Value::Array(items) => items.first().map(|it| Said::read(dialect, it)).unwrap_or_default(),
            Value::Object(_) => Said::read_object(dialect, body),
            Value::Null | Value::Bool(_) | Value::Number(_) => Said::default(),
        }
    }

    fn read_object(dialect: Dialect, body: &Value) -> Said {
        let error = [body.pointer("/response/error"), body.get("error"), Some(body)];
        let error = error.into_iter().flatten().find(|it| !it.is_null()).unwrap_or(body);
        if let Value::String(text) = error {
            return Said::worded(text.clone());
        }
        let words = ["message", "Message", "detail", "details", "errors", "error"];
        let words = words.iter().find_map(|it| text_of(error.get(it)?));
        // OpenRouter includes the error of the provider behind it.
        let raw = error.pointer("/metadata/raw").filter(|it| it.is_string());
        let raw = raw.map(|it| Said::read(dialect, it).message).unwrap_or_default();
        let message = match words {
            Some(words) if !raw.is_empty() => format!("{words}: {raw}"),
            words => words.unwrap_or(raw),
        };
        let reasons = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let reasons = reasons.filter_map(|it| it.get("reason"));
        let fields = code_fields(dialect).into_iter().filter_map(|it| error.get(it));
        let codes = fields.chain(reasons).filter_map(Value::as_str).filter(|it| !is_envelope(it));
        let codes: Vec<String> = codes.map(str::to_owned).collect();
        let status = ["code", "status", "status_code"].iter().find_map(|it| error.get(it)?.as_u64());
        let status = status.filter(|it| (400..600).contains(it)).and_then(|it| u16::try_from(it).ok());
        Said { codes, status: status.unwrap_or_default(), ..Said::worded(message) }
    }

    fn worded(message: String) -> Said {
        let message = message.replace(|it: char| it.is_control() && it != '\n', " ");
        let words = message.to_lowercase();
        Said { message: shortened(message.trim(), MAX_MESSAGE), words, ..Said::default() }
    }
}

/// The fields in which a dialect writes its codes, the most specific first.
fn code_fields(dialect: Dialect) -> [&'static str; 3] {
    match dialect {
        Dialect::Openai | Dialect::OpenaiResponses => ["code", "type", "status"],
        Dialect::Anthropic => ["type", "code", "status"],
        Dialect::Gemini => ["status", "code", "type"],
    }
}

/// Returns whether a type only marks the body as an error, without specifying which.
fn is_envelope(code: &str) -> bool {
    matches!(code, "" | "error" | "response.failed")
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Array(items) if !items.is_empty() => {
            Some(items.iter().filter_map(text_of).collect::<Vec<_>>().join("; "))
        }
        Value::Object(_) => {
            // FastAPI puts the problem in `msg`, its place in `loc`, and echoes the whole request in `input`.
            let words = ["message", "msg"].iter().find_map(|it| value.get(it)?.as_str().map(str::to_owned));
            let place = value.get("loc").and_then(Value::as_array).map(|it| path(it));
            let placed = |words: String| place.map_or(words.clone(), |it| format!("{it}: {words}"));
            words.map(placed).or_else(|| Some(value.to_string()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
    }
}

/// Returns a path such as `body.messages.0`.
fn path(steps: &[Value]) -> String {
    let steps = steps.iter().map(|it| it.as_str().map_or_else(|| it.to_string(), str::to_owned));
    steps.collect::<Vec<_>>().join(".")
}

/// Returns the text; of an HTML page only the title, or its beginning if there is no title.
fn plain(text: &str) -> String {
    let text = text.trim();
    if !text.starts_with('<') {
        return text.to_owned();
    }
    let title = text.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    title.map_or_else(|| shortened(text, 80), |(title, _)| title.trim().to_owned())
}

fn by_code(table: &[(&str, ProviderErrorKind)], codes: &[String]) -> Option<ProviderErrorKind> {
    let kind = |code: &String| table.iter().find(|(name, _)| name.eq_ignore_ascii_case(code));
    codes.iter().find_map(kind).map(|(_, kind)| *kind)
}

fn by_words(words: &str) -> Option<ProviderErrorKind> {
    let fits = |needed: &[&str]| needed.iter().all(|it| words.contains(it));
    WORDINGS.iter().find(|(needed, _)| fits(needed)).map(|(_, kind)| *kind)
}

/// Classifies the statuses that are unambiguous, regardless of the body.
fn sure_status(status: u16) -> Option<ProviderErrorKind> {
    match status {
        401 => Some(ProviderErrorKind::Auth),
        402 | 429 => Some(ProviderErrorKind::RateLimited),
        404 => Some(ProviderErrorKind::NotFound),
        _ => None,
    }
}

fn likely_status(status: u16) -> Option<ProviderErrorKind> {
    match status {
        403 => Some(ProviderErrorKind::Auth),
        // The request has too many bytes; the remedy is the same.
        413 => Some(ProviderErrorKind::PromptTooLong),
        408 | 409 | 425 | 500.. => Some(ProviderErrorKind::Overloaded),
        400..500 => Some(ProviderErrorKind::Invalid),
        _ => None,
    }
}

/// Unambiguous codes and types.
#[rustfmt::skip]
const SURE_CODES: &[(&str, ProviderErrorKind)] = &[
    // OpenAI and compatible servers.
    ("context_length_exceeded",           ProviderErrorKind::PromptTooLong),
    ("context_window_exceeded",           ProviderErrorKind::PromptTooLong),
    ("model_max_prompt_tokens_exceeded",  ProviderErrorKind::PromptTooLong), // GitHub.
    ("exceed_context_size_error",         ProviderErrorKind::PromptTooLong), // llama.cpp.
    ("rate_limit_exceeded",               ProviderErrorKind::RateLimited),
    ("insufficient_quota",                ProviderErrorKind::RateLimited),
    ("billing_hard_limit_reached",        ProviderErrorKind::RateLimited),
    ("invalid_api_key",                   ProviderErrorKind::Auth),
    ("account_deactivated",               ProviderErrorKind::Auth),
    ("model_not_found",                   ProviderErrorKind::NotFound),
    ("NotFoundError",                     ProviderErrorKind::NotFound), // vLLM.
    ("content_policy_violation",          ProviderErrorKind::Refused),
    ("content_filter",                    ProviderErrorKind::Refused),
    ("invalid_prompt",                    ProviderErrorKind::Refused),
    ("server_overloaded",                 ProviderErrorKind::Overloaded),
    ("unavailable_error",                 ProviderErrorKind::Overloaded), // llama.cpp while it loads.
    // Anthropic.
    ("request_too_large",                 ProviderErrorKind::PromptTooLong),
    ("rate_limit_error",                  ProviderErrorKind::RateLimited),
    ("billing_error",                     ProviderErrorKind::RateLimited),
    ("authentication_error",              ProviderErrorKind::Auth),
    ("permission_error",                  ProviderErrorKind::Auth),
    ("not_found_error",                   ProviderErrorKind::NotFound),
    ("overloaded_error",                  ProviderErrorKind::Overloaded),
    ("timeout_error",                     ProviderErrorKind::Overloaded),
    // Gemini.
    ("RESOURCE_EXHAUSTED",                ProviderErrorKind::RateLimited),
    ("UNAUTHENTICATED",                   ProviderErrorKind::Auth),
    ("PERMISSION_DENIED",                 ProviderErrorKind::Auth),
    ("API_KEY_INVALID",                   ProviderErrorKind::Auth),
    ("NOT_FOUND",                         ProviderErrorKind::NotFound),
    ("UNAVAILABLE",                       ProviderErrorKind::Overloaded),
    ("DEADLINE_EXCEEDED",                 ProviderErrorKind::Overloaded),
];

/// Ambiguous codes and types; checked last.
#[rustfmt::skip]
const VAGUE_CODES: &[(&str, ProviderErrorKind)] = &[
    ("invalid_request_error",  ProviderErrorKind::Invalid),
    ("invalid_request",        ProviderErrorKind::Invalid),
    ("invalid_value",          ProviderErrorKind::Invalid),
    ("BadRequestError",        ProviderErrorKind::Invalid),
    ("INVALID_ARGUMENT",       ProviderErrorKind::Invalid),
    ("FAILED_PRECONDITION",    ProviderErrorKind::Invalid),
    ("server_error",           ProviderErrorKind::Overloaded), // llama.cpp says it of everything.
    ("api_error",              ProviderErrorKind::Overloaded),
    ("INTERNAL",               ProviderErrorKind::Overloaded),
];

/// Each entry lists lower-case phrases that must all occur in an error. The first match wins: rate limits come first,
/// since they mention tokens too.
#[rustfmt::skip]
const WORDINGS: &[(&[&str], ProviderErrorKind)] = &[
    (&["rate limit"],                                     ProviderErrorKind::RateLimited),
    (&["tokens per"],                                     ProviderErrorKind::RateLimited), // Per min, per day.
    (&["requests per"],                                   ProviderErrorKind::RateLimited),
    (&["too many requests"],                              ProviderErrorKind::RateLimited),
    (&["exceeded your current quota"],                    ProviderErrorKind::RateLimited),
    (&["credit balance"],                                 ProviderErrorKind::RateLimited), // Anthropic.
    (&["insufficient balance"],                           ProviderErrorKind::RateLimited), // DeepSeek.
    (&["context_length_exceeded"],                        ProviderErrorKind::PromptTooLong), // Quoted by a router.
    (&["maximum context length"],                         ProviderErrorKind::PromptTooLong), // OpenAI, vLLM, Mistral, …
    (&["maximum prompt length"],                          ProviderErrorKind::PromptTooLong), // xAI.
    (&["exceeds the context window"],                     ProviderErrorKind::PromptTooLong), // OpenAI Responses.
    (&["context window exceeds"],                         ProviderErrorKind::PromptTooLong), // MiniMax.
    (&["reduce the length of the messages"],              ProviderErrorKind::PromptTooLong), // Groq, Cerebras.
    (&["prompt is too long"],                             ProviderErrorKind::PromptTooLong), // Anthropic, Fireworks.
    (&["prompt too long"],                                ProviderErrorKind::PromptTooLong), // Ollama.
    (&["exceed context limit"],                           ProviderErrorKind::PromptTooLong), // Anthropic, with max_tokens.
    (&["input is too long"],                              ProviderErrorKind::PromptTooLong), // Bedrock.
    (&["input token count", "exceeds the maximum"],       ProviderErrorKind::PromptTooLong), // Gemini.
    (&["input token count", "only supports up to"],       ProviderErrorKind::PromptTooLong), // Vertex.
    (&["maximum model length"],                           ProviderErrorKind::PromptTooLong), // vLLM.
    (&["max_model_len"],                                  ProviderErrorKind::PromptTooLong), // vLLM.
    (&["longer than the model's context length"],         ProviderErrorKind::PromptTooLong), // SGLang.
    (&["exceeds the available context size"],             ProviderErrorKind::PromptTooLong), // llama.cpp.
    (&["context size has been exceeded"],                 ProviderErrorKind::PromptTooLong), // llama.cpp, LM Studio.
    (&["input length", "exceeds", "context length"],      ProviderErrorKind::PromptTooLong), // Ollama, LM Studio.
    (&["loaded with context length"],                     ProviderErrorKind::PromptTooLong), // LM Studio.
    (&["greater than the context length"],                ProviderErrorKind::PromptTooLong), // LM Studio.
    (&["prompt token count", "exceeds the limit"],        ProviderErrorKind::PromptTooLong), // GitHub.
    (&["number of tokens in the prompt", "exceed"],       ProviderErrorKind::PromptTooLong), // Cohere.
    (&["`inputs` tokens + `max_new_tokens`"],             ProviderErrorKind::PromptTooLong), // Text Generation Inference.
    (&["exceeded model token limit"],                     ProviderErrorKind::PromptTooLong), // Moonshot.
    (&["prompt exceeds max length"],                      ProviderErrorKind::PromptTooLong), // Zhipu.
    (&["range of input length should be"],                ProviderErrorKind::PromptTooLong), // Alibaba.
    (&["api key not valid"],                              ProviderErrorKind::Auth), // Gemini.
    (&["invalid api key"],                                ProviderErrorKind::Auth),
    (&["incorrect api key"],                              ProviderErrorKind::Auth),
    (&["api key expired"],                                ProviderErrorKind::Auth),
    (&["content management policy"],                      ProviderErrorKind::Refused), // Azure.
    (&["input was flagged"],                              ProviderErrorKind::Refused), // OpenRouter.
    (&["blocked by", "filter"],                           ProviderErrorKind::Refused),
    (&["model", "does not exist"],                        ProviderErrorKind::NotFound),
    (&["model", "not found"],                             ProviderErrorKind::NotFound), // Ollama.
    (&["overloaded"],                                     ProviderErrorKind::Overloaded),
    (&["loading model"],                                  ProviderErrorKind::Overloaded), // llama.cpp.
];
