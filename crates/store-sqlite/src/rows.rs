//! Stored rows and what is in them.

use std::fmt;

use contexture_history::{Item, Seq};
use contexture_session::codec::{Blob, BlobRef, RowDamaged};
use contexture_session::{ThreadKey, codec};
use rusqlite::{Connection, Row, Rows, params};

use crate::blobs::{blob, insert_blob};
use crate::failure::{Failure, StorePath};
use crate::numbers::{seq, to_sql};

/// A log's rows within one transaction.
pub(crate) struct LogRows<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) place: &'a StorePath,
    pub(crate) key: &'a ThreadKey,
    pub(crate) log: i64,
    pub(crate) end: Seq,
}

impl LogRows<'_> {
    /// Adds commits after a position, with their blobs. `numbered` is the session, and the last number given in it before
    /// these items; without it they get none.
    pub(crate) fn insert(
        &self,
        after: Seq,
        numbered: Option<(i64, u64)>,
        nonce: &str,
        rows: &[codec::Row],
    ) -> rusqlite::Result<()> {
        let sql = "INSERT INTO commits (log, first, count, session, number, nonce, blobs, body)
                   VALUES (?1, ?2, ?3, ?4, ?5, nullif(?6, ''), ?7, ?8)";
        let mut insert = self.conn.prepare_cached(sql)?;
        let mut before = 0;
        for codec::Row { count, body, blobs, places, .. } in rows {
            let first = to_sql(after.plus(before).next().0);
            let (session, number) =
                numbered.map(|(session, last)| (session, to_sql(last + before + 1))).unzip();
            insert.execute(params![self.log, first, count, session, number, nonce, places, body])?;
            blobs.iter().try_for_each(|it| insert_blob(self.conn, self.key, self.log, it))?;
            before += u64::from(*count);
        }
        Ok(())
    }

    /// Decodes the next row; nothing once there is none.
    pub(crate) fn next(&self, rows: &mut Rows<'_>) -> Result<Vec<Item>, Failure> {
        match rows.next()? {
            Some(row) => self.decode(row),
            None => Ok(Vec::new()),
        }
    }

    /// Decodes a row of `first, count, blobs, body`.
    pub(crate) fn decode(&self, row: &Row<'_>) -> Result<Vec<Item>, Failure> {
        let first = seq(row.get(0)?);
        self.decode_row(row).map_err(|err| match err {
            Failure::Damaged(err) => self.damaged(first, err),
            other => other,
        })
    }

    /// Decodes a row, or returns what is wrong with it, without its place.
    pub(crate) fn decode_row(&self, row: &Row<'_>) -> Result<Vec<Item>, Failure> {
        let blobs = match row.get_ref(2)?.as_str_or_null()? {
            Some(places) => self.blobs(places)?,
            None => Vec::new(),
        };
        Ok(codec::decode(seq(row.get(0)?), row.get(1)?, row.get_ref(3)?.as_str()?, blobs)?)
    }

    fn blobs(&self, places: &str) -> Result<Vec<Blob>, Failure> {
        let places: Vec<BlobRef> = serde_json::from_str(places).map_err(RowDamaged::from)?;
        let with_text = |place: BlobRef| match blob(self.conn, self.key.tenant.as_str(), &place.hash)? {
            Some(text) => Ok(Blob { place, text }),
            None => Err(RowDamaged::Blob(place.hash).into()),
        };
        places.into_iter().map(with_text).collect()
    }

    pub(crate) fn gap(&self, position: Seq) -> Failure {
        self.damaged(position, "it is missing")
    }

    fn damaged(&self, position: Seq, detail: impl fmt::Display) -> Failure {
        self.place.damaged(format!("thread `{}`, item {position}: {detail}", self.key.thread)).into()
    }
}
