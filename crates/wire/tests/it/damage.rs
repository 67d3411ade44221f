//! Damaged documents: something else in every place of every recorded one, one at a time. Whatever comes out, nothing
//! panics.

use std::fs;
use std::path::Path;

use contexture_message::Answer;
use contexture_wire::{Dialect, decode_answer, decode_request, encode_answer};
use serde_json::{Value, json};

use super::golden::{files, folder, target};
use super::streams::{frames, read};

#[test]
fn damaged_requests_are_refused_or_read() {
    for dialect in Dialect::ALL {
        for path in files(&folder("golden").join(dialect.as_str()), "json") {
            damaged(&document(&path), &mut |it| drop(decode_request(&target(dialect), it)));
        }
    }
}

#[test]
fn damaged_answers_are_refused_or_read() {
    for dialect in Dialect::ALL {
        let target = target(dialect);
        for path in files(&folder("streams").join(dialect.as_str()), "json") {
            let Ok(answer) = serde_json::from_value::<Answer>(document(&path)) else { continue };
            damaged(&encode_answer(&target, &answer).body, &mut |it| drop(decode_answer(&target, it)));
        }
    }
}

#[test]
fn damaged_streams_are_refused_or_read() {
    for dialect in Dialect::ALL {
        for path in files(&folder("streams").join(dialect.as_str()), "sse") {
            let frames = frames(&fs::read_to_string(&path).unwrap());
            for (at, frame) in frames.iter().enumerate() {
                // The end mark of OpenAI is none, and some streams break off in an error page.
                let Ok(body) = serde_json::from_str(&frame.data) else { continue };
                damaged(&body, &mut |it| {
                    let mut frames = frames.clone();
                    frames[at].data = it.to_string();
                    drop(read(&target(dialect), &frames));
                });
            }
        }
    }
}

fn document(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn damaged(body: &Value, check: &mut dyn FnMut(&Value)) {
    let mut paths = Vec::new();
    places(body, String::new(), &mut paths);
    for path in paths {
        for other in [Value::Null, json!(-1), json!("other"), json!([1]), json!([{}]), json!({"a": 1})] {
            let mut body = body.clone();
            *body.pointer_mut(&path).expect("the place is there") = other;
            check(&body);
        }
    }
}

fn places(value: &Value, at: String, paths: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, it)| places(it, format!("{at}/{index}"), paths));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(key, it)| places(it, format!("{at}/{key}"), paths));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    paths.push(at);
}
