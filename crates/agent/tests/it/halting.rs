//! A store, a model and tools that let others run at every step, so that whatever uses them can be dropped everywhere.

use std::sync::Arc;

use contexture_history::{Item, Seq};
use contexture_message::{Answer, Role};
use contexture_model::{Deltas, Model, ModelCall, Scripted, Step};
use contexture_session::{
    Append, Appended, Fence, Guard, Head, KeyedTurn, NewSession, NewThread, Search, SearchHit, SessionId,
    SessionInfo, SessionKey, Span, Store, StoreFuture, Tenant, ThreadInfo, ThreadKey, Usage,
};
use futures::{StreamExt, stream};

/// A store that waits before and behind each append: whoever is dropped there never hears whether it was made.
#[derive(Debug)]
pub(crate) struct HaltingStore<S>(pub(crate) S);

impl<S: Store> Store for HaltingStore<S> {
    fn append(&self, key: ThreadKey, append: Append) -> StoreFuture<'_, Appended> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let appended = self.0.append(key, append).await;
            tokio::task::yield_now().await;
            appended
        })
    }

    fn create_session(&self, session: NewSession) -> StoreFuture<'_, ()> {
        self.0.create_session(session)
    }

    fn create_thread(&self, thread: NewThread) -> StoreFuture<'_, ()> {
        self.0.create_thread(thread)
    }

    fn fork(&self, from: ThreadKey, thread: NewThread) -> StoreFuture<'_, ()> {
        self.0.fork(from, thread)
    }

    fn lease(&self, key: ThreadKey, guard: Guard) -> StoreFuture<'_, Option<Fence>> {
        self.0.lease(key, guard)
    }

    fn head(&self, key: ThreadKey) -> StoreFuture<'_, Option<Head>> {
        self.0.head(key)
    }

    fn read(&self, key: ThreadKey, span: Span) -> StoreFuture<'_, Vec<Item>> {
        self.0.read(key, span)
    }

    fn search(&self, key: ThreadKey, search: Search) -> StoreFuture<'_, Vec<SearchHit>> {
        self.0.search(key, search)
    }

    fn turn_with_key(&self, key: ThreadKey, idempotency_key: String) -> StoreFuture<'_, Option<KeyedTurn>> {
        self.0.turn_with_key(key, idempotency_key)
    }

    fn changed(&self, key: ThreadKey, after: Seq) -> StoreFuture<'_, ()> {
        self.0.changed(key, after)
    }

    fn sessions(
        &self,
        tenant: Tenant,
        after: Option<SessionId>,
        max: usize,
    ) -> StoreFuture<'_, Vec<SessionInfo>> {
        self.0.sessions(tenant, after, max)
    }

    fn threads(&self, session: SessionKey) -> StoreFuture<'_, Vec<ThreadInfo>> {
        self.0.threads(session)
    }

    fn delete_session(&self, session: SessionKey) -> StoreFuture<'_, bool> {
        self.0.delete_session(session)
    }

    fn delete_thread(&self, key: ThreadKey) -> StoreFuture<'_, bool> {
        self.0.delete_thread(key)
    }

    fn blob(&self, tenant: Tenant, hash: String) -> StoreFuture<'_, Option<String>> {
        self.0.blob(tenant, hash)
    }

    fn usage(&self, tenant: Tenant) -> StoreFuture<'_, Usage> {
        self.0.usage(tenant)
    }

    fn vacuum(&self) -> StoreFuture<'_, ()> {
        self.0.vacuum()
    }
}

/// A model whose answer depends on what it is sent alone: the first one if it has said nothing yet, and so on.
#[derive(Clone)]
pub(crate) struct Steady(pub(crate) Arc<Vec<Answer>>, pub(crate) Scripted);

impl Steady {
    pub(crate) fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers = Arc::new(answers.into_iter().collect());
        Self(answers, Scripted::always(Answer::text("")))
    }
}

impl Model for Steady {
    fn stream(&self, call: ModelCall) -> Deltas {
        // The other one only keeps what was sent.
        drop(self.1.stream(call.clone()));
        let said = call.request.messages.iter().filter(|it| it.role == Role::Assistant).count();
        let answer = self.0[said.min(self.0.len() - 1)].clone();
        let deltas = Scripted::new([Step::Answer(answer)]).stream(call);
        let waits = stream::unfold(deltas, |mut deltas| async move {
            tokio::task::yield_now().await;
            deltas.next().await.map(|it| (it, deltas))
        });
        waits.boxed()
    }
}
