//! A model that says what it is told to, when it is told to; and a store that can be held up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contexture_message::{Answer, Delta, Part};
use contexture_model::{Deltas, Model, ModelCall};
use contexture_session::conformance::{Interference, Operation};
use contexture_session::{StoreError, StoreFuture};
use futures::StreamExt as _;
use futures::stream;
use tokio::sync::{mpsc, watch};

/// A model whose calls are answered by hand, one voice per call.
#[derive(Clone)]
pub(crate) struct Puppet(Arc<Mutex<VecDeque<mpsc::UnboundedReceiver<Delta>>>>);

/// What one call of a [`Puppet`] says.
pub(crate) struct Voice(mpsc::UnboundedSender<Delta>);

/// Returns a model, and the voices of its first calls.
pub(crate) fn puppet<const N: usize>() -> (Puppet, [Voice; N]) {
    let mut calls = VecDeque::new();
    let voices = std::array::from_fn(|_| {
        let (sender, receiver) = mpsc::unbounded_channel();
        calls.push_back(receiver);
        Voice(sender)
    });
    (Puppet(Arc::new(Mutex::new(calls))), voices)
}

impl Model for Puppet {
    fn stream(&self, _call: ModelCall) -> Deltas {
        let call = self.0.lock().unwrap().pop_front().expect("no more calls are expected");
        let said = stream::unfold(call, |mut call| async { Some((Ok(call.recv().await?), call)) });
        said.chain(stream::pending()).boxed()
    }
}

impl Voice {
    pub(crate) fn say(&self, text: &str) {
        self.0.send(Delta::Text(text.to_owned())).unwrap();
    }

    pub(crate) fn think(&self, text: &str) {
        self.0.send(Delta::Thinking(text.to_owned())).unwrap();
    }

    /// Ends the answer.
    pub(crate) fn done(&self, parts: Vec<Part>) {
        self.0.send(Delta::Done(Box::new(Answer::parts(parts)))).unwrap();
    }
}

/// What happens to the operations of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Fine,
    /// Nothing is written until the mood changes; reads go on.
    Hangs,
    /// Unfinished text is not saved.
    SavesNothing,
    /// Appends are answered some time after they are done.
    AnswersLate,
}

/// A store whose mood changes. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Moody(Arc<watch::Sender<Mood>>);

impl Moody {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Mood::Fine)))
    }

    pub(crate) fn set(&self, mood: Mood) {
        self.0.send_replace(mood);
    }
}

impl Interference for Moody {
    fn around<'a, T: Send + 'a>(
        &'a self,
        operation: Operation,
        does: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            if matches!(operation.name, "append" | "save") {
                let mut mood = self.0.subscribe();
                let _ = mood.wait_for(|it| *it != Mood::Hangs).await;
            }
            if operation.name == "save" && *self.0.borrow() == Mood::SavesNothing {
                let (place, detail) = ("the store".to_owned(), "it is moody".to_owned());
                return Err(StoreError::Unavailable { place, detail });
            }
            let done = does.await;
            if operation.name == "append" && *self.0.borrow() == Mood::AnswersLate {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            done
        })
    }
}
