//! New sessions and threads.

use contexture_session::{NewSession, NewThread, State, StoreError, ThreadKey};
use deadpool_postgres::{Client, Transaction};

use crate::database::{Attempt, Database, begin};
use crate::failure::Failure;
use crate::guard::check_text;
use crate::numbers::{nonce, seq_to_sql, to_sql};

/// A session and its main thread. If either exists, neither is written.
const SESSION: &str = "\
    WITH made AS (
        INSERT INTO {schema}.sessions (tenant, session, label, created, nonce)
        SELECT $1, $2, $3, $4, $6 WHERE {current}
        RETURNING tenant, session, label, created, nonce
    )
    INSERT INTO {schema}.threads
        (tenant, thread, session, main, label, created, updated, end_seq, turns, state, nonce)
    SELECT tenant, session, session, true, label, created, created, 0, 0, $5, nonce FROM made";

/// A thread, if its session exists; the session is locked against removal.
const THREAD: &str = "\
    INSERT INTO {schema}.threads
        (tenant, thread, session, main, label, base_thread, base_seq, created, updated, end_seq, turns, state, nonce)
    SELECT tenant, $3, session, false, $4, $5, $6, $7::bigint, greatest($7::bigint, $8), $9, $10, $11, $12
    FROM {schema}.sessions WHERE tenant = $1 AND session = $2 FOR KEY SHARE";

const NONCE: &str = "SELECT nonce FROM {schema}.threads WHERE tenant = $1 AND thread = $2";

impl Database {
    pub(crate) async fn create_session(&self, session: &NewSession) -> Result<(), StoreError> {
        let NewSession { key, label, at } = session;
        let main = &key.main();
        check_label(main, label.as_deref())?;
        let (tenant, name) = (&key.tenant.as_str(), &key.session.as_str());
        let (state, nonce) = (&state_text(main, &State::default())?, &nonce());
        self.run(|client, attempt| async move {
            let statement = client.prepare_cached(&self.current_sql(SESSION)).await?;
            let written = client.execute(&statement, &[tenant, name, label, &at.0, state, nonce]).await;
            match written.map_err(Failure::from) {
                Ok(0) => self.check_current(&client).await,
                Ok(_) => Ok(()),
                Err(err) if err.is_duplicate() => {
                    let exists = StoreError::Exists { what: "session", id: key.session.to_string() };
                    self.ours_or(&client, attempt, main, *nonce, exists).await
                }
                Err(err) => Err(err),
            }
        })
        .await
    }

    pub(crate) async fn create_thread(&self, thread: &NewThread) -> Result<(), StoreError> {
        let key = &thread.key();
        let row = &ThreadRow::new(thread)?;
        self.run(|mut client, attempt| async move {
            let transaction = begin(&mut client).await?;
            let written = self.insert_thread(&transaction, row).await;
            match written {
                Ok(()) => Ok(transaction.commit().await?),
                Err(err) if err.is_duplicate() => {
                    transaction.rollback().await?;
                    self.ours_or(&client, attempt, key, row.nonce, row.exists()).await
                }
                Err(err) => Err(err),
            }
        })
        .await
    }

    /// Adds a thread to an existing session.
    pub(crate) async fn insert_thread(
        &self,
        transaction: &Transaction<'_>,
        row: &ThreadRow<'_>,
    ) -> Result<(), Failure> {
        self.check_current(transaction).await?;
        let NewThread { session, thread, label, base, at, state } = row.thread;
        let (tenant, name) = (session.tenant.as_str(), session.session.as_str());
        let base_thread = base.as_ref().map(|it| it.thread.as_str());
        let base_seq = base.as_ref().map(|it| seq_to_sql(it.seq));
        let (end, turns) = (seq_to_sql(state.end), to_sql(state.turn.0));
        let statement = transaction.prepare_cached(&self.sql(THREAD)).await?;
        let written = transaction
            .execute(
                &statement,
                &[
                    &tenant,
                    &name,
                    &thread.as_str(),
                    label,
                    &base_thread,
                    &base_seq,
                    &at.0,
                    &state.updated.0,
                    &end,
                    &turns,
                    &row.state,
                    &row.nonce,
                ],
            )
            .await?;
        match written {
            0 => Err(StoreError::NotFound { what: "session", id: name.to_owned() }.into()),
            _ => Ok(()),
        }
    }

    /// Decides whether an existing thread was created by an attempt that got no answer.
    pub(crate) async fn ours_or(
        &self,
        client: &Client,
        attempt: Attempt,
        key: &ThreadKey,
        nonce: i64,
        otherwise: StoreError,
    ) -> Result<(), Failure> {
        if attempt == Attempt::Fresh {
            return Err(otherwise.into());
        }
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let row = client.query_opt(&self.sql(NONCE), &[&tenant, &thread]).await?;
        let found: Option<i64> = row.map(|it| it.try_get(0)).transpose()?;
        if found == Some(nonce) { Ok(()) } else { Err(otherwise.into()) }
    }
}

/// A thread to create, checked.
#[derive(Debug)]
pub(crate) struct ThreadRow<'a> {
    pub(crate) thread: &'a NewThread,
    pub(crate) nonce: i64,
    state: String,
}

impl<'a> ThreadRow<'a> {
    pub(crate) fn new(thread: &'a NewThread) -> Result<Self, StoreError> {
        let key = thread.key();
        check_label(&key, thread.label.as_deref())?;
        Ok(ThreadRow { thread, nonce: nonce(), state: state_text(&key, &thread.state)? })
    }

    pub(crate) fn exists(&self) -> StoreError {
        StoreError::Exists { what: "thread", id: self.thread.thread.to_string() }
    }
}

fn check_label(key: &ThreadKey, label: Option<&str>) -> Result<(), StoreError> {
    label.map_or(Ok(()), |it| check_text(key, "the label", it))
}

fn state_text(key: &ThreadKey, state: &State) -> Result<String, StoreError> {
    serde_json::to_string(state)
        .map_err(|err| StoreError::Malformed { thread: key.thread.to_string(), detail: err.to_string() })
}
