//! Recorded streams: each `streams/DIALECT/NAME.sse`, read frame by frame, gives the answer in `NAME.json`, or the error and
//! what may be kept. `UPDATE_GOLDEN=1` writes the expected files again.

use std::fs;

use contexture_message::{Answer, Citation, Delta, Part, ToolCall};
use contexture_wire::{Dialect, Frame, StreamDecoder, StreamEncoder, StreamError, Target};
use serde_json::{Value, json};

use super::golden::{check, files, folder, target};

/// Takes an event stream apart.
pub(crate) fn frames(sse: &str) -> Vec<Frame> {
    let mut frames = Vec::new();
    for block in sse.split("\n\n") {
        let field = |name: &str| {
            let values = block.lines().filter_map(|it| it.strip_prefix(name)?.strip_prefix(':'));
            values.map(str::trim_start).collect::<Vec<_>>()
        };
        if !field("data").is_empty() {
            let event = field("event").first().map(|it| (*it).to_owned());
            frames.push(Frame { event, data: field("data").join("\n") });
        }
    }
    frames
}

/// Reads a stream to its end; gives all pieces, the answer last.
pub(crate) fn read(target: &Target, frames: &[Frame]) -> Result<Vec<Delta>, StreamError> {
    read_into(&mut StreamDecoder::new(target), frames)
}

/// Returns the answer that a stream ended with.
pub(crate) fn answer(deltas: &[Delta]) -> &Answer {
    match deltas {
        [.., Delta::Done(answer)] => answer,
        _ => panic!("no answer at the end"),
    }
}

fn read_into(decoder: &mut StreamDecoder, frames: &[Frame]) -> Result<Vec<Delta>, StreamError> {
    let mut deltas = Vec::new();
    for frame in frames {
        deltas.extend(decoder.push(frame)?);
    }
    deltas.extend(decoder.finish()?);
    Ok(deltas)
}

fn report(target: &Target, sse: &str) -> Value {
    let mut decoder = StreamDecoder::new(target);
    match read_into(&mut decoder, &frames(sse)) {
        Ok(deltas) => {
            check_deltas(&deltas[..deltas.len() - 1], answer(&deltas));
            serde_json::to_value(answer(&deltas)).unwrap()
        }
        Err(err) => {
            let kind = match &err {
                StreamError::Provider(it) => format!("{:?}", it.kind),
                StreamError::Malformed(_) => "Malformed".to_owned(),
            };
            json!({"error": kind, "message": err.to_string(), "partial": decoder.partial()})
        }
    }
}

fn cited(part: &Part) -> &[Citation] {
    if let Part::Text { citations, .. } = part { citations } else { &[] }
}

/// The pieces give the same calls, citations and text as the whole.
fn check_deltas(deltas: &[Delta], answer: &Answer) {
    let (mut text, mut calls) = (String::new(), Vec::<(String, String)>::new());
    let mut citations = Vec::new();
    for delta in deltas {
        match delta {
            Delta::Text(more) => text.push_str(more),
            Delta::Thinking(_) => {}
            Delta::Citation(citation) => citations.push(citation.clone()),
            Delta::Call { index, name, .. } => {
                assert_eq!(*index, calls.len());
                calls.push((name.clone(), String::new()));
            }
            Delta::Arguments { index, json } => calls[*index].1.push_str(json),
            Delta::Done(_) => panic!("an answer is whole once"),
        }
    }
    assert_eq!(text, answer.joined_text());
    let whole: Vec<Citation> = answer.message.content.iter().flat_map(cited).cloned().collect();
    assert_eq!(citations, whole);
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
        for path in files(&folder("streams").join(dialect.as_str()), "sse") {
            let report = report(&target(dialect), &fs::read_to_string(&path).unwrap());
            check(&path.with_extension("json"), &(serde_json::to_string_pretty(&report).unwrap() + "\n"));
        }
    }
}

#[test]
fn citations_survive_a_stream_that_is_written_again() {
    let recorded = [
        (Dialect::Anthropic, "citations"),
        (Dialect::Openai, "annotations"),
        (Dialect::OpenaiResponses, "annotations"),
        (Dialect::Gemini, "grounding"),
    ];
    for (dialect, name) in recorded {
        let path = folder("streams").join(dialect.as_str()).join(name).with_extension("sse");
        let deltas = read(&target(dialect), &frames(&fs::read_to_string(path).unwrap())).unwrap();
        let whole = [deltas.last().unwrap().clone()];
        for deltas in [&deltas[..], &whole] {
            let mut encoder = StreamEncoder::new(&target(dialect));
            let frames: Vec<Frame> = deltas.iter().flat_map(|it| encoder.push(it)).collect();
            let again = read(&target(dialect), &frames).unwrap();
            assert_eq!(answer(&again).message, answer(deltas).message, "{dialect:?}");
        }
    }
}

#[test]
fn a_stream_may_be_cut_anywhere() {
    for dialect in Dialect::ALL {
        for path in files(&folder("streams").join(dialect.as_str()), "sse") {
            let frames = frames(&fs::read_to_string(&path).unwrap());
            let whole = read(&target(dialect), &frames).ok();
            for n_frames in 0..frames.len() {
                let mut decoder = StreamDecoder::new(&target(dialect));
                let read = read_into(&mut decoder, &frames[..n_frames]);
                let place = format!("{} cut after {n_frames} frames", path.display());
                if let Ok(deltas) = &read {
                    assert!(matches!(deltas.last(), Some(Delta::Done(_))), "{place}");
                }
                let partial = Answer { message: decoder.partial(), ..Answer::text("") };
                let is_whole = |it: &ToolCall| match &whole {
                    Some(deltas) => answer(deltas).calls().any(|own| own == it),
                    None => !it.arguments.is_string(),
                };
                assert!(partial.calls().all(is_whole), "{place}: half a call is kept");
            }
        }
    }
}
