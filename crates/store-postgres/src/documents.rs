//! Documents, next to the logs.
//!
//! A document's session is locked against removal while it is written. Deleting a session waits for those writers, and
//! removes what they wrote.
//!
//! A write whose connection is lost during the commit is an error: a retry could find what it created itself, or undo
//! what others did since.

use contexture_history::Timestamp;
use contexture_session::documents::{Document, DocumentKey};
use contexture_session::{SessionId, StoreError, Tenant};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::database::Database;
use crate::failure::Failure;
use crate::numbers::to_sql;

const DOCUMENT: &str = "\
    SELECT at, data FROM {schema}.documents
    WHERE tenant = $1 AND session = $2 AND kind = $3 AND name = $4";

const LIST: &str = "\
    SELECT tenant, session, name, at, data FROM {schema}.documents
    WHERE kind = $1 AND (tenant, session, name) > ($2, $3, $4) ORDER BY tenant, session, name LIMIT $5";

/// If a newer program has changed the tables, nothing is written; [`Database::check_current`] then tells why.
const CREATE: &str = "\
    WITH there AS MATERIALIZED (
        SELECT FROM {schema}.sessions WHERE tenant = $1 AND session = $2 FOR KEY SHARE
    )
    INSERT INTO {schema}.documents (tenant, session, kind, name, at, data)
    SELECT $1::text, $2::text, $3::text, $4::bytea, $5::bigint, $6::bytea
    WHERE {current} AND ($2::text = '' OR EXISTS (SELECT FROM there))";
const REPLACE: &str =
    " ON CONFLICT (tenant, session, kind, name) DO UPDATE SET at = excluded.at, data = excluded.data";

const DELETE: &str = "\
    DELETE FROM {schema}.documents
    WHERE tenant = $1 AND session = $2 AND kind = $3 AND name = $4 AND {current}";

/// Locked rows are skipped, so pruning can't deadlock with writers.
const PRUNE: &str = "\
    DELETE FROM {schema}.documents WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM {schema}.documents WHERE kind = $1 AND at < $2 AND {current} ORDER BY at LIMIT $3
        FOR UPDATE SKIP LOCKED
    ))";

impl Database {
    pub(crate) async fn put(&self, document: &Document) -> Result<(), StoreError> {
        self.write(document, &format!("{CREATE}{REPLACE}")).await
    }

    pub(crate) async fn create(&self, document: &Document) -> Result<(), StoreError> {
        self.write(document, CREATE).await
    }

    async fn write(&self, document: &Document, text: &str) -> Result<(), StoreError> {
        document.check()?;
        let Document { key, at, data } = document;
        let (tenant, session) = (key.tenant.as_str(), key.session_name());
        let (name, data) = (key.name.as_bytes(), data.as_bytes());
        self.change(text, &[&tenant, &session, &key.kind, &name, &at.0, &data], |err| {
            match err.is_duplicate() {
                true => StoreError::document_exists(key).into(),
                false => err.or_outcome_unknown(),
            }
        })
        .await?;
        Ok(())
    }

    pub(crate) async fn delete(&self, key: &DocumentKey) -> Result<(), StoreError> {
        let (tenant, session, name) = (key.tenant.as_str(), key.session_name(), key.name.as_bytes());
        self.change(DELETE, &[&tenant, &session, &key.kind, &name], Failure::or_outcome_unknown).await?;
        Ok(())
    }

    pub(crate) async fn prune(&self, kind: &str, before: Timestamp, max: usize) -> Result<u64, StoreError> {
        self.change(PRUNE, &[&kind, &before.0, &to_sql(max as u64)], |err| err).await
    }

    /// Runs a statement that changes nothing if a newer program has changed the tables.
    async fn change(
        &self,
        text: &str,
        params: &[&(dyn ToSql + Sync)],
        failed: impl Fn(Failure) -> Failure,
    ) -> Result<u64, StoreError> {
        let (text, failed) = (&self.current_sql(text), &failed);
        self.run(|client, _| async move {
            let statement = client.prepare_cached(text).await?;
            match client.execute(&statement, params).await.map_err(|err| failed(err.into()))? {
                0 => self.check_current(&client).await.map(|()| 0),
                count => Ok(count),
            }
        })
        .await
    }

    pub(crate) async fn document(&self, key: &DocumentKey) -> Result<Option<Document>, StoreError> {
        let (tenant, session, name) = (key.tenant.as_str(), key.session_name(), key.name.as_bytes());
        let document = |row: &Row| {
            Ok(Document { key: key.clone(), at: Timestamp(row.try_get(0)?), data: text(row.try_get(1)?)? })
        };
        Ok(self.select(DOCUMENT, &[&tenant, &session, &key.kind, &name], document).await?.pop())
    }

    pub(crate) async fn list(
        &self,
        kind: &str,
        after: Option<&DocumentKey>,
        max: usize,
    ) -> Result<Vec<Document>, StoreError> {
        // No tenant is empty, so all keys come after the empty one.
        let (of, session, name) =
            after.map_or(("", "", &[][..]), |it| (it.tenant.as_str(), it.session_name(), it.name.as_bytes()));
        let listed = |row: &Row| {
            let (tenant, session): (_, String) =
                (Tenant::parse(row.try_get::<_, String>(0)?)?, row.try_get(1)?);
            let session = (!session.is_empty()).then(|| SessionId::parse(session)).transpose()?;
            let key = DocumentKey { tenant, session, kind: kind.to_owned(), name: text(row.try_get(2)?)? };
            Ok(Document { key, at: Timestamp(row.try_get(3)?), data: text(row.try_get(4)?)? })
        };
        self.select(LIST, &[&kind, &of, &session, &name, &to_sql(max as u64)], listed).await
    }
}

/// Returns a stored text.
fn text(bytes: Vec<u8>) -> Result<String, Failure> {
    String::from_utf8(bytes).map_err(|err| Failure::Damaged(format!("a text of a document: {err}")))
}
