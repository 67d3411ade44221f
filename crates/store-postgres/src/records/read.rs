//! Reads records and documents.

use contexture_history::Timestamp;
use contexture_session::records::{Document, DocumentKey, DocumentList, Extent, Record, StreamKey};
use contexture_session::{StoreError, Tenant};
use tokio_postgres::Row;

use super::{session_name, text};
use crate::database::Database;
use crate::failure::Failure;
use crate::head::session_id;
use crate::numbers::{from_sql, to_sql};

const FORWARD: &str = "\
    SELECT number, at, data FROM {schema}.records
    WHERE tenant = $1 AND session = $2 AND kind = $3 AND number > $4 ORDER BY number LIMIT $5";
const BACKWARD: &str = "\
    SELECT number, at, data FROM {schema}.records
    WHERE tenant = $1 AND session = $2 AND kind = $3 AND number < $4 ORDER BY number DESC LIMIT $5";
const EXTENT: &str = "\
    SELECT forgotten, last FROM {schema}.streams WHERE tenant = $1 AND session = $2 AND kind = $3";

/// The limit makes one search in an index of each key, whatever the tables look like.
const DOCUMENTS: &str = "\
    SELECT it.place, document.at, document.data
    FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[])
        WITH ORDINALITY AS it (tenant, session, kind, name, place)
    CROSS JOIN LATERAL (
        SELECT at, data FROM {schema}.documents
        WHERE tenant = it.tenant AND session = it.session AND kind = it.kind AND name = it.name LIMIT 1
    ) AS document
    ORDER BY it.place";

const LIST: &str = "\
    SELECT tenant, session, name, at, data FROM {schema}.documents WHERE kind = $1 AND {place}
    ORDER BY {order} LIMIT $5";
/// The start of a list and its order, without the columns that are constant in it.
const OF_ALL: (&str, &str) = ("(tenant, session, name) >= ($2, $3, $4)", "tenant, session, name");
const OF_TENANT: (&str, &str) = ("tenant = $2 AND (session, name) >= ($3, $4)", "session, name");
const OF_SESSION: (&str, &str) = ("tenant = $2 AND session = $3 AND name >= $4", "name");

impl Database {
    pub(crate) async fn records(
        &self,
        stream: &StreamKey,
        after: u64,
        max: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.read_records(FORWARD, stream, after, max).await
    }

    pub(crate) async fn records_back(
        &self,
        stream: &StreamKey,
        before: Option<u64>,
        max: usize,
    ) -> Result<Vec<Record>, StoreError> {
        self.read_records(BACKWARD, stream, before.unwrap_or(u64::MAX), max).await
    }

    async fn read_records(
        &self,
        sql: &str,
        stream: &StreamKey,
        bound: u64,
        max: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let (tenant, session) = (&stream.tenant.as_str(), &session_name(stream.session.as_ref()));
        let (bound, max) = (&to_sql(bound), &to_sql(max as u64));
        self.run(|client, _| async move {
            let statement = client.prepare_cached(&self.sql(sql)).await?;
            let rows = client.query(&statement, &[tenant, session, &stream.kind, bound, max]).await?;
            rows.iter().map(record).collect()
        })
        .await
    }

    pub(crate) async fn extent(&self, stream: &StreamKey) -> Result<Extent, StoreError> {
        let (tenant, session) = (&stream.tenant.as_str(), &session_name(stream.session.as_ref()));
        self.run(|client, _| async move {
            let statement = client.prepare_cached(&self.sql(EXTENT)).await?;
            let row = client.query_opt(&statement, &[tenant, session, &stream.kind]).await?;
            let Some(row) = row else { return Ok(Extent::default()) };
            Ok(Extent { forgotten: from_sql(row.try_get(0)?), last: from_sql(row.try_get(1)?) })
        })
        .await
    }

    pub(crate) async fn documents(&self, keys: &[DocumentKey]) -> Result<Vec<Document>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let params = &KeyParams::new(keys.iter());
        self.run(|client, _| async move {
            let statement = client.prepare_cached(&self.sql(DOCUMENTS)).await?;
            let KeyParams { tenants, sessions, kinds, names } = params;
            let rows = client.query(&statement, &[tenants, sessions, kinds, names]).await?;
            let document = |row: &Row| {
                let place: i64 = row.try_get(0)?;
                let key = usize::try_from(place - 1).ok().and_then(|it| keys.get(it)).cloned();
                let key = key.ok_or_else(|| Failure::Damaged(format!("a document at place {place}")))?;
                Ok(Document { key, at: Timestamp(row.try_get(1)?), data: text(row.try_get(2)?)? })
            };
            rows.iter().map(document).collect()
        })
        .await
    }

    pub(crate) async fn list_documents(&self, list: &DocumentList) -> Result<Vec<Document>, StoreError> {
        let Some(start) = &list.start() else { return Ok(Vec::new()) };
        let (place, order) = match (&list.tenant, &list.session) {
            (None, _) => OF_ALL,
            (Some(_), None) => OF_TENANT,
            (Some(_), Some(_)) => OF_SESSION,
        };
        let sql = &self.sql(&LIST.replace("{place}", place).replace("{order}", order));
        let (name, max) = (&start.name.as_bytes(), &to_sql(list.max as u64));
        self.run(|client, _| async move {
            let statement = client.prepare_cached(sql).await?;
            let rows =
                client.query(&statement, &[&list.kind, &start.tenant, &start.session, name, max]).await?;
            rows.iter().map(|it| listed(it, &list.kind)).collect()
        })
        .await
    }
}

/// Keys of documents as columns.
#[derive(Debug)]
pub(super) struct KeyParams<'a> {
    pub(super) tenants: Vec<&'a str>,
    pub(super) sessions: Vec<&'a str>,
    pub(super) kinds: Vec<&'a str>,
    pub(super) names: Vec<&'a [u8]>,
}

impl<'a> KeyParams<'a> {
    pub(super) fn new(keys: impl Iterator<Item = &'a DocumentKey> + Clone) -> Self {
        KeyParams {
            tenants: keys.clone().map(|it| it.tenant.as_str()).collect(),
            sessions: keys.clone().map(|it| session_name(it.session.as_ref())).collect(),
            kinds: keys.clone().map(|it| it.kind.as_str()).collect(),
            names: keys.map(|it| it.name.as_bytes()).collect(),
        }
    }
}

fn record(row: &Row) -> Result<Record, Failure> {
    let (number, at) = (from_sql(row.try_get(0)?), Timestamp(row.try_get(1)?));
    Ok(Record { number, at, data: text(row.try_get(2)?)? })
}

fn listed(row: &Row, kind: &str) -> Result<Document, Failure> {
    let (tenant, session): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    let tenant = Tenant::parse(tenant).map_err(|err| Failure::Damaged(err.to_string()))?;
    let session = (!session.is_empty()).then(|| session_id(session)).transpose()?;
    let key = DocumentKey { tenant, session, kind: kind.to_owned(), name: text(row.try_get(2)?)? };
    Ok(Document { key, at: Timestamp(row.try_get(3)?), data: text(row.try_get(4)?)? })
}
