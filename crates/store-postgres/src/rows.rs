//! Stored rows and what is in them.

use std::collections::BTreeSet;

use contexture_history::{Item, Seq};
use contexture_session::codec::{self, BlobRef};
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;

use crate::blobs::{Texts, joined};
use crate::failure::Failure;
use crate::log::LogClient;
use crate::numbers::from_sql;

/// How many rows are decoded, and get their large texts, together.
pub(crate) const ROWS_AT_ONCE: usize = 16;

/// A row of a log, not decoded yet.
#[derive(Debug)]
pub(crate) struct StoredRow {
    /// The position of its first item.
    pub(crate) first: i64,
    count: i32,
    places: Vec<BlobRef>,
    pub(crate) row: Row,
}

impl StoredRow {
    /// Takes a row with the columns `first_seq`, `count`, `body` and `blobs`; they are null where there is none.
    pub(crate) fn new(row: Row) -> Result<Option<StoredRow>, Failure> {
        let Some(first) = row.try_get("first_seq")? else { return Ok(None) };
        let count = row.try_get("count")?;
        let places: Option<&str> = row.try_get("blobs")?;
        let places = places.map(serde_json::from_str).transpose();
        let places = places.map_err(|err| Failure::damaged_row(first, &err.into()))?.unwrap_or_default();
        Ok(Some(StoredRow { first, count, places, row }))
    }

    /// Returns the position of its last item.
    pub(crate) fn last(&self) -> i64 {
        self.first.saturating_add(i64::from(self.count)).saturating_sub(1)
    }

    fn decode(&self, texts: &Texts) -> Result<Vec<Item>, Failure> {
        let (first, count) = (Seq(from_sql(self.first)), u32::try_from(self.count).unwrap_or(0));
        let blobs = joined(&self.places, texts)?;
        codec::decode(first, count, self.row.try_get("body")?, blobs)
            .map_err(|err| Failure::damaged_row(self.first, &err))
    }
}

/// Returns rows in the order in which they came.
pub(crate) fn in_order(rows: Vec<Row>) -> Result<Vec<StoredRow>, Failure> {
    rows.into_iter().map(StoredRow::new).filter_map(Result::transpose).collect()
}

/// Returns rows by their positions, in whatever order they came.
pub(crate) fn stored(rows: Vec<Row>) -> Result<Vec<StoredRow>, Failure> {
    let mut rows = in_order(rows)?;
    rows.sort_by_key(|it| it.first);
    Ok(rows)
}

impl<C: GenericClient> LogClient<'_, C> {
    /// Returns the items of each row, with their large texts in place.
    pub(crate) async fn items(&self, rows: &[StoredRow]) -> Result<Vec<Vec<Item>>, Failure> {
        let texts = self.texts_of(rows).await?;
        rows.iter().map(|it| it.decode(&texts)).collect()
    }

    /// Returns the items of the rows that can be read.
    pub(crate) async fn readable_items(&self, rows: &[StoredRow]) -> Result<Vec<Item>, Failure> {
        let texts = self.texts_of(rows).await?;
        let decoded = rows.iter().map(|it| it.decode(&texts));
        let readable = decoded.filter(|it| !matches!(it, Err(Failure::Damaged(_))));
        Ok(readable.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    async fn texts_of(&self, rows: &[StoredRow]) -> Result<Texts, Failure> {
        let places = rows.iter().flat_map(|it| &it.places);
        let hashes: BTreeSet<&str> = places.map(|it| it.hash.as_str()).collect();
        self.texts(&hashes).await
    }
}

/// Rows as columns of parameters.
#[derive(Debug)]
pub(crate) struct RowParams<'a> {
    /// How many items come before each row.
    pub(crate) before: Vec<i64>,
    pub(crate) count: Vec<i32>,
    pub(crate) body: Vec<&'a str>,
    pub(crate) places: Vec<Option<&'a str>>,
}

impl<'a> RowParams<'a> {
    pub(crate) fn new(rows: &'a [codec::Row]) -> Self {
        let mut n_items = 0;
        let before = |row: &codec::Row| {
            n_items += i64::from(row.count);
            n_items - i64::from(row.count)
        };
        RowParams {
            before: rows.iter().map(before).collect(),
            count: rows.iter().map(|it| i32::try_from(it.count).unwrap_or(i32::MAX)).collect(),
            body: rows.iter().map(|it| it.body.as_str()).collect(),
            places: rows.iter().map(|it| it.places.as_deref()).collect(),
        }
    }
}
