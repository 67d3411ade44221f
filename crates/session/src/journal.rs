//! Journals: lists of records beside the conversation, such as passes and the audit log.

use std::sync::Arc;

use contexture_history::{Application, Body, Cost, Item, Seq, Timestamp, TurnNo, Visibility};
use contexture_message::Tokens;
use serde_json::Value;

use crate::store::{Append, Guard, NewLog, Span, Store};
use crate::{SessionKey, StoreError, ThreadKey};

/// A journal of a session. It exists from its first record on.
#[derive(Clone, Debug)]
pub struct Journal {
    store: Arc<dyn Store>,
    session: SessionKey,
    name: &'static str,
}

/// A record of a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalRecord {
    /// Its number, from 1.
    pub number: u64,
    /// The time of the append.
    pub at: Timestamp,
    /// The content.
    pub value: Value,
}

impl Journal {
    /// Returns the journal of a session with that name.
    pub fn new(store: Arc<dyn Store>, session: SessionKey, name: &'static str) -> Self {
        Self { store, session, name }
    }

    fn key(&self) -> ThreadKey {
        let (tenant, thread) = (self.session.tenant.clone(), self.session.session.journal(self.name));
        ThreadKey { tenant, thread }
    }

    /// Appends a record and returns its number. A `lazy` record is durable once a later write is that is not lazy.
    pub async fn append(&self, value: &Value, at: Timestamp, lazy: bool) -> Result<u64, StoreError> {
        let items = || vec![record_item(self.name, value.clone(), at)];
        let append = || Append { lazy, ..Append::new(None, items(), Guard::Any) };
        match self.store.append(self.key(), append()).await {
            Err(StoreError::NotFound { .. }) => {}
            done => return done.map(|it| it.end.0),
        }
        match self.store.create_log(NewLog::journal(self.session.clone(), self.name, at)).await {
            Ok(()) | Err(StoreError::Exists { .. }) => {}
            Err(err) => return Err(err),
        }
        self.store.append(self.key(), append()).await.map(|it| it.end.0)
    }

    /// Returns the newest records before a number (`None`: from the newest on), newest first.
    pub async fn newest(&self, before: Option<u64>, max: usize) -> Result<Vec<JournalRecord>, StoreError> {
        let span = match before {
            None => Span::NewestItems { count: max, client: false },
            Some(before) => {
                let last = before.saturating_sub(1);
                let count = usize::try_from(last).unwrap_or(usize::MAX).min(max);
                Span::After { seq: Seq(last.saturating_sub(count as u64)), max: count }
            }
        };
        let mut records = self.read(span).await?;
        records.reverse();
        Ok(records)
    }

    /// Returns the record with a number, unless it was pruned or never was.
    pub async fn record(&self, number: u64) -> Result<Option<JournalRecord>, StoreError> {
        let span = Span::After { seq: Seq(number.saturating_sub(1)), max: 1 };
        Ok(self.read(span).await?.into_iter().next().filter(|it| it.number == number))
    }

    /// Returns the number of the newest record that was ever appended, 0 if none was.
    pub async fn end(&self) -> Result<u64, StoreError> {
        Ok(self.store.head(self.key()).await?.map_or(0, |it| it.info.items))
    }

    async fn read(&self, span: Span) -> Result<Vec<JournalRecord>, StoreError> {
        match self.store.read(self.key(), span).await {
            Err(StoreError::NotFound { .. }) => Ok(Vec::new()),
            items => Ok(items?.into_iter().filter_map(record_of).collect()),
        }
    }
}

fn record_of(item: Item) -> Option<JournalRecord> {
    match item.body {
        Body::Application(it) => Some(JournalRecord { number: item.seq.0, at: item.at, value: it.value }),
        _ => None,
    }
}

/// Returns an item that only its reader sees, for a log that is no conversation. The store gives it its position.
pub fn record_item(kind: &str, value: Value, at: Timestamp) -> Item {
    record(Body::Application(Application { kind: kind.to_owned(), value }), at)
}

/// Returns an item that no view shows and that costs nothing.
pub(crate) fn record(body: Body, at: Timestamp) -> Item {
    Item {
        seq: Seq(0),
        turn: TurnNo(0),
        visibility: Visibility::NONE,
        cost: Cost { counter: Arc::from(""), tokens: Tokens(0) },
        author: None,
        at,
        body,
    }
}
