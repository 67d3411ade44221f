//! Words of what is archived go into the index, in the transaction of the append that archives it.
//!
//! `contexture_session::search` defines words. The server's own parser is not used: it depends on the database's
//! settings and would split words differently from the other stores.

use std::collections::BTreeSet;

use contexture_history::{Item, Seq};
use contexture_session::codec::{self, MAX_ITEMS};
use contexture_session::rank::Strength;
use contexture_session::search::ItemAnalyzer;
use contexture_session::{NewLog, ThreadKey};
use deadpool_postgres::{GenericClient, Transaction};

use crate::database::Database;
use crate::failure::Failure;
use crate::head::thread_key;
use crate::log::LogClient;
use crate::numbers::{seq_from_sql, seq_to_sql};
use crate::rows::{self, StoredRow};

const KNOWN: &str = "\
    SELECT seq FROM {schema}.archived WHERE tenant = $1 AND thread = $2 AND seq >= $3 AND seq <= $4";

const ROWS: &str = "\
    SELECT first_seq, count, body, blobs FROM {schema}.commits
    WHERE tenant = $1 AND thread = $2 AND first_seq > $3 AND first_seq <= $4 ORDER BY first_seq LIMIT $5";

const ADD: &str = "\
    WITH added AS (
        INSERT INTO {schema}.archived (tenant, thread, seq, at, length, terms, words)
        SELECT $1, $2, it.seq, it.at, it.length, it.terms, array_to_tsvector(string_to_array(it.words, ' '))
        FROM unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[], $7::text[])
            AS it (seq, at, length, terms, words)
        ON CONFLICT DO NOTHING RETURNING terms, length
    )
    INSERT INTO {schema}.archives AS sums (tenant, thread, texts, length)
    SELECT $1, $2, count(*), coalesce(sum(length), 0) FROM added WHERE terms IS NOT NULL
    ON CONFLICT (tenant, thread) DO UPDATE
        SET texts = sums.texts + excluded.texts, length = sums.length + excluded.length";

/// Another thread's rows in some ranges, with the word of the new thread in place of the old one's.
const COPY: &str = "\
    INSERT INTO {schema}.archived (tenant, thread, seq, at, length, terms, words)
    SELECT it.tenant, $3, it.seq, it.at, it.length, it.terms,
        ts_delete(it.words, $4::text) || array_to_tsvector(ARRAY[$5::text])
    FROM {schema}.archived AS it WHERE it.tenant = $1 AND it.thread = $2 AND it.seq <= $6 AND EXISTS (
        SELECT FROM unnest($7::bigint[], $8::bigint[]) AS range (first, last)
        WHERE it.seq BETWEEN range.first AND range.last
    )";

const COPY_SUMS: &str = "\
    INSERT INTO {schema}.archives (tenant, thread, texts, length)
    SELECT $1, $2, count(*), coalesce(sum(length), 0) FROM {schema}.archived
    WHERE tenant = $1 AND thread = $2 AND terms IS NOT NULL";

/// What was archived by an older program, by thread.
const OUTDATED: &str = "\
    SELECT tenant, thread, min(seq), max(seq) FROM (
        SELECT *, seq - row_number() OVER (PARTITION BY tenant, thread ORDER BY seq) AS island FROM {schema}.archived
    ) AS it GROUP BY tenant, thread, island";

/// How many rows are read together.
const ROWS_AT_ONCE: i64 = 32;
/// About how many bytes of words are sent per statement.
const BYTES_AT_ONCE: usize = 4 * 1024 * 1024;

/// Returns the word that all items of a thread have. No word of a text has a `/`.
pub(crate) fn thread_word(key: &ThreadKey) -> String {
    format!("/{}", codec::blob_hash(&format!("{}/{}", key.tenant.as_str(), key.thread.as_str())))
}

/// Returns the word under which a list is kept. No term has the mark.
pub(crate) fn list_word(strength: Strength, term: &str) -> String {
    match strength {
        Strength::Any => term.to_owned(),
        Strength::Strong => format!("·{term}"),
    }
}

/// Words to add, as columns.
#[derive(Debug, Default)]
struct WordParams {
    seqs: Vec<i64>,
    times: Vec<i64>,
    lengths: Vec<i64>,
    terms: Vec<Option<Vec<u8>>>,
    words: Vec<Option<String>>,
    bytes: usize,
}

impl WordParams {
    fn push(&mut self, analyzer: &mut ItemAnalyzer, item: &Item, thread_word: &str) {
        let terms = analyzer.terms(item);
        let line = terms.as_ref().map(|terms| {
            let words = terms.listed().map(|(strength, it)| list_word(strength, it));
            words.chain([thread_word.to_owned()]).collect::<Vec<_>>().join(" ")
        });
        self.bytes += line.as_ref().map_or(0, String::len);
        self.seqs.push(seq_to_sql(item.seq));
        self.times.push(item.at.0);
        self.lengths.push(terms.as_ref().map_or(0, |it| i64::from(it.vector.length())));
        self.terms.push(terms.map(|it| it.vector.as_bytes().to_vec()));
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
        let mut analyzer = ItemAnalyzer::default();
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
                params.push(&mut analyzer, item, &thread_word);
                if params.bytes > BYTES_AT_ONCE {
                    self.add_words(std::mem::take(&mut params)).await?;
                }
            }
        }
        self.add_words(params).await
    }

    async fn add_words(&self, params: WordParams) -> Result<(), Failure> {
        let WordParams { seqs, times, lengths, terms, words, .. } = &params;
        self.query(ADD, &[seqs, times, lengths, terms, words]).await.map(drop)
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
        self.query(COPY, &[&thread, &old_word, &new_word, &end, &firsts, &lasts]).await?;
        LogClient { key: &new.key(), ..*self }.query(COPY_SUMS, &[]).await.map(drop)
    }
}

impl Database {
    /// Indexes again what an older program archived.
    pub(crate) async fn refresh_archives(&self, transaction: &Transaction<'_>) -> Result<(), Failure> {
        let rows = transaction.query(&self.sql(OUTDATED), &[]).await?;
        transaction.execute(&self.sql("DELETE FROM {schema}.archived"), &[]).await?;
        for row in &rows {
            let (key, first, last) = (&thread_key(row)?, row.try_get(2)?, row.try_get(3)?);
            let log = LogClient { database: self, client: transaction, key };
            log.index_range(seq_from_sql(first), seq_from_sql(last)).await?;
        }
        Ok(())
    }
}
