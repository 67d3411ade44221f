//! Removing sessions and logs, with everything in them.

use std::sync::atomic::{AtomicBool, Ordering};

use contexture_session::{LogKind, SessionKey, StoreError, Tenant, ThreadKey};
use deadpool_postgres::{Client, Transaction};

use crate::database::{Database, begin};
use crate::failure::Failure;

const LOCK_SESSION: &str = "SELECT FROM {schema}.sessions WHERE tenant = $1 AND session = $2 FOR UPDATE";
/// The main log comes last, as in appends.
const LOCK_LOGS: &str = "\
    SELECT thread FROM {schema}.logs WHERE tenant = $1 AND session = $2
    ORDER BY kind = 'main', thread FOR UPDATE";
const LOCK_LOG: &str = "SELECT kind, session FROM {schema}.logs WHERE tenant = $1 AND thread = $2 FOR UPDATE";

const DELETE_SESSION: &str = "DELETE FROM {schema}.sessions WHERE tenant = $1 AND session = $2";
const DELETE_REFS: &str = "\
    DELETE FROM {schema}.blob_refs WHERE tenant = $1 AND thread = ANY ($2) RETURNING hash";
const DELETE_LOGS: &[&str] = &[
    "DELETE FROM {schema}.commits WHERE tenant = $1 AND thread = ANY ($2)",
    "DELETE FROM {schema}.archived WHERE tenant = $1 AND thread = ANY ($2)",
    "DELETE FROM {schema}.turn_keys WHERE tenant = $1 AND thread = ANY ($2)",
    "DELETE FROM {schema}.logs WHERE tenant = $1 AND thread = ANY ($2)",
];

const DELETE_SAVED: &str = "\
    DELETE FROM {schema}.unfinished WHERE tenant = $1 AND session = $2 AND thread = ANY ($3)";
const DELETE_DOCUMENTS: &str = "DELETE FROM {schema}.documents WHERE tenant = $1 AND session = $2";

impl Database {
    /// Removes a session, and returns whether it existed.
    pub(crate) async fn delete_session(&self, key: &SessionKey) -> Result<bool, StoreError> {
        let was_there = &AtomicBool::new(false);
        let removed = self
            .run(|client, _| async move { self.delete_session_once(client, key, was_there).await })
            .await?;
        // An attempt that got no answer may have removed it.
        Ok(removed || was_there.load(Ordering::Relaxed))
    }

    async fn delete_session_once(
        &self,
        mut client: Client,
        key: &SessionKey,
        was_there: &AtomicBool,
    ) -> Result<bool, Failure> {
        let (tenant, session) = (key.tenant.as_str(), key.session.as_str());
        let transaction = begin(&mut client).await?;
        self.check_current(&transaction).await?;
        let row = transaction.query_opt(&self.sql(LOCK_SESSION), &[&tenant, &session]).await?;
        if row.is_none() {
            return Ok(false);
        }
        was_there.store(true, Ordering::Relaxed);
        let rows = transaction.query(&self.sql(LOCK_LOGS), &[&tenant, &session]).await?;
        let threads: Vec<String> = rows.iter().map(|it| it.try_get(0)).collect::<Result<_, _>>()?;
        self.delete_logs(&transaction, &key.tenant, session, &threads).await?;
        transaction.execute(&self.sql(DELETE_DOCUMENTS), &[&tenant, &session]).await?;
        transaction.execute(&self.sql(DELETE_SESSION), &[&tenant, &session]).await?;
        transaction.commit().await?;
        Ok(true)
    }

    pub(crate) async fn delete_log(&self, key: &ThreadKey) -> Result<bool, StoreError> {
        let was_there = &AtomicBool::new(false);
        let is_gone =
            self.run(|client, _| async move { self.delete_log_once(client, key, was_there).await }).await?;
        Ok(is_gone || was_there.load(Ordering::Relaxed))
    }

    async fn delete_log_once(
        &self,
        mut client: Client,
        key: &ThreadKey,
        was_there: &AtomicBool,
    ) -> Result<bool, Failure> {
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let transaction = begin(&mut client).await?;
        self.check_current(&transaction).await?;
        let Some(row) = transaction.query_opt(&self.sql(LOCK_LOG), &[&tenant, &thread]).await? else {
            return Ok(false);
        };
        let (kind, session): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        if kind == LogKind::Main.as_str() {
            return Err(StoreError::IsMain { thread: key.thread.to_string() }.into());
        }
        was_there.store(true, Ordering::Relaxed);
        self.delete_logs(&transaction, &key.tenant, session, &[thread.to_owned()]).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Removes logs of a session, which are locked against appends.
    async fn delete_logs(
        &self,
        transaction: &Transaction<'_>,
        tenant: &Tenant,
        session: &str,
        threads: &[String],
    ) -> Result<(), Failure> {
        transaction.execute(&self.sql(DELETE_SAVED), &[&tenant.as_str(), &session, &threads]).await?;
        for sql in DELETE_LOGS {
            transaction.execute(&self.sql(sql), &[&tenant.as_str(), &threads]).await?;
        }
        let refs = transaction.query(&self.sql(DELETE_REFS), &[&tenant.as_str(), &threads]).await?;
        let hashes: Vec<String> = refs.iter().map(|it| it.try_get(0)).collect::<Result<_, _>>()?;
        self.remove_unused(transaction, tenant, &hashes).await
    }
}
