//! The current state of a thread.

use std::sync::Arc;

use contexture_history::{Seq, Timestamp, TurnNo};
use contexture_session::{
    Fence, ForkPoint, Head, KeyedTurn, Lease, SessionId, StoreError, ThreadId, ThreadInfo, ThreadKey,
    ThreadKind, codec,
};
use tokio_postgres::Row;

use crate::database::Database;
use crate::failure::Failure;
use crate::numbers::from_sql;

/// The columns of a [`ThreadInfo`].
pub(crate) const INFO: &str =
    "thread, session, main, label, base_thread, base_seq, created, updated, end_seq, turns";

const HEAD: &str = "\
    SELECT {info}, state, lease_owner, lease_fence, lease_until > clock_timestamp()
    FROM {schema}.threads WHERE tenant = $1 AND thread = $2";

const END: &str = "SELECT end_seq FROM {schema}.threads WHERE tenant = $1 AND thread = $2";

const TURN: &str = "\
    SELECT turn.turn, turn.began FROM {schema}.threads AS thread
    LEFT JOIN {schema}.turn_keys AS turn ON turn.tenant = $1 AND turn.thread = $2 AND turn.key_hash = $3
    WHERE thread.tenant = $1 AND thread.thread = $2";

impl Database {
    pub(crate) async fn head(&self, key: &ThreadKey) -> Result<Option<Head>, StoreError> {
        let (tenant, thread) = (&key.tenant.as_str(), &key.thread.as_str());
        self.run(|client, _| async move {
            let sql = self.sql(&HEAD.replace("{info}", INFO));
            let row = client.query_opt(&client.prepare_cached(&sql).await?, &[tenant, thread]).await?;
            row.map(|it| head(&it)).transpose()
        })
        .await
    }

    /// Returns where a log ends; nothing if there is none.
    pub(crate) async fn end(&self, key: &ThreadKey) -> Result<Option<Seq>, StoreError> {
        let (tenant, thread) = (&key.tenant.as_str(), &key.thread.as_str());
        self.run(|client, _| async move {
            let statement = client.prepare_cached(&self.sql(END)).await?;
            let row = client.query_opt(&statement, &[tenant, thread]).await?;
            let end: Option<i64> = row.map(|it| it.try_get(0)).transpose()?;
            Ok(end.map(|it| Seq(from_sql(it))))
        })
        .await
    }

    pub(crate) async fn turn_with_key(
        &self,
        key: &ThreadKey,
        idempotency_key: &str,
    ) -> Result<Option<KeyedTurn>, StoreError> {
        let (tenant, thread) = (&key.tenant.as_str(), &key.thread.as_str());
        let hash = &codec::blob_hash(idempotency_key);
        self.run(|client, _| async move {
            let statement = client.prepare_cached(&self.sql(TURN)).await?;
            let row = client.query_opt(&statement, &[tenant, thread, hash]).await?;
            let row = row.ok_or_else(|| StoreError::no_thread(&key.thread))?;
            let (turn, began): (Option<i64>, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
            let keyed =
                |(turn, began)| KeyedTurn { turn: TurnNo(from_sql(turn)), began: Seq(from_sql(began)) };
            Ok(turn.zip(began).map(keyed))
        })
        .await
    }
}

fn head(row: &Row) -> Result<Head, Failure> {
    let info = thread_info(row)?;
    let state: &str = row.try_get("state")?;
    let state = serde_json::from_str(state)
        .map_err(|err| Failure::Damaged(format!("the state of thread `{}`: {err}", info.thread)))?;
    let owner: Option<&str> = row.try_get("lease_owner")?;
    let fence: i64 = row.try_get("lease_fence")?;
    let live: Option<bool> = row.try_get(13)?;
    let lease = owner.map(|owner| Lease {
        owner: Arc::from(owner),
        fence: Fence(from_sql(fence)),
        live: live.unwrap_or(false),
    });
    Ok(Head { info, state, lease })
}

/// Reads the columns [`INFO`].
pub(crate) fn thread_info(row: &Row) -> Result<ThreadInfo, Failure> {
    let number = |name: &str| row.try_get(name).map(from_sql);
    let base: Option<String> = row.try_get("base_thread")?;
    let base_seq: Option<i64> = row.try_get("base_seq")?;
    let base = base.map(thread_id).transpose()?.zip(base_seq);
    Ok(ThreadInfo {
        thread: thread_id(row.try_get("thread")?)?,
        session: session_id(row.try_get("session")?)?,
        kind: if row.try_get("main")? { ThreadKind::Main } else { ThreadKind::Isolated },
        label: row.try_get("label")?,
        base: base.map(|(thread, seq)| ForkPoint { thread, seq: Seq(from_sql(seq)) }),
        created: Timestamp(row.try_get("created")?),
        updated: Timestamp(row.try_get("updated")?),
        items: number("end_seq")?,
        turns: number("turns")?,
    })
}

fn thread_id(name: String) -> Result<ThreadId, Failure> {
    ThreadId::parse(name).map_err(|err| Failure::Damaged(err.to_string()))
}

pub(crate) fn session_id(name: String) -> Result<SessionId, Failure> {
    SessionId::parse(name).map_err(|err| Failure::Damaged(err.to_string()))
}
