//! Writes records and documents: a few statements, whatever there is to write, and one commit.
//!
//! A stream's numbers come from its row, which is locked until the commit: later writers get later numbers and become
//! visible later. Rows are locked in key order, so writers can't deadlock.
//!
//! Sessions are locked against removal in each statement, and records of a missing session are left out. Deleting a
//! session waits for those writers, and removes what they wrote.
//!
//! Required documents and their sessions are locked first, against deletion; then streams, then documents.
//!
//! A write whose connection is lost before the commit is retried. If it is lost during the commit the outcome is
//! unknown, and that is an error: a retry could append everything twice.

use std::collections::{BTreeMap, BTreeSet};

use contexture_session::StoreError;
use contexture_session::records::{Document, DocumentKey, StreamKey, Writes};
use deadpool_postgres::{Client, GenericClient};
use futures::future::try_join_all;
use futures::try_join;
use tokio_postgres::Statement;

use super::read::KeyParams;
use super::session_name;
use crate::database::{Database, begin};
use crate::failure::Failure;
use crate::numbers::from_sql;

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

/// Records `$4` to `$8` of the streams `$1` to `$3`: how many each gets, and of each record its stream's place in that
/// list, its own place in the stream, its time and its text.
const RECORDS: &str = "\
    {there}, grown AS (
        INSERT INTO {schema}.streams AS stream (tenant, session, kind, forgotten, last, oldest)
        SELECT it.tenant, it.session, it.kind, 0, it.count, it.oldest
        FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[])
            AS it (tenant, session, kind, count, oldest)
        WHERE {is_there}
        ON CONFLICT (tenant, session, kind) DO UPDATE SET
            last = stream.last + excluded.last,
            oldest = CASE WHEN stream.last = stream.forgotten THEN excluded.oldest ELSE stream.oldest END
        RETURNING tenant, session, kind, last
    ), placed AS MATERIALIZED (
        SELECT it.place, grown.tenant, grown.session, grown.kind, grown.last - it.count AS before
        FROM grown
        JOIN unnest($1::text[], $2::text[], $3::text[], $4::bigint[])
            WITH ORDINALITY AS it (tenant, session, kind, count, place)
        USING (tenant, session, kind)
    ), written AS (
        INSERT INTO {schema}.records (tenant, session, kind, number, at, data)
        SELECT placed.tenant, placed.session, placed.kind, placed.before + it.idx, it.at, it.data
        FROM unnest($6::bigint[], $7::bigint[], $8::bigint[], $9::bytea[]) AS it (place, idx, at, data)
        JOIN placed USING (place)
    )
    SELECT place, before FROM placed";

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

/// The stream first: pruning and appending lock it too.
const DROP_STREAM: &str = "\
    DELETE FROM {schema}.streams WHERE tenant = $1 AND session = $2 AND kind = $3";
const DROP_RECORDS: &str = "\
    DELETE FROM {schema}.records WHERE tenant = $1 AND session = $2 AND kind = $3";

/// A write as columns of parameters.
#[derive(Debug)]
struct Prepared<'a> {
    writes: &'a Writes,
    streams: StreamParams<'a>,
    puts: DocumentParams<'a>,
    creates: DocumentParams<'a>,
    deletes: KeyParams<'a>,
    /// Streams to remove, in the order of their keys.
    drops: BTreeSet<&'a StreamKey>,
    required: Vec<&'a DocumentKey>,
}

/// The statements of the parts that a write has.
struct Statements {
    required: Option<Statement>,
    records: Option<Statement>,
    puts: Option<Statement>,
    creates: Option<Statement>,
    deletes: Option<Statement>,
    drops: Option<(Statement, Statement)>,
}

/// The result of a write.
struct Written {
    /// The numbers of the records; 0 for those that were left out.
    numbers: Vec<u64>,
    /// Whether nothing was left out.
    is_whole: bool,
}

/// Streams in the order of their keys, and records in the order in which they came.
#[derive(Debug, Default)]
struct StreamParams<'a> {
    tenants: Vec<&'a str>,
    sessions: Vec<&'a str>,
    kinds: Vec<&'a str>,
    counts: Vec<i64>,
    oldest: Vec<i64>,
    places: Vec<i64>,
    indexes: Vec<i64>,
    times: Vec<i64>,
    data: Vec<&'a [u8]>,
}

impl<'a> StreamParams<'a> {
    fn new(writes: &'a Writes) -> Self {
        let mut counts: BTreeMap<&StreamKey, (i64, i64)> = BTreeMap::new();
        let mut indexes = Vec::with_capacity(writes.records.len());
        for record in &writes.records {
            let (count, _) = counts.entry(&record.stream).or_insert((0, record.at.0));
            *count += 1;
            indexes.push(*count);
        }
        let places: BTreeMap<&StreamKey, i64> = counts.keys().copied().zip(1..).collect();
        StreamParams {
            tenants: counts.keys().map(|it| it.tenant.as_str()).collect(),
            sessions: counts.keys().map(|it| session_name(it.session.as_ref())).collect(),
            kinds: counts.keys().map(|it| it.kind.as_str()).collect(),
            oldest: counts.values().map(|it| it.1).collect(),
            counts: counts.values().map(|it| it.0).collect(),
            places: writes.records.iter().filter_map(|it| places.get(&it.stream).copied()).collect(),
            indexes,
            times: writes.records.iter().map(|it| it.at.0).collect(),
            data: writes.records.iter().map(|it| it.data.as_bytes()).collect(),
        }
    }
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
}

impl<'a> Prepared<'a> {
    fn new(writes: &'a Writes) -> Self {
        Prepared {
            writes,
            streams: StreamParams::new(writes),
            puts: DocumentParams::new(&writes.puts),
            creates: DocumentParams::new(&writes.creates),
            deletes: KeyParams::new(writes.deletes.iter()),
            drops: writes.drops.iter().collect(),
            required: writes.required().into_iter().collect(),
        }
    }

    /// Whether it has something to require, and records, puts, creates and deletes.
    fn parts(&self) -> [bool; 5] {
        let Writes { records, puts, creates, deletes, .. } = self.writes;
        let are_empty = [
            self.required.is_empty(),
            records.is_empty(),
            puts.is_empty(),
            creates.is_empty(),
            deletes.is_empty(),
        ];
        are_empty.map(|it| !it)
    }
}

impl Database {
    /// Writes records and documents, and returns the numbers of the records.
    pub(crate) async fn write_records(&self, writes: &Writes) -> Result<Vec<u64>, StoreError> {
        writes.check()?;
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let prepared = &Prepared::new(writes);
        let written = self.run(|client, _| async move { self.write_once(client, prepared).await }).await;
        match written {
            Err(StoreError::Exists { .. }) => Err(self.existing(writes).await?),
            other => other,
        }
    }

    async fn write_once(&self, mut client: Client, prepared: &Prepared<'_>) -> Result<Vec<u64>, Failure> {
        let n_parts = prepared.parts().iter().filter(|it| **it).count();
        let written = if n_parts == 1 && prepared.drops.is_empty() {
            // One statement is one transaction.
            self.write_current(&client, prepared).await.map_err(Failure::or_outcome_unknown)
        } else {
            let transaction = begin(&mut client).await?;
            let numbers = self.write_current(&transaction, prepared).await;
            match numbers {
                Ok(numbers) => {
                    transaction.commit().await.map_err(|err| Failure::from(err).or_outcome_unknown())?;
                    Ok(numbers)
                }
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
    ) -> Result<Vec<u64>, Failure> {
        if !prepared.drops.is_empty() {
            self.check_current(client).await?;
        }
        let written = self.write_parts(client, prepared).await;
        match &written {
            Ok(written) if written.is_whole => {}
            Ok(_) => self.check_current(client).await?,
            Err(Failure::Answer(StoreError::NotFound { .. })) => {
                // A later part may have failed; then the transaction answers no more queries.
                if let Err(newer @ Failure::Answer(_)) = self.check_current(client).await {
                    return Err(newer);
                }
            }
            Err(_) => {}
        }
        Ok(written?.numbers)
    }

    /// Pipelines all statements; the database runs them in this order. They are all prepared first, since preparing
    /// one in between would break the order.
    async fn write_parts(
        &self,
        client: &impl GenericClient,
        prepared: &Prepared<'_>,
    ) -> Result<Written, Failure> {
        let Statements { required, records, puts, creates, deletes, drops } =
            self.write_statements(client, prepared).await?;
        let ((), numbers, n_puts, n_creates, n_deletes, ()) = try_join!(
            lock_required(client, required, prepared),
            write_streams(client, records, &prepared.streams),
            write_documents(client, puts, &prepared.puts),
            write_documents(client, creates, &prepared.creates),
            delete_documents(client, deletes, &prepared.deletes),
            drop_streams(client, drops, &prepared.drops),
        )?;
        let documents = [&prepared.puts.keys, &prepared.creates.keys, &prepared.deletes];
        let n_asked: usize = documents.iter().map(|it| it.names.len()).sum();
        let is_whole = n_puts + n_creates + n_deletes == n_asked as u64 && !numbers.contains(&0);
        Ok(Written { numbers, is_whole })
    }

    async fn write_statements(
        &self,
        client: &impl GenericClient,
        prepared: &Prepared<'_>,
    ) -> Result<Statements, Failure> {
        let [requires, records, puts, creates, deletes] = prepared.parts();
        let statement = async |is_needed: bool, text: String| match is_needed {
            true => client.prepare_cached(&text).await.map(Some),
            false => Ok(None),
        };
        let (required, records, puts, creates, deletes) = try_join!(
            statement(requires, self.there_sql(REQUIRED)),
            statement(records, self.there_sql(RECORDS)),
            statement(puts, self.there_sql(&format!("{PUTS}{REPLACE}"))),
            statement(creates, self.there_sql(PUTS)),
            statement(deletes, self.current_sql(DELETES)),
        )?;
        let drops = match prepared.drops.is_empty() {
            true => None,
            false => {
                let [stream, records] = [DROP_STREAM, DROP_RECORDS].map(|it| self.sql(it));
                Some(try_join!(client.prepare_cached(&stream), client.prepare_cached(&records))?)
            }
        };
        Ok(Statements { required, records, puts, creates, deletes, drops })
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
    let KeyParams { tenants, sessions, kinds, names } = &KeyParams::new(prepared.required.iter().copied());
    let rows = client.query(&statement, &[tenants, sessions, kinds, names]).await?;
    let found = rows.iter().map(|it| it.try_get(0)).collect::<Result<BTreeSet<i64>, _>>()?;
    let mut places = (1..).zip(&prepared.required);
    match places.find(|(place, _)| !found.contains(place)) {
        Some((_, missing)) => Err(StoreError::no_document(missing).into()),
        None => Ok(()),
    }
}

async fn write_streams(
    client: &impl GenericClient,
    statement: Option<Statement>,
    it: &StreamParams<'_>,
) -> Result<Vec<u64>, Failure> {
    let Some(statement) = statement else { return Ok(Vec::new()) };
    let rows = client
        .query(
            &statement,
            &[
                &it.tenants,
                &it.sessions,
                &it.kinds,
                &it.counts,
                &it.oldest,
                &it.places,
                &it.indexes,
                &it.times,
                &it.data,
            ],
        )
        .await?;
    let mut before: BTreeMap<i64, i64> = BTreeMap::new();
    for row in rows {
        before.insert(row.try_get(0)?, row.try_get(1)?);
    }
    let number = |(place, idx): (&i64, &i64)| before.get(place).map_or(0, |it| from_sql(it + idx));
    Ok(it.places.iter().zip(&it.indexes).map(number).collect())
}

async fn write_documents(
    client: &impl GenericClient,
    statement: Option<Statement>,
    documents: &DocumentParams<'_>,
) -> Result<u64, Failure> {
    let Some(statement) = statement else { return Ok(0) };
    let KeyParams { tenants, sessions, kinds, names } = &documents.keys;
    let (times, data) = (&documents.times, &documents.data);
    Ok(client.execute(&statement, &[tenants, sessions, kinds, names, times, data]).await?)
}

async fn delete_documents(
    client: &impl GenericClient,
    statement: Option<Statement>,
    keys: &KeyParams<'_>,
) -> Result<u64, Failure> {
    let Some(statement) = statement else { return Ok(0) };
    let KeyParams { tenants, sessions, kinds, names } = keys;
    Ok(client.execute(&statement, &[tenants, sessions, kinds, names]).await?)
}

async fn drop_streams(
    client: &impl GenericClient,
    statements: Option<(Statement, Statement)>,
    streams: &BTreeSet<&StreamKey>,
) -> Result<(), Failure> {
    let Some((drop_stream, drop_records)) = &statements else { return Ok(()) };
    let drops = streams.iter().map(|it| async move {
        let (tenant, session) = (it.tenant.as_str(), session_name(it.session.as_ref()));
        // Another writer may create a missing stream in between; its records must not be removed.
        match client.execute(drop_stream, &[&tenant, &session, &it.kind]).await? {
            0 => Ok(0),
            _ => client.execute(drop_records, &[&tenant, &session, &it.kind]).await,
        }
    });
    try_join_all(drops).await?;
    Ok(())
}
