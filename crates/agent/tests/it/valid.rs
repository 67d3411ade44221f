//! Whether a request is one that each provider takes, checked on its JSON and by none of our own rules.

use std::collections::BTreeSet;

use contexture_message::Request;
use contexture_wire::{Dialect, Target, encode_request};
use serde_json::Value;

/// Panics if the request is not valid for one of the dialects.
pub(crate) fn assert_valid_everywhere(request: &Request) {
    for dialect in Dialect::ALL {
        let target = Target::new(dialect, "test", "model");
        let body = encode_request(&target, request).body;
        let fault = match dialect {
            Dialect::Openai => openai(&body),
            Dialect::OpenaiResponses => responses(&body),
            Dialect::Anthropic => anthropic(&body),
            Dialect::Gemini => gemini(&body),
        };
        if let Err(fault) = fault {
            panic!("{}: {fault}\n{body:#}", dialect.as_str());
        }
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn ids<'a>(items: impl IntoIterator<Item = &'a Value>, key: &str) -> Vec<&'a str> {
    items.into_iter().filter_map(|it| it[key].as_str()).collect()
}

/// Whether every call has exactly one result, in any order: the ids say which is whose.
fn same(calls: &[&str], results: &[&str], place: usize) -> Result<(), String> {
    let (called, answered): (BTreeSet<_>, BTreeSet<_>) = (calls.iter().collect(), results.iter().collect());
    match called.len() == calls.len() && answered.len() == results.len() && called == answered {
        true => Ok(()),
        false => Err(format!("at {place}: calls {calls:?}, results {results:?}")),
    }
}

/// Each call has one `tool` message with its id, right behind the message that calls.
fn openai(body: &Value) -> Result<(), String> {
    let messages = list(body, "messages");
    let mut seen = 0;
    for (place, message) in messages.iter().enumerate() {
        let calls = ids(list(message, "tool_calls"), "id");
        let behind = messages[place + 1..].iter().take_while(|it| it["role"] == "tool");
        let results = ids(behind, "tool_call_id");
        if message["role"] == "assistant" {
            same(&calls, &results, place)?;
            seen += results.len();
            let says =
                message["content"].as_str().is_some_and(|it| !it.is_empty()) || message["content"].is_array();
            if calls.is_empty() && !says {
                return Err(format!("at {place}: an assistant message that says nothing"));
            }
        }
    }
    let results = messages.iter().filter(|it| it["role"] == "tool").count();
    if results == seen { Ok(()) } else { Err(format!("{results} results, {seen} behind their calls")) }
}

/// Each call has one output, somewhere behind it and before anybody speaks again.
fn responses(body: &Value) -> Result<(), String> {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for (place, item) in list(body, "input").iter().enumerate() {
        match item["type"].as_str() {
            Some("function_call") => {
                if !results.is_empty() {
                    same(&calls, &results, place)?;
                    (calls, results) = (Vec::new(), Vec::new());
                }
                calls.extend(item["call_id"].as_str());
            }
            Some("function_call_output") => results.extend(item["call_id"].as_str()),
            _ => {
                same(&calls, &results, place)?;
                (calls, results) = (Vec::new(), Vec::new());
            }
        }
    }
    same(&calls, &results, usize::MAX)
}

/// Roles alternate beginning with the user; each `tool_use` has its result in the next message, before anything else.
fn anthropic(body: &Value) -> Result<(), String> {
    let messages = list(body, "messages");
    let blocks = |place: usize, kind: &str, key: &str| -> Vec<String> {
        let blocks = messages.get(place).map(|it| list(it, "content")).unwrap_or_default();
        blocks
            .iter()
            .filter(|it| it["type"] == kind)
            .filter_map(|it| Some(it[key].as_str()?.to_owned()))
            .collect()
    };
    for (place, message) in messages.iter().enumerate() {
        let expected = if place % 2 == 0 { "user" } else { "assistant" };
        if message["role"] != expected {
            return Err(format!("at {place}: {} where {expected} is expected", message["role"]));
        }
        let content = list(message, "content");
        let empty_text = content.iter().any(|it| it["type"] == "text" && it["text"] == "");
        if empty_text || (content.is_empty() && message["content"].as_str().is_none_or(str::is_empty)) {
            return Err(format!("at {place}: nothing is said"));
        }
        if expected == "assistant" {
            let (calls, results) =
                (blocks(place, "tool_use", "id"), blocks(place + 1, "tool_result", "tool_use_id"));
            let (calls, results): (Vec<_>, Vec<_>) =
                (calls.iter().map(String::as_str).collect(), results.iter().map(String::as_str).collect());
            same(&calls, &results, place)?;
        }
        let is_result = |it: &&Value| it["type"] == "tool_result";
        let leading = content.iter().take_while(is_result).count();
        if content.iter().filter(is_result).count() != leading {
            return Err(format!("at {place}: a result behind something else"));
        }
    }
    Ok(())
}

/// Roles alternate beginning with the user; each `functionCall` has its `functionResponse` in the next content, with
/// the same id and name.
fn gemini(body: &Value) -> Result<(), String> {
    let contents = list(body, "contents");
    let named = |place: usize, kind: &str| -> Vec<String> {
        let parts = contents.get(place).map(|it| list(it, "parts")).unwrap_or_default();
        let calls = parts.iter().filter(|it| it[kind].is_object());
        calls.map(|it| format!("{} {}", it[kind]["id"], it[kind]["name"])).collect()
    };
    for (place, content) in contents.iter().enumerate() {
        let expected = if place % 2 == 0 { "user" } else { "model" };
        if content["role"] != expected {
            return Err(format!("at {place}: {} where {expected} is expected", content["role"]));
        }
        if list(content, "parts").is_empty() {
            return Err(format!("at {place}: nothing is said"));
        }
        if expected == "model" {
            let (calls, results) = (named(place, "functionCall"), named(place + 1, "functionResponse"));
            let (calls, results): (Vec<_>, Vec<_>) =
                (calls.iter().map(String::as_str).collect(), results.iter().map(String::as_str).collect());
            same(&calls, &results, place)?;
        }
    }
    Ok(())
}
