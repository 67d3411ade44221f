//! One log through one connection or transaction.

use contexture_session::ThreadKey;
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::database::Database;
use crate::failure::Failure;

/// One log through one connection or transaction.
#[derive(Debug)]
pub(crate) struct LogClient<'a, C> {
    pub(crate) database: &'a Database,
    pub(crate) client: &'a C,
    pub(crate) key: &'a ThreadKey,
}

impl<C: GenericClient> LogClient<'_, C> {
    /// Runs a statement whose first parameters are the tenant and the thread, and returns its rows.
    pub(crate) async fn query(&self, text: &str, more: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Failure> {
        let (tenant, thread) = (self.key.tenant.as_str(), self.key.thread.as_str());
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&tenant, &thread];
        params.extend(more);
        let statement = self.client.prepare_cached(&self.database.sql(text)).await?;
        Ok(self.client.query(&statement, &params).await?)
    }

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
