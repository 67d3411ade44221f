//! An extractor that asks a model, with the shipped prompt.

use std::sync::Arc;

use contexture_compose::{BoxError, BoxFuture};
use contexture_knowledge::pipeline::AskModel;
use serde::Deserialize;

use super::capture::{ExtractCall, ExtractedFact, Extractor};

/// Asks a model for facts.
#[derive(Clone)]
pub struct ModelExtractor(Arc<dyn AskModel>);

impl ModelExtractor {
    /// Returns an extractor that asks this model.
    pub fn new(model: Arc<dyn AskModel>) -> Self {
        Self(model)
    }
}

#[derive(Deserialize)]
struct Answered {
    facts: Vec<ExtractedFact>,
}

impl Extractor for ModelExtractor {
    fn extract(&self, call: ExtractCall) -> BoxFuture<'static, Result<Vec<ExtractedFact>, BoxError>> {
        let model = Arc::clone(&self.0);
        Box::pin(async move { read(&model.ask(prompt(&call)).await?) })
    }
}

/// Returns the prompt for what was said.
fn prompt(call: &ExtractCall) -> String {
    let said = call.said.iter().enumerate();
    let said = said.map(|(idx, (role, text))| format!("{idx}. {}: {text}", role.as_str()));
    let known = call.known.iter().map(|(id, text)| format!("- [{id}] {text}"));
    let known = known.collect::<Vec<_>>().join("\n");
    let known = if known.is_empty() { "(none)".to_owned() } else { known };
    let template = include_str!("templates/extract.txt");
    // What a value contains is never taken for the place of the other.
    let (before, rest) = template.split_once("{known}").unwrap_or((template, ""));
    let (between, after) = rest.split_once("{said}").unwrap_or((rest, ""));
    format!("{before}{known}{between}{}{after}", said.collect::<Vec<_>>().join("\n"))
}

/// Reads the facts of an answer, which some models put into a code fence.
fn read(answer: &str) -> Result<Vec<ExtractedFact>, BoxError> {
    let start = answer.find('{').ok_or("the answer is not JSON")?;
    let end = answer.rfind('}').ok_or("the answer is not JSON")?;
    let json = answer.get(start..=end).ok_or("the answer is not JSON")?;
    Ok(serde_json::from_str::<Answered>(json)?.facts)
}

#[cfg(test)]
mod tests {
    use super::{ExtractCall, prompt, read};
    use contexture_message::Role;

    #[test]
    fn a_prompt_has_what_was_said_and_what_is_known() {
        let call = ExtractCall {
            said: vec![(Role::User, "I live in {said} Oslo.".to_owned())],
            known: vec![("m-1".to_owned(), "Ada has {said} cats.".to_owned())],
            thread: "s".to_owned(),
        };
        let text = prompt(&call);
        assert!(text.contains("- [m-1] Ada has {said} cats.\n"), "{text}");
        assert!(text.contains("0. user: I live in {said} Oslo."), "{text}");
    }

    #[test]
    fn answers_are_read_with_and_without_a_fence() {
        let facts = r#"{"facts": [{"text": "Ada lives in Oslo.", "said": 0}]}"#;
        for answer in [facts.to_owned(), format!("```json\n{facts}\n```")] {
            let read = read(&answer).ok().unwrap_or_default();
            assert_eq!(read.len(), 1);
        }
        assert!(read("no").is_err());
    }
}
