//! Turns whose instance was lost: whoever finds one puts on record that it was interrupted, and tells it.
//!
//! Every instance looks for them. A turn that runs has a document; one whose writer gave no sign of life for the length of a
//! lease is closed, and its end is told in the same commit that removes the document and claims it, so that it is told once.

use contexture_agent::Event;
use contexture_history::TurnStatus;
use contexture_message::Usage;
use contexture_session::records::{Document, DocumentKey, DocumentList, NewRecord, Writes};
use contexture_session::{SessionKey, StoreError, ThreadKey};

use crate::runs::{Began, RUNNING, turn_of};
use crate::told::{Label, Telling, events_of};
use crate::{App, Problem};

/// The kind of the documents that claim the end of a lost turn.
pub(crate) const CLAIM: &str = "lost_turn";
/// How many documents are looked at together.
const PAGE: usize = 500;
/// How many events are read to find out whether the end of a turn was told.
const LOOK_BACK: usize = 64;

/// Looks for turns whose writer was lost. Returns how many there were.
pub(crate) async fn sweep(app: &App) -> Result<usize, Problem> {
    let mut n_found = 0;
    let mut after = None;
    loop {
        let list = DocumentList { kind: RUNNING.to_owned(), tenant: None, session: None, after, max: PAGE };
        let page = app.0.records.list(list).await?;
        let is_last = page.len() < PAGE;
        after = page.last().map(|it| it.key.clone());
        for document in page {
            n_found += usize::from(look(app, &document).await?);
        }
        if is_last {
            return Ok(n_found);
        }
    }
}

/// Looks at one turn that is said to run. Says whether it was lost.
async fn look(app: &App, document: &Document) -> Result<bool, Problem> {
    let (Some(session), Some(began)) = (document.key.session.clone(), turn_of(&document.key.name)) else {
        return Ok(false);
    };
    let session = SessionKey { tenant: document.key.tenant.clone(), session };
    let thread = ThreadKey { tenant: session.tenant.clone(), thread: began.thread.clone() };
    let lease_ms = i64::try_from(app.0.config.lease_seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
    let is_young = app.0.time.now().0.saturating_sub(document.at.0) < lease_ms;
    if is_young || app.0.runs.is_running(&thread, &began.turn) {
        return Ok(false);
    }
    let status = match app.0.sessions.store().head(thread).await? {
        Some(head) => match head.state.open {
            Some(open) if open.turn.to_string() == began.turn && open.status == TurnStatus::InFlight => {
                if head.lease.is_some_and(|it| it.live) {
                    return Ok(false);
                }
                let sessions = app.0.sessions.of_tenant(session.tenant.clone());
                sessions.open_thread(&began.thread).await?.close_lost().await?;
                TurnStatus::Interrupted
            }
            // It came to its end, and nobody was left to say so.
            _ if app.0.time.now().0.saturating_sub(head.info.updated.0) < lease_ms => return Ok(false),
            _ => ended_as(app, &session, &began).await?,
        },
        None => TurnStatus::Interrupted,
    };
    tell(app, &session, &began, document.key.clone(), status).await
}

/// Returns how a turn ended that is not open any more.
async fn ended_as(app: &App, session: &SessionKey, began: &Began) -> Result<TurnStatus, Problem> {
    let sessions = app.0.sessions.of_tenant(session.tenant.clone());
    let snapshot = sessions.open_thread(&began.thread).await?.refresh().await?;
    let turn = snapshot.turns().iter().find(|it| **it.id() == *began.turn);
    Ok(turn.map_or(TurnStatus::Interrupted, |it| it.status()))
}

/// Tells the end of a turn, unless it was told.
async fn tell(
    app: &App,
    session: &SessionKey,
    began: &Began,
    document: DocumentKey,
    status: TurnStatus,
) -> Result<bool, Problem> {
    let at = app.0.time.now();
    let claim = DocumentKey { kind: CLAIM.to_owned(), ..document.clone() };
    let mut writes = Writes { deletes: vec![document], ..Writes::default() };
    let is_told = is_told(app, session, began).await?;
    if !is_told {
        let reason = (status == TurnStatus::Interrupted).then(|| "its writer was lost".to_owned());
        let event = Event::TurnEnd { status, reason, usage: Usage::default() };
        let telling = Telling { thread: began.thread.clone(), turn: Some(began.turn.clone()), event };
        writes.records.push(NewRecord { stream: events_of(session), at, data: telling.data() });
        writes.creates.push(Document { key: claim, at, data: String::new() });
    }
    match app.0.records.write(writes).await {
        Ok(_) => {
            tracing::info!(thread = %began.thread, turn = began.turn, "a turn whose writer was lost is over");
            Ok(!is_told)
        }
        // Another instance was faster.
        Err(StoreError::Exists { .. }) => Ok(false),
        Err(err) => Err(err.into()),
    }
}

/// Whether the end of a turn was told.
async fn is_told(app: &App, session: &SessionKey, began: &Began) -> Result<bool, Problem> {
    let newest = app.0.records.read_back(events_of(session), None, LOOK_BACK).await?;
    let label = |data: &str| serde_json::from_str::<Label>(data).unwrap_or_default();
    let labels = newest.iter().map(|it| label(&it.data));
    let mut of_turn = labels.filter(|it| {
        it.thread.as_deref() == Some(began.thread.as_str()) && it.turn.as_deref() == Some(&began.turn)
    });
    // A turn that waited and went on has an end in the middle.
    Ok(of_turn.next().is_some_and(|it| it.kind == "turn.end"))
}
