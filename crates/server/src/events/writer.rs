//! Writes events to the store before they are published.
//!
//! Events of concurrent turns share commits: turns hand over their events and continue; the event writer takes
//! everything that is queued, writes it, and only then notifies subscribers. A slow store makes the commits larger but
//! loses nothing; an unavailable store is retried until the server stops.
//!
//! A commit whose outcome is unknown (the connection broke) is repeated. To avoid duplicates, each commit creates its
//! own document and deletes that of the previous commit: if the document already exists, the commit had succeeded.
//!
//! Events of a turn require the document that marks the turn as running, and its end event deletes that document in
//! the same commit. So only the first end counts (from the turn's own instance, or from one that considers it lost),
//! and no event of the turn follows it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contexture_session::records::{Document, DocumentKey, NewRecord, Records, StreamKey, Writes};
use contexture_session::{Names, SessionKey, StoreError, Tenant, Time};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::events::log::{StoredEvent, TurnEvent, events_of};
use crate::events::recent::RecentEvents;
use crate::events::subscribers::{Subscribers, Subscription};

/// The kind of the documents that mark a successful commit.
pub(crate) const COMMIT: &str = "commit";
/// How many records and documents go into one commit.
const MAX_COMMIT: usize = 2000;
/// How long it waits before a commit is tried again: soon at first, then every two seconds.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long the end of a turn, and that of the server, waits for a store that takes nothing.
const FLUSH: Duration = Duration::from_secs(5);

/// Writes events to the store. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct EventWriter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    records: Arc<dyn Records>,
    time: Arc<dyn Time>,
    names: Arc<dyn Names>,
    pending: Mutex<Pending>,
    wake: Notify,
    subscribers: Subscribers,
    /// How many of the queued entries are written.
    written: watch::Sender<u64>,
    recent_events: Mutex<RecentEvents>,
}

#[derive(Debug, Default)]
struct Pending {
    entries: VecDeque<PendingWrite>,
    /// How many entries were ever queued.
    n_queued: u64,
}

#[derive(Debug)]
enum PendingWrite {
    Event(Box<TurnEvent>),
    Writes(Box<Writes>),
}

impl PendingWrite {
    /// Returns the session of an event.
    fn session(&self) -> Option<&SessionKey> {
        match self {
            PendingWrite::Event(turn_event) => Some(&turn_event.session),
            PendingWrite::Writes(_) => None,
        }
    }

    /// Returns the document that must be there for this to be written.
    fn needs(&self) -> Option<DocumentKey> {
        match self {
            PendingWrite::Event(turn_event) => Some(turn_event.running()),
            PendingWrite::Writes(_) => None,
        }
    }
}

impl EventWriter {
    pub(crate) fn new(records: Arc<dyn Records>, time: Arc<dyn Time>, names: Arc<dyn Names>) -> Self {
        let (written, _) = watch::channel(0);
        let (pending, wake, recent_events, subscribers) = Default::default();
        Self(Arc::new(Inner { records, time, names, pending, wake, subscribers, written, recent_events }))
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent_events(&self) -> MutexGuard<'_, RecentEvents> {
        self.0.recent_events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over an event.
    pub(crate) fn emit(&self, turn_event: TurnEvent) {
        let mut pending = self.pending();
        if let Some(PendingWrite::Event(before)) = pending.entries.back_mut()
            && before.absorb(&turn_event)
        {
            return;
        }
        pending.n_queued += 1;
        pending.entries.push_back(PendingWrite::Event(Box::new(turn_event)));
        drop(pending);
        self.0.wake.notify_one();
    }

    /// Hands over something else to write.
    pub(crate) fn write(&self, writes: Writes) {
        if writes.is_empty() {
            return;
        }
        let mut pending = self.pending();
        pending.n_queued += 1;
        pending.entries.push_back(PendingWrite::Writes(Box::new(writes)));
        drop(pending);
        self.0.wake.notify_one();
    }

    /// Returns how much waits to be written.
    pub(crate) fn depth(&self) -> usize {
        self.pending().entries.len()
    }

    /// Waits until everything queued so far is written, but not for long if the store refuses writes: then it is
    /// written when the store is back.
    pub(crate) async fn flush_with_timeout(&self) {
        let _ = tokio::time::timeout(FLUSH, self.flush()).await;
    }

    /// Waits until everything queued so far is written.
    pub(crate) async fn flush(&self) {
        let n_queued = self.pending().n_queued;
        let mut written = self.0.written.subscribe();
        // The sender lives as long as this event_writer.
        let _ = written.wait_for(|it| *it >= n_queued).await;
    }

    /// Returns the events of a session after a number, if they are in memory.
    pub(crate) fn after(&self, session: &SessionKey, number: u64, max: usize) -> Option<Vec<StoredEvent>> {
        self.recent_events().after(session, number, max)
    }

    /// Subscribes to the events of a session that are written here.
    pub(crate) fn subscribe(&self, session: &SessionKey) -> Subscription {
        self.0.subscribers.subscribe(session)
    }

    /// Removes a session's events from memory.
    pub(crate) fn forget(&self, session: &SessionKey) {
        self.recent_events().forget(session);
    }

    /// Writes until it is asked to stop, and then the rest of the queue, unless the store refuses it.
    pub(crate) async fn work(self, stop: CancellationToken) {
        let mut before = None;
        loop {
            let entries = self.take();
            if entries.is_empty() {
                if stop.is_cancelled() {
                    return;
                }
                tokio::select! {
                    () = self.0.wake.notified() => {}
                    () = stop.cancelled() => {}
                }
                continue;
            }
            match self.commit(entries, before, &stop).await {
                Some(name) => before = Some(name),
                None => return,
            }
        }
    }

    fn take(&self) -> Vec<PendingWrite> {
        let mut pending = self.pending();
        let n = pending.entries.len().min(MAX_COMMIT);
        pending.entries.drain(..n).collect()
    }

    /// Writes entries, however often it takes. Returns the name of the commit; nothing if the server stops before.
    async fn commit(
        &self,
        mut entries: Vec<PendingWrite>,
        before: Option<String>,
        stop: &CancellationToken,
    ) -> Option<String> {
        let n_entries = entries.len() as u64;
        let name = self.0.names.next();
        let mut pause = FIRST_PAUSE;
        loop {
            let (mut writes, sessions) = self.writes_of(&entries);
            let at = self.0.time.now();
            writes.creates.push(Document { key: commit_key(&name), at, data: String::new() });
            writes.deletes.extend(before.as_deref().map(commit_key));
            match self.0.records.write(writes.clone()).await {
                Ok(numbers) => {
                    self.cache_recent(writes.records, sessions, numbers);
                    break;
                }
                Err(StoreError::Exists { .. }) => break,
                Err(StoreError::NotFound { .. }) if self.drop_ended(&mut entries).await => {}
                // No store will ever accept it, and it would block everything behind it.
                Err(err @ StoreError::NameTooLong { .. }) if self.drop_unwritable(&mut entries) => {
                    tracing::error!(error = %err, "an event can't be stored and is dropped");
                }
                Err(err) if stop.is_cancelled() => {
                    tracing::error!(error = %err, entries = entries.len(), "events are not written: the server is stopping");
                    return None;
                }
                Err(err) => {
                    tracing::warn!(error = %err, "events can't be written yet; retrying");
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = stop.cancelled() => {}
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
        self.0.written.send_modify(|it| *it += n_entries);
        self.0.subscribers.wake(entries.iter().filter_map(PendingWrite::session));
        Some(name)
    }

    /// Drops events of turns that another instance has ended because it considered them lost. Returns whether there
    /// were any.
    async fn drop_ended(&self, entries: &mut Vec<PendingWrite>) -> bool {
        let begins: BTreeSet<DocumentKey> = entries.iter().flat_map(put_keys).collect();
        let needed: BTreeSet<DocumentKey> =
            entries.iter().filter_map(PendingWrite::needs).filter(|it| !begins.contains(it)).collect();
        let Ok(found) = self.0.records.documents(needed.iter().cloned().collect()).await else {
            return false;
        };
        let found: BTreeSet<DocumentKey> = found.into_iter().map(|it| it.key).collect();
        let n_before = entries.len();
        entries.retain(|it| it.needs().is_none_or(|key| begins.contains(&key) || found.contains(&key)));
        entries.len() < n_before
    }

    /// Drops entries that no store accepts. Returns whether there were any.
    fn drop_unwritable(&self, entries: &mut Vec<PendingWrite>) -> bool {
        let n_before = entries.len();
        entries.retain(|it| self.writes_of(std::slice::from_ref(it)).0.check().is_ok());
        entries.len() < n_before
    }

    /// Returns what is written for entries, and the session that each record belongs to.
    fn writes_of(&self, entries: &[PendingWrite]) -> (Writes, Vec<Option<SessionKey>>) {
        let mut writes = Writes::default();
        let mut sessions = Vec::new();
        let at = self.0.time.now();
        for pending_write in entries {
            match pending_write {
                PendingWrite::Event(turn_event) => {
                    let stream = events_of(&turn_event.session);
                    writes.records.push(NewRecord { stream, at, data: turn_event.data() });
                    writes.requires.push(turn_event.running());
                    writes.deletes.extend(turn_event.is_end().then(|| turn_event.running()));
                    sessions.push(Some(turn_event.session.clone()));
                }
                PendingWrite::Writes(more) => {
                    sessions.extend(more.records.iter().map(|_| None));
                    writes.records.extend(more.records.iter().cloned());
                    writes.puts.extend(more.puts.iter().cloned());
                    writes.creates.extend(more.creates.iter().cloned());
                    writes.deletes.extend(more.deletes.iter().cloned());
                    writes.drops.extend(more.drops.iter().cloned());
                }
            }
        }
        (writes, sessions)
    }

    /// Keeps written events in memory.
    fn cache_recent(&self, records: Vec<NewRecord>, sessions: Vec<Option<SessionKey>>, numbers: Vec<u64>) {
        let mut recent_events = self.recent_events();
        for ((record, session), number) in records.into_iter().zip(sessions).zip(numbers) {
            if let Some(session) = session.filter(|_| number > 0) {
                recent_events.add(session, StoredEvent { number, data: record.data.into() });
            }
        }
    }
}

/// Returns the documents that an entry puts.
fn put_keys(pending_write: &PendingWrite) -> Vec<DocumentKey> {
    match pending_write {
        PendingWrite::Writes(writes) => writes.puts.iter().map(|it| it.key.clone()).collect(),
        PendingWrite::Event(_) => Vec::new(),
    }
}

fn commit_key(name: &str) -> DocumentKey {
    DocumentKey::of_tenant(&Tenant::default(), COMMIT, name)
}

/// Events that were read.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) events: Vec<StoredEvent>,
    /// Whether they were written here, so the next ones probably will be too.
    pub(crate) is_recent: bool,
}

/// Returns the events of a session after a number, oldest first, from memory or from the store.
pub(crate) async fn events_after(
    event_writer: &EventWriter,
    session: &SessionKey,
    stream: &StreamKey,
    number: u64,
    max: usize,
) -> Result<Page, StoreError> {
    if let Some(events) = event_writer.after(session, number, max) {
        return Ok(Page { events, is_recent: true });
    }
    let records = event_writer.0.records.read(stream.clone(), number, max).await?;
    Ok(Page { events: records.into_iter().map(StoredEvent::from).collect(), is_recent: false })
}
