//! Words of what is archived go into the index, in the transaction of the append that archives it.
//!
//! `contexture_history::search` defines words. The server's own parser is not used: it depends on the database's
//! settings and would split words differently from the other stores.

use std::collections::BTreeSet;

use contexture_history::search::{searchable, words};
use contexture_history::{Item, Seq};
use contexture_session::codec::{self, MAX_ITEMS};
use contexture_session::{NewLog, ThreadKey};
use deadpool_postgres::GenericClient;

use crate::failure::Failure;
use crate::log::LogClient;
use crate::numbers::{seq_from_sql, seq_to_sql};
use crate::rows::{self, StoredRow};

const KNOWN: &str = "\
    SELECT seq FROM {schema}.archived WHERE tenant = $1 AND thread = $2 AND seq >= $3 AND seq <= $4";

const ROWS: &str = "\
    SELECT first_seq, count, body, blobs FROM {schema}.commits
    WHERE tenant = $1 AND thread = $2 AND first_seq > $3 AND first_seq <= $4 ORDER BY first_seq LIMIT $5";

const ADD: &str = "\
    INSERT INTO {schema}.archived (tenant, thread, seq, words)
    SELECT $1, $2, it.seq, array_to_tsvector(string_to_array(it.words, ' '))
    FROM unnest($3::bigint[], $4::text[]) AS it (seq, words)
    ON CONFLICT DO NOTHING";

/// Another thread's rows in some ranges, with the word of the new thread in place of the old one's.
const COPY: &str = "\
    INSERT INTO {schema}.archived (tenant, thread, seq, words)
    SELECT it.tenant, $3, it.seq, ts_delete(it.words, $4::text) || array_to_tsvector(ARRAY[$5::text])
    FROM {schema}.archived AS it WHERE it.tenant = $1 AND it.thread = $2 AND it.seq <= $6 AND EXISTS (
        SELECT FROM unnest($7::bigint[], $8::bigint[]) AS range (first, last)
        WHERE it.seq BETWEEN range.first AND range.last
    )";

/// How many rows are read together.
const ROWS_AT_ONCE: i64 = 32;
/// About how many bytes of words are sent per statement.
const BYTES_AT_ONCE: usize = 4 * 1024 * 1024;

/// Returns the word that all items of a thread have. No word of a text has a `/`.
pub(crate) fn thread_word(key: &ThreadKey) -> String {
    format!("/{}", codec::blob_hash(&format!("{}/{}", key.tenant.as_str(), key.thread.as_str())))
}

/// Words to add, as columns.
#[derive(Debug, Default)]
struct WordParams {
    seqs: Vec<i64>,
    words: Vec<Option<String>>,
    bytes: usize,
}

impl WordParams {
    fn push(&mut self, item: &Item, thread_word: &str) {
        let words = searchable(item).map(|it| words(&it)).filter(|it| !it.is_empty());
        let line = words.map(|words| {
            let words: Vec<&str> = words.iter().map(String::as_str).chain([thread_word]).collect();
            words.join(" ")
        });
        self.bytes += line.as_ref().map_or(0, String::len);
        self.seqs.push(seq_to_sql(item.seq));
        self.words.push(line);
    }
}

impl<C: GenericClient> LogClient<'_, C> {
    /// Adds the items of ranges to the index, unless they are already in it.
    ///
    /// An unreadable row is skipped: reading it reports the error, and the thread stays writable.
    pub(crate) async fn index(&self, ranges: &[(Seq, Seq)]) -> Result<(), Failure> {
        for (first, last) in ranges {
            self.index_range(*first, *last).await?;
        }
        Ok(())
    }

    async fn index_range(&self, first: Seq, last: Seq) -> Result<(), Failure> {
        let known = self.query(KNOWN, &[&seq_to_sql(first), &seq_to_sql(last)]).await?;
        let known =
            known.iter().map(|it| it.try_get(0).map(seq_from_sql)).collect::<Result<BTreeSet<_>, _>>()?;
        let is_new = |it: &Seq| (first..=last).contains(it) && !known.contains(it);
        let last = seq_to_sql(last);
        let thread_word = thread_word(self.key);
        let mut params = WordParams::default();
        // The row with the first item may begin before it.
        let mut after = seq_to_sql(first).saturating_sub(MAX_ITEMS as i64);
        loop {
            let page = rows::stored(self.query(ROWS, &[&after, &last, &ROWS_AT_ONCE]).await?)?;
            let Some(end) = page.last() else { break };
            after = end.first;
            let has_new =
                |row: &StoredRow| (row.first..=row.last().min(last)).any(|it| is_new(&seq_from_sql(it)));
            let page: Vec<StoredRow> = page.into_iter().filter(has_new).collect();
            for item in self.readable_items(&page).await?.iter().filter(|it| is_new(&it.seq)) {
                params.push(item, &thread_word);
                if params.bytes > BYTES_AT_ONCE {
                    self.add_words(std::mem::take(&mut params)).await?;
                }
            }
        }
        self.add_words(params).await
    }

    async fn add_words(&self, params: WordParams) -> Result<(), Failure> {
        self.query(ADD, &[&params.seqs, &params.words]).await.map(drop)
    }

    /// Copies the words of archived items to a fork of the log.
    pub(crate) async fn copy_words(&self, new: &NewLog) -> Result<(), Failure> {
        if new.archived.is_empty() {
            return Ok(());
        }
        let (firsts, lasts): (Vec<i64>, Vec<i64>) =
            new.archived.iter().map(|(first, last)| (seq_to_sql(*first), seq_to_sql(*last))).unzip();
        let (old_word, new_word) = (thread_word(self.key), thread_word(&new.key()));
        let (thread, end) = (new.thread.as_str(), seq_to_sql(new.state.end));
        self.query(COPY, &[&thread, &old_word, &new_word, &end, &firsts, &lasts]).await.map(drop)
    }
}
