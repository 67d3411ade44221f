//! Knowledge bases: documents, their chunks, and the index of these.

pub(crate) mod base;
pub(crate) mod read;
pub(crate) mod search;
pub(crate) mod vectors;
pub(crate) mod write;

use contexture_session::{BaseKey, codec};

use crate::failure::Failure;

/// Returns a stored text.
fn text(bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|err| Failure::Damaged(format!("a text of a knowledge base: {err}")))
}

/// Returns a stored JSON value.
fn json<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes)
        .map_err(|err| Failure::Damaged(format!("a value of a knowledge base: {err}")))
}

/// Returns the number that stands in front of the terms of a base. Two bases may share one: every statement names the
/// base besides.
fn collection(key: &BaseKey) -> i64 {
    let hash = codec::blob_hash(&format!("{}/{}", key.tenant.as_str(), key.base.as_str()));
    hash.get(..9).and_then(|it| i64::from_str_radix(it, 16).ok()).unwrap_or(0)
}
