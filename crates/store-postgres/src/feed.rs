//! The items of a session in the order of their numbers.

use contexture_history::Seq;
use contexture_session::codec::MAX_ITEMS;
use contexture_session::{FeedItem, SessionKey, StoreError, ThreadId, ThreadKey};

use crate::database::Database;
use crate::log::LogClient;
use crate::numbers::{number, seq_to_sql, to_sql};
use crate::rows::{self, ROWS_AT_ONCE};

/// The row with the first wanted item may begin before it. Each row has an item that is wanted, so as many rows as
/// items are enough.
const FEED: &str = "\
    SELECT thread, number, first_seq, count, body, blobs FROM {schema}.commits
    WHERE tenant = $1 AND session = $2 AND number > $3 - $5::bigint AND number + count - 1 > $3
    ORDER BY number LIMIT $4";

/// The row with an item may begin before it.
const NUMBER: &str = "\
    SELECT number + $3 - first_seq FROM {schema}.commits
    WHERE tenant = $1 AND thread = $2 AND first_seq <= $3 AND first_seq > $3 - $4::bigint
        AND first_seq + count > $3 AND number IS NOT NULL";

const END: &str = "SELECT numbered FROM {schema}.logs WHERE tenant = $1 AND thread = $2";

/// The main thread has the name of its session. The newest items may have been deleted.
const HAS_NEWER: &str = "\
    SELECT numbered > $3 AND EXISTS (SELECT 1 FROM {schema}.commits
        WHERE tenant = $1 AND session = $2 AND number > $3 - $4::bigint AND number + count - 1 > $3)
    FROM {schema}.logs WHERE tenant = $1 AND thread = $2";

impl Database {
    pub(crate) async fn feed(
        &self,
        session: &SessionKey,
        after: u64,
        max: usize,
    ) -> Result<Vec<FeedItem>, StoreError> {
        self.run(|client, _| async move {
            // The main thread has the name of its session.
            let log = LogClient { database: self, client: &client, key: &session.main() };
            let (from, limit) = (to_sql(after), to_sql(max as u64));
            let found = log.query(FEED, &[&from, &limit, &(MAX_ITEMS as i64)]).await?;
            let rows = rows::in_order(found)?;
            let mut feed = Vec::new();
            for rows in rows.chunks(ROWS_AT_ONCE) {
                for (items, row) in log.items(rows).await?.into_iter().zip(rows) {
                    if feed.len() >= max {
                        return Ok(feed);
                    }
                    let thread = ThreadId::parse(row.row.try_get::<_, String>("thread")?)?;
                    let numbered = (number(&row.row, "number")?..).zip(items);
                    let item = |(number, item)| FeedItem { number, thread: thread.clone(), item };
                    feed.extend(numbered.map(item).filter(|it| it.number > after));
                }
            }
            Ok(feed)
        })
        .await
    }

    pub(crate) async fn feed_end(&self, session: &SessionKey) -> Result<u64, StoreError> {
        let (tenant, main) = (session.tenant.as_str(), session.session.as_str());
        Ok(self.select(END, &[&tenant, &main], |row| Ok(number(row, 0)?)).await?.pop().unwrap_or(0))
    }

    /// Returns whether a session has items after a number; nothing if there is no such session.
    pub(crate) async fn has_newer(
        &self,
        session: &SessionKey,
        after: u64,
    ) -> Result<Option<bool>, StoreError> {
        let (tenant, main) = (session.tenant.as_str(), session.session.as_str());
        let (after, most_items) = (to_sql(after), MAX_ITEMS as i64);
        Ok(self
            .select(HAS_NEWER, &[&tenant, &main, &after, &most_items], |row| Ok(row.try_get(0)?))
            .await?
            .pop())
    }

    pub(crate) async fn number_at(&self, key: &ThreadKey, seq: Seq) -> Result<Option<u64>, StoreError> {
        let (tenant, thread) = (key.tenant.as_str(), key.thread.as_str());
        let (seq, most_items) = (seq_to_sql(seq), MAX_ITEMS as i64);
        Ok(self
            .select(NUMBER, &[&tenant, &thread, &seq, &most_items], |row| Ok(number(row, 0)?))
            .await?
            .pop())
    }
}
