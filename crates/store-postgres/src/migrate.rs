//! The tables, and how they get from one version to the next.
//!
//! All missing migrations are applied in one transaction. Programs that start together wait for each other at a lock,
//! so each migration runs once.
//!
//! A program that runs while a newer one changes the tables stops writing: every write reads the version in its own
//! transaction ([`CURRENT`]). The change has the table of versions locked against that, so a write is either done
//! before it begins, or sees the new version.

use contexture_session::StoreError;
use deadpool_postgres::{Client, GenericClient, Transaction};

use crate::database::{Database, begin};
use crate::failure::{Failure, unavailable};

/// The steps, in order: the first one makes version 1.
const STEPS: &[&str] = &[
    include_str!("../migrations/0001.sql"),
    include_str!("../migrations/0002.sql"),
    include_str!("../migrations/0003.sql"),
    include_str!("../migrations/0004.sql"),
    include_str!("../migrations/0005.sql"),
];

/// The first version in which archived items are ranked by their terms.
const ARCHIVES_RANKED: usize = 5;

const SCHEMA: &str = "\
    CREATE SCHEMA IF NOT EXISTS {schema};
    CREATE TABLE IF NOT EXISTS {schema}.schema_version (version integer PRIMARY KEY)";

/// Whether the tables have no newer version than this program knows, as a condition of a statement.
const CURRENT: &str =
    "NOT EXISTS (SELECT FROM {schema}.schema_version AS newer WHERE newer.version > {known})";
/// From here on no write begins, until the tables are changed.
const HALT: &str = "LOCK TABLE {schema}.schema_version IN ACCESS EXCLUSIVE MODE";

impl Database {
    /// Returns the text of a statement with the schema and the version check filled in.
    pub(crate) fn current_sql(&self, text: &str) -> String {
        self.sql(&text.replace("{current}", CURRENT).replace("{known}", &STEPS.len().to_string()))
    }

    /// Refuses to write to tables that a newer program has changed.
    pub(crate) async fn check_current(&self, client: &impl GenericClient) -> Result<(), Failure> {
        self.version(client).await.map(drop)
    }

    /// Begins a transaction that writes, unless a newer program has changed the tables.
    pub(crate) async fn begin_writing<'a>(&self, client: &'a mut Client) -> Result<Transaction<'a>, Failure> {
        let transaction = begin(client).await?;
        self.check_current(&transaction).await?;
        Ok(transaction)
    }

    /// Returns the version of the tables, which this program must know.
    async fn version(&self, client: &impl GenericClient) -> Result<usize, Failure> {
        let statement = client.prepare_cached(&self.sql(VERSION)).await?;
        let found: i32 = client.query_one(&statement, &[]).await?.try_get(0)?;
        let found = usize::try_from(found).unwrap_or(0);
        if found <= STEPS.len() {
            return Ok(found);
        }
        let number = |version: usize| u32::try_from(version).unwrap_or(u32::MAX);
        let place = format!("{} (schema {})", self.place, self.config.schema);
        Err(StoreError::Newer { place, found: number(found), known: number(STEPS.len()) }.into())
    }
}

/// Migrates the database, or returns why this program can't use it.
pub(crate) async fn migrate(database: &Database, mut client: Client) -> Result<(), Failure> {
    check_encoding(&client).await?;
    // Most of the time nothing is missing, and then no right to create anything is needed.
    if found_version(database, &client).await? == STEPS.len() {
        return Ok(());
    }
    let transaction = begin(&mut client).await?;
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))";
    transaction.execute(lock, &[&format!("contexture schema {}", database.config.schema)]).await?;
    transaction.batch_execute(&database.sql(SCHEMA)).await?;
    transaction.batch_execute(&database.sql(HALT)).await?;
    let version = database.version(&transaction).await?;
    for (idx, step) in STEPS.iter().enumerate().skip(version) {
        transaction.batch_execute(&database.sql(step)).await?;
        let applied = i32::try_from(idx + 1).unwrap_or(i32::MAX);
        let insert = database.sql("INSERT INTO {schema}.schema_version (version) VALUES ($1)");
        transaction.execute(&insert, &[&applied]).await?;
    }
    if (1..ARCHIVES_RANKED).contains(&version) {
        database.refresh_archives(&transaction).await?;
    }
    transaction.commit().await?;
    Ok(())
}

async fn check_encoding(client: &Client) -> Result<(), Failure> {
    let row = client.query_one("SELECT current_setting('server_encoding')", &[]).await?;
    let encoding: String = row.try_get(0)?;
    if encoding == "UTF8" {
        return Ok(());
    }
    Err(unavailable(format!("its encoding is {encoding}, and has to be UTF8")).into())
}

/// Returns the version of the tables, 0 if there are none.
async fn found_version(database: &Database, client: &Client) -> Result<usize, Failure> {
    let name = format!("{}.schema_version", database.config.schema);
    let row = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&name]).await?;
    if !row.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    database.version(client).await
}

const VERSION: &str = "SELECT coalesce(max(version), 0) FROM {schema}.schema_version";
