//! Removing sessions and logs, with everything in them.

use std::sync::atomic::{AtomicBool, Ordering};

use contexture_session::{SessionKey, StoreError, ThreadKey};
use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;

use crate::database::Database;
use crate::failure::Failure;
use crate::log::LogClient;

const LOCK_SESSION: &str = "SELECT FROM {schema}.sessions WHERE tenant = $1 AND session = $2 FOR UPDATE";
/// The main log comes last, as in appends.
const LOCK_LOGS: &str = "\
    SELECT thread FROM {schema}.logs WHERE tenant = $1 AND session = $2
    ORDER BY kind = 'main', thread FOR UPDATE";
const LOCK_LOG: &str = "SELECT kind = 'main' FROM {schema}.logs WHERE tenant = $1 AND thread = $2 FOR UPDATE";

const DELETE_SESSION: &str = "DELETE FROM {schema}.sessions WHERE tenant = $1 AND session = $2";
const DELETE_REFS: &str = "\
    DELETE FROM {schema}.blob_refs WHERE tenant = $1 AND thread = ANY ($2) RETURNING hash";
const DELETE_LOGS: &[&str] = &[
    "DELETE FROM {schema}.commits WHERE tenant = $1 AND thread = ANY ($2)",
    "DELETE FROM {schema}.archived WHERE tenant = $1 AND thread = ANY ($2)",
    "DELETE FROM {schema}.archives WHERE tenant = $1 AND thread = ANY ($2)",
    "DELETE FROM {schema}.turn_keys WHERE tenant = $1 AND thread = ANY ($2)",
    "DELETE FROM {schema}.logs WHERE tenant = $1 AND thread = ANY ($2)",
];

const DELETE_SAVED: &str = "\
    DELETE FROM {schema}.unfinished WHERE tenant = $1 AND session = $2 AND thread = ANY ($3)";
const DELETE_DOCUMENTS: &str = "DELETE FROM {schema}.documents WHERE tenant = $1 AND session = $2";

/// What is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Removal {
    /// A session, given by its main log.
    Session,
    /// Another log.
    Log,
}

impl Database {
    pub(crate) async fn delete_session(&self, key: &SessionKey) -> Result<bool, StoreError> {
        self.remove(&key.main(), Removal::Session).await
    }

    pub(crate) async fn delete_log(&self, key: &ThreadKey) -> Result<bool, StoreError> {
        self.remove(key, Removal::Log).await
    }

    /// Returns whether it existed.
    async fn remove(&self, key: &ThreadKey, removal: Removal) -> Result<bool, StoreError> {
        let was_there = &AtomicBool::new(false);
        let is_removed = self.run(|mut client, _| async move {
            let transaction = self.begin_writing(&mut client).await?;
            let log = LogClient { database: self, client: &transaction, key };
            let Some(threads) = log.lock(removal).await? else { return Ok(false) };
            was_there.store(true, Ordering::Relaxed);
            log.delete(&threads).await?;
            if removal == Removal::Session {
                log.query(DELETE_DOCUMENTS, &[]).await?;
                log.query(DELETE_SESSION, &[]).await?;
            }
            transaction.commit().await?;
            Ok(true)
        });
        // An attempt that got no answer may have removed it.
        Ok(is_removed.await? || was_there.load(Ordering::Relaxed))
    }
}

impl LogClient<'_, Transaction<'_>> {
    /// Locks what is to be removed against appends. Returns its logs; nothing if it does not exist.
    async fn lock(&self, removal: Removal) -> Result<Option<Vec<String>>, Failure> {
        if removal == Removal::Session {
            if self.query(LOCK_SESSION, &[]).await?.is_empty() {
                return Ok(None);
            }
            let logs = self.query(LOCK_LOGS, &[]).await?;
            return Ok(Some(logs.iter().map(|it| it.try_get(0)).collect::<Result<_, _>>()?));
        }
        match self.query(LOCK_LOG, &[]).await?.first().map(|it| it.try_get(0)).transpose()? {
            None => Ok(None),
            Some(true) => Err(StoreError::is_main(self.key).into()),
            Some(false) => Ok(Some(vec![self.key.thread.to_string()])),
        }
    }

    async fn delete(&self, threads: &[String]) -> Result<(), Failure> {
        let (tenant, session) = (self.key.tenant.as_str(), self.key.thread.session());
        let params: [&(dyn ToSql + Sync); 3] = [&tenant, &session.as_str(), &threads];
        self.client.execute(&self.database.sql(DELETE_SAVED), &params).await?;
        for sql in DELETE_LOGS {
            self.query_names(sql, threads).await?;
        }
        let refs = self.query_names(DELETE_REFS, threads).await?;
        let hashes: Vec<String> = refs.iter().map(|it| it.try_get(0)).collect::<Result<_, _>>()?;
        self.remove_unused(&hashes).await
    }
}
