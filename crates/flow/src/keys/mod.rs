//! The keys of documents that runs share, and the names that nodes give to what they do once.

use std::time::Duration;

use contexture_history::Timestamp;
use contexture_session::{DocumentKey, Tenant};
use sha2::{Digest, Sha256};

pub(crate) mod run_id;

use self::run_id::RunId;

/// The kind of the documents that hold the flows of runs.
pub(crate) const DEFINITION: &str = "flow.definition";
/// The kind of the documents that hold what `cache` nodes remember.
pub(crate) const CACHE: &str = "flow.cache";

/// Returns the key of a flow's definition.
pub(crate) fn definition(tenant: &Tenant, fingerprint: &str) -> DocumentKey {
    DocumentKey::of_tenant(tenant, DEFINITION, fingerprint)
}

/// The beginning of the keys of firings.
const FIRING: &str = "flow-";

/// Names one firing of a node. Names of sessions and nodes may be long, idempotency keys may not.
pub(crate) fn firing_key(run: &RunId, node: &str, firing: u32) -> String {
    format!("{FIRING}{}", digest(&[&run.to_string(), node, &firing.to_string()]))
}

/// Whether a turn's idempotency key can be one of a node.
pub(crate) fn is_firing_key(key: &str) -> bool {
    key.starts_with(FIRING)
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

/// Whether it was written in this time counts as written just now: not every use costs a write.
pub(crate) const FRESH: Duration = Duration::from_secs(3600);

/// Returns the time so much before another one.
pub(crate) fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    Timestamp(at.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
