//! Steps that ask a model. What it reads is in the template files; what it answers is read leniently.

use std::sync::Arc;

use contexture_compose::{BoxError, BoxFuture};
use contexture_template::{Globals, RenderConfig, Template};
use serde_json::{Value, json};

use crate::retrieve::Hit;

const REWRITE: &str = include_str!("templates/rewrite.txt");
const FAN_OUT: &str = include_str!("templates/fan_out.txt");
const RERANK: &str = include_str!("templates/rerank.txt");
/// A hit is shown to a reranker up to so many characters.
const MAX_SHOWN_CHARS: usize = 1_500;
/// How many queries are taken of an answer.
const MAX_FAN_OUT: usize = 5;

/// Asks a model one question.
pub trait AskModel: Send + Sync {
    /// Returns the text of the answer.
    fn ask(&self, prompt: String) -> BoxFuture<'_, Result<String, BoxError>>;
}

/// Knows a better order of hits.
pub trait Reranker: Send + Sync {
    /// Returns the indexes of hits, best first. Those that are missing stay behind the others in their order.
    fn order(&self, query: &str, hits: &[Hit]) -> BoxFuture<'_, Result<Vec<usize>, BoxError>>;
}

fn filled(template: &str, values: &[(&str, &Value)]) -> Result<String, BoxError> {
    Ok(Template::parse(template)?.render(&Globals::new(values), &RenderConfig::strict())?)
}

/// Asks for a better query. An empty answer leaves it as it is.
pub(super) async fn rewrite(model: &dyn AskModel, query: &str) -> Result<Vec<String>, BoxError> {
    let answer = model.ask(filled(REWRITE, &[("query", &json!(query))])?).await?;
    Ok(vec![lines(&answer).next().unwrap_or_else(|| query.to_owned())])
}

/// Asks for several queries.
pub(super) async fn fan_out(model: &dyn AskModel, query: &str) -> Result<Vec<String>, BoxError> {
    let prompt = filled(FAN_OUT, &[("query", &json!(query)), ("count", &json!(MAX_FAN_OUT))])?;
    let answer = model.ask(prompt).await?;
    Ok(lines(&answer).take(MAX_FAN_OUT).collect())
}

/// Returns the lines of an answer, without marks of lists and quotation marks.
fn lines(answer: &str) -> impl Iterator<Item = String> {
    let is_mark = |it: char| it.is_ascii_digit() || matches!(it, '-' | '*' | '.' | ')' | ' ');
    let clean = move |line: &str| {
        let text = line.trim();
        let unmarked = text.trim_start_matches(is_mark);
        // A line that is nothing but a number is a query, not a mark.
        let text = if unmarked.is_empty() { text } else { unmarked };
        text.trim_matches(['"', '`']).trim().to_owned()
    };
    answer.lines().map(clean).filter(|it| !it.is_empty())
}

/// Asks a model for the order of all hits at once.
#[derive(Clone)]
pub struct ListwiseReranker {
    model: Arc<dyn AskModel>,
}

impl std::fmt::Debug for ListwiseReranker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListwiseReranker").finish_non_exhaustive()
    }
}

impl ListwiseReranker {
    /// Returns a reranker that asks a model.
    pub fn new(model: Arc<dyn AskModel>) -> Self {
        Self { model }
    }
}

impl Reranker for ListwiseReranker {
    fn order(&self, query: &str, hits: &[Hit]) -> BoxFuture<'_, Result<Vec<usize>, BoxError>> {
        let shown = |(idx, hit): (usize, &Hit)| {
            let text: String = hit.text.chars().take(MAX_SHOWN_CHARS).collect();
            json!({"number": idx + 1, "title": hit.document.title, "text": text})
        };
        let passages = Value::Array(hits.iter().enumerate().map(shown).collect());
        let prompt = filled(RERANK, &[("query", &json!(query)), ("passages", &passages)]);
        let count = hits.len();
        Box::pin(async move {
            let answer = self.model.ask(prompt?).await?;
            let order = numbers(&answer, count);
            if order.is_empty() { Err("the answer names no passage".into()) } else { Ok(order) }
        })
    }
}

/// Returns the numbers in an answer as indexes, each once.
fn numbers(answer: &str, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::new();
    for number in answer.split(|it: char| !it.is_ascii_digit()).filter_map(|it| it.parse::<usize>().ok()) {
        if let Some(idx) = number.checked_sub(1).filter(|it| *it < count && !order.contains(it)) {
            order.push(idx);
        }
    }
    order
}
