//! Turns whose instance was lost: another instance records that they were interrupted, and tells it.
//!
//! Every instance looks for them. A turn that runs has a document; one whose writer gave no sign of life for the length of a
//! lease is closed, and its end is told in the same commit that removes the document. That commit needs the document, as
//! everything does that is told of the turn: so its end is told once, and last. What the log has of a turn that ended and its instance could not tell any more is told before.
//!
//! The instance may be held up only. So a turn is closed in this order, whoever closes it: its lease is taken over, its
//! document is replaced by another one ([`CLOSING`]), from where on its instance can tell nothing; then what clients were
//! told of its answer goes into the log with its end, and at last that end is told.

use std::collections::BTreeMap;

use std::sync::Arc;

use contexture_agent::Event;
use contexture_history::{Limit, Timestamp, Turn, TurnNo, TurnStatus};
use contexture_message::{Message, Part, Role, Usage};
use contexture_session::records::{Document, DocumentKey, DocumentList, NewRecord, Records, Writes};
use contexture_session::{LostWords, NewItem, SessionKey, Snapshot, StoreError, ThreadKey, Time};
use futures::future::BoxFuture;

use crate::routes::place_of;
use crate::runs::{Began, RUNNING, key_of, turn_of};
use crate::told::{Telling, Told, events_of};
use crate::{App, Problem};

/// The kind of the documents of turns that are being closed: their instances can't tell anything any more.
const CLOSING: &str = "closing";
/// How many items of a thread are read to find out how one of its newest turns ended.
const NEWEST: usize = 1000;
/// How many documents are looked at together.
const PAGE: usize = 500;

/// Looks for turns whose writer was lost, again and again.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Turns that have ended without anybody saying so, and since when this is known. Their instance may be about to.
    untold: BTreeMap<DocumentKey, Timestamp>,
}

impl Sweep {
    /// Looks at all turns that are said to run. Returns how many were lost.
    pub(crate) async fn look(&mut self, app: &App) -> Result<usize, Problem> {
        let before = std::mem::take(&mut self.untold);
        // In this order: what is closed at the first look is told at the second.
        let n_running = self.look_at_all(app, RUNNING, &before).await?;
        Ok(n_running + self.look_at_all(app, CLOSING, &before).await?)
    }

    async fn look_at_all(
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
                n_found += usize::from(self.look_at(app, &document, before).await?);
            }
            if is_last {
                return Ok(n_found);
            }
        }
    }

    /// Looks at one turn that is said to run. Says whether it was lost.
    async fn look_at(
        &mut self,
        app: &App,
        document: &Document,
        before: &BTreeMap<DocumentKey, Timestamp>,
    ) -> Result<bool, Problem> {
        let Some((session, began)) = turn_of(&document.key) else { return Ok(false) };
        let thread = ThreadKey { tenant: session.tenant.clone(), thread: began.thread.clone() };
        let now = app.0.time.now();
        let is_long_ago = |at: Timestamp| now.0.saturating_sub(at.0) >= lease_ms(app);
        let is_closing = document.key.kind == CLOSING;
        if !(is_closing || is_long_ago(document.at)) || app.0.runs.is_running(&thread, &began.turn) {
            return Ok(false);
        }
        let end = match app.0.sessions.store().head(thread).await? {
            Some(head) => match head.state.open {
                Some(open) if open.turn.to_string() == began.turn && open.status == TurnStatus::InFlight => {
                    if head.lease.is_some_and(|it| it.live) {
                        return Ok(false);
                    }
                    let sessions = app.0.sessions.of_tenant(session.tenant.clone());
                    let closed = sessions.open_thread(&began.thread).await?.close_lost().await?;
                    if closed.is_none() {
                        return Ok(false);
                    }
                    let closing = key_of(&session, CLOSING, &began);
                    return tell(app, &session, &began, closing, End::interrupted()).await;
                }
                _ if is_closing => ended_as(app, &session, &began).await?,
                _ => {
                    let since = before.get(&document.key).copied().unwrap_or(now);
                    if !is_long_ago(since) {
                        self.untold.insert(document.key.clone(), since);
                        return Ok(false);
                    }
                    ended_as(app, &session, &began).await?
                }
            },
            None => End::interrupted(),
        };
        tell(app, &session, &began, document.key.clone(), end).await
    }
}

fn lease_ms(app: &App) -> i64 {
    i64::try_from(app.0.config.lease_seconds.saturating_mul(1000)).unwrap_or(i64::MAX)
}

/// How a turn ended.
struct End {
    status: TurnStatus,
    /// What its model said and nobody was told.
    untold: Option<String>,
}

impl End {
    fn interrupted() -> Self {
        Self { status: TurnStatus::Interrupted, untold: None }
    }
}

/// Returns how a turn ended that is not open any more.
async fn ended_as(app: &App, session: &SessionKey, began: &Began) -> Result<End, Problem> {
    let sessions = app.0.sessions.of_tenant(session.tenant.clone());
    // From the store: what this process knows of the thread is old while a writer of its own waits for another process.
    let items = sessions.open_thread(&began.thread).await?.all(Some(Limit::Turns(NEWEST))).await?;
    let turns = contexture_history::turns(&items);
    let Some(turn) = turns.iter().find(|it| **it.id() == *began.turn) else {
        return Ok(End::interrupted());
    };
    let told = told_text(&*app.0.records, session, began).await?;
    let untold = words_of(turn).strip_prefix(&told).map(str::to_owned);
    Ok(End { status: turn.status(), untold: untold.filter(|it| !it.is_empty()) })
}

/// Returns the text that the log has of a turn's answers.
fn words_of(turn: &Turn) -> String {
    let said = turn.messages().iter().filter(|it| it.role == Role::Assistant);
    let texts = said.flat_map(|it| &it.content).filter_map(|it| match it {
        Part::Text { text } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// What clients were told of turns.
#[derive(Debug)]
pub(crate) struct ToldWords {
    pub(crate) records: Arc<dyn Records>,
    pub(crate) time: Arc<dyn Time>,
}

impl LostWords for ToldWords {
    fn of<'a>(
        &'a self,
        thread: &'a ThreadKey,
        turn: TurnNo,
        snapshot: &'a Snapshot,
    ) -> BoxFuture<'a, Result<Vec<NewItem>, StoreError>> {
        let session = SessionKey { tenant: thread.tenant.clone(), session: thread.thread.session() };
        let began = Began { thread: thread.thread.clone(), turn: turn.to_string() };
        let on_record = snapshot.turns().iter().find(|it| **it.id() == *began.turn).map(|it| words_of(it));
        Box::pin(async move {
            self.silence(&session, &began).await?;
            let told = told_text(&*self.records, &session, &began).await?;
            let rest = told.strip_prefix(on_record.unwrap_or_default().as_str()).unwrap_or_default();
            let has_words = !rest.trim().is_empty();
            Ok(has_words.then(|| NewItem::from(Message::assistant(rest))).into_iter().collect())
        })
    }
}

impl ToldWords {
    /// From here on the instance of a turn can tell nothing of it.
    async fn silence(&self, session: &SessionKey, began: &Began) -> Result<(), StoreError> {
        let running = key_of(session, RUNNING, began);
        let closing = key_of(session, CLOSING, began);
        let writes = Writes {
            puts: vec![Document { key: closing, at: self.time.now(), data: String::new() }],
            requires: vec![running.clone()],
            deletes: vec![running],
            ..Writes::default()
        };
        match self.records.write(writes).await {
            // Nothing was told of it, its end was told, or another instance was about to close it.
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(err) => Err(err),
        }
    }
}

/// Returns the text of a turn that was told.
async fn told_text(records: &dyn Records, session: &SessionKey, began: &Began) -> Result<String, StoreError> {
    let mut told = String::new();
    // Where the answer begins that is being told: the ones before it are settled.
    let mut begins = 0;
    let Some((first, last)) = place_of(records, session, began).await? else { return Ok(told) };
    let mut after = first - 1;
    while after < last {
        let page = records.read(events_of(session), after, PAGE).await?;
        let Some(newest) = page.last() else { break };
        after = newest.number;
        for record in page {
            let event = Told::from(record);
            let label = event.label();
            let is_mine = label.thread.as_deref() == Some(began.thread.as_str())
                && label.turn.as_deref() == Some(&began.turn);
            match event.event().filter(|_| is_mine) {
                Some(Event::TextDelta { text }) => told.push_str(&text),
                Some(Event::ToolResult { .. }) => begins = told.len(),
                // What was told of it does not count.
                Some(Event::AttemptDiscarded { .. }) => told.truncate(begins),
                _ => {}
            }
        }
    }
    Ok(told)
}

/// Tells the end of a turn, unless another instance was faster. Says whether it did.
async fn tell(
    app: &App,
    session: &SessionKey,
    began: &Began,
    running: DocumentKey,
    end: End,
) -> Result<bool, Problem> {
    let End { status, untold } = end;
    // An instance may be lost between the document of a turn and its first event.
    let is_new = place_of(&*app.0.records, session, began).await?.is_none();
    let start = Event::TurnStart { thread: began.thread.to_string(), turn: began.turn.clone() };
    let reason = (status == TurnStatus::Interrupted).then(|| "its writer was lost".to_owned());
    let events = [
        is_new.then_some(start),
        untold.map(|text| Event::TextDelta { text }),
        Some(Event::TurnEnd { status, reason, usage: Usage::default(), client_calls: Vec::new() }),
    ];
    let at = app.0.time.now();
    let record = |event: Event| {
        let telling = Telling { session: session.clone(), began: began.clone(), event };
        NewRecord { stream: events_of(session), at, data: telling.data() }
    };
    let writes = Writes {
        records: events.into_iter().flatten().map(record).collect(),
        requires: vec![running.clone()],
        deletes: vec![running],
        ..Writes::default()
    };
    match app.0.records.write(writes).await {
        Ok(_) => {
            tracing::info!(thread = %began.thread, turn = began.turn, "a turn whose writer was lost is over");
            Ok(true)
        }
        Err(StoreError::NotFound { .. }) => Ok(false),
        Err(err) => Err(err.into()),
    }
}
