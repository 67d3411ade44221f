//! Knowledge bases as a whole.

use contexture_history::Timestamp;
use contexture_session::sources::{BaseInfo, BaseSettings, ChunkNo};
use contexture_session::{BaseId, BaseKey, StoreError, Tenant};
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::json;
use crate::database::{Database, begin};
use crate::failure::Failure;
use crate::numbers::{from_sql, to_sql};

const BASE: &str = "\
    SELECT base, settings, documents, chunks, length, version, created, updated, last
    FROM {schema}.bases WHERE tenant = $1 AND base = $2";
const LOCK: &str = "\
    SELECT base, settings, documents, chunks, length, version, created, updated, last
    FROM {schema}.bases WHERE tenant = $1 AND base = $2 FOR UPDATE";
const BASES: &str = "\
    SELECT base, settings, documents, chunks, length, version, created, updated, last
    FROM {schema}.bases WHERE tenant = $1 AND base > $2 ORDER BY base LIMIT $3";
const PUT: &str = "\
    INSERT INTO {schema}.bases AS it (tenant, base, settings, created, updated)
    SELECT $1, $2, $3, $4, $4 WHERE {current}
    ON CONFLICT (tenant, base) DO UPDATE SET settings = excluded.settings
    RETURNING base, settings, documents, chunks, length, version, created, updated, last";
/// What belongs to a base, and then the base.
const DELETE: [&str; 5] = [
    "DELETE FROM {schema}.chunk_terms WHERE tenant = $1 AND base = $2",
    "DELETE FROM {schema}.chunk_vectors WHERE tenant = $1 AND base = $2",
    "DELETE FROM {schema}.chunks WHERE tenant = $1 AND base = $2",
    "DELETE FROM {schema}.sources WHERE tenant = $1 AND base = $2",
    "DELETE FROM {schema}.bases WHERE tenant = $1 AND base = $2",
];

/// A base as its row has it.
#[derive(Clone, Debug)]
pub(crate) struct FoundBase {
    pub(crate) info: BaseInfo,
    /// The number of the newest chunk there ever was.
    pub(crate) last: ChunkNo,
}

fn found(row: &Row) -> Result<FoundBase, Failure> {
    let name: String = row.try_get(0)?;
    let base = BaseId::parse(name).map_err(|err| Failure::Damaged(err.to_string()))?;
    let count = |column: usize| row.try_get(column).map(from_sql);
    let info = BaseInfo {
        base,
        settings: json(row.try_get(1)?)?,
        documents: count(2)?,
        chunks: count(3)?,
        length: count(4)?,
        version: count(5)?,
        created: Timestamp(row.try_get(6)?),
        updated: Timestamp(row.try_get(7)?),
    };
    Ok(FoundBase { info, last: count(8)? })
}

impl Database {
    pub(crate) async fn base(&self, key: &BaseKey) -> Result<Option<BaseInfo>, StoreError> {
        let names: [&str; 2] = [key.tenant.as_str(), key.base.as_str()];
        Ok(self.select(BASE, &[&names[0], &names[1]], found).await?.pop().map(|it| it.info))
    }

    /// Returns a base that must exist.
    pub(crate) async fn existing_base(
        &self,
        client: &impl GenericClient,
        key: &BaseKey,
    ) -> Result<FoundBase, Failure> {
        self.base_by(BASE, client, key).await
    }

    /// Returns a base that must exist, locked until the end of the transaction.
    pub(crate) async fn locked_base(
        &self,
        client: &impl GenericClient,
        key: &BaseKey,
    ) -> Result<FoundBase, Failure> {
        self.base_by(LOCK, client, key).await
    }

    async fn base_by(
        &self,
        sql: &str,
        client: &impl GenericClient,
        key: &BaseKey,
    ) -> Result<FoundBase, Failure> {
        let rows = self.query_base(client, key, sql, &[]).await?;
        found(rows.first().ok_or_else(|| StoreError::no_base(&key.base))?)
    }

    /// Runs a statement whose first parameters are the tenant and the base, and returns its rows.
    pub(super) async fn query_base(
        &self,
        client: &impl GenericClient,
        key: &BaseKey,
        text: &str,
        more: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Failure> {
        let (tenant, base) = (key.tenant.as_str(), key.base.as_str());
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&tenant, &base];
        params.extend(more);
        let statement = client.prepare_cached(&self.sql(text)).await?;
        Ok(client.query(&statement, &params).await?)
    }

    pub(crate) async fn bases(
        &self,
        tenant: &Tenant,
        after: Option<&BaseId>,
        max: usize,
    ) -> Result<Vec<BaseInfo>, StoreError> {
        let after = after.map_or("", BaseId::as_str);
        let bases = self.select(BASES, &[&tenant.as_str(), &after, &to_sql(max as u64)], found).await?;
        Ok(bases.into_iter().map(|it| it.info).collect())
    }

    pub(crate) async fn put_base(
        &self,
        key: &BaseKey,
        settings: &BaseSettings,
        at: Timestamp,
    ) -> Result<BaseInfo, StoreError> {
        // It is plain data: writing it does not fail.
        let settings = &serde_json::to_vec(settings).unwrap_or_default();
        self.run(|client, _| async move {
            let statement = client.prepare_cached(&self.current_sql(PUT)).await?;
            let (tenant, base) = (key.tenant.as_str(), key.base.as_str());
            match client.query_opt(&statement, &[&tenant, &base, settings, &at.0]).await? {
                Some(row) => Ok(found(&row)?.info),
                None => {
                    self.check_current(&client).await?;
                    Err(Failure::Raced)
                }
            }
        })
        .await
    }

    pub(crate) async fn delete_base(&self, key: &BaseKey) -> Result<bool, StoreError> {
        self.run(|mut client, _| async move {
            let transaction = begin(&mut client).await?;
            self.check_current(&transaction).await?;
            match self.locked_base(&transaction, key).await {
                Ok(_) => {}
                Err(Failure::Answer(StoreError::NotFound { .. })) => return Ok(false),
                Err(err) => return Err(err),
            }
            for sql in DELETE {
                self.query_base(&transaction, key, sql, &[]).await?;
            }
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }
}
