//! A stage for long conversations: a model that acts by a function, a log of every call, a summariser that can be anything.

use std::sync::{Arc, Mutex};

use contexture_agent::{Summarized, Summarizer, SummaryCall};
use contexture_compose::{BoxError, BoxFuture, Hooks, Pass, PromptBuilder};
use contexture_history::Item;
use contexture_message::{Delta, Request, Tokens};
use contexture_model::{Deltas, Model, ModelCall, ModelError, ModelErrorKind, Scripted, Step};
use contexture_session::Thread;
use contexture_wire::{Catalogue, ModelFacts};
use futures::StreamExt;
use futures::stream;

/// A call of the model: what it was sent, and the log at that moment.
#[derive(Clone)]
pub(crate) struct Called {
    pub(crate) request: Arc<Request>,
    pub(crate) log: Vec<Item>,
}

type Act = dyn Fn(&Request, usize) -> Step + Send + Sync;

/// A model that does what a function says, given the request and how many came before. Clones share what was called.
#[derive(Clone)]
pub(crate) struct Acting {
    act: Arc<Act>,
    thread: Thread,
    calls: Arc<Mutex<Vec<Called>>>,
}

impl Acting {
    pub(crate) fn new(
        thread: &Thread,
        act: impl Fn(&Request, usize) -> Step + Send + Sync + 'static,
    ) -> Self {
        Self { act: Arc::new(act), thread: thread.clone(), calls: Arc::default() }
    }

    pub(crate) fn calls(&self) -> Vec<Called> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn requests(&self) -> Vec<Arc<Request>> {
        self.calls().into_iter().map(|it| it.request).collect()
    }
}

impl Model for Acting {
    fn stream(&self, call: ModelCall) -> Deltas {
        let model = self.clone();
        let begun = async move {
            let log = model.thread.all(None).await.unwrap();
            let number = {
                let mut calls = model.calls.lock().unwrap();
                calls.push(Called { request: Arc::clone(&call.request), log });
                calls.len() - 1
            };
            Scripted::new([(model.act)(&call.request, number)]).stream(call)
        };
        stream::once(begun).flatten().boxed()
    }
}

/// All passes that were resolved, to look up why a request looks like it does.
#[derive(Clone, Default)]
pub(crate) struct Passes(Arc<Mutex<Vec<Pass>>>);

impl Passes {
    pub(crate) fn watch(&self, prompt: PromptBuilder) -> PromptBuilder {
        let passes = Arc::clone(&self.0);
        prompt.hooks(Hooks::default().on_prepare(move |pass| passes.lock().unwrap().push(pass.clone())))
    }

    /// Whether a request is one of the conversation; any other asks for a summary.
    pub(crate) fn has(&self, request: &Request) -> bool {
        self.0.lock().unwrap().iter().rev().any(|it| it.request() == request)
    }

    /// Returns the pass of a request.
    pub(crate) fn of(&self, request: &Request) -> Pass {
        let passes = self.0.lock().unwrap();
        passes.iter().rev().find(|it| it.request() == request).unwrap().clone()
    }
}

type Summarize = dyn Fn(SummaryCall) -> BoxFuture<'static, Result<String, BoxError>> + Send + Sync;

/// A summariser that does what a function says, and counts its calls.
#[derive(Clone)]
pub(crate) struct Summaries {
    make: Arc<Summarize>,
    calls: Arc<Mutex<Vec<SummaryCall>>>,
}

impl Summaries {
    pub(crate) fn of<F>(make: impl Fn(SummaryCall) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        Self { make: Arc::new(move |call| Box::pin(make(call))), calls: Arc::default() }
    }

    /// One that always fails.
    pub(crate) fn failing() -> Self {
        Self::of(|_| async { Err("no".into()) })
    }

    /// One that says what it was asked for: the facts, and that it is a summary.
    pub(crate) fn faithful() -> Self {
        Self::of(|call| async move { Ok(faithful(&call)) })
    }

    pub(crate) fn calls(&self) -> Vec<SummaryCall> {
        self.calls.lock().unwrap().clone()
    }
}

/// The question names every fact that must stay: repeating it keeps them all.
pub(crate) fn faithful(call: &SummaryCall) -> String {
    let facts = call.prompt.user.lines().filter(|it| it.starts_with("- "));
    format!("What happened so far.\n{}", facts.collect::<Vec<_>>().join("\n"))
}

impl Summarizer for Summaries {
    fn summarize(&self, call: SummaryCall) -> BoxFuture<'static, Result<Summarized, BoxError>> {
        self.calls.lock().unwrap().push(call.clone());
        let made = (self.make)(call);
        Box::pin(async move { Ok(Summarized { text: made.await?, ..Summarized::default() }) })
    }
}

/// What is known of `test/model`: a window of that size, of which a little is kept free.
pub(crate) fn small_window(tokens: u32) -> Catalogue {
    let facts = ModelFacts {
        context_window: Some(Tokens(tokens)),
        output_reserve: Some(Tokens(tokens / 10)),
        ..ModelFacts::default()
    };
    Catalogue::standard().with_models([("test/model".to_owned(), facts)].into())
}

pub(crate) fn too_long() -> ModelError {
    ModelError::new(ModelErrorKind::PromptTooLong, "prompt is too long")
}

/// About so many tokens, and like no other text of another name.
pub(crate) fn words(name: &str, tokens: usize) -> String {
    (0..tokens.div_ceil(10)).map(|it| format!("Line {it} of the text about {name}.\n")).collect()
}

/// A stream that says something and never ends.
pub(crate) fn hangs(text: &str) -> Step {
    Step::Pieces(vec![Delta::Text(text.to_owned())], None)
}
