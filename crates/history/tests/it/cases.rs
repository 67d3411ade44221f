//! The cases of `cases/window.json`, on the level of the library.

use std::sync::Arc;

use contexture_history::{Limit, group_turns, window};
use contexture_message::{Encoding, Message, Tokens};
use serde_json::{Value, json};

use crate::properties::n_unpaired;

/// Runs a transcript through a window, as `contexture window --json` shows it.
fn windowed(transcript: &Value, args: &Value) -> Value {
    let lines = transcript.as_array().into_iter().flatten().cloned();
    let messages = lines.map(|mut line| {
        let id = line.as_object_mut().and_then(|it| it.shift_remove("turn"));
        let id = id.and_then(|it| it.as_str().map(str::to_owned));
        (id, serde_json::from_value::<Message>(line).expect("a message"))
    });
    let turns = group_turns(messages).turns;
    let count = || args[1].as_str().and_then(|it| it.parse().ok()).expect("a number");
    let limit = match args[0].as_str() {
        Some("--turns") => Limit::Turns(usize::try_from(count()).expect("small")),
        Some("--tokens") => Limit::Tokens(Tokens(count())),
        other => panic!("unknown argument {other:?}"),
    };
    let window = window(&turns, Some(limit), &Encoding::O200kBase);
    let repaired = window.messages();
    json!({
        "turns": window.kept().map(|it| &**it.id()).collect::<Vec<_>>(),
        "n_messages": repaired.messages.len(),
        "roles": repaired.messages.iter().map(|it| it.role.as_str()).collect::<Vec<_>>(),
        "n_repairs": repaired.repairs.len(),
        "n_unpaired": n_unpaired(&repaired.messages.iter().map(Arc::as_ref).collect::<Vec<_>>()),
    })
}

#[test]
fn every_case_comes_out_as_expected() {
    let file: Value =
        serde_json::from_str(include_str!("../../../../cases/window.json")).expect("the file is JSON");
    let cases = file["cases"].as_array().expect("a list of cases");
    assert!(!cases.is_empty());
    for case in cases {
        let shown = windowed(&case["transcript"], &case["args"]);
        assert_eq!(shown["n_unpaired"], 0, "{}", case["name"]);
        for (key, expected) in case["expect"].as_object().expect("expectations") {
            assert_eq!(&shown[key], expected, "{} {key}", case["name"]);
        }
    }
}
