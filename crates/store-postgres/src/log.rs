//! One log, or one knowledge base, through one connection or transaction.

use contexture_session::{BaseKey, ThreadKey};
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::database::Database;
use crate::failure::Failure;

/// What a key names, through one connection or transaction.
#[derive(Debug)]
pub(crate) struct KeyClient<'a, C, K> {
    pub(crate) database: &'a Database,
    pub(crate) client: &'a C,
    pub(crate) key: &'a K,
}

pub(crate) type LogClient<'a, C> = KeyClient<'a, C, ThreadKey>;
pub(crate) type BaseClient<'a, C> = KeyClient<'a, C, BaseKey>;

/// The key of rows.
pub(crate) trait RowKey: Sync {
    /// Returns the tenant, and the thread or the base.
    fn names(&self) -> (&str, &str);
}

impl RowKey for ThreadKey {
    fn names(&self) -> (&str, &str) {
        (self.tenant.as_str(), self.thread.as_str())
    }
}

impl RowKey for BaseKey {
    fn names(&self) -> (&str, &str) {
        (self.tenant.as_str(), self.base.as_str())
    }
}

impl<C: GenericClient, K: RowKey> KeyClient<'_, C, K> {
    /// Runs a statement whose first parameters are the names of the key, and returns its rows.
    pub(crate) async fn query(&self, text: &str, more: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Failure> {
        let (tenant, name) = self.key.names();
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&tenant, &name];
        params.extend(more);
        let statement = self.client.prepare_cached(&self.database.sql(text)).await?;
        Ok(self.client.query(&statement, &params).await?)
    }
}

impl<C: GenericClient> LogClient<'_, C> {
    /// Runs a statement whose parameters are the tenant and a list of names, and returns its rows.
    pub(crate) async fn query_names<T: ToSql + Sync>(
        &self,
        text: &str,
        names: &[T],
    ) -> Result<Vec<Row>, Failure> {
        let statement = self.client.prepare_cached(&self.database.sql(text)).await?;
        Ok(self.client.query(&statement, &[&self.key.tenant.as_str(), &names]).await?)
    }
}
