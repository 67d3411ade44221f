//! Writes documents: a few statements, whatever there is to write, and one commit.
//!
//! Sessions are locked against removal in each statement, and documents of a missing session are left out. Deleting a
//! session waits for those writers, and removes what they wrote. Required documents and their sessions are locked
//! first, against deletion. Rows are locked in key order, so writers can't deadlock.
//!
//! A write whose connection is lost before the commit is retried. If it is lost during the commit the outcome is
//! unknown, and that is an error: a retry could find what it created itself, or undo what others did since.

use std::collections::{BTreeMap, BTreeSet};

use contexture_session::StoreError;
use contexture_session::documents::{Document, DocumentKey, Writes};
use deadpool_postgres::{Client, GenericClient};
use futures::try_join;
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;

use super::read::KeyParams;
use crate::database::{Database, begin};
use crate::failure::Failure;

/// The sessions among `$1` and `$2` that exist, locked until the end of the transaction.
const THERE: &str = "\
    WITH there AS MATERIALIZED (
        SELECT it.tenant, it.session
        FROM (SELECT DISTINCT tenant, session FROM unnest($1::text[], $2::text[]) AS key (tenant, session)
              ORDER BY tenant, session) AS it
        CROSS JOIN LATERAL (
            SELECT FROM {schema}.sessions WHERE tenant = it.tenant AND session = it.session FOR KEY SHARE
        ) AS session
    )";
/// If a newer program has changed the tables, nothing matches; [`Database::check_current`] then tells why.
const IS_THERE: &str =
    "{current} AND (it.session = '' OR (it.tenant, it.session) IN (SELECT tenant, session FROM there))";

const PUTS: &str = "\
    {there}
    INSERT INTO {schema}.documents (tenant, session, kind, name, at, data)
    SELECT it.* FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::bytea[])
        AS it (tenant, session, kind, name, at, data)
    WHERE {is_there}";
const REPLACE: &str =
    " ON CONFLICT (tenant, session, kind, name) DO UPDATE SET at = excluded.at, data = excluded.data";

/// The indexes of the documents among `$1` to `$4` that exist, and stay for the rest of the transaction. The lock is
/// the one that deletes take, so two deletes of the same document can't deadlock. Their sessions come first, as when a
/// session is deleted.
const REQUIRED: &str = "\
    {there}
    SELECT it.place FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[])
        WITH ORDINALITY AS it (tenant, session, kind, name, place)
    CROSS JOIN LATERAL (
        SELECT FROM {schema}.documents
        WHERE tenant = it.tenant AND session = it.session AND kind = it.kind AND name = it.name
        FOR UPDATE
    ) AS document
    WHERE {is_there}";

const DELETES: &str = "\
    DELETE FROM {schema}.documents WHERE ctid = ANY (ARRAY(
        SELECT document.place
        FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[]) AS it (tenant, session, kind, name)
        CROSS JOIN LATERAL (
            SELECT ctid AS place FROM {schema}.documents
            WHERE tenant = it.tenant AND session = it.session AND kind = it.kind AND name = it.name AND {current}
            FOR UPDATE
        ) AS document
    ))";

/// A write as columns of parameters.
#[derive(Debug)]
struct Prepared<'a> {
    writes: &'a Writes,
    puts: DocumentParams<'a>,
    creates: DocumentParams<'a>,
    deletes: KeyParams<'a>,
    required: Vec<&'a DocumentKey>,
}

/// Documents in the order of their keys, each once.
#[derive(Debug)]
struct DocumentParams<'a> {
    keys: KeyParams<'a>,
    times: Vec<i64>,
    data: Vec<&'a [u8]>,
}

impl<'a> DocumentParams<'a> {
    fn new(documents: &'a [Document]) -> Self {
        // The last of equal keys counts, and one statement may write a row only once.
        let unique: BTreeMap<&DocumentKey, &Document> = documents.iter().map(|it| (&it.key, it)).collect();
        DocumentParams {
            keys: KeyParams::new(unique.keys().copied()),
            times: unique.values().map(|it| it.at.0).collect(),
            data: unique.values().map(|it| it.data.as_bytes()).collect(),
        }
    }

    fn columns(&self) -> [&(dyn ToSql + Sync); 6] {
        let [tenants, sessions, kinds, names] = self.keys.columns();
        [tenants, sessions, kinds, names, &self.times, &self.data]
    }
}

impl<'a> Prepared<'a> {
    fn new(writes: &'a Writes) -> Self {
        Prepared {
            writes,
            puts: DocumentParams::new(&writes.puts),
            creates: DocumentParams::new(&writes.creates),
            deletes: KeyParams::new(writes.deletes.iter()),
            required: writes.required().into_iter().collect(),
        }
    }

    /// Whether it has something to require, puts, creates and deletes.
    fn parts(&self) -> [bool; 4] {
        let Writes { puts, creates, deletes, .. } = self.writes;
        [self.required.is_empty(), puts.is_empty(), creates.is_empty(), deletes.is_empty()].map(|it| !it)
    }
}

impl Database {
    pub(crate) async fn write(&self, writes: &Writes) -> Result<(), StoreError> {
        writes.check()?;
        if writes.is_empty() {
            return Ok(());
        }
        let prepared = &Prepared::new(writes);
        let written = self.run(|client, _| async move { self.write_once(client, prepared).await }).await;
        match written {
            Err(StoreError::Exists { .. }) => Err(self.existing(writes).await?),
            other => other,
        }
    }

    async fn write_once(&self, mut client: Client, prepared: &Prepared<'_>) -> Result<(), Failure> {
        let n_parts = prepared.parts().iter().filter(|it| **it).count();
        let written = if n_parts == 1 {
            // One statement is one transaction.
            self.write_current(&client, prepared).await.map_err(Failure::or_outcome_unknown)
        } else {
            let transaction = begin(&mut client).await?;
            match self.write_current(&transaction, prepared).await {
                Ok(()) => transaction.commit().await.map_err(|err| Failure::from(err).or_outcome_unknown()),
                Err(err) => Err(err),
            }
        };
        written.map_err(|err| match (err.is_duplicate(), prepared.writes.creates.first()) {
            (true, Some(create)) => StoreError::document_exists(&create.key).into(),
            _ => err,
        })
    }

    /// Writes all parts, unless a newer program has changed the tables. Whether one has is asked only if something was
    /// left out: then that may be why.
    async fn write_current(
        &self,
        client: &impl GenericClient,
        prepared: &Prepared<'_>,
    ) -> Result<(), Failure> {
        match self.write_parts(client, prepared).await {
            Ok(true) => Ok(()),
            Ok(false) => self.check_current(client).await,
            Err(missing @ Failure::Answer(StoreError::NotFound { .. })) => {
                // A later part may have failed; then the transaction answers no more queries.
                match self.check_current(client).await {
                    Err(newer @ Failure::Answer(_)) => Err(newer),
                    _ => Err(missing),
                }
            }
            Err(err) => Err(err),
        }
    }

    /// Pipelines all statements; the database runs them in this order. They are all prepared first, since preparing
    /// one in between would break the order. Returns whether nothing was left out.
    async fn write_parts(
        &self,
        client: &impl GenericClient,
        prepared: &Prepared<'_>,
    ) -> Result<bool, Failure> {
        let Prepared { puts, creates, deletes, .. } = prepared;
        let [has_required, has_puts, has_creates, has_deletes] = prepared.parts();
        let statement = async |is_needed: bool, text: String| match is_needed {
            true => client.prepare_cached(&text).await.map(Some),
            false => Ok(None),
        };
        let (require, put, create, delete) = try_join!(
            statement(has_required, self.there_sql(REQUIRED)),
            statement(has_puts, self.there_sql(&format!("{PUTS}{REPLACE}"))),
            statement(has_creates, self.there_sql(PUTS)),
            statement(has_deletes, self.current_sql(DELETES)),
        )?;
        let (put_columns, create_columns, delete_columns) =
            (puts.columns(), creates.columns(), deletes.columns());
        let ((), n_puts, n_creates, n_deletes) = try_join!(
            lock_required(client, require, prepared),
            execute(client, put, &put_columns),
            execute(client, create, &create_columns),
            execute(client, delete, &delete_columns),
        )?;
        let n_asked = puts.times.len() + creates.times.len() + deletes.names.len();
        Ok(n_puts + n_creates + n_deletes == n_asked as u64)
    }

    fn there_sql(&self, text: &str) -> String {
        self.current_sql(&text.replace("{there}", THERE).replace("{is_there}", IS_THERE))
    }

    /// Returns the error for a write that creates an existing document.
    async fn existing(&self, writes: &Writes) -> Result<StoreError, StoreError> {
        let keys: Vec<DocumentKey> = writes.creates.iter().map(|it| it.key.clone()).collect();
        let found = self.documents(&keys).await?;
        // Its creator may have deleted it since.
        let key = found.first().map(|it| &it.key).or_else(|| keys.first());
        let what = "document";
        Ok(key.map_or(StoreError::Exists { what, id: String::new() }, StoreError::document_exists))
    }
}

async fn lock_required(
    client: &impl GenericClient,
    statement: Option<Statement>,
    prepared: &Prepared<'_>,
) -> Result<(), Failure> {
    let Some(statement) = statement else { return Ok(()) };
    let keys = KeyParams::new(prepared.required.iter().copied());
    let rows = client.query(&statement, &keys.columns()).await?;
    let found = rows.iter().map(|it| it.try_get(0)).collect::<Result<BTreeSet<i64>, _>>()?;
    let mut places = (1..).zip(&prepared.required);
    match places.find(|(place, _)| !found.contains(place)) {
        Some((_, missing)) => Err(StoreError::no_document(missing).into()),
        None => Ok(()),
    }
}

async fn execute(
    client: &impl GenericClient,
    statement: Option<Statement>,
    params: &[&(dyn ToSql + Sync)],
) -> Result<u64, Failure> {
    let Some(statement) = statement else { return Ok(0) };
    Ok(client.execute(&statement, params).await?)
}
