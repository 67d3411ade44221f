//! Provider-specific settings, passed through unchanged.
//!
//! [`merge`] adds the entries of the author's `settings.provider` to the top level of a body. The rule, in full:
//!
//! 1. An entry replaces the body's entry; if both are objects, their entries are merged, one level deep.
//! 2. An object under the name of the target's provider or dialect holds entries for that one.
//! 3. An object under the name of another dialect is skipped.
//!
//! [`wrap`] is the reverse: it puts fields that a decoder does not know under the dialect's name.

use serde_json::{Map, Value};

use crate::{Dialect, Target};

/// Merges the author's entries into a body.
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

/// Returns settings that pass the fields in `left` through to the same dialect.
pub(crate) fn wrap(dialect: Dialect, left: Map<String, Value>) -> Map<String, Value> {
    match left.is_empty() {
        true => Map::new(),
        false => Map::from_iter([(dialect.as_str().to_owned(), Value::Object(left))]),
    }
}
