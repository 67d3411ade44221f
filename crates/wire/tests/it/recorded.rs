//! Files that need no Rust to write: requests in neutral form with what is sent for them, and recorded streams with the
//! answers that they hold. `UPDATE_GOLDEN=1` writes what is expected anew; read it before you keep it.

use std::fs;
use std::path::{Path, PathBuf};

use contexture_message::{Answer, Delta, Request};
use contexture_wire::{
    Frame, StreamDecoder, StreamError, Target, decode_answer, decode_request, encode_answer, encode_request,
};
use serde_json::{Value, json};

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let entries = fs::read_dir(root).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries.map(|it| it.expect("it can be read").path()).collect();
    files.retain(|it| it.extension().is_some_and(|it| it == extension));
    files.sort();
    files
}

fn check(path: &Path, actual: &str) -> Option<String> {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, actual).expect("it can be written");
        return None;
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    (expected != actual).then(|| format!("{}:\n{actual}", path.display()))
}

fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("plain data") + "\n"
}

/// Writes every request of `golden/requests` and compares it with `golden/FOLDER/NAME.json`; the losses of all of them
/// are in `golden/FOLDER/losses.txt`.
pub(crate) fn requests(folder: &str, target: &Target) {
    let mut wrong = Vec::new();
    let mut losses = String::new();
    for path in files("golden/requests", "json") {
        let name = path.file_stem().and_then(|it| it.to_str()).expect("a plain name");
        let text = fs::read_to_string(&path).expect("it can be read");
        let request: Request = serde_json::from_str(&text).expect("a neutral request");
        let encoded = encode_request(target, &request);
        let golden = path.with_file_name(format!("../{folder}/{name}.json"));
        wrong.extend(check(&golden, &pretty(&encoded.body)));
        for loss in encoded.losses {
            losses.push_str(&format!("{name}: {}: {}\n", loss.at, loss.reason));
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{folder}/losses.txt"));
    wrong.extend(check(&path, &losses));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Reads the frames of an event stream.
pub(crate) fn frames(text: &str) -> Vec<Frame> {
    let blocks = text.split("\n\n").filter(|it| !it.trim().is_empty());
    let frame = |block: &str| {
        let field = |name: &str| block.lines().find_map(|it| it.strip_prefix(name)).map(str::trim_start);
        Frame {
            event: field("event:").map(str::to_owned),
            data: field("data:").unwrap_or_default().to_owned(),
        }
    };
    blocks.map(frame).collect()
}

/// Reads a whole stream; gives all pieces, the answer last.
pub(crate) fn read(target: &Target, frames: &[Frame]) -> Result<Vec<Delta>, StreamError> {
    let mut decoder = StreamDecoder::new(target);
    let mut deltas = Vec::new();
    for frame in frames {
        deltas.extend(decoder.push(frame)?);
    }
    deltas.extend(decoder.finish()?);
    Ok(deltas)
}

/// Returns the answer that a stream ended with.
pub(crate) fn answer(deltas: &[Delta]) -> &Answer {
    match deltas {
        [.., Delta::Done(answer)] => answer,
        _ => panic!("no answer at the end"),
    }
}

/// Reads every stream of `streams/FOLDER` and compares its answer with `NAME.json`. Cut anywhere, it is no answer, and
/// what arrived so far holds no half call.
pub(crate) fn streams(folder: &str, target: &Target) {
    let mut wrong = Vec::new();
    for path in files(&format!("streams/{folder}"), "sse") {
        let frames = frames(&fs::read_to_string(&path).expect("it can be read"));
        let deltas = read(target, &frames).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
        assert_eq!(deltas.iter().filter(|it| matches!(it, Delta::Done(_))).count(), 1, "{}", path.display());
        let answer = answer(&deltas);
        wrong.extend(check(&path.with_extension("json"), &pretty(answer)));
        for end in 0..frames.len() - 1 {
            cut_is_no_answer(target, &frames[..end], answer);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn cut_is_no_answer(target: &Target, frames: &[Frame], whole: &Answer) {
    let mut decoder = StreamDecoder::new(target);
    for frame in frames {
        let deltas = decoder.push(frame).expect("the stream is right so far");
        assert!(!deltas.iter().any(|it| matches!(it, Delta::Done(_))), "the answer came too early");
    }
    let err = decoder.finish().expect_err("the stream was cut");
    assert_eq!(err.to_string(), "stream: the stream ended before the answer was whole");
    let partial = Answer { message: decoder.partial(), ..whole.clone() };
    for call in partial.calls() {
        assert!(whole.calls().any(|it| it == call), "half a call: {call:?}");
    }
}

/// Puts something else in every place of every recorded document, one at a time. Whatever comes out, nothing panics.
pub(crate) fn damage(folder: &str, target: &Target) {
    for path in files(&format!("golden/{folder}"), "json") {
        let body = document(&path);
        damaged(&body, &mut |it| drop(decode_request(target, it)));
    }
    for path in files(&format!("streams/{folder}"), "sse") {
        let frames = frames(&fs::read_to_string(&path).expect("it can be read"));
        let answer: Answer =
            serde_json::from_value(document(&path.with_extension("json"))).expect("an answer");
        damaged(&encode_answer(target, &answer).body, &mut |it| drop(decode_answer(target, it)));
        for at in 0..frames.len() {
            let body: Value = serde_json::from_str(&frames[at].data).expect("JSON");
            damaged(&body, &mut |it| {
                let mut frames = frames.clone();
                frames[at].data = it.to_string();
                drop(read(target, &frames));
            });
        }
    }
}

fn document(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("it can be read")).expect("JSON")
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

/// Checks that a request that goes on leaves what was sent before alone, up to the last turn.
pub(crate) fn goes_on(target: &Target, request: &Request, list: &str) -> bool {
    let turn = |it: &&usize| request.messages[**it].role == contexture_message::Role::User;
    let Some(start) = (1..request.messages.len()).collect::<Vec<_>>().iter().rev().find(turn).copied() else {
        return true;
    };
    let before = Request { messages: request.messages[..start].to_vec(), ..request.clone() };
    let (before, after) = (encode_request(target, &before).body, encode_request(target, request).body);
    let (before, after) = (before[list].as_array().expect("a list"), after[list].as_array().expect("a list"));
    let stable = before.len().saturating_sub(1);
    after.len() >= stable && before[..stable] == after[..stable]
}

/// Whether `marker` stands in any text of a body outside the fields that hold bytes.
pub(crate) fn shows(body: &Value, marker: &str) -> bool {
    match body {
        Value::String(text) => text.contains(marker),
        Value::Array(items) => items.iter().any(|it| shows(it, marker)),
        Value::Object(fields) => {
            let holds_bytes =
                fields.get("type").is_some_and(|it| it == "base64") || fields.contains_key("mimeType");
            let shown = fields.iter().filter(|(key, _)| !(holds_bytes && *key == "data"));
            shown.into_iter().any(|(_, it)| shows(it, marker))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
