//! A scratch copy of a thread: it starts as the thread is now, and its writes stay private.

use std::sync::Arc;

use super::Thread;
use crate::MemoryStore;
use crate::live::LiveThread;

impl Thread {
    /// Returns a thread that starts with exactly what [`get`](Thread::get) shows and whose writes are private: they
    /// disappear with its last handle. Use it for model calls that read a thread and leave no trace in it.
    ///
    /// It has the same name as the thread, so requests built from it are the same to the byte. The thread's
    /// idempotency keys are unused in it. It can't be forked. Creating one reads nothing; items older than the
    /// snapshot are read from the thread's store on demand, as long as the thread exists.
    ///
    /// ```
    /// # use contexture_message::Message;
    /// # use contexture_session::{SessionError, SessionStart, conformance};
    /// # futures::executor::block_on(async {
    /// # let sessions = conformance::sessions_in_memory();
    /// # let session = sessions.create(SessionStart::default()).await?;
    /// let thread = session.main();
    /// thread.add_message(Message::user("Where is it?")).await?;
    /// let scratch = thread.scratch();
    /// scratch.add_message(Message::assistant("Perhaps here.")).await?;
    /// assert_eq!(scratch.get().turns()[0].messages().len(), 2);
    /// assert_eq!(thread.get().turns()[0].messages().len(), 1);
    /// # Ok::<(), SessionError>(()) }).unwrap();
    /// ```
    pub fn scratch(&self) -> Thread {
        let (live, snapshot) = (self.live(), self.get());
        let (time, before) = (Arc::clone(&live.shared.ports.time), Arc::clone(&live.shared.store));
        let store = Arc::new(MemoryStore::continuing(time, &live.key, snapshot.state(), before));
        Thread::of(Arc::new(LiveThread::detached(live, store, snapshot))).with_policy(self.policy())
    }
}
