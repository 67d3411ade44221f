//! A store, a model and tools that let others run at every step, so that whatever uses them can be dropped everywhere.

use std::sync::Arc;

use contexture_message::{Answer, Role};
use contexture_model::{Deltas, Model, ModelCall, Scripted, Step};
use contexture_session::StoreFuture;
use contexture_session::conformance::{Interference, Operation};
use futures::{StreamExt, stream};

/// Waits before and behind each append of a store: whoever is dropped there never hears whether it was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Halting;

impl Interference for Halting {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        does: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            if operation.name != "append" {
                return does.await;
            }
            tokio::task::yield_now().await;
            let appended = does.await;
            tokio::task::yield_now().await;
            appended
        })
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
