//! The one who writes down what is told, before anybody hears it.
//!
//! Everything that many turns have to say at the same time is one commit: turns hand over what they say and go on, the
//! scribe takes whatever has come together, writes it, and only then hands it to those who listen. A store that is
//! slow makes the pieces larger, not later ones lost; a store that is away is waited for.
//!
//! A commit whose end is not known (the connection broke) is made again. So that nothing is told twice, each commit
//! creates a document of its own and removes that of the one before: where it exists already, the commit had gone well.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use contexture_session::records::{Document, DocumentKey, NewRecord, Records, StreamKey, Writes};
use contexture_session::{Names, SessionKey, StoreError, Tenant, Time};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::told::{Telling, Told, events_of};

/// The kind of the documents that tell whether a commit had gone well.
const COMMIT: &str = "commit";
/// How many events of a session are kept at hand for those who listen.
const AT_HAND: usize = 256;
/// Of how many sessions.
const SESSIONS_AT_HAND: usize = 4096;
/// How many records and documents go into one commit.
const MAX_COMMIT: usize = 2000;

/// Writes down what is told. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Scribe(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    records: Arc<dyn Records>,
    time: Arc<dyn Time>,
    names: Arc<dyn Names>,
    pending: Mutex<Pending>,
    wake: Notify,
    /// How much of what was handed over is written.
    written: watch::Sender<u64>,
    at_hand: Mutex<AtHand>,
}

#[derive(Debug, Default)]
struct Pending {
    entries: VecDeque<Entry>,
    /// How many entries were ever handed over.
    handed: u64,
}

#[derive(Debug)]
enum Entry {
    Told { session: SessionKey, telling: Box<Telling> },
    Writes(Box<Writes>),
}

/// The newest events of sessions.
#[derive(Debug, Default)]
struct AtHand {
    sessions: BTreeMap<SessionKey, VecDeque<Told>>,
}

impl Scribe {
    pub(crate) fn new(records: Arc<dyn Records>, time: Arc<dyn Time>, names: Arc<dyn Names>) -> Self {
        let (written, _) = watch::channel(0);
        let (pending, wake, at_hand) = (Mutex::default(), Notify::new(), Mutex::default());
        Self(Arc::new(Inner { records, time, names, pending, wake, written, at_hand }))
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.0.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn at_hand(&self) -> MutexGuard<'_, AtHand> {
        self.0.at_hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over an event.
    pub(crate) fn tell(&self, session: &SessionKey, telling: Telling) {
        let mut pending = self.pending();
        if let Some(Entry::Told { session: last, telling: before }) = pending.entries.back_mut()
            && last == session
            && before.absorb(&telling)
        {
            return;
        }
        pending.handed += 1;
        pending.entries.push_back(Entry::Told { session: session.clone(), telling: Box::new(telling) });
        drop(pending);
        self.0.wake.notify_one();
    }

    /// Hands over something else to write.
    pub(crate) fn write(&self, writes: Writes) {
        if writes.is_empty() {
            return;
        }
        let mut pending = self.pending();
        pending.handed += 1;
        pending.entries.push_back(Entry::Writes(Box::new(writes)));
        drop(pending);
        self.0.wake.notify_one();
    }

    /// Returns how much waits to be written.
    pub(crate) fn depth(&self) -> usize {
        self.pending().entries.len()
    }

    /// Waits until everything that was handed over until now is written.
    pub(crate) async fn flushed(&self) {
        let handed = self.pending().handed;
        let mut written = self.0.written.subscribe();
        // The sender lives as long as this scribe.
        let _ = written.wait_for(|it| *it >= handed).await;
    }

    /// Returns what a session was told after a number, if it is at hand.
    pub(crate) fn after(&self, session: &SessionKey, number: u64, max: usize) -> Option<Vec<Told>> {
        let at_hand = self.at_hand();
        let events = at_hand.sessions.get(session)?;
        let first = events.front()?.number;
        let skip = usize::try_from(number.checked_add(1)?.checked_sub(first)?).ok()?;
        (skip < events.len()).then(|| events.iter().skip(skip).take(max).cloned().collect())
    }

    /// Keeps nothing of a session at hand any more.
    pub(crate) fn forget(&self, session: &SessionKey) {
        self.at_hand().sessions.remove(session);
    }

    /// Writes until it is told to stop, and then what is left.
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
            before = Some(self.commit(entries, before).await);
        }
    }

    fn take(&self) -> Vec<Entry> {
        let mut pending = self.pending();
        let n = pending.entries.len().min(MAX_COMMIT);
        pending.entries.drain(..n).collect()
    }

    /// Writes entries, however often it takes. Returns the name of the commit.
    async fn commit(&self, entries: Vec<Entry>, before: Option<String>) -> String {
        let n_entries = entries.len() as u64;
        let (mut writes, sessions) = self.writes_of(entries);
        let name = self.0.names.next();
        writes.creates.push(Document { key: commit_key(&name), at: self.0.time.now(), data: String::new() });
        writes.deletes.extend(before.as_deref().map(commit_key));
        let mut pause = Duration::from_millis(50);
        let numbers = loop {
            match self.0.records.write(writes.clone()).await {
                Ok(numbers) => break Some(numbers),
                Err(StoreError::Exists { .. }) => break None,
                Err(err) => {
                    tracing::warn!(error = %err, "what was told can't be written yet");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_secs(2));
                }
            }
        };
        self.keep(&writes.records, sessions, numbers);
        self.0.written.send_modify(|it| *it += n_entries);
        name
    }

    /// Returns what is written for entries, and the session that each record belongs to.
    fn writes_of(&self, entries: Vec<Entry>) -> (Writes, Vec<Option<SessionKey>>) {
        let mut writes = Writes::default();
        let mut sessions = Vec::new();
        let at = self.0.time.now();
        for entry in entries {
            match entry {
                Entry::Told { session, telling } => {
                    writes.records.push(NewRecord { stream: events_of(&session), at, data: telling.data() });
                    sessions.push(Some(session));
                }
                Entry::Writes(more) => {
                    sessions.extend(more.records.iter().map(|_| None));
                    writes.records.extend(more.records);
                    writes.puts.extend(more.puts);
                    writes.creates.extend(more.creates);
                    writes.deletes.extend(more.deletes);
                }
            }
        }
        (writes, sessions)
    }

    /// Keeps what was written at hand, as far as its numbers are known.
    fn keep(&self, records: &[NewRecord], sessions: Vec<Option<SessionKey>>, numbers: Option<Vec<u64>>) {
        let mut at_hand = self.at_hand();
        let numbers = numbers.unwrap_or_default();
        for ((record, session), number) in records.iter().zip(sessions).zip(numbers) {
            if let Some(session) = session.filter(|_| number > 0) {
                at_hand.add(session, Told { number, data: record.data.as_str().into() });
            }
        }
    }
}

impl AtHand {
    fn add(&mut self, session: SessionKey, told: Told) {
        if self.sessions.len() >= SESSIONS_AT_HAND && !self.sessions.contains_key(&session) {
            // Whoever still needs one of them reads it from the store.
            self.sessions.clear();
        }
        let events = self.sessions.entry(session).or_default();
        // Another instance may have told something in between.
        if events.back().is_some_and(|it| it.number + 1 != told.number) {
            events.clear();
        }
        if events.len() >= AT_HAND {
            events.pop_front();
        }
        events.push_back(told);
    }
}

fn commit_key(name: &str) -> DocumentKey {
    DocumentKey::of_tenant(&Tenant::default(), COMMIT, name)
}

/// Returns the events of a session after a number, oldest first: from what is at hand, or from the store.
pub(crate) async fn events_after(
    scribe: &Scribe,
    session: &SessionKey,
    stream: &StreamKey,
    number: u64,
    max: usize,
) -> Result<Vec<Told>, StoreError> {
    if let Some(events) = scribe.after(session, number, max) {
        return Ok(events);
    }
    let records = scribe.0.records.read(stream.clone(), number, max).await?;
    Ok(records.into_iter().map(Told::from).collect())
}
