//! The text of an answer while it grows: told at once, and saved now and then.
//!
//! A save replaces the one before. It is for followers in other processes and for the case that this one is lost, so
//! the answer never waits for it, and a save that fails is tried again with more text.

use std::sync::Arc;
use std::time::Duration;

use contexture_compose::BoxFuture;
use contexture_session::{SessionError, Thread, Time, Unfinished};
use futures::FutureExt as _;
use futures::future::{Either, Fuse, select};

use crate::event::{Event, Sink};
use crate::ports::{Piece, Watcher};

/// How long unsaved text waits at least.
const SAVE_EVERY: Duration = Duration::from_millis(200);
/// Long texts are saved less often: for each so many bytes the pause is as long again.
const SLOWER_EVERY: usize = 32 * 1024;

/// An answer that is being streamed.
pub(super) struct Streaming {
    unfinished: Unfinished,
    thread: Thread,
    sink: Sink,
    watcher: Option<Arc<dyn Watcher>>,
    time: Arc<dyn Time>,
    /// Whether nobody else can see the thread, so that nothing is saved.
    is_private: bool,
    /// Whether there is text that is not saved.
    is_unsaved: bool,
    /// Waits until the text may be saved, or for the save.
    work: Fuse<BoxFuture<'static, Saved>>,
}

impl Drop for Streaming {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher.as_ref().filter(|_| !self.is_private) {
            watcher.settled(&self.thread, self.unfinished.text());
        }
    }
}

/// What the work of saving came to.
enum Saved {
    /// It is time to save.
    Due,
    /// A save ended.
    Done(Result<(), SessionError>),
}

impl Streaming {
    pub(super) fn new(
        (thread, unfinished): (Thread, Unfinished),
        sink: Sink,
        watcher: Option<Arc<dyn Watcher>>,
        time: Arc<dyn Time>,
    ) -> Self {
        let is_private = thread.is_scratch();
        let work = Fuse::terminated();
        Self { unfinished, thread, sink, watcher, time, is_private, is_unsaved: false, work }
    }

    /// Returns the text so far.
    pub(super) fn text(&self) -> &str {
        &self.unfinished.text().text
    }

    /// Tells a piece of text, and keeps it.
    pub(super) fn text_delta(&mut self, text: String) {
        self.unfinished.push_text(&text);
        self.tell(Piece::Text(&text));
        self.sink.send(Event::TextDelta { text });
    }

    /// Tells a piece of thinking, and keeps it.
    pub(super) fn thinking_delta(&mut self, text: String) {
        self.unfinished.push_thinking(&text);
        self.tell(Piece::Thinking(&text));
        self.sink.send(Event::ThinkingDelta { text });
    }

    fn tell(&mut self, piece: Piece<'_>) {
        if self.is_private {
            return;
        }
        if let Some(watcher) = &self.watcher {
            watcher.streamed(&self.thread, self.unfinished.text(), piece);
        }
        self.is_unsaved = true;
    }

    /// Waits for something, and saves the text meanwhile when it is time to.
    pub(super) async fn while_saving<T>(&mut self, awaited: impl Future<Output = T> + Unpin) -> T {
        let mut awaited = awaited;
        loop {
            self.plan();
            match select(awaited, &mut self.work).await {
                Either::Left((done, _)) => return done,
                Either::Right((saved, still_awaited)) => {
                    awaited = still_awaited;
                    self.saved(saved);
                }
            }
        }
    }

    /// Plans the next save.
    fn plan(&mut self) {
        use futures::future::FusedFuture as _;
        if self.is_unsaved && self.work.is_terminated() {
            let n_slower = u32::try_from(self.text().len() / SLOWER_EVERY).unwrap_or(u32::MAX);
            let pause = self.time.sleep(SAVE_EVERY.saturating_mul(n_slower.saturating_add(1)));
            self.work = pause.map(|()| Saved::Due).boxed().fuse();
        }
    }

    fn saved(&mut self, saved: Saved) {
        match saved {
            Saved::Due => {
                self.is_unsaved = false;
                let unfinished = self.unfinished.clone();
                self.work = async move { Saved::Done(unfinished.save().await) }.boxed().fuse();
            }
            // The next append tells whether the turn is still ours.
            Saved::Done(Err(_)) => self.is_unsaved = true,
            Saved::Done(Ok(())) => {}
        }
    }
}
