//! Prunes old documents.

use contexture_history::Timestamp;
use contexture_session::StoreError;

use crate::database::Database;
use crate::numbers::to_sql;

/// Locked rows are skipped, so pruning can't deadlock with writers.
const PRUNE: &str = "\
    DELETE FROM {schema}.documents WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.documents WHERE kind = $1 AND at < $2 AND {current} ORDER BY at LIMIT $3
        FOR UPDATE SKIP LOCKED
    ))";

impl Database {
    pub(crate) async fn prune(&self, kind: &str, before: Timestamp, max: usize) -> Result<u64, StoreError> {
        let limit = &to_sql(max as u64);
        self.run(|client, _| async move {
            let statement = client.prepare_cached(&self.current_sql(PRUNE)).await?;
            match client.execute(&statement, &[&kind, &before.0, limit]).await? {
                0 => self.check_current(&client).await.map(|()| 0),
                count => Ok(count),
            }
        })
        .await
    }
}
