//! Vectors of chunks.

use contexture_session::sources::{ChunkNo, ChunkVector, StoredChunk};
use contexture_session::{BaseKey, StoreError};

use super::read::begin_reading;
use crate::database::Database;
use crate::log::BaseClient;
use crate::numbers::{from_sql, to_sql};

const PUT: &str = "\
    INSERT INTO {schema}.chunk_vectors (tenant, base, no, model, vector)
    SELECT $1, $2, it.no, $3, it.vector FROM unnest($4::bigint[], $5::bytea[]) AS it (no, vector)
    WHERE EXISTS (SELECT FROM {schema}.chunks AS chunk WHERE tenant = $1 AND base = $2 AND chunk.no = it.no)
    ON CONFLICT (tenant, base, no) DO UPDATE SET model = excluded.model, vector = excluded.vector";
const TOUCH: &str = "UPDATE {schema}.bases SET version = version + 1 WHERE tenant = $1 AND base = $2";
const WITHOUT: &str = "\
    SELECT no FROM {schema}.chunks AS chunk WHERE tenant = $1 AND base = $2 AND no > $4 AND NOT EXISTS (
        SELECT FROM {schema}.chunk_vectors AS it
        WHERE it.tenant = $1 AND it.base = $2 AND it.no = chunk.no AND it.model = $3
    ) ORDER BY no LIMIT $5";
const VECTORS: &str = "\
    SELECT no, vector FROM {schema}.chunk_vectors
    WHERE tenant = $1 AND base = $2 AND model = $3 AND no > $4 ORDER BY no LIMIT $5";

impl Database {
    pub(crate) async fn put_vectors(
        &self,
        key: &BaseKey,
        model: &str,
        vectors: &[ChunkVector],
    ) -> Result<(), StoreError> {
        // Of two vectors of one chunk the last one counts, and one statement may write a row only once.
        let unique: std::collections::BTreeMap<ChunkNo, &ChunkVector> =
            vectors.iter().map(|it| (it.no, it)).collect();
        let nos: &Vec<i64> = &unique.keys().map(|it| to_sql(*it)).collect();
        let bytes = |it: &&ChunkVector| it.values.iter().map(|it| it.cast_unsigned()).collect();
        let values: &Vec<Vec<u8>> = &unique.values().map(bytes).collect();
        self.run(|mut client, _| async move {
            let transaction = self.begin_writing(&mut client).await?;
            let base = BaseClient { database: self, client: &transaction, key };
            base.locked().await?;
            base.query(PUT, &[&model.as_bytes(), nos, values]).await?;
            base.query(TOUCH, &[]).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    pub(crate) async fn without_vector(
        &self,
        key: &BaseKey,
        model: &str,
        after: ChunkNo,
        max: usize,
    ) -> Result<Vec<StoredChunk>, StoreError> {
        self.run(|mut client, _| async move {
            let transaction = begin_reading(&mut client).await?;
            let base = BaseClient { database: self, client: &transaction, key };
            base.existing().await?;
            let (model, after, max) = (model.as_bytes(), to_sql(after), to_sql(max as u64));
            let rows = base.query(WITHOUT, &[&model, &after, &max]).await?;
            let nos = rows.iter().map(|it| it.try_get(0).map(from_sql)).collect::<Result<Vec<_>, _>>()?;
            let chunks = base.chunks_with_sources(&nos).await?;
            transaction.commit().await?;
            Ok(chunks.into_values().map(|(chunk, _)| chunk).collect())
        })
        .await
    }

    pub(crate) async fn vectors(
        &self,
        key: &BaseKey,
        model: &str,
        after: ChunkNo,
        max: usize,
    ) -> Result<Vec<ChunkVector>, StoreError> {
        self.run(|client, _| async move {
            let base = BaseClient { database: self, client: &client, key };
            base.existing().await?;
            let (model, after, max) = (model.as_bytes(), to_sql(after), to_sql(max as u64));
            let rows = base.query(VECTORS, &[&model, &after, &max]).await?;
            let vector = |row: &tokio_postgres::Row| {
                let bytes: Vec<u8> = row.try_get(1)?;
                let values = bytes.into_iter().map(u8::cast_signed).collect();
                Ok(ChunkVector { no: from_sql(row.try_get(0)?), values })
            };
            rows.iter().map(vector).collect()
        })
        .await
    }
}
