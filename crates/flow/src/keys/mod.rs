//! The keys of everything that belongs to a run: two streams and a few documents, which are deleted with the session,
//! and data of the tenant: definitions, which runs share, and idempotency keys.

use std::time::Duration;

use contexture_history::Timestamp;
use contexture_session::{DocumentKey, StreamKey, Tenant};
use sha2::{Digest, Sha256};

pub(crate) mod run_id;

use self::run_id::RunId;

/// The kind of the documents that hold run records.
pub(crate) const RUN: &str = "flow.run";
/// The kind of the documents that say what waits for an answer.
pub(crate) const WAIT: &str = "flow.wait";
/// The kind of the documents that say which runs need a driver.
pub(crate) const DUE: &str = "flow.due";
/// The kind of the documents whose presence lets a driver write.
pub(crate) const FENCE: &str = "flow.fence";
/// The kind of the documents that hold the flows of runs.
pub(crate) const DEFINITION: &str = "flow.definition";
/// The kind of the documents that hold idempotency keys.
pub(crate) const START_KEY: &str = "flow.key";
/// The kind of the documents that say whose idempotency keys were freed.
pub(crate) const FREED: &str = "flow.freed";
/// The kind of the documents that hold what `cache` nodes remember.
pub(crate) const CACHE: &str = "flow.cache";

/// The keys of a run.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) tenant: Tenant,
    pub(crate) run: RunId,
}

impl Keys {
    pub(crate) fn log(&self) -> StreamKey {
        self.stream("log")
    }

    pub(crate) fn inbox(&self) -> StreamKey {
        self.stream("inbox")
    }

    fn stream(&self, kind: &str) -> StreamKey {
        StreamKey::of_session(&self.tenant, self.run.session(), &format!("flow.{kind}.{}", self.run.name()))
    }

    fn document(&self, kind: &str, name: String) -> DocumentKey {
        DocumentKey::of_session(&self.tenant, self.run.session(), kind, name)
    }

    pub(crate) fn run(&self) -> DocumentKey {
        self.document(RUN, self.run.name().to_owned())
    }

    pub(crate) fn fence(&self, epoch: u64) -> DocumentKey {
        self.document(FENCE, format!("{}/{epoch}", self.run.name()))
    }

    /// The prefix of all fences.
    pub(crate) fn fences(&self) -> DocumentKey {
        self.document(FENCE, format!("{}/", self.run.name()))
    }

    pub(crate) fn wait(&self, wait: &str) -> DocumentKey {
        self.document(WAIT, format!("{}/{wait}", self.run.name()))
    }

    /// Marks the run as needing a driver; its time is the driver's last heartbeat.
    pub(crate) fn due(&self) -> DocumentKey {
        self.document(DUE, self.run.name().to_owned())
    }

    /// Marks a message in the inbox: an answer or a cancellation.
    pub(crate) fn mark(&self, what: &str) -> DocumentKey {
        self.document(DUE, format!("{}/{what}", self.run.name()))
    }
}

/// Returns the key of a flow's definition.
pub(crate) fn definition(tenant: &Tenant, fingerprint: &str) -> DocumentKey {
    DocumentKey::of_tenant(tenant, DEFINITION, fingerprint)
}

/// Returns the key of an idempotency key.
pub(crate) fn start_key(tenant: &Tenant, key: &str) -> DocumentKey {
    DocumentKey::of_tenant(tenant, START_KEY, key)
}

/// Marks the idempotency key of a deleted run as freed.
pub(crate) fn freed(tenant: &Tenant, run: &RunId) -> DocumentKey {
    DocumentKey::of_tenant(tenant, FREED, run.to_string())
}

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

/// Whether it was written in this time counts as written just now: not every use costs a write.
pub(crate) const FRESH: Duration = Duration::from_secs(3600);

/// Returns the time so much before another one.
pub(crate) fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    Timestamp(at.0.saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}

/// The mark of the word to stop. It can't be the id of a wait, which has a dot.
pub(crate) const CANCEL: &str = "cancel";
