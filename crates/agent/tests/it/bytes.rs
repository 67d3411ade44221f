//! A request as bytes of each dialect, in the order in which a provider's cache reads them.

use contexture_message::Request;
use contexture_wire::{Dialect, Target, encode_request};
use serde_json::{Value, json};

/// What one provider is sent, cut where it may go on. Marks of the cache are no content.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bytes {
    pub(crate) dialect: &'static str,
    pub(crate) tools: String,
    pub(crate) system: String,
    pub(crate) messages: Vec<String>,
}

/// Returns a request in all dialects.
pub(crate) fn everywhere(request: &Request) -> Vec<Bytes> {
    Dialect::ALL.into_iter().map(|dialect| bytes(dialect, request)).collect()
}

/// Says what of `before` does not stand at the beginning of `now`, in any dialect.
pub(crate) fn changed_messages(before: &Request, now: &Request) -> Option<String> {
    let pairs = everywhere(before).into_iter().zip(everywhere(now));
    pairs.into_iter().find_map(|(before, now)| {
        let differs = |(idx, it): &(usize, &String)| now.messages.get(*idx) != Some(*it);
        let (idx, was) = before.messages.iter().enumerate().find(differs)?;
        let is = now.messages.get(idx).map_or("nothing", String::as_str);
        Some(format!("{} at {idx}: {was}\nbecame {is}", before.dialect))
    })
}

/// Tools that the engine offers once there is something to read with them.
const OWN_TOOLS: [&str; 2] = ["read_tool_result", "recall"];

/// Says which of the engine's own tools went away.
pub(crate) fn lost_tools(before: &Request, now: &Request) -> Option<String> {
    let own = |request: &Request| -> Vec<String> {
        let names = request.tools.iter().map(|it| it.name.clone());
        names.filter(|it| OWN_TOOLS.contains(&it.as_str())).collect()
    };
    let (was, is) = (own(before), own(now));
    (!was.iter().all(|it| is.contains(it))).then(|| format!("the tools {was:?} became {is:?}"))
}

/// Says how the tools or the system message differ, in any dialect. The engine's own tools do not count.
pub(crate) fn changed_system(before: &Request, now: &Request) -> Option<String> {
    let others = |request: &Request| {
        let mut request = request.clone();
        request.tools.retain(|it| !OWN_TOOLS.contains(&it.name.as_str()));
        everywhere(&request)
    };
    let pairs = others(before).into_iter().zip(others(now));
    pairs.into_iter().find_map(|(before, now)| {
        let is_same = (&before.tools, &before.system) == (&now.tools, &now.system);
        (!is_same).then(|| format!("{}: {}\nbecame {}", before.dialect, before.system, now.system))
    })
}

fn bytes(dialect: Dialect, request: &Request) -> Bytes {
    let mut body = encode_request(&Target::new(dialect, "test", "model"), request).body;
    unmark(&mut body);
    let (system, messages) = match dialect {
        Dialect::Openai => {
            let all = list(&body["messages"]);
            let n_system = all.iter().take_while(|it| it["role"] == "system" || it["role"] == "developer");
            let n_system = n_system.count();
            (json!(all[..n_system]), texts(&all[n_system..]))
        }
        Dialect::OpenaiResponses => (body["instructions"].clone(), texts(&list(&body["input"]))),
        Dialect::Anthropic => (json!(joined(&body["system"])), parts(&body["messages"], "content")),
        Dialect::Gemini => (body["systemInstruction"].clone(), parts(&body["contents"], "parts")),
    };
    Bytes {
        dialect: dialect.as_str(),
        tools: body["tools"].to_string(),
        system: system.to_string(),
        messages,
    }
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

fn texts(values: &[Value]) -> Vec<String> {
    values.iter().map(Value::to_string).collect()
}

/// Messages of one role that follow each other are written as one: so their parts are what stays.
fn parts(messages: &Value, key: &str) -> Vec<String> {
    let parts = |message: &Value| {
        let role = message["role"].clone();
        list(&message[key]).into_iter().map(move |part| format!("{role} {part}")).collect::<Vec<_>>()
    };
    list(messages).iter().flat_map(parts).collect()
}

/// The system message is cut into blocks where the cache is marked.
fn joined(system: &Value) -> String {
    match system {
        Value::String(text) => text.clone(),
        other => list(other).iter().filter_map(|it| it["text"].as_str()).collect(),
    }
}

fn unmark(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.shift_remove("cache_control");
            fields.values_mut().for_each(unmark);
        }
        Value::Array(values) => values.iter_mut().for_each(unmark),
        _ => {}
    }
}
