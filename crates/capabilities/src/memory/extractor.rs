//! An extractor that asks a model, with the shipped prompt.

use std::sync::Arc;

use contexture_compose::{BoxError, BoxFuture};
use contexture_message::{Delta, Message, Request, Role};
use contexture_model::{Model, ModelCall};
use futures::StreamExt;
use serde::Deserialize;

use super::capture::{ExtractCall, ExtractedFact, Extractor};

/// Asks a model for facts.
#[derive(Clone)]
pub struct ModelExtractor {
    model: Arc<dyn Model>,
    name: String,
}

impl ModelExtractor {
    /// Returns an extractor that asks the model of this name, `provider/model`.
    pub fn new(model: Arc<dyn Model>, name: impl Into<String>) -> Self {
        Self { model, name: name.into() }
    }
}

#[derive(Deserialize)]
struct Answered {
    facts: Vec<ExtractedFact>,
}

impl Extractor for ModelExtractor {
    fn extract(&self, call: ExtractCall) -> BoxFuture<'static, Result<Vec<ExtractedFact>, BoxError>> {
        let request = Request {
            model: Some(self.name.clone()),
            messages: vec![Arc::new(Message::user(prompt(&call)))],
            ..Request::default()
        };
        let call = ModelCall { request: Arc::new(request), cache_key: Some(call.thread), encoded: None };
        let mut stream = self.model.stream(call);
        Box::pin(async move {
            while let Some(delta) = stream.next().await {
                if let Delta::Done(answer) = delta? {
                    return read(&answer.joined_text());
                }
            }
            Err("the stream ended before the answer was whole".into())
        })
    }
}

/// Returns the prompt for what was said.
fn prompt(call: &ExtractCall) -> String {
    let speaker = |role: Role| role.as_str();
    let said = call.said.iter().enumerate();
    let said = said.map(|(idx, (role, text))| format!("{idx}. {}: {text}", speaker(*role)));
    let known = call.known.iter().map(|(id, text)| format!("- [{id}] {text}"));
    let known = known.collect::<Vec<_>>().join("\n");
    // The conversation is the last place, so nothing in it is taken for another.
    include_str!("templates/extract.txt")
        .replacen("{known}", if known.is_empty() { "(none)" } else { &known }, 1)
        .replacen("{said}", &said.collect::<Vec<_>>().join("\n"), 1)
}

/// Reads the facts of an answer, which some models put into a code fence.
fn read(answer: &str) -> Result<Vec<ExtractedFact>, BoxError> {
    let start = answer.find('{').ok_or("the answer is not JSON")?;
    let end = answer.rfind('}').ok_or("the answer is not JSON")?;
    let json = answer.get(start..=end).ok_or("the answer is not JSON")?;
    Ok(serde_json::from_str::<Answered>(json)?.facts)
}
