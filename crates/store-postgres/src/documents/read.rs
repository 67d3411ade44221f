//! Reads documents.

use contexture_history::Timestamp;
use contexture_session::StoreError;
use contexture_session::documents::{Document, DocumentKey, DocumentList};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::{session_name, text};
use crate::database::Database;
use crate::failure::Failure;
use crate::head::{session_id, tenant};
use crate::numbers::to_sql;

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
    pub(crate) async fn documents(&self, keys: &[DocumentKey]) -> Result<Vec<Document>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let document = |row: &Row| {
            let place: i64 = row.try_get(0)?;
            let key = usize::try_from(place - 1).ok().and_then(|it| keys.get(it)).cloned();
            let key = key.ok_or_else(|| Failure::Damaged(format!("a document at place {place}")))?;
            Ok(Document { key, at: Timestamp(row.try_get(1)?), data: text(row.try_get(2)?)? })
        };
        self.select(DOCUMENTS, &KeyParams::new(keys.iter()).columns(), document).await
    }

    pub(crate) async fn list(&self, list: &DocumentList) -> Result<Vec<Document>, StoreError> {
        let Some(start) = &list.start() else { return Ok(Vec::new()) };
        let (place, order) = match (&list.tenant, &list.session) {
            (None, _) => OF_ALL,
            (Some(_), None) => OF_TENANT,
            (Some(_), Some(_)) => OF_SESSION,
        };
        let sql = LIST.replace("{place}", place).replace("{order}", order);
        let (name, max) = (start.name.as_bytes(), to_sql(list.max as u64));
        let listed = |row: &Row| listed(row, &list.kind);
        self.select(&sql, &[&list.kind, &start.tenant, &start.session, &name, &max], listed).await
    }
}

/// Keys of documents as columns.
#[derive(Debug)]
pub(super) struct KeyParams<'a> {
    tenants: Vec<&'a str>,
    sessions: Vec<&'a str>,
    kinds: Vec<&'a str>,
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

    pub(super) fn columns(&self) -> [&(dyn ToSql + Sync); 4] {
        [&self.tenants, &self.sessions, &self.kinds, &self.names]
    }
}

fn listed(row: &Row, kind: &str) -> Result<Document, Failure> {
    let (tenant, session): (_, String) = (tenant(row.try_get(0)?)?, row.try_get(1)?);
    let session = (!session.is_empty()).then(|| session_id(session)).transpose()?;
    let key = DocumentKey { tenant, session, kind: kind.to_owned(), name: text(row.try_get(2)?)? };
    Ok(Document { key, at: Timestamp(row.try_get(3)?), data: text(row.try_get(4)?)? })
}
