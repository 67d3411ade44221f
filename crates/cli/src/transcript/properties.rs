//! Properties that hold for every transcript and every limit.

use std::collections::BTreeMap;

use contexture_history::Limit;
use contexture_message::{Encoding, Tokens};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Value, json};

use super::{Format, Transcript};

/// A part of a message, independent of the format.
#[derive(Clone, Debug)]
enum Bit {
    Text(&'static str),
    Call(&'static str),
    Result(&'static str),
}

#[derive(Clone, Debug)]
struct Line {
    role: &'static str,
    bits: Vec<Bit>,
    turn: Option<u8>,
}

fn ids() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("c")]
}

fn bits() -> impl Strategy<Value = Bit> {
    prop_oneof![
        prop_oneof![Just("hello there"), Just(" "), Just("x")].prop_map(Bit::Text),
        ids().prop_map(Bit::Call),
        ids().prop_map(Bit::Result),
    ]
}

fn lines() -> impl Strategy<Value = Vec<Line>> {
    let role = prop_oneof![Just("user"), Just("assistant"), Just("assistant"), Just("tool"), Just("system")];
    let bits = proptest::collection::vec(bits(), 0..4);
    let line = (role, bits, proptest::option::of(0u8..3));
    proptest::collection::vec(line.prop_map(|(role, bits, turn)| Line { role, bits, turn }), 0..9)
}

fn limits() -> impl Strategy<Value = Option<Limit>> {
    prop_oneof![
        Just(None),
        (0usize..4).prop_map(|it| Some(Limit::Turns(it))),
        (0u32..60).prop_map(|it| Some(Limit::Tokens(Tokens(it)))),
    ]
}

/// Writes a message in a format, as several messages where the format requires it.
fn written(format: Format, line: &Line, has_turns: bool) -> Vec<Value> {
    match format {
        Format::Neutral => vec![neutral(line, has_turns)],
        Format::Openai => openai(line),
        Format::Anthropic => vec![anthropic(line)],
    }
}

fn neutral(line: &Line, has_turns: bool) -> Value {
    let part = |bit: &Bit| match bit {
        Bit::Text(text) => json!({"type": "text", "text": text}),
        Bit::Call(id) => json!({"type": "tool_call", "id": id, "name": "find", "arguments": {}}),
        Bit::Result(id) => {
            json!({"type": "tool_result", "call_id": id, "output": {"type": "text", "value": "found"}})
        }
    };
    let may_hold = |bit: &&Bit| line.role != "system" || matches!(bit, Bit::Text(_));
    let content: Vec<Value> = line.bits.iter().filter(may_hold).map(part).collect();
    match line.turn.filter(|_| has_turns) {
        Some(turn) => json!({"role": line.role, "content": content, "turn": turn, "extra": 1}),
        None => json!({"role": line.role, "content": content, "extra": 1}),
    }
}

fn openai(line: &Line) -> Vec<Value> {
    let results = line.bits.iter().filter_map(|bit| match bit {
        Bit::Result(id) => Some(json!({"role": "tool", "tool_call_id": id, "content": "found"})),
        _ => None,
    });
    let texts: String =
        line.bits.iter().filter_map(|bit| if let Bit::Text(it) = bit { Some(*it) } else { None }).collect();
    let calls: Vec<Value> = line
        .bits
        .iter()
        .filter_map(|bit| match bit {
            Bit::Call(id) => {
                Some(json!({"id": id, "type": "function", "function": {"name": "find", "arguments": "{}"}}))
            }
            _ => None,
        })
        .collect();
    match line.role {
        "tool" => results.collect(),
        "assistant" if !calls.is_empty() => {
            vec![json!({"role": "assistant", "content": texts, "tool_calls": calls})]
        }
        role => vec![json!({"role": role, "content": texts})],
    }
}

fn anthropic(line: &Line) -> Value {
    let role = if matches!(line.role, "assistant") { "assistant" } else { "user" };
    let block = |bit: &Bit| match (bit, role) {
        (Bit::Call(id), "assistant") => json!({"type": "tool_use", "id": id, "name": "find", "input": {}}),
        (Bit::Result(id), "user") => json!({"type": "tool_result", "tool_use_id": id, "content": "found"}),
        (Bit::Text(text), _) => json!({"type": "text", "text": text}),
        (Bit::Call(_) | Bit::Result(_), _) => json!({"type": "text", "text": "other"}),
    };
    json!({"role": role, "content": line.bits.iter().map(block).collect::<Vec<_>>()})
}

fn text(format: Format, lines: &[Line], has_turns: bool, as_list: bool) -> String {
    let messages: Vec<Value> = lines.iter().flat_map(|it| written(format, it, has_turns)).collect();
    match as_list {
        true => Value::Array(messages).to_string(),
        false => messages.iter().map(Value::to_string).collect::<Vec<_>>().join("\n"),
    }
}

/// Returns the parts of a message in any format, each marked as a call (`+id`), a result (`-id`) or other content.
fn marks(message: &Value) -> Vec<String> {
    let id = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if message["role"] == "tool" && message.get("tool_call_id").is_some() {
        return vec![format!("-{}", id(&message["tool_call_id"]))];
    }
    let part = |part: &Value| match part["type"].as_str() {
        Some("tool_call" | "tool_use") => format!("+{}", id(&part["id"])),
        Some("tool_result") => format!("-{}{}", id(&part["call_id"]), id(&part["tool_use_id"])),
        _ => "text".to_owned(),
    };
    let content = message["content"].as_array().into_iter().flatten().map(part);
    let calls =
        message["tool_calls"].as_array().into_iter().flatten().map(|it| format!("+{}", id(&it["id"])));
    content.chain(calls).collect()
}

/// Counts calls and results whose counterpart does not directly follow or precede.
fn n_unpaired(format: Format, messages: &[Value]) -> usize {
    let mut open: BTreeMap<String, usize> = BTreeMap::new();
    let mut n_unpaired = 0;
    let mut n_answering = 0;
    for message in messages {
        let marks = marks(message);
        let mut is_front = true;
        for mark in &marks {
            let (kind, id) = mark.split_at(1);
            match kind {
                // Anthropic requires all results in one message.
                "-" if is_front && (format != Format::Anthropic || n_answering == 0) => {
                    match open.get_mut(id) {
                        Some(count) if *count > 0 => *count -= 1,
                        _ => n_unpaired += 1,
                    }
                }
                "-" => n_unpaired += 1,
                _ => {
                    if std::mem::take(&mut is_front) {
                        n_unpaired += open.values().sum::<usize>();
                        open.clear();
                    }
                    if kind == "+" {
                        *open.entry(id.to_owned()).or_default() += 1;
                    }
                }
            }
        }
        n_answering = if is_front { n_answering + 1 } else { 0 };
        if marks.is_empty() {
            n_unpaired += open.values().sum::<usize>();
            open.clear();
        }
    }
    n_unpaired + open.values().sum::<usize>()
}

fn parsed(messages: &[super::Json<'_>]) -> Vec<Value> {
    messages.iter().filter_map(|it| serde_json::from_str(it.get()).ok()).collect()
}

proptest! {
    #[test]
    fn calls_and_results_are_paired_in_every_format(
        lines in lines(), limit in limits(), has_turns: bool, as_list: bool
    ) {
        for format in [Format::Neutral, Format::Openai, Format::Anthropic] {
            let text = text(format, &lines, has_turns, as_list);
            // Only a turn that resumes after another one is refused.
            let Ok(transcript) = Transcript::read(&text, "chat", Some(format)) else {
                prop_assert!(format == Format::Neutral && has_turns, "{text}");
                continue;
            };
            let windowed = transcript.window(limit, &Encoding::O200kBase);
            let messages = parsed(&windowed.messages);
            prop_assert_eq!(n_unpaired(format, &messages), 0, "{:?} {}\n{}", limit, text, windowed.text);

            let again = Transcript::read(&windowed.text, "again", Some(format));
            prop_assert!(again.is_ok(), "{:?} {text}\n{}", again.err(), windowed.text);
            let Ok(again) = again else { continue };
            let again = again.window(None, &Encoding::O200kBase);
            prop_assert!(again.repairs.is_empty(), "{:?} {text}\n{}", again.repairs, windowed.text);
            if again.dropped.is_empty() {
                prop_assert_eq!(&again.text, &windowed.text);
                prop_assert_eq!(again.tokens, windowed.tokens, "{:?} {}\n{}", format, text, windowed.text);
            }
        }
    }

    #[test]
    fn what_was_not_repaired_is_printed_as_it_came(lines in lines(), has_turns: bool) {
        for format in [Format::Neutral, Format::Openai, Format::Anthropic] {
            let text = text(format, &lines, has_turns, false);
            let Ok(transcript) = Transcript::read(&text, "chat", Some(format)) else { continue };
            let windowed = transcript.window(None, &Encoding::O200kBase);
            let came: Vec<&str> = text.lines().collect();
            if windowed.repairs.is_empty() && format != Format::Anthropic {
                prop_assert!(windowed.messages.iter().all(|it| came.contains(&it.get())), "{}", windowed.text);
            }
        }
    }

    #[test]
    fn no_text_does_any_harm(text in "\\PC*", more in any::<String>()) {
        for text in [&text, &more] {
            let _ = Transcript::read(text, "chat", None);
        }
    }

    #[test]
    fn a_torn_transcript_is_an_error_or_shorter(lines in lines(), cut in 0usize..400, as_list: bool) {
        for format in [Format::Neutral, Format::Openai, Format::Anthropic] {
            let text = text(format, &lines, true, as_list);
            let torn = text.get(..cut.min(text.len())).unwrap_or_default();
            if let Ok(transcript) = Transcript::read(torn, "chat", None) {
                let _ = transcript.window(Some(Limit::Turns(1)), &Encoding::O200kBase);
            }
        }
    }
}
