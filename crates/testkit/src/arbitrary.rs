//! Arbitrary data for property tests.

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use serde_json::{Map, Value};

/// Any text, with what is special to tags, templates and tokenizers more often than by chance.
pub fn text() -> impl Strategy<Value = String> {
    let special = prop_oneof![
        Just("<".to_owned()),
        Just("</".to_owned()),
        Just("&".to_owned()),
        Just("<system-reminders>".to_owned()),
        Just("</ System-Context x=1>".to_owned()),
        Just("{{ input.a }}".to_owned()),
        Just("{% if".to_owned()),
        Just("\n\n".to_owned()),
        Just("\r\n".to_owned()),
        Just("  ".to_owned()),
        Just("/".to_owned()),
        Just("漢字".to_owned()),
        Just("😀".to_owned()),
        "[a-zA-Z0-9 .,]{0,12}",
        any::<String>(),
    ];
    vec(special, 0..8).prop_map(|pieces| pieces.concat())
}

/// Text of words, lines and sentences.
pub fn prose() -> impl Strategy<Value = String> {
    vec("[a-z]{1,8}[.,!?]?", 0..40).prop_map(|words| {
        let joined = words.chunks(7).map(|line| line.join(" ")).collect::<Vec<_>>();
        joined.join("\n")
    })
}

/// Any JSON of moderate size.
pub fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("JSON has no infinities", |it| {
            serde_json::Number::from_f64(it).map(Value::Number)
        }),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![vec(inner.clone(), 0..6).prop_map(Value::Array), object(inner).prop_map(Value::Object)]
    })
}

/// An object with keys that authors might write, good and bad.
pub fn object(values: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    let key = prop_oneof![
        "[a-c]",
        "[a-zA-Z][a-zA-Z0-9_-]{0,6}",
        Just("role".to_owned()),
        Just("content".to_owned()),
        Just("#text".to_owned()),
        Just("@id".to_owned()),
        Just("system".to_owned()),
        text(),
    ];
    vec((key, values), 0..6).prop_map(|pairs| pairs.into_iter().collect())
}
