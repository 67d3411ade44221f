//! The current state of a log.

use std::sync::Arc;

use contexture_history::{Seq, Timestamp, TurnNo};
use contexture_session::{
    Fence, ForkPoint, KeyedTurn, Lease, LogHead, LogKind, SessionId, StoreError, Tenant, ThreadId,
    ThreadInfo, ThreadKey, codec,
};
use tokio_postgres::Row;

use crate::database::Database;
use crate::failure::Failure;
use crate::numbers::{from_sql, number};

/// The columns of a [`LogHead`].
const HEAD: &str = "\
    tenant, thread, session, kind, label, base_thread, base_seq, created, updated, end_seq, turns, state,
    lease_owner, lease_fence, lease_until > clock_timestamp() AS is_live";

const OF_LOG: &str = "SELECT {head} FROM {schema}.logs WHERE tenant = $1 AND thread = $2";

const TURN: &str = "\
    SELECT turn.turn, turn.began FROM {schema}.logs AS log
    LEFT JOIN {schema}.turn_keys AS turn ON turn.tenant = $1 AND turn.thread = $2 AND turn.key_hash = $3
    WHERE log.tenant = $1 AND log.thread = $2";

impl Database {
    pub(crate) async fn head(&self, key: &ThreadKey) -> Result<Option<LogHead>, StoreError> {
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        Ok(self.select(&with_columns(OF_LOG), &[&tenant, &thread], log_head).await?.pop())
    }

    pub(crate) async fn turn_with_key(
        &self,
        key: &ThreadKey,
        idempotency_key: &str,
    ) -> Result<Option<KeyedTurn>, StoreError> {
        let hash = codec::blob_hash(idempotency_key);
        let keyed = |row: &Row| {
            let (turn, began): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
            let keyed =
                |(turn, began)| KeyedTurn { turn: TurnNo(from_sql(turn)), began: Seq(from_sql(began)) };
            Ok(turn.zip(began).map(keyed))
        };
        let found = self.select(TURN, &[&key.tenant.as_str(), &key.thread.as_str(), &hash], keyed).await?;
        found.into_iter().next().ok_or_else(|| StoreError::no_thread(&key.thread))
    }
}

/// Fills in the columns of a log.
pub(crate) fn with_columns(text: &str) -> String {
    text.replace("{head}", HEAD)
}

/// Reads the columns [`HEAD`].
pub(crate) fn log_head(row: &Row) -> Result<LogHead, Failure> {
    let base: Option<String> = row.try_get("base_thread")?;
    let base_seq: Option<i64> = row.try_get("base_seq")?;
    let base = base.map(ThreadId::parse).transpose()?.zip(base_seq);
    let kind: &str = row.try_get("kind")?;
    let info = ThreadInfo {
        thread: ThreadId::parse(row.try_get::<_, String>("thread")?)?,
        session: SessionId::parse(row.try_get::<_, String>("session")?)?,
        kind: LogKind::parse(kind).ok_or_else(|| Failure::Damaged(format!("a log of kind `{kind}`")))?,
        label: row.try_get("label")?,
        base: base.map(|(thread, seq)| ForkPoint { thread, seq: Seq(from_sql(seq)) }),
        created: Timestamp(row.try_get("created")?),
        updated: Timestamp(row.try_get("updated")?),
        items: number(row, "end_seq")?,
        turns: number(row, "turns")?,
    };
    let owner: Option<&str> = row.try_get("lease_owner")?;
    let (fence, live) = (Fence(number(row, "lease_fence")?), row.try_get::<_, Option<bool>>("is_live")?);
    let lease = owner.map(|it| Lease { owner: Arc::from(it), fence, live: live.unwrap_or(false) });
    Ok(LogHead {
        tenant: Tenant::parse(row.try_get::<_, String>("tenant")?)?,
        info,
        state: row.try_get("state")?,
        lease,
    })
}

/// Reads the columns `tenant` and `thread`.
pub(crate) fn thread_key(row: &Row) -> Result<ThreadKey, Failure> {
    Ok(ThreadKey {
        tenant: Tenant::parse(row.try_get::<_, String>("tenant")?)?,
        thread: ThreadId::parse(row.try_get::<_, String>("thread")?)?,
    })
}
