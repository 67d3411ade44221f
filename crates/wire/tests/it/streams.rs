//! Recorded streams: each `streams/DIALECT/NAME.sse`, read frame by frame, gives the answer in `NAME.json`, or the error and
//! what may be kept. `UPDATE_GOLDEN=1` writes the expected files again.

use std::fs;

use contexture_message::{Answer, Delta};
use contexture_wire::{Dialect, Frame, StreamDecoder, StreamError, Target};
use serde_json::{Value, json};

use super::golden::{check, files, folder, target};

/// Takes an event stream apart.
fn frames(sse: &str) -> Vec<Frame> {
    let mut frames = Vec::new();
    for block in sse.split("\n\n") {
        let field = |name: &str| {
            let values = block.lines().filter_map(|it| it.strip_prefix(name)?.strip_prefix(": "));
            values.collect::<Vec<_>>()
        };
        if !field("data").is_empty() {
            let event = field("event").first().map(|it| (*it).to_owned());
            frames.push(Frame { event, data: field("data").join("\n") });
        }
    }
    frames
}

/// Reads a stream to its end. The only caller of the decoder here.
fn read(target: &Target, frames: &[Frame]) -> (Vec<Delta>, Result<(), StreamError>, Value) {
    let mut decoder = StreamDecoder::new(target);
    let mut deltas = Vec::new();
    let mut result = Ok(());
    for frame in frames {
        match decoder.push(frame) {
            Ok(more) => deltas.extend(more),
            Err(err) => {
                result = Err(err);
                break;
            }
        }
    }
    if result.is_ok() {
        result = decoder.finish().map(|more| deltas.extend(more));
    }
    let partial = serde_json::to_value(decoder.partial()).unwrap();
    (deltas, result, partial)
}

fn report(target: &Target, sse: &str) -> Value {
    let (mut deltas, result, partial) = read(target, &frames(sse));
    if let Err(err) = result {
        let kind = match &err {
            StreamError::Provider(it) => format!("{:?}", it.kind),
            StreamError::Malformed(_) => "Malformed".to_owned(),
        };
        return json!({"error": kind, "message": err.to_string(), "partial": partial});
    }
    let Some(Delta::Done(answer)) = deltas.pop() else { panic!("no whole answer at the end") };
    check_deltas(&deltas, &answer);
    serde_json::to_value(*answer).unwrap()
}

/// The pieces give the same calls and the same text as the whole.
fn check_deltas(deltas: &[Delta], answer: &Answer) {
    let (mut text, mut calls) = (String::new(), Vec::<(String, String)>::new());
    for delta in deltas {
        match delta {
            Delta::Text(more) => text.push_str(more),
            Delta::Thinking(_) => {}
            Delta::Call { index, name, .. } => {
                assert_eq!(*index, calls.len());
                calls.push((name.clone(), String::new()));
            }
            Delta::Arguments { index, json } => calls[*index].1.push_str(json),
            Delta::Done(_) => panic!("an answer is whole once"),
        }
    }
    assert_eq!(text, answer.joined_text());
    let streamed = calls.iter().map(|(name, json)| {
        let json = if json.is_empty() { "{}" } else { json };
        (name.clone(), serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.to_owned())))
    });
    let whole = answer.calls().map(|it| (it.name.clone(), it.arguments.clone()));
    assert_eq!(streamed.collect::<Vec<_>>(), whole.collect::<Vec<_>>());
}

#[test]
fn recorded_streams_give_their_answers() {
    for dialect in Dialect::ALL {
        let folder = folder("streams").join(dialect.as_str());
        if !folder.exists() {
            continue;
        }
        for path in files(&folder, "sse") {
            let report = report(&target(dialect), &fs::read_to_string(&path).unwrap());
            check(&path.with_extension("json"), &(serde_json::to_string_pretty(&report).unwrap() + "\n"));
        }
    }
}

#[test]
fn a_stream_may_be_cut_anywhere() {
    for dialect in [Dialect::Openai, Dialect::OpenaiResponses] {
        for path in files(&folder("streams").join(dialect.as_str()), "sse") {
            let frames = frames(&fs::read_to_string(&path).unwrap());
            for n_frames in 0..frames.len() {
                let (deltas, result, partial) = read(&target(dialect), &frames[..n_frames]);
                let whole = matches!(deltas.last(), Some(Delta::Done(_)));
                assert_eq!(whole, result.is_ok(), "{} cut after {n_frames} frames", path.display());
                let parts = partial["content"].as_array().cloned().unwrap_or_default();
                let half = |it: &Value| it["type"] == "tool_call" && it["arguments"].is_string();
                assert!(!parts.iter().any(half), "{}: half a call is kept", path.display());
            }
        }
    }
}
