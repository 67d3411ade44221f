//! Names that are the same each time a node is repeated.

use sha2::{Digest, Sha256};

use crate::run::RunId;

/// Names one firing of a node. Names of sessions and nodes may be long, idempotency keys may not.
pub(crate) fn firing_key(run: &RunId, node: &str, firing: u32) -> String {
    format!("flow-{}", digest(&[&run.to_string(), node, &firing.to_string()]))
}

/// Returns a short name for parts that may be long.
pub(crate) fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // The length parts them: no two lists of parts have the same bytes.
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(20).map(|byte| format!("{byte:02x}")).collect()
}
