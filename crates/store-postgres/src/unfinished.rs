//! The unfinished texts of answers: one row for each log, which is overwritten.

use contexture_session::{Fence, SessionKey, StoreError, ThreadId, ThreadKey, UnfinishedText};
use tokio_postgres::Row;

use crate::append::LAZY;
use crate::database::Database;
use crate::failure::Failure;
use crate::numbers::to_sql;

/// The log is locked against removal only: appends go on.
const SAVE: &str = "\
    WITH log AS MATERIALIZED (
        SELECT session{lazy} FROM {schema}.logs
        WHERE tenant = $1 AND thread = $2 AND lease_owner IS NOT NULL AND lease_fence = $3 AND {current}
        FOR KEY SHARE
    )
    INSERT INTO {schema}.unfinished (tenant, session, thread, body) SELECT $1, session, $2, $4 FROM log
    ON CONFLICT (tenant, session, thread) DO UPDATE SET body = excluded.body";

const SAVED: &str = "\
    SELECT thread, body FROM {schema}.unfinished WHERE tenant = $1 AND session = $2 ORDER BY thread";

impl Database {
    pub(crate) async fn save(
        &self,
        key: &ThreadKey,
        fence: Fence,
        text: &UnfinishedText,
    ) -> Result<(), StoreError> {
        let (tenant, thread) = (&key.tenant.as_str(), &key.thread.as_str());
        let body = &serde_json::to_string(text).map_err(|err| StoreError::malformed(key, err))?;
        self.run(|client, _| async move {
            let statement = client.prepare_cached(&self.current_sql(&SAVE.replace("{lazy}", LAZY))).await?;
            match client.execute(&statement, &[tenant, thread, &to_sql(fence.0), body]).await? {
                0 => {
                    self.check_current(&client).await?;
                    Err(StoreError::fenced(key, fence).into())
                }
                _ => Ok(()),
            }
        })
        .await
    }

    pub(crate) async fn saved(
        &self,
        session: &SessionKey,
    ) -> Result<Vec<(ThreadId, UnfinishedText)>, StoreError> {
        let (tenant, session) = (session.tenant.as_str(), session.session.as_str());
        self.select(SAVED, &[&tenant, &session], saved_text).await
    }
}

fn saved_text(row: &Row) -> Result<(ThreadId, UnfinishedText), Failure> {
    let thread = ThreadId::parse(row.try_get::<_, String>(0)?)?;
    let text = serde_json::from_str(row.try_get(1)?)
        .map_err(|err| Failure::Damaged(format!("the unfinished text of `{thread}`: {err}")))?;
    Ok((thread, text))
}
