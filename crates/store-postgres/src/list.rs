//! Lists and totals of a tenant.

use contexture_history::Timestamp;
use contexture_session::{SessionId, SessionInfo, SessionKey, StoreError, Tenant, ThreadInfo, Usage};
use tokio_postgres::Row;

use crate::database::Database;
use crate::failure::Failure;
use crate::head::{INFO, session_id, thread_info};
use crate::numbers::from_sql;

const SESSIONS: &str = "\
    SELECT listed.session, listed.label, listed.created,
        greatest(listed.created, max(thread.updated)),
        count(thread.thread),
        coalesce(sum(thread.end_seq), 0)::bigint,
        coalesce(max(thread.turns) FILTER (WHERE thread.main), 0)
    FROM (
        SELECT session, label, created FROM {schema}.sessions
        WHERE tenant = $1 AND session > $2 ORDER BY session LIMIT $3
    ) AS listed
    LEFT JOIN {schema}.threads AS thread ON thread.tenant = $1 AND thread.session = listed.session
    GROUP BY listed.session, listed.label, listed.created
    ORDER BY listed.session";

const THREADS: &str = "\
    SELECT {info} FROM {schema}.threads WHERE tenant = $1 AND session = $2 ORDER BY main DESC, thread";

const USAGE: &str = "\
    SELECT
        (SELECT count(*) FROM {schema}.sessions WHERE tenant = $1),
        thread.threads, thread.items, blob.blobs, blob.bytes
    FROM (
        SELECT count(*) AS threads, coalesce(sum(end_seq), 0)::bigint AS items
        FROM {schema}.threads WHERE tenant = $1
    ) AS thread, (
        SELECT count(*) AS blobs, coalesce(sum(octet_length(body)), 0)::bigint AS bytes
        FROM {schema}.blobs WHERE tenant = $1
    ) AS blob";

/// Tables that deletions leave room in.
const TABLES: &[&str] =
    &["sessions", "threads", "commits", "turn_keys", "blobs", "blob_refs", "streams", "records", "documents"];

impl Database {
    pub(crate) async fn sessions(
        &self,
        tenant: &Tenant,
        after: Option<&SessionId>,
        max: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        let tenant = &tenant.as_str();
        // No name is empty, so all come after it.
        let after = &after.map_or("", SessionId::as_str);
        let max = &i64::try_from(max).unwrap_or(i64::MAX);
        self.run(|client, _| async move {
            let statement = client.prepare_cached(&self.sql(SESSIONS)).await?;
            let rows = client.query(&statement, &[tenant, after, max]).await?;
            rows.iter().map(session_info).collect()
        })
        .await
    }

    pub(crate) async fn threads(&self, session: &SessionKey) -> Result<Vec<ThreadInfo>, StoreError> {
        let (tenant, session) = (&session.tenant.as_str(), &session.session.as_str());
        self.run(|client, _| async move {
            let statement = client.prepare_cached(&self.sql(&THREADS.replace("{info}", INFO))).await?;
            let rows = client.query(&statement, &[tenant, session]).await?;
            rows.iter().map(thread_info).collect()
        })
        .await
    }

    pub(crate) async fn usage(&self, tenant: &Tenant) -> Result<Usage, StoreError> {
        let tenant = &tenant.as_str();
        self.run(|client, _| async move {
            let row = client.query_one(&self.sql(USAGE), &[tenant]).await?;
            let number = |idx: usize| row.try_get(idx).map(from_sql);
            Ok(Usage {
                sessions: number(0)?,
                threads: number(1)?,
                items: number(2)?,
                blobs: number(3)?,
                blob_bytes: number(4)?,
            })
        })
        .await
    }

    pub(crate) async fn vacuum(&self) -> Result<(), StoreError> {
        self.run(|client, _| async move {
            for table in TABLES {
                // One statement each: it can't run within a transaction.
                client.batch_execute(&self.sql(&format!("VACUUM {{schema}}.{table}"))).await?;
            }
            Ok(())
        })
        .await
    }
}

fn session_info(row: &Row) -> Result<SessionInfo, Failure> {
    let number = |idx: usize| row.try_get(idx).map(from_sql);
    Ok(SessionInfo {
        session: session_id(row.try_get(0)?)?,
        label: row.try_get(1)?,
        created: Timestamp(row.try_get(2)?),
        updated: Timestamp(row.try_get(3)?),
        threads: number(4)?,
        items: number(5)?,
        turns: number(6)?,
    })
}
