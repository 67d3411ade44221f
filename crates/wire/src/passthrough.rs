//! Settings that are only one provider's: passed through as they are.
//!
//! In comes a body and the author's `settings.provider`, out comes the body with its entries at the top. The rule, in
//! full:
//!
//! 1. An entry replaces the body's own; where both are objects, their entries are merged, one level deep.
//! 2. An object under the name of the target's provider or dialect holds entries for that one.
//! 3. An object under the name of another dialect is for somebody else and is skipped.
//!
//! [`wrap`] is the way back: what a decoder does not know comes under the dialect's name.

use serde_json::{Map, Value};

use crate::{Dialect, Target};

/// Merges the author's own entries into a body.
pub(crate) fn merge(body: &mut Map<String, Value>, target: &Target, own: &Map<String, Value>) {
    let dialect = target.dialect.as_str();
    for (key, value) in own {
        match value {
            Value::Object(entries) if *key == target.provider || key == dialect => {
                entries.iter().for_each(|(key, value)| put(body, key, value));
            }
            Value::Object(_) if Dialect::parse(key).is_some() => {}
            other => put(body, key, other),
        }
    }
}

fn put(body: &mut Map<String, Value>, key: &str, value: &Value) {
    match (body.get_mut(key), value) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            old.extend(new.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
        (_, value) => {
            body.insert(key.to_owned(), value.clone());
        }
    }
}

/// Returns the settings that pass the `left` fields of a body through to the same dialect.
pub(crate) fn wrap(dialect: Dialect, left: Map<String, Value>) -> Map<String, Value> {
    match left.is_empty() {
        true => Map::new(),
        false => Map::from_iter([(dialect.as_str().to_owned(), Value::Object(left))]),
    }
}
