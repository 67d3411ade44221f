//! Splits a document into chunks: the elements of its long lists, each stored under its hash.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The paths of the long lists.
const LISTS: [[&str; 2]; 3] = [["request", "messages"], ["request", "tools"], ["explanation", "parts"]];

/// A chunk: its hash and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) hash: String,
    pub(crate) data: String,
}

/// Takes the elements of long lists out of a document; their hashes stay.
pub(crate) fn split(document: &mut Value) -> Vec<Chunk> {
    let mut chunks = BTreeMap::new();
    for list in LISTS {
        for element in elements(document, list) {
            let data = element.to_string();
            let hash = hash(&data);
            *element = Value::from(hash.as_str());
            chunks.insert(hash, data);
        }
    }
    chunks.into_iter().map(|(hash, data)| Chunk { hash, data }).collect()
}

/// Returns the hashes in a document.
pub(crate) fn hashes(document: &mut Value) -> Vec<String> {
    let mut hashes = Vec::new();
    for list in LISTS {
        hashes.extend(elements(document, list).filter_map(|it| it.as_str().map(str::to_owned)));
    }
    hashes.sort();
    hashes.dedup();
    hashes
}

/// Puts chunks back into their document. Returns the first hash that is missing.
pub(crate) fn join(document: &mut Value, chunks: &BTreeMap<String, String>) -> Result<(), String> {
    for list in LISTS {
        for element in elements(document, list) {
            let hash = element.as_str().unwrap_or_default().to_owned();
            let data = chunks.get(&hash).and_then(|it| serde_json::from_str(it).ok());
            *element = data.ok_or(hash)?;
        }
    }
    Ok(())
}

fn elements<'a>(document: &'a mut Value, [outer, inner]: [&str; 2]) -> impl Iterator<Item = &'a mut Value> {
    let list = document.get_mut(outer).and_then(|it| it.get_mut(inner)).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

/// Returns the hash of a text: 160 bits, as hex digits. Only the server stores texts under these hashes.
pub(crate) fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(20).map(|it| format!("{it:02x}")).collect()
}

/// Returns the start of a hash as a number: enough to distinguish texts, in a fifth of the memory.
pub(crate) fn short(hash: &str) -> u128 {
    hash.get(..32).and_then(|it| u128::from_str_radix(it, 16).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
    use serde_json::{Value, json};

    use super::{hashes, join, split};

    fn json_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec(("[a-z]{1,4}", inner), 0..4)
                    .prop_map(|it| Value::Object(it.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_document_is_the_same_bytes_after_it_was_in_pieces(
            messages in proptest::collection::vec(json_value(), 0..6),
            parts in proptest::collection::vec(json_value(), 0..6),
            rest in json_value(),
        ) {
            let document = json!({
                "request": {"model": "m", "messages": messages, "rest": rest},
                "explanation": {"parts": parts},
            });
            let mut stored_pass = document.clone();
            let chunks = split(&mut stored_pass);
            let mut stored_pass: Value = serde_json::from_str(&stored_pass.to_string()).unwrap();
            let known: Vec<String> = chunks.iter().map(|it| it.hash.clone()).collect();
            assert_eq!(hashes(&mut stored_pass), known);
            let chunks = chunks.into_iter().map(|it| (it.hash, it.data)).collect();
            join(&mut stored_pass, &chunks).unwrap();
            assert_eq!(stored_pass.to_string(), document.to_string());
        }
    }

    #[test]
    fn a_piece_that_is_gone_is_named() {
        let mut document = json!({"request": {"messages": ["abc"]}});
        assert_eq!(join(&mut document, &std::collections::BTreeMap::new()), Err("abc".to_owned()));
    }
}
