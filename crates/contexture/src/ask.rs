//! Asks a model for the steps of retrieval pipelines.

use contexture_compose::{BoxError, BoxFuture, Prompt, Text};
use contexture_knowledge::pipeline::AskModel;
use contexture_model::Model;
use serde_json::json;

use crate::Generate as _;

/// Asks one model, each question by itself: rewriting, fan-out and reranking in pipelines.
#[derive(Clone, Debug)]
pub struct AskClient<M> {
    client: M,
    model: String,
}

impl<M> AskClient<M> {
    /// Returns what asks `model`, named `provider/model`.
    pub fn new(client: M, model: impl Into<String>) -> Self {
        Self { client, model: model.into() }
    }
}

impl<M: Model + Clone + 'static> AskModel for AskClient<M> {
    fn ask(&self, prompt: String) -> BoxFuture<'_, Result<String, BoxError>> {
        Box::pin(async move {
            let model = self.model.clone();
            let prompt = Prompt::builder("pipeline").model(model).prompt(Text::literal(prompt)).build()?;
            Ok(prompt.generate(&self.client, &json!({})).await?)
        })
    }
}
