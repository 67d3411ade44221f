//! Lists and totals of a tenant.

use contexture_history::Timestamp;
use contexture_session::{SessionId, SessionInfo, StoreError, Tenant, Usage};
use tokio_postgres::Row;

use crate::database::Database;
use crate::failure::Failure;
use crate::numbers::{number, to_sql};

const SESSIONS: &str = "\
    SELECT listed.session, listed.label, listed.created,
        greatest(listed.created, max(thread.updated)),
        count(thread.thread),
        coalesce(sum(thread.end_seq), 0)::bigint,
        coalesce(max(thread.turns) FILTER (WHERE thread.kind = 'main'), 0)
    FROM (
        SELECT session, label, created FROM {schema}.sessions
        WHERE tenant = $1 AND session > $2 ORDER BY session LIMIT $3
    ) AS listed
    LEFT JOIN {schema}.logs AS thread
        ON thread.tenant = $1 AND thread.session = listed.session AND thread.kind IN ('main', 'isolated')
    GROUP BY listed.session, listed.label, listed.created
    ORDER BY listed.session";

const USAGE: &str = "\
    SELECT
        (SELECT count(*) FROM {schema}.sessions WHERE tenant = $1),
        thread.threads, thread.items, blob.blobs, blob.bytes
    FROM (
        SELECT count(*) AS threads, coalesce(sum(end_seq), 0)::bigint AS items
        FROM {schema}.logs WHERE tenant = $1 AND kind IN ('main', 'isolated')
    ) AS thread, (
        SELECT count(*) AS blobs, coalesce(sum(octet_length(body)), 0)::bigint AS bytes
        FROM {schema}.blobs WHERE tenant = $1
    ) AS blob";

/// All tables that deletions leave room in.
const VACUUM: &str = "\
    VACUUM {schema}.sessions, {schema}.logs, {schema}.commits, {schema}.unfinished, {schema}.turn_keys, {schema}.blobs,
        {schema}.blob_refs, {schema}.archived, {schema}.archives, {schema}.documents, {schema}.bases, {schema}.sources,
        {schema}.chunks, {schema}.chunk_terms, {schema}.chunk_vectors";

impl Database {
    pub(crate) async fn sessions(
        &self,
        tenant: &Tenant,
        after: Option<&SessionId>,
        max: usize,
    ) -> Result<Vec<SessionInfo>, StoreError> {
        // No name is empty, so all come after it.
        let after = after.map_or("", SessionId::as_str);
        self.select(SESSIONS, &[&tenant.as_str(), &after, &to_sql(max as u64)], session_info).await
    }

    pub(crate) async fn usage(&self, tenant: &Tenant) -> Result<Usage, StoreError> {
        let usage = |row: &Row| {
            let (sessions, threads, items) = (number(row, 0)?, number(row, 1)?, number(row, 2)?);
            Ok(Usage { sessions, threads, items, blobs: number(row, 3)?, blob_bytes: number(row, 4)? })
        };
        Ok(self.select(USAGE, &[&tenant.as_str()], usage).await?.pop().unwrap_or_default())
    }

    pub(crate) async fn vacuum(&self) -> Result<(), StoreError> {
        self.run(|client, _| async move {
            // One statement: it can't run within a transaction.
            Ok(client.batch_execute(&self.sql(VACUUM)).await?)
        })
        .await
    }
}

fn session_info(row: &Row) -> Result<SessionInfo, Failure> {
    Ok(SessionInfo {
        session: SessionId::parse(row.try_get::<_, String>(0)?)?,
        label: row.try_get(1)?,
        created: Timestamp(row.try_get(2)?),
        updated: Timestamp(row.try_get(3)?),
        threads: number(row, 4)?,
        items: number(row, 5)?,
        turns: number(row, 6)?,
    })
}
