//! Reads documents and chunks.

use std::collections::{BTreeMap, BTreeSet};

use contexture_history::Timestamp;
use contexture_session::sources::{ChunkSelection, SourceInfo, StoredChunk};
use contexture_session::{BaseKey, SourceId, StoreError};
use deadpool_postgres::{Client, GenericClient, Transaction};
use tokio_postgres::{IsolationLevel, Row};

use super::{json, text};
use crate::database::Database;
use crate::failure::Failure;
use crate::log::BaseClient;
use crate::numbers::{number, to_sql};

const SOURCES_WITH: &str = "\
    SELECT id, title, origin, media_type, metadata, version, bytes, at, first, chunks
    FROM {schema}.sources WHERE tenant = $1 AND base = $2 AND id = ANY ($3::text[]) ORDER BY id";
const SOURCES: &str = "\
    SELECT id, title, origin, media_type, metadata, version, bytes, at, first, chunks
    FROM {schema}.sources WHERE tenant = $1 AND base = $2 AND id > $3 ORDER BY id LIMIT $4";
const CHUNKS: &str = "\
    SELECT source, no, position, section, byte_start, byte_end, char_start, char_end, headings, text
    FROM {schema}.chunks WHERE tenant = $1 AND base = $2 AND no = ANY ($3::bigint[]) ORDER BY no";

/// Begins a transaction in which all statements see one moment.
pub(super) async fn begin_reading(client: &mut Client) -> Result<Transaction<'_>, tokio_postgres::Error> {
    client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true).start().await
}

fn small(row: &Row, column: usize) -> Result<u32, Failure> {
    Ok(u32::try_from(number(row, column)?).unwrap_or(u32::MAX))
}

fn source(row: &Row) -> Result<SourceInfo, Failure> {
    let origin: Option<Vec<u8>> = row.try_get(2)?;
    Ok(SourceInfo {
        id: SourceId::parse(row.try_get::<_, String>(0)?)?,
        title: text(row.try_get(1)?)?,
        origin: origin.map(text).transpose()?,
        media_type: text(row.try_get(3)?)?,
        metadata: json(row.try_get(4)?)?,
        version: text(row.try_get(5)?)?,
        bytes: number(row, 6)?,
        at: Timestamp(row.try_get(7)?),
        first: number(row, 8)?,
        chunks: small(row, 9)?,
    })
}

impl Database {
    pub(crate) async fn sources(
        &self,
        key: &BaseKey,
        after: Option<&SourceId>,
        max: usize,
    ) -> Result<Vec<SourceInfo>, StoreError> {
        let after = after.map_or("", SourceId::as_str);
        self.run(|client, _| async move {
            let base = BaseClient { database: self, client: &client, key };
            base.existing().await?;
            let rows = base.query(SOURCES, &[&after, &to_sql(max as u64)]).await?;
            rows.iter().map(source).collect()
        })
        .await
    }

    pub(crate) async fn sources_with(
        &self,
        key: &BaseKey,
        ids: &[SourceId],
    ) -> Result<Vec<SourceInfo>, StoreError> {
        self.run(|client, _| async move {
            let base = BaseClient { database: self, client: &client, key };
            base.existing().await?;
            base.sources_with(ids).await
        })
        .await
    }

    pub(crate) async fn chunks(
        &self,
        key: &BaseKey,
        selection: &ChunkSelection,
    ) -> Result<Vec<StoredChunk>, StoreError> {
        self.run(|mut client, _| async move {
            let transaction = begin_reading(&mut client).await?;
            let base = BaseClient { database: self, client: &transaction, key };
            base.existing().await?;
            let nos = match selection {
                ChunkSelection::Numbers(nos) => nos.clone(),
                ChunkSelection::Range { source, positions } => {
                    let found = base.sources_with(std::slice::from_ref(source)).await?;
                    found.iter().flat_map(|it| it.numbers(positions)).collect()
                }
            };
            let chunks = base.chunks_with_sources(&nos).await?;
            transaction.commit().await?;
            Ok(chunks.into_values().map(|(chunk, _)| chunk).collect())
        })
        .await
    }
}

impl<C: GenericClient> BaseClient<'_, C> {
    async fn sources_with(&self, ids: &[SourceId]) -> Result<Vec<SourceInfo>, Failure> {
        let ids: Vec<&str> = ids.iter().map(SourceId::as_str).collect();
        self.query(SOURCES_WITH, &[&ids]).await?.iter().map(source).collect()
    }

    /// Returns the existing chunks with their documents, by their numbers.
    pub(super) async fn chunks_with_sources(
        &self,
        nos: &[u64],
    ) -> Result<BTreeMap<u64, (StoredChunk, SourceInfo)>, Failure> {
        let nos: Vec<i64> = nos.iter().map(|it| to_sql(*it)).collect();
        let rows = self.query(CHUNKS, &[&nos]).await?;
        let id =
            |row: &Row| -> Result<SourceId, Failure> { Ok(SourceId::parse(row.try_get::<_, String>(0)?)?) };
        let ids = rows.iter().map(id).collect::<Result<BTreeSet<SourceId>, _>>()?;
        let sources = self.sources_with(&Vec::from_iter(ids)).await?;
        let sources: BTreeMap<&SourceId, &SourceInfo> = sources.iter().map(|it| (&it.id, it)).collect();
        let mut chunks = BTreeMap::new();
        for row in &rows {
            let id = id(row)?;
            let missing = || Failure::Damaged(format!("a chunk of a missing document `{id}`"));
            let source = sources.get(&id).copied().ok_or_else(missing)?;
            let chunk = StoredChunk {
                no: number(row, 1)?,
                source: id,
                position: small(row, 2)?,
                of: source.chunks,
                headings: json(row.try_get(8)?)?,
                section: small(row, 3)?,
                bytes: number(row, 4)?..number(row, 5)?,
                chars: number(row, 6)?..number(row, 7)?,
                text: text(row.try_get(9)?)?,
            };
            chunks.insert(chunk.no, (chunk, source.clone()));
        }
        Ok(chunks)
    }
}
