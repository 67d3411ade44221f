//! Removing sessions and threads, with everything in them.

use std::sync::atomic::{AtomicBool, Ordering};

use contexture_session::{SessionKey, StoreError, Tenant, ThreadId, ThreadKey};
use deadpool_postgres::{Client, Transaction};

use crate::database::{Database, begin};
use crate::failure::Failure;

const LOCK_SESSION: &str = "SELECT FROM {schema}.sessions WHERE tenant = $1 AND session = $2 FOR UPDATE";
const LOCK_THREADS: &str = "\
    SELECT thread FROM {schema}.threads WHERE tenant = $1 AND session = $2 ORDER BY thread FOR UPDATE";
const LOCK_THREAD: &str = "SELECT main FROM {schema}.threads WHERE tenant = $1 AND thread = $2 FOR UPDATE";

const DELETE_SESSION: &str = "DELETE FROM {schema}.sessions WHERE tenant = $1 AND session = $2";
const DELETE_REFS: &str = "\
    DELETE FROM {schema}.blob_refs WHERE tenant = $1 AND thread = ANY ($2) RETURNING hash";
const DELETE_LOGS: &[&str] = &[
    "DELETE FROM {schema}.commits WHERE tenant = $1 AND thread = ANY ($2)",
    "DELETE FROM {schema}.archived WHERE tenant = $1 AND thread = ANY ($2)",
    "DELETE FROM {schema}.turn_keys WHERE tenant = $1 AND thread = ANY ($2)",
    "DELETE FROM {schema}.threads WHERE tenant = $1 AND thread = ANY ($2)",
];

const DELETE_RECORDS: &str = "DELETE FROM {schema}.records WHERE tenant = $1 AND session = $2";
const DELETE_DOCUMENTS: &str = "DELETE FROM {schema}.documents WHERE tenant = $1 AND session = $2";
const DELETE_STREAMS: &str = "DELETE FROM {schema}.streams WHERE tenant = $1 AND session = $2 RETURNING kind";

/// The deleted data of a session.
#[derive(Debug, Default)]
pub(crate) struct RemovedSession {
    pub(crate) threads: Vec<String>,
    /// The kinds of its streams.
    pub(crate) kinds: Vec<String>,
}

impl Database {
    /// Removes a session and returns what it had; nothing if there was none.
    pub(crate) async fn delete_session(
        &self,
        key: &SessionKey,
    ) -> Result<Option<RemovedSession>, StoreError> {
        let was_there = &AtomicBool::new(false);
        let removed = self
            .run(|client, _| async move { self.delete_session_once(client, key, was_there).await })
            .await?;
        // An attempt that got no answer may have removed it.
        Ok(removed.or_else(|| was_there.load(Ordering::Relaxed).then(RemovedSession::default)))
    }

    async fn delete_session_once(
        &self,
        mut client: Client,
        key: &SessionKey,
        was_there: &AtomicBool,
    ) -> Result<Option<RemovedSession>, Failure> {
        let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
        let transaction = begin(&mut client).await?;
        self.check_current(&transaction).await?;
        let row = transaction.query_opt(&self.sql(LOCK_SESSION), &[&tenant, &session]).await?;
        if row.is_none() {
            return Ok(None);
        }
        was_there.store(true, Ordering::Relaxed);
        let rows = transaction.query(&self.sql(LOCK_THREADS), &[&tenant, &session]).await?;
        let threads: Vec<String> = rows.iter().map(|it| it.try_get(0)).collect::<Result<_, _>>()?;
        self.delete_logs(&transaction, &key.tenant, &threads).await?;
        let kinds = self.delete_kept(&transaction, key).await?;
        transaction.execute(&self.sql(DELETE_SESSION), &[&tenant, &session]).await?;
        transaction.commit().await?;
        Ok(Some(RemovedSession { threads, kinds }))
    }

    /// Removes the streams and documents of a session, which is locked against writers. Returns the kinds of the
    /// streams.
    async fn delete_kept(
        &self,
        transaction: &Transaction<'_>,
        key: &SessionKey,
    ) -> Result<Vec<String>, Failure> {
        let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
        // The streams first: pruning locks them.
        let rows = transaction.query(&self.sql(DELETE_STREAMS), &[&tenant, &session]).await?;
        transaction.execute(&self.sql(DELETE_RECORDS), &[&tenant, &session]).await?;
        transaction.execute(&self.sql(DELETE_DOCUMENTS), &[&tenant, &session]).await?;
        Ok(rows.iter().map(|it| it.try_get(0)).collect::<Result<_, _>>()?)
    }

    pub(crate) async fn delete_thread(&self, key: &ThreadKey) -> Result<bool, StoreError> {
        let was_there = &AtomicBool::new(false);
        let is_gone = self
            .run(|client, _| async move { self.delete_thread_once(client, key, was_there).await })
            .await?;
        Ok(is_gone || was_there.load(Ordering::Relaxed))
    }

    async fn delete_thread_once(
        &self,
        mut client: Client,
        key: &ThreadKey,
        was_there: &AtomicBool,
    ) -> Result<bool, Failure> {
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let transaction = begin(&mut client).await?;
        self.check_current(&transaction).await?;
        let Some(row) = transaction.query_opt(&self.sql(LOCK_THREAD), &[&tenant, &thread]).await? else {
            return Ok(false);
        };
        if row.try_get(0)? {
            return Err(StoreError::IsMain { thread: key.thread.to_string() }.into());
        }
        was_there.store(true, Ordering::Relaxed);
        self.delete_logs(&transaction, &key.tenant, &[thread.to_owned()]).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Removes threads, which are locked against appends.
    async fn delete_logs(
        &self,
        transaction: &Transaction<'_>,
        tenant: &Tenant,
        threads: &[String],
    ) -> Result<(), Failure> {
        for sql in DELETE_LOGS {
            transaction.execute(&self.sql(sql), &[&tenant.as_str(), &threads]).await?;
        }
        let refs = transaction.query(&self.sql(DELETE_REFS), &[&tenant.as_str(), &threads]).await?;
        let hashes: Vec<String> = refs.iter().map(|it| it.try_get(0)).collect::<Result<_, _>>()?;
        self.remove_unused(transaction, tenant, &hashes).await
    }
}

/// Returns where threads were, as far as their names can be read.
pub(crate) fn thread_keys(tenant: &Tenant, threads: Vec<String>) -> Vec<ThreadKey> {
    let key = |name: String| Some(ThreadKey { tenant: tenant.clone(), thread: ThreadId::parse(name).ok()? });
    threads.into_iter().filter_map(key).collect()
}
