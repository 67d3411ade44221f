//! Knowledge bases as a whole.

use contexture_history::Timestamp;
use contexture_session::sources::{BaseInfo, BaseSettings, ChunkNo};
use contexture_session::{BaseId, BaseKey, StoreError, Tenant};
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;

use super::json;
use crate::database::Database;
use crate::failure::Failure;
use crate::log::{BaseClient, RowKey as _};
use crate::numbers::{number, to_sql};

const BASE: &str = "\
    SELECT base, settings, documents, chunks, length, version, created, updated, last
    FROM {schema}.bases WHERE tenant = $1 AND base = $2";
const BASES: &str = "\
    SELECT base, settings, documents, chunks, length, version, created, updated, last
    FROM {schema}.bases WHERE tenant = $1 AND base > $2 ORDER BY base LIMIT $3";
const PUT: &str = "\
    INSERT INTO {schema}.bases AS it (tenant, base, settings, created, updated)
    SELECT $1, $2, $3, $4, $4 WHERE {current}
    ON CONFLICT (tenant, base) DO UPDATE SET settings = excluded.settings
    RETURNING base, settings, documents, chunks, length, version, created, updated, last";
const REMOVE_CHUNKS: [&str; 3] = [
    "DELETE FROM {schema}.chunk_terms WHERE tenant = $1 AND base = $2 AND no >= $3 AND no < $4",
    "DELETE FROM {schema}.chunk_vectors WHERE tenant = $1 AND base = $2 AND no >= $3 AND no < $4",
    "DELETE FROM {schema}.chunks WHERE tenant = $1 AND base = $2 AND no >= $3 AND no < $4",
];
/// What belongs to a base besides chunks, and then the base.
const DELETE: [&str; 2] = [
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
    let info = BaseInfo {
        base: BaseId::parse(row.try_get::<_, String>(0)?)?,
        settings: json(row.try_get(1)?)?,
        documents: number(row, 2)?,
        chunks: number(row, 3)?,
        length: number(row, 4)?,
        version: number(row, 5)?,
        created: Timestamp(row.try_get(6)?),
        updated: Timestamp(row.try_get(7)?),
    };
    Ok(FoundBase { info, last: number(row, 8)? })
}

impl<C: GenericClient> BaseClient<'_, C> {
    /// Returns the base, which must exist.
    pub(super) async fn existing(&self) -> Result<FoundBase, Failure> {
        self.found(BASE).await
    }

    /// Locks the base, which must exist, until the end of the transaction.
    pub(super) async fn locked(&self) -> Result<FoundBase, Failure> {
        self.found(&format!("{BASE} FOR UPDATE")).await
    }

    /// Removes the chunks from a number on, up to another one.
    pub(super) async fn remove_chunks(&self, first: i64, end: i64) -> Result<(), Failure> {
        for sql in REMOVE_CHUNKS {
            self.query(sql, &[&first, &end]).await?;
        }
        Ok(())
    }

    async fn found(&self, sql: &str) -> Result<FoundBase, Failure> {
        let rows = self.query(sql, &[]).await?;
        found(rows.first().ok_or_else(|| StoreError::no_base(&self.key.base))?)
    }
}

impl Database {
    pub(crate) async fn base(&self, key: &BaseKey) -> Result<Option<BaseInfo>, StoreError> {
        let (tenant, base) = key.names();
        Ok(self.select(BASE, &[&tenant, &base], found).await?.pop().map(|it| it.info))
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
            let (tenant, base) = key.names();
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
            let transaction = self.begin_writing(&mut client).await?;
            let base = BaseClient { database: self, client: &transaction, key };
            match base.locked().await {
                Ok(_) => {}
                Err(Failure::Answer(StoreError::NotFound { .. })) => return Ok(false),
                Err(err) => return Err(err),
            }
            base.remove_chunks(0, i64::MAX).await?;
            for sql in DELETE {
                base.query(sql, &[]).await?;
            }
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }
}
