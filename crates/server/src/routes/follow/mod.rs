//! A connection that follows a session, one turn of it, or one run.
//!
//! Its state is how far it has told the session. It reads on in the log as fast as its client takes frames, tells the
//! text of answers that grow on this instance at once and of others as they are saved, and waits when there is nothing
//! more. So a slow client costs no memory and loses nothing, and another instance can continue after a break.

mod frame;
mod scope;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use contexture_agent::{ends_turn, is_answer};
use contexture_history::Timestamp;
use contexture_model::COLLECT;
use contexture_session::{
    FeedItem, SessionKey, Span, Store, StoreError, ThreadId, ThreadKey, UnfinishedText,
};
use futures::future::BoxFuture;
use futures::stream;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, Sleep};

pub(super) use self::scope::{RunScope, Scope, SessionScope, TurnScope};
use crate::Problem;
use crate::app::App;
use crate::events::cursor::Cursor;
use crate::events::follower::{Follower, Told, starts_turn};
use crate::http::events;

/// How many items are read per page.
const PAGE: usize = 128;
/// The heartbeat of a connection.
const ALIVE: &[u8] = b": alive\n\n";
/// How long a connection waits before it asks a store again that did not answer.
const PAUSE: Duration = Duration::from_millis(300);
/// How long a connection waits before it looks once more for saved text: a save may fall between a look and the wait.
const LOOK_AGAIN: Duration = Duration::from_millis(300);

/// A connection that follows a session.
pub(super) struct Follow<S> {
    app: App,
    store: Arc<dyn Store>,
    session: SessionKey,
    /// When what is followed was created. One turn ends before that matters.
    created: Option<Timestamp>,
    pub(super) scope: S,
    follower: Follower,
    /// The frames to send, as one piece: each write is a system call.
    ready: String,
    /// Whether nothing follows what is ready.
    is_over: bool,
    /// Notified of text that is streamed here.
    streamed: Arc<Notify>,
    /// When more of such text is told: each frame is a system call here and one for the client, so what fast models say
    /// is collected. Text after a pause does not wait, nor does anything that is in the log.
    more_text_at: Instant,
    /// Completes when the log may have grown.
    changed: Option<BoxFuture<'static, Result<Arc<[FeedItem]>, StoreError>>>,
    /// Whether the log may have more, or text may have been saved elsewhere.
    is_stale: bool,
    /// When to look once more, whatever happens.
    look_again: Option<Instant>,
    heartbeat: Duration,
    /// Set for the next sign of life, or earlier. It is kept from wait to wait: to set a timer is a system call.
    heartbeat_timer: Pin<Box<Sleep>>,
    last_sent: Instant,
}

/// What a connection has for its client.
enum Progress {
    /// Frames.
    Ready,
    /// Nothing for long: a sign of life is due.
    Quiet,
    /// Nothing any more.
    Over,
}

impl<S: Scope> Follow<S> {
    /// Follows a session of the server's store after an id.
    pub(super) async fn new(
        app: &App,
        session: SessionKey,
        cursor: Cursor,
        scope: S,
    ) -> Result<Self, Problem> {
        Self::over(app, app.store(), session, cursor, scope).await
    }

    /// Follows a session of a store after an id.
    pub(super) async fn over(
        app: &App,
        store: &Arc<dyn Store>,
        session: SessionKey,
        cursor: Cursor,
        scope: S,
    ) -> Result<Self, Problem> {
        let threads = threads_of(&**store, &session, &cursor).await?;
        let heartbeat = Duration::from_secs(app.config.heartbeat_seconds.max(1));
        let look_again = scope.may_run_elsewhere().then(|| Instant::now() + LOOK_AGAIN);
        let mut follow = Self {
            app: app.clone(),
            store: Arc::clone(store),
            created: None,
            scope,
            follower: Follower::new(cursor, threads),
            ready: String::new(),
            is_over: false,
            streamed: app.live.subscribe(&session),
            more_text_at: Instant::now(),
            changed: None,
            is_stale: true,
            look_again,
            heartbeat,
            heartbeat_timer: Box::pin(tokio::time::sleep(heartbeat)),
            last_sent: Instant::now(),
            session,
        };
        if !follow.scope.ends_with_turn() {
            follow.created = follow.created().await?;
            // The next item may be explained by this one.
            let last = follow.follower.number();
            let told = follow.store.feed(follow.session.clone(), last.saturating_sub(1), 1).await?;
            told.iter().filter(|it| it.number == last).for_each(|it| follow.follower.recall(it));
        }
        Ok(follow)
    }

    /// Responds with the frames.
    pub(super) fn respond(self) -> Response {
        let frames = stream::unfold(self, |mut follow| async move {
            let frames = follow.next().await?;
            follow.last_sent = Instant::now();
            Some((Ok::<_, Infallible>(frames), follow))
        });
        events(Body::from_stream(frames))
    }

    /// Waits for the first frames, or for the end: until then the response can be another one.
    pub(super) async fn begin(&mut self) {
        while matches!(self.advance().await, Progress::Quiet) {
            self.last_sent = Instant::now();
        }
    }

    /// Waits for the end, and drops the frames.
    pub(super) async fn drain(&mut self) {
        while self.next().await.is_some() {
            self.last_sent = Instant::now();
        }
    }

    /// Returns the next frames, or nothing at the end.
    async fn next(&mut self) -> Option<Bytes> {
        match self.advance().await {
            Progress::Ready => Some(std::mem::take(&mut self.ready).into()),
            Progress::Quiet => Some(Bytes::from_static(ALIVE)),
            Progress::Over => None,
        }
    }

    /// Waits until there are frames to send, or a sign of life.
    async fn advance(&mut self) -> Progress {
        if self.last_sent.elapsed() > LOOK_AGAIN {
            // What a slow client was to be told may have been forgotten or deleted since.
            (self.changed, self.is_stale) = (None, true);
        }
        loop {
            if !self.ready.is_empty() {
                return Progress::Ready;
            }
            if self.is_over {
                return Progress::Over;
            }
            let notify = Arc::clone(&self.streamed);
            let streamed = notify.notified();
            if let Err(err) = self.fill().await {
                tracing::warn!(error = %err, "events can't be read yet");
                match self.wait_for_store().await {
                    ControlFlow::Continue(()) => continue,
                    ControlFlow::Break(progress) => return progress,
                }
            }
            if !self.ready.is_empty() || self.is_stale {
                continue;
            }
            if self.scope.ended(&mut self.ready) {
                self.is_over = true;
                continue;
            }
            if let ControlFlow::Break(progress) = self.wait(streamed).await {
                return progress;
            }
        }
    }

    /// Takes what there is: items of the log, and text of answers that grow.
    async fn fill(&mut self) -> Result<(), StoreError> {
        // What no log has belongs behind what the log has by now.
        let must_look = std::mem::replace(&mut self.is_stale, false) || self.scope.has_unlogged();
        if must_look {
            self.read().await?;
            if self.is_stale {
                return Ok(());
            }
        }
        let live = self.tell_live();
        if !self.is_over {
            self.scope.tell_unlogged(&mut self.ready);
        }
        if must_look && self.scope.may_run_elsewhere() {
            self.tell_saved(&live).await?;
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), StoreError> {
        let page = self.store.feed(self.session.clone(), self.follower.number(), PAGE).await?;
        self.is_stale = page.len() >= PAGE;
        if page.is_empty() {
            self.follower.is_at_end();
        }
        self.changed = None;
        self.take(&page);
        Ok(())
    }

    /// Tells items of the log.
    fn take(&mut self, items: &[FeedItem]) {
        for item in items {
            self.scope.see(item);
            for told in self.follower.take(item) {
                self.tell(told);
            }
        }
    }

    /// Tells the answers that grow on this instance, and returns their threads.
    fn tell_live(&mut self) -> BTreeSet<ThreadId> {
        let (mut threads, mut told) = (BTreeSet::new(), Vec::new());
        self.app.live.each(&self.session, |thread, answer| {
            threads.insert(thread.clone());
            told.extend(self.follower.grow(thread, answer));
        });
        if !told.is_empty() {
            self.more_text_at = Instant::now() + COLLECT;
        }
        for told in told {
            self.tell(told);
        }
        threads
    }

    /// Tells the answers that grow on other instances, as far as they were saved.
    async fn tell_saved(&mut self, live: &BTreeSet<ThreadId>) -> Result<(), StoreError> {
        let saved = self.store.saved(self.session.clone()).await?;
        for (thread, answer) in saved.into_iter().filter(|(it, _)| !live.contains(it)) {
            if self.follower.is_new(&thread, &answer) && self.is_in_log(&thread, &answer).await? {
                self.follower.skip(&thread, &answer);
            }
            for told in self.follower.grow(&thread, &answer) {
                self.tell(told);
            }
        }
        Ok(())
    }

    /// Whether the log has the answer whose text was saved.
    async fn is_in_log(&mut self, thread: &ThreadId, answer: &UnfinishedText) -> Result<bool, StoreError> {
        let key = ThreadKey { tenant: self.session.tenant.clone(), thread: thread.clone() };
        let since = self.store.read(key, Span::After { seq: answer.end, max: PAGE }).await?;
        Ok(since.iter().any(|it| is_answer(it) || ends_turn(it).is_some() || starts_turn(&it.body)))
    }

    /// Adds the frame of what is told, if this connection tells it.
    fn tell(&mut self, told: Told) {
        if !self.is_over {
            self.is_over = self.scope.tell(told, &mut self.ready);
        }
    }

    /// Waits a little for a store that can't be read, but not when a failure is all that is left to tell.
    async fn wait_for_store(&mut self) -> ControlFlow<Progress> {
        self.is_stale = true;
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = self.scope.settled() => {}
            () = self.app.stop.cancelled() => return ControlFlow::Break(Progress::Over),
        }
        if self.scope.has_failed() {
            self.is_over = self.scope.ended(&mut self.ready);
        } else if self.last_sent.elapsed() >= self.heartbeat {
            return ControlFlow::Break(Progress::Quiet);
        }
        ControlFlow::Continue(())
    }

    /// Waits until there may be something to tell, until a sign of life is due, or until the server stops.
    async fn wait(&mut self, streamed: Notified<'_>) -> ControlFlow<Progress> {
        let changed = self.changed.get_or_insert_with(|| {
            let (store, session) = (Arc::clone(&self.store), self.session.clone());
            let after = self.follower.number();
            Box::pin(async move { store.feed_changed(session, after).await })
        });
        let look_again = async {
            match self.look_again {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let more_text_at = self.more_text_at;
        let more_text = async {
            if more_text_at > Instant::now() {
                tokio::time::sleep_until(more_text_at).await;
            }
            streamed.await;
        };
        let quiet_until = self.last_sent + self.heartbeat;
        let quiet_for_long = async {
            while Instant::now() < quiet_until {
                if self.heartbeat_timer.is_elapsed() {
                    self.heartbeat_timer.as_mut().reset(quiet_until);
                }
                self.heartbeat_timer.as_mut().await;
            }
        };
        tokio::select! {
            biased;
            () = more_text => return ControlFlow::Continue(()),
            grown = changed => {
                self.changed = None;
                // Not later than before: items of one thread must not hide text that was saved of another.
                let look_again = self.look_again.unwrap_or_else(|| Instant::now() + LOOK_AGAIN);
                self.look_again = self.scope.may_run_elsewhere().then_some(look_again);
                match grown {
                    // Nothing lies between them and what was told: the log need not be read.
                    Ok(items) if items.first().is_some_and(|it| it.number == self.follower.number() + 1) => {
                        self.take(&items);
                        return ControlFlow::Continue(());
                    }
                    Ok(_) => {}
                    // The session was deleted. The outcome of a turn that runs here is still told.
                    Err(StoreError::NotFound { .. }) if self.scope.may_run_elsewhere() => {
                        return ControlFlow::Break(Progress::Over);
                    }
                    Err(StoreError::NotFound { .. }) => {
                        self.changed = Some(Box::pin(std::future::pending()));
                        return ControlFlow::Continue(());
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
            () = self.scope.settled() => {}
            () = look_again => self.look_again = None,
            () = quiet_for_long => {
                let is_gone = self.scope.may_run_elsewhere() && self.is_gone().await;
                return ControlFlow::Break(if is_gone { Progress::Over } else { Progress::Quiet });
            }
            () = self.app.stop.cancelled() => return ControlFlow::Break(Progress::Over),
        }
        self.is_stale = true;
        ControlFlow::Continue(())
    }

    /// Returns when what is followed was created; nothing if it is not there.
    async fn created(&mut self) -> Result<Option<Timestamp>, StoreError> {
        let thread = self.scope.log(&self.session);
        let key = ThreadKey { tenant: self.session.tenant.clone(), thread };
        Ok(self.store.head(key).await?.map(|it| it.info.created))
    }

    /// Whether what is followed was deleted, so that nothing follows. A session that was created again is another one:
    /// its numbers begin again.
    async fn is_gone(&mut self) -> bool {
        match self.created().await {
            Ok(now) => now.is_none() || self.created.is_some_and(|it| now != Some(it)),
            Err(_) => false,
        }
    }
}

/// Finds the threads of the answers that an id names.
async fn threads_of(
    store: &dyn Store,
    session: &SessionKey,
    cursor: &Cursor,
) -> Result<BTreeMap<u64, ThreadId>, Problem> {
    let mut threads = BTreeMap::new();
    for began in cursor.answers.keys().copied().filter(|it| *it > 0 && *it <= cursor.number) {
        let found = store.feed(session.clone(), began - 1, 1).await?;
        threads.extend(found.into_iter().find(|it| it.number == began).map(|it| (began, it.thread)));
    }
    Ok(threads)
}
