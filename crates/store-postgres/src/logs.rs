//! Lists logs of a kind, and finds the one with a start key.

use contexture_session::{LogHead, LogList, StoreError, Tenant, ThreadKey, codec};
use tokio_postgres::types::ToSql;

use crate::database::Database;
use crate::head::{log_head, thread_key, with_columns};
use crate::numbers::to_sql;

/// The kind is part of the text: the index of runs has only those.
const LIST: &str = "\
    SELECT {head} FROM {schema}.logs WHERE kind = '{kind}' AND {place} ORDER BY tenant, thread LIMIT $3";
const OF_ALL: &str = "(tenant, thread) > ($1, $2)";
const OF_TENANT: &str = "tenant = $1 AND thread > $2";
const OF_SESSION: &str = "tenant = $1 AND thread > $2 AND session = $4";

const WITH_START_KEY: &str = "SELECT tenant, thread FROM {schema}.logs WHERE tenant = $1 AND start_hash = $2";

impl Database {
    pub(crate) async fn logs(&self, list: &LogList) -> Result<Vec<LogHead>, StoreError> {
        let Some((tenant, after)) = list.start() else { return Ok(Vec::new()) };
        let session = list.session.as_ref().filter(|_| list.tenant.is_some()).map(ToString::to_string);
        let place = match (&list.tenant, &session) {
            (None, _) => OF_ALL,
            (Some(_), None) => OF_TENANT,
            (Some(_), Some(_)) => OF_SESSION,
        };
        let sql = LIST.replace("{kind}", list.kind.as_str()).replace("{place}", place);
        let max = to_sql(list.max as u64);
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&tenant, &after, &max];
        params.extend(session.iter().map(|it| it as &(dyn ToSql + Sync)));
        self.select(&with_columns(&sql), &params, log_head).await
    }

    pub(crate) async fn log_with_start_key(
        &self,
        tenant: &Tenant,
        start_key: &str,
    ) -> Result<Option<ThreadKey>, StoreError> {
        let hash = codec::blob_hash(start_key);
        Ok(self.select(WITH_START_KEY, &[&tenant.as_str(), &hash], thread_key).await?.pop())
    }
}
