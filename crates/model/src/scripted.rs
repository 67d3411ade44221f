//! A scripted model for tests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use contexture_message::{Answer, Delta, Request};
use futures::StreamExt;
use futures::stream::{self, BoxStream};

use crate::{Deltas, Model, ModelCall, ModelError, ModelErrorKind};

/// What a [`Scripted`] model does in one call.
#[derive(Clone, Debug)]
pub enum Step {
    /// Returns the answer, in pieces.
    Answer(Answer),
    /// Fails immediately.
    Fail(ModelError),
    /// Returns these pieces and then the error; without an error, the stream never ends.
    Pieces(Vec<Delta>, Option<ModelError>),
}

/// A model for tests: one step per call, in order; after the last one it fails. Clones share the script.
///
/// ```
/// use contexture_message::Answer;
/// use contexture_model::{Model, ModelCall, Scripted, Step};
/// use futures::StreamExt;
///
/// # futures::executor::block_on(async {
/// let model = Scripted::new([Step::Answer(Answer::text("hello"))]);
/// let deltas: Vec<_> = model.stream(ModelCall::default()).collect().await;
/// assert_eq!(deltas.len(), 2); // The text, and the whole answer.
/// # });
/// ```
#[derive(Clone, Debug, Default)]
pub struct Scripted(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    steps: VecDeque<Step>,
    /// The answer once all steps are used up.
    forever: Option<Answer>,
    requests: Vec<Arc<Request>>,
}

impl Scripted {
    /// Returns a model that answers with these texts, one after the other.
    pub fn answering<T: Into<String>>(answers: impl IntoIterator<Item = T>) -> Self {
        Self::new(answers.into_iter().map(|it| Step::Answer(Answer::text(it))))
    }

    /// Returns a model that runs these steps.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let script = Script { steps: steps.into_iter().collect(), ..Script::default() };
        Self(Arc::new(Mutex::new(script)))
    }

    /// Returns a model that gives the same answer to every call.
    pub fn always(answer: Answer) -> Self {
        let script = Script { forever: Some(answer), ..Script::default() };
        Self(Arc::new(Mutex::new(script)))
    }

    /// Returns the requests it has received so far.
    pub fn requests(&self) -> Vec<Arc<Request>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).requests.clone()
    }

    fn next(&self, request: Arc<Request>) -> Step {
        let mut script = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        script.requests.push(request);
        let forever = script.forever.clone().map(Step::Answer);
        let over = || Step::Fail(ModelError::new(ModelErrorKind::Invalid, "the script is over"));
        script.steps.pop_front().or(forever).unwrap_or_else(over)
    }
}

impl Model for Scripted {
    fn stream(&self, call: ModelCall) -> Deltas {
        let model = self.clone();
        // Nothing happens before the stream is polled.
        stream::once(async move { pieces(model.next(call.request)) }).flatten().boxed()
    }
}

fn pieces(step: Step) -> BoxStream<'static, Result<Delta, ModelError>> {
    match step {
        Step::Fail(err) => stream::iter([Err(err)]).boxed(),
        Step::Pieces(pieces, Some(err)) => stream::iter(pieces.into_iter().map(Ok).chain([Err(err)])).boxed(),
        Step::Pieces(pieces, None) => {
            stream::iter(pieces.into_iter().map(Ok)).chain(stream::pending()).boxed()
        }
        Step::Answer(answer) => stream::iter(answer.deltas().into_iter().map(Ok)).boxed(),
    }
}
