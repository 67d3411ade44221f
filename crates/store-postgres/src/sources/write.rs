//! Replaces and removes documents, with their chunks and index entries. The base's row is locked first, so writers of
//! one base come one after the other, and its sums are right.

use contexture_session::sources::{NewChunk, NewSource, SourceChange, SourcesChanged};
use contexture_session::{BaseKey, SourceId, StoreError};
use deadpool_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::base::FoundBase;
use super::{collection, text};
use crate::database::Database;
use crate::failure::Failure;
use crate::log::BaseClient;
use crate::numbers::{from_sql, to_sql};

const FIND: &str = "\
    SELECT first, chunks, length FROM {schema}.sources WHERE tenant = $1 AND base = $2 AND id = $3";
const VERSION: &str = "SELECT version FROM {schema}.sources WHERE tenant = $1 AND base = $2 AND id = $3";
const ADD: &str = "\
    INSERT INTO {schema}.sources
        (tenant, base, id, version, first, chunks, length, bytes, at, media_type, title, origin, metadata)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
const ADD_CHUNKS: &str = "\
    INSERT INTO {schema}.chunks
        (tenant, base, source, no, position, section, byte_start, byte_end, char_start, char_end, headings, text)
    SELECT $1, $2, $3, it.* FROM unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
        $9::bigint[], $10::bigint[], $11::bytea[], $12::bytea[]) AS it";
const ADD_TERMS: &str = "\
    INSERT INTO {schema}.chunk_terms (tenant, base, at, no, position, is_last, terms, tokens)
    SELECT $1, $2, $3, it.no, it.position, it.is_last, it.terms, array_to_tsvector(string_to_array(it.tokens, ' '))
    FROM unnest($4::bigint[], $5::bigint[], $6::boolean[], $7::bytea[], $8::text[])
        AS it (no, position, is_last, terms, tokens)";
const SAVE: &str = "\
    UPDATE {schema}.bases SET documents = $3, chunks = $4, length = $5, last = $6, updated = $7, version = version + 1
    WHERE tenant = $1 AND base = $2";
const REMOVE_SOURCE: &str = "DELETE FROM {schema}.sources WHERE tenant = $1 AND base = $2 AND id = $3";

/// Chunks of a document are sent in groups of this many.
const CHUNKS_AT_ONCE: usize = 500;

impl Database {
    pub(crate) async fn change_sources(
        &self,
        key: &BaseKey,
        change: &SourceChange,
    ) -> Result<SourcesChanged, StoreError> {
        self.run(|mut client, _| async move {
            let transaction = self.begin_writing(&mut client).await?;
            // The base's row is locked from here on: what is compared stays as it is until the commit.
            let client = BaseClient { database: self, client: &transaction, key };
            let mut writer = SourceWriter { base: client.locked().await?, client };
            for expected in &change.expected {
                expected.check(writer.version(&expected.id).await?.as_deref())?;
            }
            let before = writer.base.info.documents;
            for id in &change.remove {
                writer.remove(id).await?;
            }
            let removed = before.saturating_sub(writer.base.info.documents);
            for source in &change.put {
                writer.remove(&source.info.id).await?;
                writer.add(source).await?;
            }
            writer.save().await?;
            let version = writer.base.info.version + 1;
            transaction.commit().await?;
            Ok(SourcesChanged { removed, version })
        })
        .await
    }
}

/// Writes documents of one base in one transaction.
struct SourceWriter<'a> {
    client: BaseClient<'a, Transaction<'a>>,
    base: FoundBase,
}

impl SourceWriter<'_> {
    async fn version(&self, id: &SourceId) -> Result<Option<String>, Failure> {
        let found = self.client.query(VERSION, &[&id.as_str()]).await?;
        found.first().map(|row| text(row.try_get(0)?)).transpose()
    }

    async fn remove(&mut self, id: &SourceId) -> Result<(), Failure> {
        let found = self.client.query(FIND, &[&id.as_str()]).await?;
        let Some(row) = found.first() else { return Ok(()) };
        let (first, chunks, length): (i64, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        self.client.remove_chunks(first, first + chunks).await?;
        self.client.query(REMOVE_SOURCE, &[&id.as_str()]).await?;
        self.base.info.remove(from_sql(chunks), from_sql(length));
        Ok(())
    }

    async fn add(&mut self, source: &NewSource) -> Result<(), Failure> {
        let NewSource { info, chunks } = source;
        let (first, count, length) = (self.base.last + 1, chunks.len() as u64, source.length());
        // It is plain data: writing it does not fail.
        let metadata = serde_json::to_vec(&info.metadata).unwrap_or_default();
        let values: [&(dyn ToSql + Sync); 11] = [
            &info.id.as_str(),
            &info.version.as_bytes(),
            &to_sql(first),
            &to_sql(count),
            &to_sql(length),
            &to_sql(info.bytes),
            &info.at.0,
            &info.media_type.as_bytes(),
            &info.title.as_bytes(),
            &info.origin.as_ref().map(String::as_bytes),
            &metadata,
        ];
        self.client.query(ADD, &values).await?;
        let numbered: Vec<(u64, &NewChunk)> = (0..).zip(chunks).collect();
        for some in numbered.chunks(CHUNKS_AT_ONCE) {
            self.add_chunks(source, first, some).await?;
        }
        self.base.info.add(source);
        self.base.last += count;
        Ok(())
    }

    async fn add_chunks(
        &self,
        source: &NewSource,
        first: u64,
        chunks: &[(u64, &NewChunk)],
    ) -> Result<(), Failure> {
        let column = |value: &dyn Fn(&NewChunk) -> u64| -> Vec<i64> {
            chunks.iter().map(|(_, it)| to_sql(value(it))).collect()
        };
        let nos: Vec<i64> = chunks.iter().map(|(position, _)| to_sql(first + position)).collect();
        let positions: Vec<i64> = chunks.iter().map(|(position, _)| to_sql(*position)).collect();
        let headings: Vec<Vec<u8>> =
            chunks.iter().map(|(_, it)| serde_json::to_vec(&it.headings).unwrap_or_default()).collect();
        let texts: Vec<&[u8]> = chunks.iter().map(|(_, it)| it.text.as_bytes()).collect();
        let values: [&(dyn ToSql + Sync); 10] = [
            &source.info.id.as_str(),
            &nos,
            &positions,
            &column(&|it| u64::from(it.section)),
            &column(&|it| it.bytes.start),
            &column(&|it| it.bytes.end),
            &column(&|it| it.chars.start),
            &column(&|it| it.chars.end),
            &headings,
            &texts,
        ];
        self.client.query(ADD_CHUNKS, &values).await?;
        let count = source.chunks.len() as u64;
        let is_last: Vec<bool> = chunks.iter().map(|(position, _)| position + 1 == count).collect();
        let terms: Vec<&[u8]> = chunks.iter().map(|(_, it)| it.terms.vector.as_bytes()).collect();
        let collection = collection(self.client.key);
        // A text without terms has no tokens; an empty array would be one with an empty token.
        let tokens = chunks
            .iter()
            .map(|(_, it)| (!it.terms.is_empty()).then(|| it.terms.tokens(collection).trim_end().to_owned()));
        let tokens: Vec<Option<String>> = tokens.collect();
        self.client
            .query(ADD_TERMS, &[&source.info.at.0, &nos, &positions, &is_last, &terms, &tokens])
            .await
            .map(drop)
    }

    async fn save(&self) -> Result<(), Failure> {
        let info = &self.base.info;
        let [documents, chunks, length, last] =
            [info.documents, info.chunks, info.length, self.base.last].map(to_sql);
        self.client.query(SAVE, &[&documents, &chunks, &length, &last, &info.updated.0]).await.map(drop)
    }
}
