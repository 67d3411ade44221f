//! Golden requests and answers: each of `golden/requests` and `golden/answers` in each dialect, byte for byte.
//!
//! `UPDATE_GOLDEN=1` writes the expected files again. A dialect takes part if it has a folder; the losses of all its files
//! are in `losses.txt`.

use std::fs;
use std::path::{Path, PathBuf};

use contexture_message::{Answer, Delta, Request};
use contexture_wire::{Dialect, Frame, Loss, StreamEncoder, Target, encode_answer, encode_request};
use serde_json::Value;

/// Returns the folder of tests with that name.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Returns the files of a folder that end so, in order.
pub(crate) fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|it| it.extension().is_some_and(|it| it == extension)).collect();
    files.sort();
    files
}

/// Returns the target that golden files are written for.
pub(crate) fn target(dialect: Dialect) -> Target {
    match dialect {
        Dialect::Openai | Dialect::OpenaiResponses => Target::new(dialect, "openai", "gpt-5-mini"),
        Dialect::Anthropic => Target::new(dialect, "anthropic", "claude-sonnet-4-5"),
        Dialect::Gemini => Target::new(dialect, "gemini", "gemini-2.5-flash"),
    }
}

/// Holds `actual` against a file, or writes it there.
pub(crate) fn check(path: &Path, actual: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        if actual.is_empty() {
            let _ = fs::remove_file(path);
        } else {
            fs::write(path, actual).unwrap();
        }
    }
    let expected = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(actual, expected, "{} differs; `UPDATE_GOLDEN=1` writes it again", path.display());
}

fn lines(name: &str, losses: &[Loss]) -> String {
    losses.iter().map(|it| format!("{name}: {}: {}\n", it.at, it.reason)).collect()
}

fn name(path: &Path) -> &str {
    path.file_stem().unwrap().to_str().unwrap()
}

#[test]
fn golden_requests_are_written_byte_for_byte() {
    let requests = files(&folder("golden/requests"), "json");
    for dialect in Dialect::ALL {
        let folder = folder("golden").join(dialect.as_str());
        if !folder.exists() {
            continue;
        }
        let mut losses = String::new();
        for path in &requests {
            let request: Request = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
            let encoded = encode_request(&target(dialect), &request);
            let body = serde_json::to_string_pretty(&encoded.body).unwrap() + "\n";
            check(&folder.join(name(path)).with_extension("json"), &body);
            losses += &lines(name(path), &encoded.losses);
        }
        check(&folder.join("losses.txt"), &losses);
    }
}

#[test]
fn golden_answers_are_written_byte_for_byte() {
    let answers = files(&folder("golden/answers"), "json");
    for dialect in Dialect::ALL {
        let folder = folder("golden").join(dialect.as_str()).join("answers");
        if !folder.exists() {
            continue;
        }
        let mut losses = String::new();
        for path in &answers {
            let answer: Answer = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
            let encoded = encode_answer(&target(dialect), &answer);
            let body = serde_json::to_string_pretty(&encoded.body).unwrap() + "\n";
            let frames = StreamEncoder::new(&target(dialect)).push(&Delta::Done(Box::new(answer)));
            let sse: String = frames.iter().map(Frame::to_sse).collect();
            check(&folder.join(name(path)).with_extension("json"), &body);
            check(&folder.join(name(path)).with_extension("sse"), &sse);
            losses += &lines(name(path), &encoded.losses);
        }
        check(&folder.join("losses.txt"), &losses);
    }
}

#[test]
fn base64_is_never_text() {
    for dialect in Dialect::ALL {
        for path in files(&folder("golden").join(dialect.as_str()), "json") {
            let body = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            for marker in ["iVBORw0KGgo", "JVBERi0x"] {
                assert!(!shows(&body, marker), "{} shows base64", path.display());
            }
        }
    }
}

/// Whether `marker` stands in any text of a body outside the fields that hold bytes.
pub(crate) fn shows(body: &Value, marker: &str) -> bool {
    match body {
        Value::String(text) => text.contains(marker),
        Value::Array(items) => items.iter().any(|it| shows(it, marker)),
        Value::Object(fields) => {
            let holds_data =
                fields.get("type").is_some_and(|it| it == "base64") || fields.contains_key("mimeType");
            let holds = |key: &str| match key {
                "data" => holds_data,
                key => ["url", "file_data", "image_url"].contains(&key),
            };
            fields.iter().any(|(key, it)| !(it.is_string() && holds(key)) && shows(it, marker))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
