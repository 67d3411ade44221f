//! Large texts: stored once for each tenant, counted by the threads that refer to them.
//!
//! A text is removed with its last reference. Writers that add a reference touch the text's row, and removal locks the
//! row before it looks for references, so one waits for the other.

use std::collections::{BTreeMap, BTreeSet};

use contexture_session::codec::{Blob, BlobRef, Row};
use deadpool_postgres::GenericClient;

use crate::failure::Failure;
use crate::log::LogClient;

const FETCH: &str = "SELECT hash, body FROM {schema}.blobs WHERE tenant = $1 AND hash = ANY ($2)";

/// The rows are locked in name order, so concurrent removals can't deadlock.
const LOCK: &str = "\
    SELECT hash FROM {schema}.blobs WHERE tenant = $1 AND hash = ANY ($2) ORDER BY hash FOR UPDATE";

/// A separate statement, after the locks: it sees the references of all writers it had to wait for.
const REMOVE: &str = "\
    DELETE FROM {schema}.blobs AS blob WHERE tenant = $1 AND hash = ANY ($2) AND NOT EXISTS (
        SELECT FROM {schema}.blob_refs AS ref WHERE ref.tenant = $1 AND ref.hash = blob.hash
    )";

const PLACES: &str = "\
    SELECT first_seq, blobs FROM {schema}.commits WHERE tenant = $1 AND thread = $2 AND blobs IS NOT NULL";

/// The large texts of rows, each once, in the order of their names.
#[derive(Debug, Default)]
pub(crate) struct BlobParams<'a> {
    pub(crate) hashes: Vec<&'a str>,
    pub(crate) bodies: Vec<&'a [u8]>,
}

impl<'a> BlobParams<'a> {
    pub(crate) fn new(rows: &'a [Row]) -> Self {
        let blobs = rows.iter().flat_map(|row| &row.blobs);
        let unique: BTreeMap<&str, &[u8]> =
            blobs.map(|it| (it.place.hash.as_str(), it.text.as_bytes())).collect();
        let (hashes, bodies) = unique.into_iter().unzip();
        BlobParams { hashes, bodies }
    }
}

/// Adds the hashes that a row with the columns `first_seq` and `blobs` refers to.
pub(crate) fn add_hashes(hashes: &mut BTreeSet<String>, row: &tokio_postgres::Row) -> Result<(), Failure> {
    let Some(places): Option<&str> = row.try_get("blobs")? else { return Ok(()) };
    let first = row.try_get("first_seq")?;
    let places: Vec<BlobRef> =
        serde_json::from_str(places).map_err(|err| Failure::damaged_row(first, &err.into()))?;
    hashes.extend(places.into_iter().map(|it| it.hash));
    Ok(())
}

/// Texts by their hashes.
pub(crate) type Texts = BTreeMap<String, String>;

/// Joins the references of a row with their texts.
pub(crate) fn joined(places: &[BlobRef], texts: &Texts) -> Result<Vec<Blob>, Failure> {
    let blob = |place: &BlobRef| match texts.get(&place.hash) {
        Some(text) => Ok(Blob { text: text.clone(), place: place.clone() }),
        None => Err(Failure::Damaged(format!("the large text {} is missing", place.hash))),
    };
    places.iter().map(blob).collect()
}

impl<C: GenericClient> LogClient<'_, C> {
    /// Returns the existing texts of the log's tenant with these hashes.
    pub(crate) async fn texts(&self, hashes: &BTreeSet<&str>) -> Result<Texts, Failure> {
        if hashes.is_empty() {
            return Ok(Texts::new());
        }
        let hashes: Vec<&str> = hashes.iter().copied().collect();
        let text = |row: tokio_postgres::Row| {
            let (hash, body): (String, Vec<u8>) = (row.try_get(0)?, row.try_get(1)?);
            let body = String::from_utf8(body)
                .map_err(|err| Failure::Damaged(format!("the large text {hash}: {err}")))?;
            Ok((hash, body))
        };
        self.query_names(FETCH, &hashes).await?.into_iter().map(text).collect()
    }

    /// Returns the hashes that the rows of the log refer to.
    pub(crate) async fn hashes_of(&self) -> Result<BTreeSet<String>, Failure> {
        let mut hashes = BTreeSet::new();
        for row in self.query(PLACES, &[]).await? {
            add_hashes(&mut hashes, &row)?;
        }
        Ok(hashes)
    }

    /// Removes those of the texts of the log's tenant that nothing refers to any more.
    pub(crate) async fn remove_unused(&self, hashes: &[String]) -> Result<(), Failure> {
        if !hashes.is_empty() {
            self.query_names(LOCK, hashes).await?;
            self.query_names(REMOVE, hashes).await?;
        }
        Ok(())
    }
}
