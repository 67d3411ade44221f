//! Turns of lost instances: another instance records them as interrupted and publishes their end.
//!
//! Every instance looks for them. A running turn has a document. If its lease has expired, the turn is closed, and its
//! end event is published in the commit that deletes the document. Every event of a turn requires that document, so
//! the end is published once, and last. If the turn had ended but its instance could not publish everything, the
//! missing text is published first.
//!
//! The instance may only be stalled. So every instance closes a turn in this order: it takes over the lease and
//! replaces the document with another one ([`CLOSING`]), after which the turn's instance can't publish anything; then
//! it writes the streamed part of the answer and the end to the log, and finally publishes the end.

use std::collections::BTreeMap;

use std::sync::Arc;

use contexture_agent::Event;
use contexture_history::{Limit, Timestamp, Turn, TurnNo, TurnStatus};
use contexture_message::{Message, Part, Role, Usage};
use contexture_session::records::{Document, DocumentKey, DocumentList, NewRecord, Records, Writes};
use contexture_session::{LostTurnRecovery, NewItem, SessionKey, Snapshot, StoreError, ThreadKey, Time};
use futures::future::BoxFuture;

use crate::events::log::{RUNNING, StoredEvent, TurnEvent, TurnKey, event_range, events_of, key_of, turn_of};
use crate::{App, Problem};

/// The kind of the documents of turns that are being closed: their instances can't publish anything any more.
const CLOSING: &str = "closing";
/// How many items of a thread are read to find out how one of its newest turns ended.
const NEWEST: usize = 1000;
/// How many documents are read per page.
const PAGE: usize = 500;

/// Looks for turns whose writer was lost, again and again.
#[derive(Debug, Default)]
pub(crate) struct LostTurnSweep {
    /// Turns that have ended but whose end is unpublished, and since when this is known. Their instance may still
    /// publish it.
    unsent: BTreeMap<DocumentKey, Timestamp>,
}

impl LostTurnSweep {
    /// Checks all turns that are marked as running. Returns how many were lost.
    pub(crate) async fn run(&mut self, app: &App) -> Result<usize, Problem> {
        let before = std::mem::take(&mut self.unsent);
        // In this order: a turn that is closed in the first pass is published in the second.
        let n_running = self.check_all(app, RUNNING, &before).await?;
        Ok(n_running + self.check_all(app, CLOSING, &before).await?)
    }

    async fn check_all(
        &mut self,
        app: &App,
        kind: &str,
        before: &BTreeMap<DocumentKey, Timestamp>,
    ) -> Result<usize, Problem> {
        let mut n_found = 0;
        let mut after = None;
        loop {
            let list = DocumentList { kind: kind.to_owned(), tenant: None, session: None, after, max: PAGE };
            let page = app.0.records.list(list).await?;
            let is_last = page.len() < PAGE;
            after = page.last().map(|it| it.key.clone());
            for document in page {
                n_found += usize::from(self.check_turn(app, &document, before).await?);
            }
            if is_last {
                return Ok(n_found);
            }
        }
    }

    /// Checks one turn that is marked as running. Returns whether it was lost.
    async fn check_turn(
        &mut self,
        app: &App,
        document: &Document,
        before: &BTreeMap<DocumentKey, Timestamp>,
    ) -> Result<bool, Problem> {
        let Some((session, turn_key)) = turn_of(&document.key) else { return Ok(false) };
        let thread = ThreadKey { tenant: session.tenant.clone(), thread: turn_key.thread.clone() };
        let now = app.0.time.now();
        let is_long_ago = |at: Timestamp| now.0.saturating_sub(at.0) >= lease_ms(app);
        let is_closing = document.key.kind == CLOSING;
        if !(is_closing || is_long_ago(document.at))
            || app.0.running_turns.is_running(&thread, &turn_key.turn)
        {
            return Ok(false);
        }
        let end = match app.0.sessions.store().head(thread).await? {
            Some(head) => match head.state.open {
                Some(open)
                    if open.turn.to_string() == turn_key.turn && open.status == TurnStatus::InFlight =>
                {
                    if head.lease.is_some_and(|it| it.live) {
                        return Ok(false);
                    }
                    let sessions = app.0.sessions.of_tenant(session.tenant.clone());
                    let closed = sessions.open_thread(&turn_key.thread).await?.close_lost().await?;
                    if closed.is_none() {
                        return Ok(false);
                    }
                    let closing = key_of(&session, CLOSING, &turn_key);
                    return publish_end(app, &session, &turn_key, closing, TurnEnding::interrupted()).await;
                }
                _ if is_closing => ended_as(app, &session, &turn_key).await?,
                _ => {
                    let since = before.get(&document.key).copied().unwrap_or(now);
                    if !is_long_ago(since) {
                        self.unsent.insert(document.key.clone(), since);
                        return Ok(false);
                    }
                    ended_as(app, &session, &turn_key).await?
                }
            },
            None => TurnEnding::interrupted(),
        };
        publish_end(app, &session, &turn_key, document.key.clone(), end).await
    }
}

fn lease_ms(app: &App) -> i64 {
    i64::try_from(app.0.config.lease_seconds.saturating_mul(1000)).unwrap_or(i64::MAX)
}

/// How a turn ended.
struct TurnEnding {
    status: TurnStatus,
    /// The part of the answer that was not streamed.
    unsent: Option<String>,
}

impl TurnEnding {
    fn interrupted() -> Self {
        Self { status: TurnStatus::Interrupted, unsent: None }
    }
}

/// Returns how a turn ended that is not open any more.
async fn ended_as(app: &App, session: &SessionKey, turn_key: &TurnKey) -> Result<TurnEnding, Problem> {
    let sessions = app.0.sessions.of_tenant(session.tenant.clone());
    // Read from the store: this process's snapshot is outdated while a local writer waits for another process.
    let items = sessions.open_thread(&turn_key.thread).await?.all(Some(Limit::Turns(NEWEST))).await?;
    let turns = contexture_history::turns(&items);
    let Some(turn) = turns.iter().find(|it| **it.id() == *turn_key.turn) else {
        return Ok(TurnEnding::interrupted());
    };
    let streamed = streamed_text(&*app.0.records, session, turn_key).await?;
    let unsent = answer_text(turn).strip_prefix(&streamed).map(str::to_owned);
    Ok(TurnEnding { status: turn.status(), unsent: unsent.filter(|it| !it.is_empty()) })
}

/// Returns the text that the log has of a turn's answers.
fn answer_text(turn: &Turn) -> String {
    let said = turn.messages().iter().filter(|it| it.role == Role::Assistant);
    let texts = said.flat_map(|it| &it.content).filter_map(|it| match it {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// Recovers the text that was streamed to clients.
#[derive(Debug)]
pub(crate) struct StreamedTextRecovery {
    pub(crate) records: Arc<dyn Records>,
    pub(crate) time: Arc<dyn Time>,
}

impl LostTurnRecovery for StreamedTextRecovery {
    fn items_for<'a>(
        &'a self,
        thread: &'a ThreadKey,
        turn: TurnNo,
        snapshot: &'a Snapshot,
    ) -> BoxFuture<'a, Result<Vec<NewItem>, StoreError>> {
        let session = SessionKey { tenant: thread.tenant.clone(), session: thread.thread.session() };
        let turn_key = TurnKey { thread: thread.thread.clone(), turn: turn.to_string() };
        let on_record =
            snapshot.turns().iter().find(|it| **it.id() == *turn_key.turn).map(|it| answer_text(it));
        Box::pin(async move {
            self.fence_events(&session, &turn_key).await?;
            let streamed = streamed_text(&*self.records, &session, &turn_key).await?;
            let rest = streamed.strip_prefix(on_record.unwrap_or_default().as_str()).unwrap_or_default();
            let has_words = !rest.trim().is_empty();
            Ok(has_words.then(|| NewItem::from(Message::assistant(rest))).into_iter().collect())
        })
    }
}

impl StreamedTextRecovery {
    /// After this, the turn's instance can't publish events of it.
    async fn fence_events(&self, session: &SessionKey, turn_key: &TurnKey) -> Result<(), StoreError> {
        let running = key_of(session, RUNNING, turn_key);
        let closing = key_of(session, CLOSING, turn_key);
        let writes = Writes {
            puts: vec![Document { key: closing, at: self.time.now(), data: String::new() }],
            requires: vec![running.clone()],
            deletes: vec![running],
            ..Writes::default()
        };
        match self.records.write(writes).await {
            // It published nothing, its end was published, or another instance was about to close it.
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(err) => Err(err),
        }
    }
}

/// Returns the text of a turn that was streamed to clients.
async fn streamed_text(
    records: &dyn Records,
    session: &SessionKey,
    turn_key: &TurnKey,
) -> Result<String, StoreError> {
    let mut streamed = String::new();
    // Where the current answer starts; earlier answers are final.
    let mut begins = 0;
    let Some((first, last)) = event_range(records, session, turn_key).await? else { return Ok(streamed) };
    let mut after = first - 1;
    while after < last {
        let page = records.read(events_of(session), after, PAGE).await?;
        let Some(newest) = page.last() else { break };
        after = newest.number;
        for record in page {
            let event = StoredEvent::from(record);
            let label = event.label();
            let is_mine = label.thread.as_deref() == Some(turn_key.thread.as_str())
                && label.turn.as_deref() == Some(&turn_key.turn);
            match event.event().filter(|_| is_mine) {
                Some(Event::TextDelta { text }) => streamed.push_str(&text),
                Some(Event::ToolResult { .. }) => begins = streamed.len(),
                // Text of a discarded attempt does not count.
                Some(Event::AttemptDiscarded { .. }) => streamed.truncate(begins),
                _ => {}
            }
        }
    }
    Ok(streamed)
}

/// Publishes the end of a turn, unless another instance was faster. Returns whether it did.
async fn publish_end(
    app: &App,
    session: &SessionKey,
    turn_key: &TurnKey,
    running: DocumentKey,
    end: TurnEnding,
) -> Result<bool, Problem> {
    let TurnEnding { status, unsent } = end;
    // An instance may be lost between the document of a turn and its first event.
    let is_new = event_range(&*app.0.records, session, turn_key).await?.is_none();
    let start = Event::TurnStart { thread: turn_key.thread.to_string(), turn: turn_key.turn.clone() };
    let reason = (status == TurnStatus::Interrupted).then(|| "its writer was lost".to_owned());
    let events = [
        is_new.then_some(start),
        unsent.map(|text| Event::TextDelta { text }),
        Some(Event::TurnEnd { status, reason, usage: Usage::default(), client_calls: Vec::new() }),
    ];
    let at = app.0.time.now();
    let record = |event: Event| {
        let turn_event = TurnEvent { session: session.clone(), turn_key: turn_key.clone(), event };
        NewRecord { stream: events_of(session), at, data: turn_event.data() }
    };
    let writes = Writes {
        records: events.into_iter().flatten().map(record).collect(),
        requires: vec![running.clone()],
        deletes: vec![running],
        ..Writes::default()
    };
    match app.0.records.write(writes).await {
        Ok(_) => {
            tracing::info!(thread = %turn_key.thread, turn = turn_key.turn, "closed a turn of a lost writer");
            Ok(true)
        }
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(err) => Err(err.into()),
    }
}
