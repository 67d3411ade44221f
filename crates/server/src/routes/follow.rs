//! A connection that follows a session, one turn of it, or one run.
//!
//! Its state is how far it has told the session. It reads on in the log as fast as its client takes frames, tells the
//! text of answers that grow on this instance at once and of others as they are saved, and waits when there is nothing
//! more. So a slow client costs no memory and loses nothing, and another instance can continue after a break.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use contexture_agent::{AgentError, Event, Outcome, ends_turn, is_answer};
use contexture_flow::{RunEvent, RunId, TurnRef};
use contexture_history::{Application, Body as ItemBody, Change, TurnNo};
use contexture_session::{
    FeedItem, KeyedTurn, SessionKey, Span, Store, StoreError, Tenant, ThreadId, ThreadKey, UnfinishedText,
};
use futures::future::BoxFuture;
use futures::stream;
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use tokio::sync::futures::Notified;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;

use crate::events::cursor::Cursor;
use crate::events::follower::{Follower, Told, What, starts_turn};
use crate::events::subscribers::Subscription;
use crate::running_turns::{ApprovalTokens, TurnKey};
use crate::{App, Problem};

/// How many items are read per page.
const PAGE: usize = 256;
/// The heartbeat of a connection.
const ALIVE: &[u8] = b": alive\n\n";
/// How long a connection waits before it asks a store again that did not answer.
const PAUSE: Duration = Duration::from_millis(300);
/// How long a connection waits before it looks once more for saved text: a save may fall between a look and the wait.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// What a connection tells of a session.
pub(super) enum Scope {
    /// The events of all turns.
    Session,
    /// The events of one turn, to its end.
    Turn(Box<TurnScope>),
    /// The events of a run and of its turns, to its end.
    Run(RunScope),
}

/// One turn of a session.
pub(super) struct TurnScope {
    turn_key: TurnKey,
    end: StreamEnd,
    /// Whether an error event of the turn was sent.
    has_failed: bool,
    tokens: ApprovalTokens,
    /// Stops the turn when the connection is dropped before its end.
    guard: Option<DropGuard>,
}

/// When a connection that follows one turn ends.
enum StreamEnd {
    /// With the turn, whose outcome is this.
    With(oneshot::Receiver<Result<Outcome, AgentError>>),
    /// With the turn, whose outcome is known; this frame is the last if its end is not on record.
    Over(Option<String>),
    /// With the end of the turn, which runs elsewhere and has not ended with this item. An earlier end let it wait.
    After(u64),
    /// Behind the item with this number.
    Behind(u64),
}

impl TurnScope {
    /// A turn that runs here.
    pub(super) fn running(
        turn_key: TurnKey,
        outcome: oneshot::Receiver<Result<Outcome, AgentError>>,
        tokens: ApprovalTokens,
        guard: Option<DropGuard>,
    ) -> Scope {
        let end = StreamEnd::With(outcome);
        Scope::Turn(Box::new(TurnScope { turn_key, end, has_failed: false, tokens, guard }))
    }

    /// A turn that was told before: to its last item, or to its end if it still runs.
    pub(super) fn replayed(turn_key: TurnKey, last: u64, is_running: bool) -> Scope {
        let end = if is_running { StreamEnd::After(last) } else { StreamEnd::Behind(last) };
        let tokens = ApprovalTokens::default();
        Scope::Turn(Box::new(TurnScope { turn_key, end, has_failed: false, tokens, guard: None }))
    }
}

/// One run of a session.
pub(super) struct RunScope {
    run: RunId,
    /// The run's log.
    log: ThreadId,
    /// The nodes of its turns.
    nodes: BTreeMap<(ThreadId, TurnNo), Arc<str>>,
    /// The nodes that may begin a turn, by its thread and its idempotency key.
    to_come: BTreeMap<(ThreadId, String), Arc<str>>,
    /// Whether it also ends when the run waits for an answer.
    until_it_waits: bool,
}

impl RunScope {
    pub(super) fn new(run: RunId, log: ThreadId, until_it_waits: bool) -> Self {
        Self { run, log, nodes: BTreeMap::new(), to_come: BTreeMap::new(), until_it_waits }
    }

    /// Notes what the run's log says about its turns.
    pub(super) fn note(&mut self, event: &RunEvent) {
        match event {
            RunEvent::NodeStart { node, .. } => {
                if let Some((thread, key)) = event.turn_to_come(&self.run) {
                    self.to_come.insert((thread.clone(), key), Arc::clone(node));
                }
            }
            RunEvent::NodeEnd { node, .. } => self.to_come.retain(|_, it| it != node),
            RunEvent::NodeTurn { node, turn: TurnRef { thread, turn }, .. } => {
                if let Some(turn) = TurnNo::parse(turn) {
                    self.nodes.insert((thread.clone(), turn), Arc::clone(node));
                }
            }
            _ => {}
        }
    }

    /// Notes the turns that began and that the run's log does not name yet.
    pub(super) async fn note_begun(&mut self, store: &dyn Store, tenant: &Tenant) -> Result<(), StoreError> {
        for ((thread, key), node) in &self.to_come {
            let log = ThreadKey { tenant: tenant.clone(), thread: thread.clone() };
            if let Some(KeyedTurn { turn, .. }) = store.turn_with_key(log, key.clone()).await? {
                self.nodes.insert((thread.clone(), turn), Arc::clone(node));
            }
        }
        Ok(())
    }

    /// Notes what an item says about the turns of the run. A turn's first items come before the run's log names it.
    fn see(&mut self, FeedItem { thread, item, .. }: &FeedItem) {
        match &item.body {
            ItemBody::Application(Application { value, .. }) if *thread == self.log => {
                RunEvent::deserialize(value).iter().for_each(|it| self.note(it));
            }
            ItemBody::Change(Change::TurnBegan { key: Some(key) }) => {
                if let Some(node) = self.to_come.get(&(thread.clone(), key.clone())) {
                    self.nodes.insert((thread.clone(), item.turn), Arc::clone(node));
                }
            }
            _ => {}
        }
    }
}

/// A frame to send, and whether it is the last.
struct Frame {
    text: String,
    is_last: bool,
}

/// Why a connection woke up.
enum Woken {
    Grown,
    LookAgain,
    Streamed,
    TurnOver,
    Heartbeat,
    Stop,
}

/// A connection that follows a session.
pub(crate) struct Follow {
    app: App,
    session: SessionKey,
    scope: Scope,
    follower: Follower,
    ready: VecDeque<Frame>,
    /// Notified of text that is streamed here.
    subscription: Arc<Subscription>,
    /// Completes when the log may have grown.
    changed: Option<BoxFuture<'static, Result<(), StoreError>>>,
    /// Whether the log may have more.
    must_read: bool,
    /// How far the log was read for the sake of an answer.
    sought: u64,
    /// Whether text may have been saved elsewhere.
    must_look: bool,
    /// When to look for it once more, whatever happens.
    look_again: Option<Instant>,
    is_over: bool,
    heartbeat: Duration,
    last_sent: Instant,
}

impl Follow {
    /// Starts behind an id.
    pub(super) async fn start(
        app: &App,
        session: SessionKey,
        cursor: Cursor,
        scope: Scope,
    ) -> Result<Self, Problem> {
        let threads = threads_of(app, &session, &cursor).await?;
        let subscription = Arc::new(app.0.live.subscribe(&session));
        Ok(Self {
            app: app.clone(),
            session,
            scope,
            follower: Follower::new(cursor, threads),
            ready: VecDeque::new(),
            subscription,
            changed: None,
            must_read: true,
            sought: 0,
            must_look: true,
            look_again: Some(Instant::now() + LOOK_AGAIN),
            is_over: false,
            heartbeat: Duration::from_secs(app.0.config.heartbeat_seconds.max(1)),
            last_sent: Instant::now(),
        })
    }

    pub(super) fn response(self) -> Response {
        let frames = stream::unfold(self, |mut follow| async move {
            let frame = follow.next().await?;
            follow.last_sent = Instant::now();
            Some((Ok::<_, Infallible>(frame), follow))
        });
        sse(Body::from_stream(frames))
    }

    /// Returns the next frame, or nothing at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frames) = self.take_ready() {
                return Some(frames);
            }
            if self.is_over {
                return None;
            }
            let subscription = Arc::clone(&self.subscription);
            let streamed = subscription.notified();
            if let Err(err) = self.fill().await {
                tracing::warn!(error = %err, "events can't be read yet");
                tokio::time::sleep(PAUSE).await;
                if self.last_sent.elapsed() >= self.heartbeat {
                    return Some(Bytes::from_static(ALIVE));
                }
                continue;
            }
            if !self.ready.is_empty() || self.must_read {
                continue;
            }
            if let Some(last) = self.ended() {
                self.is_over = true;
                self.disarm();
                return last.map(Bytes::from);
            }
            match self.wait(streamed).await {
                Woken::Grown => {
                    (self.must_read, self.must_look) = (true, true);
                    self.look_again = Some(Instant::now() + LOOK_AGAIN);
                }
                Woken::LookAgain => (self.must_look, self.look_again) = (true, None),
                Woken::Streamed => {}
                Woken::TurnOver => self.must_read = true,
                Woken::Heartbeat if self.is_gone().await => return None,
                Woken::Heartbeat => return Some(Bytes::from_static(ALIVE)),
                Woken::Stop => return None,
            }
        }
    }

    /// Takes the frames that are ready, as one piece: each write is a system call.
    fn take_ready(&mut self) -> Option<Bytes> {
        let mut all = String::new();
        while let Some(Frame { text, is_last }) = self.ready.pop_front() {
            all.push_str(&text);
            if is_last {
                self.is_over = true;
                self.ready.clear();
                self.disarm();
            }
        }
        (!all.is_empty()).then(|| all.into())
    }

    /// Whether another instance may save text of what is followed.
    fn is_saved_elsewhere(&self) -> bool {
        let Scope::Turn(turn) = &self.scope else { return true };
        !matches!(turn.end, StreamEnd::With(_) | StreamEnd::Over(_))
    }

    fn disarm(&mut self) {
        if let Scope::Turn(turn) = &mut self.scope {
            turn.guard.take().map(DropGuard::disarm);
        }
    }

    /// Returns whether nothing more is to be told, with a last frame if there is one.
    fn ended(&mut self) -> Option<Option<String>> {
        let Scope::Turn(turn) = &mut self.scope else { return None };
        match &mut turn.end {
            // Everything a turn said is written before it is over.
            StreamEnd::Over(last) => Some(last.take().filter(|_| !turn.has_failed)),
            StreamEnd::Behind(last) if self.follower.number() >= *last => Some(None),
            StreamEnd::With(_) | StreamEnd::After(_) | StreamEnd::Behind(_) => None,
        }
    }

    /// Takes what there is: items of the log, and text of answers that grow.
    async fn fill(&mut self) -> Result<(), StoreError> {
        if self.must_read {
            self.read().await?;
            if self.must_read || !self.ready.is_empty() {
                return Ok(());
            }
        }
        let live = self.tell_live().await;
        if self.must_look && self.is_saved_elsewhere() {
            self.tell_saved(&live).await?;
            self.must_look = false;
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), StoreError> {
        let store = self.app.0.sessions.store();
        let page = store.feed(self.session.clone(), self.follower.number(), PAGE).await?;
        self.must_read = page.len() >= PAGE;
        if page.is_empty() {
            self.follower.is_at_end();
        }
        self.changed = None;
        for item in &page {
            if let Scope::Run(run) = &mut self.scope {
                run.see(item);
            }
            for told in self.follower.take(item) {
                self.tell(told).await;
            }
        }
        Ok(())
    }

    /// Tells the answers that grow on this instance, and returns their threads.
    async fn tell_live(&mut self) -> BTreeSet<ThreadId> {
        let (live, session) = (self.app.0.live.clone(), self.session.clone());
        let (mut threads, mut told) = (BTreeSet::new(), Vec::new());
        live.each(&session, |thread, answer| {
            threads.insert(thread.clone());
            if self.follower.is_behind(answer) && self.sought < answer.after {
                // The log has it already, unless its session was deleted.
                (self.must_read, self.sought) = (true, answer.after);
            }
            told.extend(self.follower.grow(thread, answer));
        });
        for told in told {
            self.tell(told).await;
        }
        threads
    }

    /// Tells the answers that grow on other instances, as far as they were saved.
    async fn tell_saved(&mut self, live: &BTreeSet<ThreadId>) -> Result<(), StoreError> {
        let store = Arc::clone(self.app.0.sessions.store());
        let saved = store.saved(self.session.clone()).await?;
        for (thread, answer) in saved.into_iter().filter(|(it, _)| !live.contains(it)) {
            if self.follower.is_new(&thread, &answer) && self.is_in_log(&thread, &answer).await? {
                self.follower.skip(&thread, &answer);
            }
            for told in self.follower.grow(&thread, &answer) {
                self.tell(told).await;
            }
        }
        Ok(())
    }

    /// Whether the log has the answer whose text was saved.
    async fn is_in_log(&mut self, thread: &ThreadId, answer: &UnfinishedText) -> Result<bool, StoreError> {
        let key = ThreadKey { tenant: self.session.tenant.clone(), thread: thread.clone() };
        let span = Span::After { seq: answer.end, max: PAGE };
        let since = self.app.0.sessions.store().read(key, span).await?;
        Ok(since.iter().any(|it| is_answer(it) || ends_turn(it).is_some() || starts_turn(&it.body)))
    }

    async fn wait(&mut self, streamed: Notified<'_>) -> Woken {
        let changed = self.changed.get_or_insert_with(|| {
            let (store, session) = (Arc::clone(self.app.0.sessions.store()), self.session.clone());
            let after = self.follower.number();
            Box::pin(async move { store.feed_changed(session, after).await })
        });
        let over = async {
            match &mut self.scope {
                Scope::Turn(turn) => turn.over().await,
                Scope::Session | Scope::Run(_) => std::future::pending().await,
            }
        };
        let look_again = async {
            match self.look_again {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = streamed => Woken::Streamed,
            grown = changed => {
                self.changed = None;
                if grown.is_err() {
                    tokio::time::sleep(PAUSE).await;
                }
                Woken::Grown
            }
            () = over => Woken::TurnOver,
            () = look_again => Woken::LookAgain,
            () = tokio::time::sleep_until(self.last_sent + self.heartbeat) => Woken::Heartbeat,
            () = self.app.0.stop.cancelled() => Woken::Stop,
        }
    }

    /// Whether what is followed was deleted, so that nothing follows.
    async fn is_gone(&mut self) -> bool {
        let thread = match &self.scope {
            Scope::Run(run) => run.log.clone(),
            Scope::Session | Scope::Turn(_) => self.session.session.main(),
        };
        let key = ThreadKey { tenant: self.session.tenant.clone(), thread };
        matches!(self.app.0.sessions.store().head(key).await, Ok(None))
    }

    /// Queues the frame of what is told, if this connection tells it.
    async fn tell(&mut self, told: Told) {
        let frame = match &mut self.scope {
            Scope::Session => match told.what {
                What::Turn(turn, event) => Some(Frame::of(&told.id, &told.thread, turn, event)),
                What::Run(_) => None,
            },
            Scope::Turn(scope) => scope.frame(told).await,
            Scope::Run(scope) => scope.frame(told),
        };
        self.ready.extend(frame);
    }
}

impl TurnScope {
    /// Waits for the outcome of the turn.
    async fn over(&mut self) {
        let StreamEnd::With(outcome) = &mut self.end else { return std::future::pending().await };
        let last = match outcome.await {
            Ok(Err(err)) => unrecorded_frame(&err),
            Ok(Ok(_)) | Err(_) => None,
        };
        self.end = StreamEnd::Over(last);
    }

    async fn frame(&mut self, told: Told) -> Option<Frame> {
        let What::Turn(turn, mut event) = told.what else { return None };
        if told.thread != self.turn_key.thread || !self.is_told(turn, &event) {
            return None;
        }
        if let Event::ApprovalRequired { approval } = &mut event {
            if self.tokens.get(&approval.id).is_none() && matches!(self.end, StreamEnd::With(_)) {
                // The log has it before the turn's own client gets its token.
                self.over().await;
            }
            approval.token = self.tokens.get(&approval.id).unwrap_or_default();
        }
        self.has_failed |= matches!(event, Event::Error { .. });
        let is_last = match self.end {
            StreamEnd::With(_) | StreamEnd::Over(_) => true,
            StreamEnd::After(last) => told.id.number > last,
            StreamEnd::Behind(_) => false,
        };
        let is_end = is_last && matches!(event, Event::TurnEnd { .. });
        let frame = Frame::of(&told.id, &told.thread, turn, event);
        Some(Frame { is_last: is_end, ..frame })
    }

    /// Whether an event belongs to the turn. Room may be made for it before it begins.
    fn is_told(&self, turn: TurnNo, event: &Event) -> bool {
        let makes_room = matches!(
            event,
            Event::ContextCompactionStart { .. } | Event::ContextCompactionEnd(_) | Event::Compaction(_)
        );
        turn == self.turn_key.turn || (turn < self.turn_key.turn && makes_room)
    }
}

impl RunScope {
    fn frame(&self, told: Told) -> Option<Frame> {
        let event = match told.what {
            What::Run(value) if told.thread == self.log => RunEvent::deserialize(&value).ok()?,
            What::Run(_) => return None,
            What::Turn(turn, event) => {
                let node = Arc::clone(self.nodes.get(&(told.thread.clone(), turn))?);
                let turn = Some(TurnRef { thread: told.thread, turn: turn.to_string().into() });
                RunEvent::NodeEvent { node, turn, event: without_token(event) }
            }
        };
        let is_last = match &event {
            RunEvent::RunEnd { .. } => true,
            RunEvent::RunWait { .. } => self.until_it_waits,
            _ => false,
        };
        let data = serde_json::to_string(&event).ok()?;
        let (id, name) = (told.id, event.name());
        Some(Frame { text: format!("id: {id}\nevent: {name}\ndata: {data}\n\n"), is_last })
    }
}

impl Frame {
    /// Returns an event of a turn as a server-sent event. JSON contains no line breaks.
    fn of(id: &Cursor, thread: &ThreadId, turn: TurnNo, event: Event) -> Self {
        let (kind, data) = match &event {
            Event::TextDelta { text } => ("text.delta".to_owned(), delta("text.delta", text, thread, turn)),
            Event::ThinkingDelta { text } => {
                ("thinking.delta".to_owned(), delta("thinking.delta", text, thread, turn))
            }
            _ => data(event, thread, turn),
        };
        Self { text: format!("id: {id}\nevent: {kind}\ndata: {data}\n\n"), is_last: false }
    }
}

fn delta(kind: &str, text: &str, thread: &ThreadId, turn: TurnNo) -> String {
    #[derive(Serialize)]
    struct Delta<'a> {
        r#type: &'a str,
        text: &'a str,
        thread: &'a str,
        turn: &'a str,
    }
    let delta = Delta { r#type: kind, text, thread: thread.as_str(), turn: &turn.to_string() };
    serde_json::to_string(&delta).unwrap_or_default()
}

/// Returns the name of an event, and the event as JSON with its thread and turn.
fn data(event: Event, thread: &ThreadId, turn: TurnNo) -> (String, String) {
    let mut value = serde_json::to_value(event).unwrap_or_default();
    drop_empty_token(&mut value);
    let kind = value["type"].as_str().unwrap_or_default().to_owned();
    if let Value::Object(object) = &mut value {
        object.insert("thread".to_owned(), thread.as_str().into());
        object.insert("turn".to_owned(), turn.to_string().into());
    }
    (kind, value.to_string())
}

/// The token of an approval is sent to the client of the turn only.
fn drop_empty_token(event: &mut Value) {
    if let Some(Value::Object(approval)) = event.get_mut("approval")
        && approval.get("token").is_some_and(|it| it == "")
    {
        approval.remove("token");
    }
}

fn without_token(mut event: Event) -> Event {
    if let Event::ApprovalRequired { approval } = &mut event {
        approval.token.clear();
    }
    event
}

/// Returns the last frame of a turn whose end is not on record. It has no id, since it is not an event of the log.
fn unrecorded_frame(err: &AgentError) -> Option<String> {
    let AgentError::Unrecorded(_) = err else { return None };
    let event = Event::Error { code: err.code().into(), message: err.to_string() };
    Some(format!("event: error\ndata: {}\n\n", serde_json::to_value(event).ok()?))
}

/// Finds the threads of the answers that an id names.
async fn threads_of(
    app: &App,
    session: &SessionKey,
    cursor: &Cursor,
) -> Result<BTreeMap<u64, ThreadId>, Problem> {
    let mut threads = BTreeMap::new();
    for began in cursor.answers.keys().copied().filter(|it| *it > 0 && *it <= cursor.number) {
        let found = app.0.sessions.store().feed(session.clone(), began - 1, 1).await?;
        threads.extend(found.into_iter().find(|it| it.number == began).map(|it| (began, it.thread)));
    }
    Ok(threads)
}

fn sse(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies that collect answers would hold events back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
