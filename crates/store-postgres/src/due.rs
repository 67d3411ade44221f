//! Lists logs that need a writer and have none.

use contexture_session::{DueKind, StoreError, ThreadKey};

use crate::database::Database;
use crate::head::thread_key;
use crate::numbers::to_sql;

const DUE: &str = "\
    SELECT tenant, thread FROM {schema}.logs
    WHERE needs_writer AND kind IN ({kinds}) AND (tenant, thread) > ($1, $2)
        AND (lease_owner IS NULL OR lease_until <= clock_timestamp())
    ORDER BY tenant, thread LIMIT $3";

impl Database {
    pub(crate) async fn due(
        &self,
        kind: DueKind,
        after: Option<&ThreadKey>,
        max: usize,
    ) -> Result<Vec<ThreadKey>, StoreError> {
        let kinds = match kind {
            DueKind::Threads => "'main', 'isolated'",
            DueKind::Runs => "'run'",
        };
        // No name is empty, so all come after an empty one.
        let (tenant, thread) = after.map_or(("", ""), |it| (it.tenant.as_str(), it.thread.as_str()));
        let max = to_sql(max as u64);
        self.select(&DUE.replace("{kinds}", kinds), &[&tenant, &thread, &max], thread_key).await
    }
}
