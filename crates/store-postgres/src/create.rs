//! New sessions and logs.

use contexture_history::Seq;
use contexture_session::{LogKind, NewLog, StoreError, codec};
use deadpool_postgres::{Client, GenericClient};
use tokio_postgres::types::ToSql;

use crate::append::{Prepared, encoded};
use crate::database::{Attempt, Database, begin};
use crate::failure::Failure;
use crate::guard::check_text;
use crate::log::LogClient;
use crate::numbers::{nonce, seq_to_sql, to_sql};

/// A log, if there is its session. If it exists, nothing is written.
const LOG: &str = "\
    WITH session AS ({session})
    INSERT INTO {schema}.logs
        (tenant, thread, session, kind, label, base_thread, base_seq, created, updated, end_seq, turns, state,
            needs_writer, start_hash, nonce)
    SELECT tenant, $3, session, $4, $5, $6, $7, $8::bigint, greatest($8::bigint, $9), $10, $11, $12, $13, $14, $15
    FROM session";
/// The session of a main log.
const NEW_SESSION: &str = "\
    INSERT INTO {schema}.sessions (tenant, session, label, created, nonce)
    SELECT $1, $2, $5, $8::bigint, $15 WHERE {current} RETURNING tenant, session";
/// The session of another log, locked against removal.
const OLD_SESSION: &str = "\
    SELECT tenant, session FROM {schema}.sessions WHERE tenant = $1 AND session = $2 AND {current} FOR KEY SHARE";

const NONCE: &str = "SELECT nonce FROM {schema}.logs WHERE tenant = $1 AND thread = $2";

impl Database {
    pub(crate) async fn create_log(&self, log: &NewLog) -> Result<(), StoreError> {
        log.check()?;
        let row = &LogRow::new(log)?;
        let key = &log.key();
        let first = &log.first_append();
        let rows = encoded(key, first)?;
        let first = &Prepared::new(key, first, &rows);
        self.run(|mut client, attempt| async move {
            if log.items.is_empty() {
                let written = self.insert_log(&client, row, log.state.end).await;
                return self.made(&client, attempt, row, written).await;
            }
            let transaction = begin(&mut client).await?;
            let filled = async {
                self.insert_log(&transaction, row, Seq(0)).await?;
                self.write_append(&transaction, first).await?;
                LogClient { database: self, client: &transaction, key }.index(&log.archived).await
            };
            let written = filled.await;
            if written.is_ok() {
                return Ok(transaction.commit().await?);
            }
            transaction.rollback().await?;
            self.made(&client, attempt, row, written).await
        })
        .await
    }

    /// Adds a log to an existing session.
    pub(crate) async fn insert_log(
        &self,
        client: &impl GenericClient,
        row: &LogRow<'_>,
        end: Seq,
    ) -> Result<(), Failure> {
        let NewLog { session, thread, kind, label, base, at, state, .. } = row.log;
        let (tenant, name) = (session.tenant.as_str(), session.session.as_str());
        let base_thread = base.as_ref().map(|it| it.thread.as_str());
        let base_seq = base.as_ref().map(|it| seq_to_sql(it.seq));
        let source = if *kind == LogKind::Main { NEW_SESSION } else { OLD_SESSION };
        let text = self.current_sql(&LOG.replace("{session}", source));
        let statement = client.prepare_cached(&text).await?;
        let (end, turns) = (seq_to_sql(end), to_sql(state.turns));
        let (thread, kind) = (thread.as_str(), kind.as_str());
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&tenant, &name, &thread, &kind, label];
        params.extend([
            &base_thread as &(dyn ToSql + Sync),
            &base_seq,
            &at.0,
            &state.updated.0,
            &end,
            &turns,
        ]);
        params.extend([&state.json as &(dyn ToSql + Sync), &state.needs_writer, &row.start_hash, &row.nonce]);
        if client.execute(&statement, &params).await? == 0 {
            self.check_current(client).await?;
            return Err(StoreError::no_session(&session.session).into());
        }
        Ok(())
    }

    /// Decides what a failed creation means: the log may have been made by an attempt that got no answer.
    pub(crate) async fn made(
        &self,
        client: &Client,
        attempt: Attempt,
        row: &LogRow<'_>,
        written: Result<(), Failure>,
    ) -> Result<(), Failure> {
        match written {
            Err(err) if err.is_duplicate() => {
                let key = &row.log.key();
                let found = match attempt {
                    Attempt::Fresh => Vec::new(),
                    Attempt::AfterLoss => LogClient { database: self, client, key }.query(NONCE, &[]).await?,
                };
                match found.first().map(|it| it.try_get::<_, i64>(0)).transpose()? {
                    Some(nonce) if nonce == row.nonce => Ok(()),
                    _ => Err(row.log.exists().into()),
                }
            }
            other => other,
        }
    }
}

/// A log to create, checked.
#[derive(Debug)]
pub(crate) struct LogRow<'a> {
    pub(crate) log: &'a NewLog,
    nonce: i64,
    start_hash: Option<String>,
}

impl<'a> LogRow<'a> {
    pub(crate) fn new(log: &'a NewLog) -> Result<Self, StoreError> {
        log.label.as_ref().map_or(Ok(()), |it| check_text(&log.key(), "the label", it))?;
        let start_hash = log.start_key.as_deref().map(codec::blob_hash);
        Ok(LogRow { log, nonce: nonce(), start_hash })
    }
}
