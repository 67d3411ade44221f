//! A store in memory: for tests, and for conversations that need not survive.

mod documents;
mod older;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use contexture_history::{Item, Seq, Timestamp};
use tokio::sync::watch;

use self::older::OlderItems;
use crate::codec;
use crate::search::{self, Search, SearchHit};
use crate::store::{
    Append, Appended, DueKind, FeedItem, Fence, Guard, KeyedTurn, Log, LogHead, LogKind, LogList, LogState,
    NewLog, SessionInfo, Span, Store, StoreFuture, ThreadInfo, UnfinishedText, Usage, check_rewrite,
};
use crate::{
    BackwardScan, LeaseRow, SessionId, SessionKey, State, StoreError, Tenant, ThreadId, ThreadKey, Time,
};

/// A store in memory. Clones share it.
///
/// It keeps every promise of [`Store`] except that nothing survives the process.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    inner: Arc<Mutex<Inner>>,
    changes: Arc<watch::Sender<()>>,
    time: Arc<dyn Time>,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: BTreeSet<SessionKey>,
    logs: BTreeMap<ThreadKey, LogRow>,
    /// The numbered items of each session: the first has number 1.
    feeds: BTreeMap<SessionKey, Vec<(ThreadId, Seq)>>,
    documents: documents::DocumentTable,
    bases: sources::BaseTable,
}

#[derive(Debug)]
struct LogRow {
    info: ThreadInfo,
    start_key: Option<String>,
    needs_writer: bool,
    state: String,
    lease: LeaseRow,
    items: Vec<Item>,
    /// The items before those, if they are in another store.
    older: Option<Arc<OlderItems>>,
    /// The appends with a nonce, by the position before their first item.
    landed: BTreeMap<Seq, (String, Appended)>,
    unfinished: Option<UnfinishedText>,
    /// The ranges that can be searched.
    archived: Vec<(Seq, Seq)>,
    keys: BTreeMap<String, KeyedTurn>,
}

impl MemoryStore {
    /// Returns an empty store, whose leases end by `time`.
    pub fn new(time: Arc<dyn Time>) -> Self {
        Self { inner: Arc::default(), changes: Arc::new(watch::channel(()).0), time }
    }

    /// Returns a store with one thread that continues one of another store. Its earlier items stay there.
    pub(crate) fn continuing(
        time: Arc<dyn Time>,
        key: &ThreadKey,
        state: &State,
        before: Arc<dyn Store>,
    ) -> Self {
        let mut log = NewLog::isolated(key.session(), key.thread.clone(), state.updated);
        log.state = LogState::from(state);
        log.archived = search::ranges_of(&state.archives);
        let older = OlderItems { store: before, key: key.clone(), state: state.clone() };
        let store = Self::new(time);
        let mut inner = store.lock();
        inner.sessions.insert(key.session());
        inner
            .logs
            .insert(key.clone(), LogRow { older: Some(Arc::new(older)), ..LogRow::new(log, Vec::new()) });
        drop(inner);
        store
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is made after its checks, in one go: a panic elsewhere leaves nothing half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn append(&mut self, key: &ThreadKey, append: Append, now: Timestamp) -> Result<Appended, StoreError> {
        append.check(key)?;
        let log = self.log_mut(key)?;
        let end = log.end();
        let expected = append.expected.unwrap_or(end);
        if let Some(appended) = log.landed(expected, &append.nonce) {
            return Ok(appended);
        }
        let lease = log.lease.admit(key, &append.guard, now)?;
        if end != expected {
            return Err(StoreError::conflict(key, expected, end));
        }
        let fence = append.guard.fence(lease.fence);
        log.lease = lease;
        log.needs_writer = append.needs_writer().unwrap_or(log.needs_writer);
        log.archived.extend(search::archived_ranges(&append.items));
        log.keys.extend(append.keys);
        let positions = (1..).map(|it| end.plus(it));
        let items: Vec<Item> = positions.zip(append.items).map(|(seq, it)| Item { seq, ..it }).collect();
        log.extend(items.clone(), append.state);
        let (end, is_numbered) = (log.end(), log.info.kind.is_numbered());
        let number = if is_numbered { self.number(key.session(), &key.thread, &items) } else { 0 };
        let appended = Appended { end, fence, number };
        self.log_mut(key)?.landed.insert(expected, (append.nonce, appended));
        Ok(appended)
    }

    fn lease(&mut self, key: &ThreadKey, guard: &Guard, now: Timestamp) -> Result<Option<Fence>, StoreError> {
        let log = self.log_mut(key)?;
        log.lease = log.lease.admit(key, guard, now)?;
        Ok(guard.fence(log.lease.fence))
    }

    fn save(&mut self, key: &ThreadKey, fence: Fence, text: UnfinishedText) -> Result<(), StoreError> {
        let log = self.log_mut(key)?;
        if !log.lease.is_held_as(fence) {
            return Err(StoreError::fenced(key, fence));
        }
        log.unfinished = Some(text);
        Ok(())
    }

    fn fork(&mut self, from: &ThreadKey, log: NewLog) -> Result<(), StoreError> {
        let source = self.log(from)?;
        if source.older.is_some() {
            let (place, detail) = ("a scratch thread".to_owned(), "it can't be forked".to_owned());
            return Err(StoreError::Unavailable { place, detail });
        }
        log.check_copy(from, source.end())?;
        let items = source.items.iter().take_while(|it| it.seq <= log.state.end).cloned().collect();
        self.create_log(log, items)
    }

    fn delete_session(&mut self, session: &SessionKey) -> bool {
        let gone: BTreeSet<ThreadKey> = self.logs_of(session).map(|(key, _)| key.clone()).collect();
        self.logs.retain(|key, _| !gone.contains(key));
        self.feeds.remove(session);
        self.forget_documents(session);
        self.sessions.remove(session)
    }

    fn delete_log(&mut self, key: &ThreadKey) -> Result<bool, StoreError> {
        match self.logs.get(key).map(|it| it.info.kind) {
            Some(LogKind::Main) => Err(StoreError::is_main(key)),
            _ => Ok(self.logs.remove(key).is_some()),
        }
    }

    fn rewrite(&mut self, key: &ThreadKey, items: Vec<Item>) -> Result<(), StoreError> {
        check_rewrite(key, &items)?;
        let log = self.log_mut(key)?;
        for Item { seq, body, cost, .. } in items {
            if let Ok(idx) = log.items.binary_search_by_key(&seq, |it| it.seq) {
                (log.items[idx].body, log.items[idx].cost) = (body, cost);
            }
        }
        log.unfinished = None;
        Ok(())
    }

    fn log(&self, key: &ThreadKey) -> Result<&LogRow, StoreError> {
        self.logs.get(key).ok_or_else(|| StoreError::no_thread(&key.thread))
    }

    fn log_mut(&mut self, key: &ThreadKey) -> Result<&mut LogRow, StoreError> {
        self.logs.get_mut(key).ok_or_else(|| StoreError::no_thread(&key.thread))
    }

    /// Gives items their numbers in the session, and returns that of the last one.
    fn number(&mut self, session: SessionKey, thread: &ThreadId, items: &[Item]) -> u64 {
        let feed = self.feeds.entry(session).or_default();
        feed.extend(items.iter().map(|it| (thread.clone(), it.seq)));
        feed.len() as u64
    }

    fn feed(&self, session: &SessionKey, after: u64, max: usize) -> Vec<FeedItem> {
        let numbered = self.feeds.get(session).into_iter().flatten();
        let after = usize::try_from(after).unwrap_or(usize::MAX);
        let each = (1..).zip(numbered).skip(after).filter_map(|(number, (thread, seq))| {
            let key = ThreadKey { tenant: session.tenant.clone(), thread: thread.clone() };
            let item = self.logs.get(&key)?.item(*seq)?.clone();
            Some(FeedItem { number, thread: thread.clone(), item })
        });
        each.take(max).collect()
    }

    fn feed_end(&self, session: &SessionKey) -> u64 {
        self.feeds.get(session).map_or(0, |it| it.len() as u64)
    }

    fn check_session(&self, session: &SessionKey) -> Result<(), StoreError> {
        match self.sessions.contains(session) {
            true => Ok(()),
            false => Err(StoreError::no_session(&session.session)),
        }
    }

    fn create_log(&mut self, mut log: NewLog, copied: Vec<Item>) -> Result<(), StoreError> {
        let key = log.key();
        if log.kind == LogKind::Main {
            if self.sessions.contains(&log.session) || self.logs.contains_key(&key) {
                return Err(log.exists());
            }
            self.sessions.insert(log.session.clone());
        }
        self.check_session(&log.session)?;
        let has_start_key = |(other, row): (&ThreadKey, &LogRow)| {
            log.start_key.is_some() && other.tenant == key.tenant && row.start_key == log.start_key
        };
        if self.logs.contains_key(&key) || self.logs.iter().any(has_start_key) {
            return Err(log.exists());
        }
        let items = std::mem::take(&mut log.items);
        if log.kind.is_numbered() {
            self.number(log.session.clone(), &key.thread, &items);
        }
        self.logs.insert(key, LogRow::new(log, if items.is_empty() { copied } else { items }));
        Ok(())
    }

    fn due(&self, kind: DueKind, after: Option<&ThreadKey>, now: Timestamp, max: usize) -> Vec<ThreadKey> {
        let is_due = |(key, row): &(&ThreadKey, &LogRow)| {
            let is_kind = match kind {
                DueKind::Threads => row.info.kind.is_thread(),
                DueKind::Runs => row.info.kind == LogKind::Run,
            };
            is_kind && row.needs_writer && !row.lease.is_live(now) && after.is_none_or(|it| *key > it)
        };
        self.logs.iter().filter(is_due).map(|(key, _)| key.clone()).take(max).collect()
    }

    fn logs(&self, list: &LogList, now: Timestamp) -> Vec<LogHead> {
        let is_listed = |(key, row): &(&ThreadKey, &LogRow)| {
            row.info.kind == list.kind
                && list.after.as_ref().is_none_or(|it| *key > it)
                && list.tenant.as_ref().is_none_or(|tenant| {
                    key.tenant == *tenant && list.session.as_ref().is_none_or(|it| row.info.session == *it)
                })
        };
        self.logs
            .iter()
            .filter(is_listed)
            .take(list.max)
            .map(|(key, row)| row.head(&key.tenant, now))
            .collect()
    }

    fn prune_journals(&mut self, name: &str, before: Timestamp, max: usize) -> u64 {
        let mut n_pruned = 0;
        for (key, row) in &mut self.logs {
            if row.info.kind == LogKind::Journal && key.thread.own_name() == name {
                let old = row.items.iter().take(max - n_pruned).take_while(|it| it.at < before).count();
                row.items.drain(..old);
                n_pruned += old;
            }
        }
        n_pruned as u64
    }

    fn logs_of<'a>(&'a self, session: &'a SessionKey) -> impl Iterator<Item = (&'a ThreadKey, &'a LogRow)> {
        let is_of = |(key, log): &(&ThreadKey, &LogRow)| {
            key.tenant == session.tenant && log.info.session == session.session
        };
        self.logs.iter().filter(is_of)
    }

    fn session_info(&self, key: &SessionKey) -> Option<SessionInfo> {
        let main = &self.logs.get(&key.main())?.info;
        let logs = self.logs_of(key).filter(|(_, it)| it.info.kind.is_thread());
        let logs: Vec<&LogRow> = logs.map(|(_, it)| it).collect();
        Some(SessionInfo {
            session: key.session.clone(),
            label: main.label.clone(),
            created: main.created,
            updated: logs.iter().map(|it| it.info.updated).max()?,
            threads: logs.len() as u64,
            items: logs.iter().map(|it| it.info.items).sum(),
            turns: main.turns,
        })
    }

    fn usage(&self, tenant: &Tenant) -> Usage {
        let logs = self.logs.iter().filter(|(key, _)| key.tenant == *tenant);
        let logs: Vec<&LogRow> = logs.map(|(_, it)| it).collect();
        let rows = logs.iter().filter_map(|it| codec::encode(&it.items).ok()).flatten();
        let blobs: BTreeMap<String, u64> =
            rows.flat_map(|row| row.blobs).map(|blob| (blob.place.hash, blob.text.len() as u64)).collect();
        let logs: Vec<&LogRow> = logs.into_iter().filter(|it| it.info.kind.is_thread()).collect();
        Usage {
            sessions: self.sessions.iter().filter(|it| it.tenant == *tenant).count() as u64,
            threads: logs.len() as u64,
            items: logs.iter().map(|it| it.info.items).sum(),
            blobs: blobs.len() as u64,
            blob_bytes: blobs.values().sum(),
        }
    }
}

impl LogRow {
    fn new(log: NewLog, items: Vec<Item>) -> Self {
        let info = ThreadInfo {
            thread: log.thread,
            session: log.session.session,
            kind: log.kind,
            label: log.label,
            base: log.base,
            created: log.at,
            updated: log.at,
            items: log.state.end.0,
            turns: 0,
        };
        let mut row = LogRow {
            info,
            start_key: log.start_key,
            needs_writer: log.state.needs_writer,
            state: String::new(),
            lease: LeaseRow::default(),
            items,
            older: None,
            landed: BTreeMap::new(),
            unfinished: None,
            archived: log.archived,
            keys: BTreeMap::new(),
        };
        row.extend(Vec::new(), Some(log.state));
        row
    }

    fn end(&self) -> Seq {
        Seq(self.info.items)
    }

    fn extend(&mut self, items: Vec<Item>, state: Option<LogState>) {
        let last = items.last().map_or(self.info.updated, |it| it.at);
        self.info.updated = self.info.updated.max(last);
        self.info.items += items.len() as u64;
        self.items.extend(items);
        if let Some(state) = state {
            self.info.turns = state.turns;
            self.info.updated = self.info.updated.max(state.updated);
            self.state = state.json;
        }
    }

    /// Returns the result of an append that was made before.
    fn landed(&self, expected: Seq, nonce: &str) -> Option<Appended> {
        let is_same = |(landed, _): &&(String, Appended)| landed == nonce && !nonce.is_empty();
        self.landed.get(&expected).filter(is_same).map(|(_, appended)| *appended)
    }

    fn item(&self, seq: Seq) -> Option<&Item> {
        self.items.binary_search_by_key(&seq, |it| it.seq).ok().map(|idx| &self.items[idx])
    }

    fn read(&self, span: &Span) -> Vec<Item> {
        let Some(mut backward) = BackwardScan::new(span) else {
            let Span::After { seq, max } = span else { return Vec::new() };
            let first = self.items.partition_point(|it| it.seq <= *seq);
            return self.items[first..].iter().take(*max).cloned().collect();
        };
        for item in self.items.iter().rev() {
            if backward.is_done() {
                break;
            }
            backward.push(vec![item.clone()]);
        }
        backward.finish()
    }

    fn head(&self, tenant: &Tenant, now: Timestamp) -> LogHead {
        let (tenant, info, state) = (tenant.clone(), self.info.clone(), self.state.clone());
        LogHead { tenant, info, state, lease: self.lease.lease_at(now) }
    }
}

/// Makes methods that look at what there is at one moment.
macro_rules! reads {
    ($inner:ident, $now:ident; $($name:ident($($arg:ident: $of:ty),*) -> $result:ty = $found:expr;)*) => {
        $(
            fn $name(&self, $($arg: $of),*) -> StoreFuture<'_, $result> {
                Box::pin(async move {
                    let ($now, $inner) = (self.time.now(), self.lock());
                    let _ = ($now, &$inner);
                    Ok($found)
                })
            }
        )*
    };
}

/// Makes methods that change something in one go, and wake all that wait.
macro_rules! writes {
    ($inner:ident, $now:ident; $($name:ident($($arg:ident: $of:ty),*) -> $result:ty = $done:expr;)*) => {
        $(
            fn $name(&self, $($arg: $of),*) -> StoreFuture<'_, $result> {
                Box::pin(async move {
                    let ($now, mut $inner) = (self.time.now(), self.lock());
                    let _ = $now;
                    let done: Result<$result, StoreError> = $done;
                    drop($inner);
                    self.changes.send_replace(());
                    done
                })
            }
        )*
    };
}
pub(super) use {reads, writes};

impl Log for MemoryStore {
    writes! { inner, now;
        append(key: ThreadKey, append: Append) -> Appended = inner.append(&key, append, now);
        lease(key: ThreadKey, guard: Guard) -> Option<Fence> = inner.lease(&key, &guard, now);
        save(key: ThreadKey, fence: Fence, text: UnfinishedText) -> () = inner.save(&key, fence, text);
    }

    reads! { inner, now;
        head(key: ThreadKey) -> Option<LogHead> = inner.logs.get(&key).map(|it| it.head(&key.tenant, now));
        turn_with_key(key: ThreadKey, idempotency_key: String) -> Option<KeyedTurn>
            = inner.log(&key)?.keys.get(&idempotency_key).copied();
        saved(session: SessionKey) -> Vec<(ThreadId, UnfinishedText)> = {
            let saved = inner.logs_of(&session).filter_map(|(key, it)| Some((key, it.unfinished.clone()?)));
            saved.map(|(key, text)| (key.thread.clone(), text)).collect()
        };
        feed(session: SessionKey, after: u64, max: usize) -> Vec<FeedItem> = inner.feed(&session, after, max);
        number_at(key: ThreadKey, seq: Seq) -> Option<u64> = {
            let mut numbered = (1..).zip(inner.feeds.get(&key.session()).into_iter().flatten());
            numbered.find(|(_, it)| **it == (key.thread.clone(), seq)).map(|(number, _)| number)
        };
        feed_end(session: SessionKey) -> u64 = inner.feed_end(&session);
        due(kind: DueKind, after: Option<ThreadKey>, max: usize) -> Vec<ThreadKey>
            = inner.due(kind, after.as_ref(), now, max);
    }

    fn read(&self, key: ThreadKey, span: Span) -> StoreFuture<'_, Vec<Item>> {
        Box::pin(async move {
            let (older, own) = match self.lock().log(&key)? {
                LogRow { older: Some(older), items, .. } => (Arc::clone(older), items.clone()),
                log => return Ok(log.read(&span)),
            };
            older.read(&span, own).await
        })
    }

    fn feed_changed(&self, session: SessionKey, after: u64) -> StoreFuture<'_, Arc<[FeedItem]>> {
        Box::pin(async move {
            // Subscribed before looking: what is appended in between is not missed.
            let mut changes = self.changes.subscribe();
            {
                let inner = self.lock();
                inner.check_session(&session)?;
                if inner.feed_end(&session) > after && !inner.feed(&session, after, 1).is_empty() {
                    return Ok(Arc::default());
                }
            }
            // The sender lives as long as this store.
            let _ = changes.changed().await;
            Ok(Arc::default())
        })
    }
}

impl Store for MemoryStore {
    writes! { inner, now;
        create_log(log: NewLog) -> () = log.check().and_then(|()| inner.create_log(log, Vec::new()));
        fork(from: ThreadKey, log: NewLog) -> () = inner.fork(&from, log);
        prune_journals(name: String, before: Timestamp, max: usize) -> u64
            = Ok(inner.prune_journals(&name, before, max));
        delete_session(session: SessionKey) -> bool = Ok(inner.delete_session(&session));
        delete_log(key: ThreadKey) -> bool = inner.delete_log(&key);
        rewrite(key: ThreadKey, items: Vec<Item>) -> () = inner.rewrite(&key, items);
    }

    reads! { inner, now;
        log_with_start_key(tenant: Tenant, start_key: String) -> Option<ThreadKey> = {
            let mut logs = inner.logs.iter().filter(|(key, _)| key.tenant == tenant);
            logs.find(|(_, it)| it.start_key.as_ref() == Some(&start_key)).map(|(key, _)| key.clone())
        };
        logs(list: LogList) -> Vec<LogHead> = inner.logs(&list, now);
        sessions(tenant: Tenant, after: Option<SessionId>, max: usize) -> Vec<SessionInfo> = {
            let listed = inner.sessions.iter().filter(|it| {
                it.tenant == tenant && after.as_ref().is_none_or(|after| it.session > *after)
            });
            listed.take(max).filter_map(|it| inner.session_info(it)).collect()
        };
        usage(tenant: Tenant) -> Usage = inner.usage(&tenant);
        vacuum() -> () = ();
    }

    fn search(&self, key: ThreadKey, search: Search) -> StoreFuture<'_, Vec<SearchHit>> {
        Box::pin(async move {
            let (older, own) = match self.lock().log(&key)? {
                LogRow { older: Some(older), items, .. } => (Arc::clone(older), items.clone()),
                log => return Ok(search::scan(&log.items, &log.archived, &search)),
            };
            older.search(search, own).await
        })
    }
}
