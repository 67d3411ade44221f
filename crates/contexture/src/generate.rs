//! One call of a prompt without a thread: input in, answer out.

use std::future::Future;
use std::marker::PhantomData;

use contexture_agent::{AgentError, Event, Run, RunRequest};
use contexture_compose::Prompt;
use contexture_model::Model;
use contexture_session::SessionStart;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{agent, sessions_in_memory};

/// Calls a model with a prompt, without a thread that outlives the call. Runs the prompt's tools, enforces its
/// checks, and returns an answer of its output type.
///
/// ```
/// use contexture::prelude::*;
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Ticket {
///     question: String,
/// }
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Reply {
///     text: String,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), BoxError> {
/// let prompt = Prompt::builder("support")
///     .input::<Ticket>()
///     .output::<Reply>()
///     .model("openai/gpt-5-mini")
///     .user_with(|it| it.question.clone())
///     .build()?;
/// let client = Scripted::answering([r#"{"text": "On its way."}"#]); // Or `Client::openai(key)?`.
/// let reply = prompt.generate(&client, &Ticket { question: "Where is it?".into() }).await?;
/// assert_eq!(reply.text, "On its way.");
/// # Ok(())
/// # }
/// ```
pub trait Generate<In, Out> {
    /// Calls the model and returns its answer.
    fn generate<M>(&self, model: &M, input: &In) -> impl Future<Output = Result<Out, AgentError>> + Send
    where
        M: Model + Clone + 'static;

    /// Calls the model and returns its answer as a stream.
    fn stream<M>(
        &self,
        model: &M,
        input: &In,
    ) -> impl Future<Output = Result<Generation<Out>, AgentError>> + Send
    where
        M: Model + Clone + 'static;
}

impl<In, Out> Generate<In, Out> for Prompt<In, Out>
where
    In: Serialize + Sync,
    Out: DeserializeOwned,
{
    async fn generate<M>(&self, model: &M, input: &In) -> Result<Out, AgentError>
    where
        M: Model + Clone + 'static,
    {
        self.stream(model, input).await?.output().await
    }

    async fn stream<M>(&self, model: &M, input: &In) -> Result<Generation<Out>, AgentError>
    where
        M: Model + Clone + 'static,
    {
        let invalid =
            |source_of: &str, reason: String| AgentError::Unknown { source_of: source_of.to_owned(), reason };
        let input = serde_json::to_value(input).map_err(|err| invalid("input", err.to_string()))?;
        let agent = agent(model.clone()).build().map_err(|err| invalid("agent", err.to_string()))?;
        let session = sessions_in_memory().create(SessionStart::default()).await?;
        let request = RunRequest::default().input(input);
        Ok(Generation { run: agent.run(self, session.main(), request), types: PhantomData })
    }
}

/// An answer that is being generated.
#[derive(Debug)]
#[must_use = "nothing happens until it is polled"]
pub struct Generation<Out> {
    run: Run,
    types: PhantomData<fn() -> Out>,
}

impl<Out: DeserializeOwned> Generation<Out> {
    /// Waits for the next event. Returns `None` after the last one.
    pub async fn next_event(&mut self) -> Option<Event> {
        self.run.next_event().await
    }

    /// Waits for the next piece of text. Returns `None` after the last one.
    pub async fn next_text(&mut self) -> Option<String> {
        loop {
            if let Event::TextDelta { text } = self.next_event().await? {
                return Some(text);
            }
        }
    }

    /// Waits for the whole answer.
    pub async fn output(self) -> Result<Out, AgentError> {
        self.run.outcome().await?.parse()
    }
}
